//! Events of a Responses stream → our events.
//!
//! An answer is a list of items. Text and reasoning go out with their deltas; a call goes out when
//! its item is done; what reasoning must come with when it is sent back follows it as a signature.
//! What came in no delta is taken from the item's last form, be it in its own event or in the
//! answer's last one: servers differ in what they send.
//!
//! Invariants: an answer ends with [`ModelEvent::End`] only if its server said that it was over
//! (`response.completed` or `response.incomplete`); the calls come before it, and a call that was
//! cut off never comes at all; nothing is told twice.
//!
//! Receives events from `decoder`; hands model events to the request's stream.

use std::collections::BTreeMap;
use std::time::Duration;

use agentd_protocol::session::Usage;
use serde_json::{Value, json};

use super::wire::{ContentPart, OutputItem, Response, StreamEvent, UsageReport};
use crate::provider::decoder::{self, Assemble, Ready, bad};
use crate::provider::failure::{Complaint, classify};
use crate::provider::kept::Kept;
use crate::provider::sse::Event;
use crate::provider::{ModelCall, ModelError, ModelEvent};

/// Items of one answer. Nobody has so many; a broken server may.
const MAX_ITEMS: usize = 4_096;

/// Puts an answer together.
#[derive(Debug)]
pub(in crate::provider) struct Assembler {
    /// The provider in messages.
    who: String,
    ready: Ready,
    items: BTreeMap<u64, Seen>,
    /// Calls that were given out.
    calls: usize,
    usage: Option<Usage>,
    done: bool,
}

/// How much of an item was told.
#[derive(Debug, Default)]
struct Seen {
    /// Its text or reasoning came in deltas.
    told: bool,
    /// The part of the last delta.
    part: Option<u64>,
    /// It is whole.
    done: bool,
}

impl Assembler {
    /// An assembler of an answer of `who`.
    pub(in crate::provider) fn new(who: &str) -> Self {
        Self {
            who: who.to_owned(),
            ready: Ready::default(),
            items: BTreeMap::new(),
            calls: 0,
            usage: None,
            done: false,
        }
    }

    fn event(&mut self, kind: &str, event: StreamEvent<'_>) -> Result<(), ModelError> {
        let index = event.output_index.unwrap_or_default();
        let delta = event.delta.unwrap_or_default();
        match kind {
            "response.output_text.delta" | "response.refusal.delta" => {
                self.seen(index)?.told |= !delta.is_empty();
                self.ready.text(&delta);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let part = event.summary_index.or(event.content_index);
                self.reasoning_delta(index, part, &delta)?;
            }
            "response.output_item.done" => {
                if let Some(item) = event.item {
                    self.item_done(index, item)?;
                }
            }
            "response.completed" | "response.done" => self.over(event.response, None)?,
            "response.incomplete" => {
                self.over(event.response, Some("incomplete".to_owned()))?;
            }
            // That something began, keep-alives, and what is not invented yet.
            _ => {}
        }
        Ok(())
    }

    fn seen(&mut self, index: u64) -> Result<&mut Seen, ModelError> {
        if self.items.len() >= MAX_ITEMS && !self.items.contains_key(&index) {
            return Err(bad(&self.who, format_args!("its answer has more than {MAX_ITEMS} items")));
        }
        Ok(self.items.entry(index).or_default())
    }

    fn reasoning_delta(
        &mut self,
        index: u64,
        part: Option<u64>,
        delta: &str,
    ) -> Result<(), ModelError> {
        if delta.is_empty() {
            return Ok(());
        }
        let seen = self.seen(index)?;
        let begins = seen.told && part != seen.part;
        seen.told = true;
        seen.part = part;
        if begins {
            self.ready.reasoning(PART_GAP);
        }
        self.ready.reasoning(delta);
        Ok(())
    }

    /// An item is whole: what was not told of it is told now.
    fn item_done(&mut self, index: u64, item: OutputItem) -> Result<(), ModelError> {
        let seen = self.seen(index)?;
        if std::mem::replace(&mut seen.done, true) {
            return Ok(());
        }
        let told = seen.told;
        match item.kind.as_str() {
            "message" => self.message_done(item, told),
            "reasoning" => self.reasoning_done(item, told),
            "function_call" => {
                self.calls += 1;
                self.ready.push(ModelEvent::Call(ModelCall {
                    provider_call_id: item.call_id.or(item.id).filter(|id| !id.is_empty()),
                    name: item.name.unwrap_or_default(),
                    arguments: arguments(item.arguments),
                }));
            }
            // What runs at the provider is its own business.
            _ => {}
        }
        Ok(())
    }

    fn message_done(&mut self, item: OutputItem, told: bool) {
        if !told {
            for part in item.content.into_iter().flatten() {
                self.ready.text(&part.text.or(part.refusal).unwrap_or_default());
            }
        }
        if let Some(phase) = item.phase {
            self.keep(json!({ "type": "message", "phase": phase }));
        }
    }

    fn reasoning_done(&mut self, item: OutputItem, told: bool) {
        let has_text = |parts: &Option<Vec<ContentPart>>| {
            let parts = parts.as_deref().unwrap_or_default();
            parts.iter().any(|part| part.text.as_ref().is_some_and(|text| !text.is_empty()))
        };
        // A summary where there is one; open models say what they thought.
        let open = !has_text(&item.summary) && has_text(&item.content);
        let parts = if open { item.content } else { item.summary };
        let texts = parts.into_iter().flatten().filter_map(|part| part.text);
        if !told {
            self.ready.reasoning(&texts.collect::<Vec<_>>().join(PART_GAP));
        }
        let mut block = json!({ "type": "reasoning" });
        let mut set = |name: &str, value: Option<String>| {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                block[name] = value.into();
            }
        };
        set("id", item.id);
        set("encrypted_content", item.encrypted_content);
        set("text", open.then(|| "content".to_owned()));
        self.keep(block);
    }

    fn keep(&mut self, block: Value) {
        self.ready.push(ModelEvent::Signature(Kept::signature(self.calls, block)));
    }

    /// The answer is over, as far as its server is concerned.
    fn over(&mut self, response: Option<Response>, word: Option<String>) -> Result<(), ModelError> {
        let response = response.unwrap_or_default();
        for (index, item) in (0..).zip(response.output.unwrap_or_default()) {
            self.item_done(index, item)?;
        }
        self.report(response.usage);
        let reason = response.incomplete_details.and_then(|details| details.reason);
        let word = reason.or(word).or(response.status).map(|word| match word.as_str() {
            "max_output_tokens" | "max_tokens" => "length".to_owned(),
            _ => word,
        });
        self.done = true;
        self.flush_usage();
        let continues = response.end_turn == Some(false);
        self.ready.push(ModelEvent::End { finish_reason: word, continues });
        Ok(())
    }

    fn report(&mut self, report: Option<UsageReport>) {
        let Some(report) = report else { return };
        let input = report.input_tokens_details.unwrap_or_default();
        let output = report.output_tokens_details.unwrap_or_default();
        self.usage = Some(Usage {
            input: report.input_tokens.unwrap_or_default(),
            output: report.output_tokens.unwrap_or_default(),
            cache_read: input.cached_tokens.unwrap_or_default(),
            cache_write: input.cache_write_tokens.unwrap_or_default(),
            reasoning: output.reasoning_tokens.unwrap_or_default(),
            cost_usd: None,
        });
    }

    /// A failure that the stream tells; what was used is paid for all the same.
    fn failure(&mut self, response: Option<Response>, whole: &Value) -> ModelError {
        let response = response.unwrap_or_default();
        self.report(response.usage);
        let said = response.error.as_ref().or_else(|| whole.get("error").filter(|e| !e.is_null()));
        let mut complaint = Complaint::of_value(said.unwrap_or(whole)).unwrap_or_default();
        // The event's own type says nothing, and a code here is a word like others' types.
        if complaint.code.is_some() || complaint.kind.as_deref() == Some("error") {
            complaint.kind = complaint.code.clone();
        }
        let error = classify(&self.who, None, &complaint);
        // There is no header that could say it.
        ModelError { retry_after: wait_of(&complaint.message), ..error }
    }
}

/// What stands between the parts of a summary.
const PART_GAP: &str = "\n\n";

impl Assemble for Assembler {
    fn take(&mut self, event: Event<'_>, at_end: bool) -> Result<(), ModelError> {
        let data = event.data.trim_ascii();
        if self.done || data.is_empty() || data == b"[DONE]" {
            return Ok(());
        }
        // Borrowed but where some of it is no UTF-8.
        let text = String::from_utf8_lossy(data);
        let read = decoder::json::<StreamEvent<'_>>(&self.who, "an event", &text, at_end)?;
        let Some(read) = read else { return Ok(()) };
        let kind = read.kind.clone().unwrap_or_else(|| String::from_utf8_lossy(event.name));
        if matches!(&*kind, "error" | "response.failed") || read.error.is_some() {
            let whole = serde_json::from_str(&text).unwrap_or_default();
            return Err(self.failure(read.response, &whole));
        }
        self.event(&kind, read)
    }

    fn whole(&mut self, body: &[u8]) -> Result<(), ModelError> {
        let response: Response = serde_json::from_slice(body).unwrap_or_default();
        if response.error.is_some() || response.status.as_deref() == Some("failed") {
            let whole = serde_json::from_slice(body).unwrap_or_default();
            return Err(self.failure(Some(response), &whole));
        }
        if response.output.is_none() {
            return Err(bad(&self.who, "its answer has no `output`"));
        }
        self.over(Some(response), None)
    }

    fn pop(&mut self) -> Option<ModelEvent> {
        self.ready.pop()
    }

    fn ready(&self) -> &Ready {
        &self.ready
    }

    fn is_finished(&self) -> bool {
        self.done
    }

    fn done(&mut self) {
        self.done = true;
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn flush_usage(&mut self) {
        self.ready.usage(self.usage.take());
    }
}

/// The arguments as an object; no text is an empty one, and what is none stays text.
fn arguments(raw: Option<Value>) -> Value {
    let text = match raw {
        Some(Value::String(text)) => text,
        Some(object @ Value::Object(_)) => return object,
        None | Some(_) => return json!({}),
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(object)) => Value::Object(object),
        Ok(Value::Null) => json!({}),
        _ if text.trim().is_empty() => json!({}),
        _ => Value::String(text),
    }
}

/// The wait that a message asks for: `Please try again in 1.898s.`, or in `28ms`.
fn wait_of(message: &str) -> Option<Duration> {
    let (_, after) = message.split_once("try again in ")?;
    let end = after.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = after[..end].parse().ok()?;
    let unit: String = after[end..].chars().take_while(char::is_ascii_alphabetic).collect();
    let seconds = match unit.as_str() {
        "ms" => number / 1_000.0,
        "s" => number,
        "m" => number * 60.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}
