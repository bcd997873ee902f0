//! Events of a Messages stream → our events.
//!
//! An answer is a list of blocks, each started, filled by deltas and stopped. Text and thinking go
//! out as they come; a call goes out when its block stops; what must be sent back (signatures,
//! redacted thinking, blocks that only the provider understands) follows its text as a signature.
//!
//! Invariants: an answer ends with [`ModelEvent::End`] only if its server said that it was over
//! (`message_stop`, or a stop reason); the calls come before it, and a call that was cut off never
//! comes at all; memory is bounded.
//!
//! Receives events from `decoder`; hands model events to the request's stream.

use std::collections::BTreeMap;

use agentd_protocol::session::Usage;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::wire::{BlockStart, Delta, StreamEvent, UsageReport, Whole};
use crate::provider::decoder::{self, Assemble, Ready, bad};
use crate::provider::failure::{Complaint, classify, excerpt};
use crate::provider::kept::Kept;
use crate::provider::sse::Event;
use crate::provider::{ModelCall, ModelError, ModelEvent};

/// Blocks that are open at once. The format has one; a broken server may open more.
const MAX_OPEN: usize = 1_024;
/// Bytes that an answer makes us hold until a block stops.
const MAX_HELD_BYTES: usize = 16 * 1024 * 1024;

/// Puts an answer together.
#[derive(Debug)]
pub(in crate::provider) struct Assembler {
    /// The provider in messages.
    who: String,
    ready: Ready,
    open: BTreeMap<u64, Open>,
    held_bytes: usize,
    /// Calls that were given out.
    calls: usize,
    usage: Option<Usage>,
    stop_reason: Option<String>,
    done: bool,
}

/// A block that has not stopped.
#[derive(Debug)]
enum Open {
    Thinking { signature: Option<String> },
    Call { id: Option<String>, name: String, input: Option<Value>, json: String },
    Kept { block: Value, json: String },
}

impl Assembler {
    /// An assembler of an answer of `who`.
    pub(in crate::provider) fn new(who: &str) -> Self {
        Self {
            who: who.to_owned(),
            ready: Ready::default(),
            open: BTreeMap::new(),
            held_bytes: 0,
            calls: 0,
            usage: None,
            stop_reason: None,
            done: false,
        }
    }

    fn event(&mut self, kind: &str, event: StreamEvent<'_>) -> Result<(), ModelError> {
        let index = event.index.unwrap_or_default();
        match kind {
            "message_start" => {
                if let Some(message) = event.message {
                    self.report(message.usage);
                }
            }
            "content_block_start" => {
                if let Some(block) = event.content_block {
                    self.stop(index);
                    self.start(index, block)?;
                }
            }
            "content_block_delta" => {
                if let Some(delta) = event.delta {
                    self.delta(index, delta)?;
                }
            }
            "content_block_stop" => self.stop(index),
            "message_delta" => {
                let reason = event.delta.and_then(|delta| delta.stop_reason);
                self.stop_reason = reason.map(Into::into).or(self.stop_reason.take());
                self.report(event.usage);
            }
            "message_stop" => self.done(),
            // `ping`, and what is not invented yet.
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, index: u64, raw: &RawValue) -> Result<(), ModelError> {
        let block: BlockStart<'_> = serde_json::from_str(raw.get()).map_err(|error| {
            let start = excerpt(raw.get());
            bad(&self.who, format_args!("a block cannot be read ({error}): {start}"))
        })?;
        let open = match &*block.kind {
            "text" => {
                self.ready.text(&block.text.unwrap_or_default());
                return Ok(());
            }
            "thinking" => {
                self.ready.reasoning(&block.thinking.unwrap_or_default());
                Open::Thinking { signature: block.signature.filter(|text| !text.is_empty()) }
            }
            "tool_use" => Open::Call {
                id: block.id.filter(|id| !id.is_empty()),
                name: block.name.unwrap_or_default(),
                input: block.input,
                json: String::new(),
            },
            _ => {
                let block = serde_json::from_str(raw.get()).unwrap_or_default();
                Open::Kept { block, json: String::new() }
            }
        };
        self.hold(raw.get().len())?;
        if self.open.len() == MAX_OPEN {
            return Err(bad(&self.who, format_args!("more than {MAX_OPEN} blocks are open")));
        }
        self.open.insert(index, open);
        Ok(())
    }

    fn delta(&mut self, index: u64, delta: Delta<'_>) -> Result<(), ModelError> {
        self.ready.text(&delta.text.unwrap_or_default());
        self.ready.reasoning(&delta.thinking.unwrap_or_default());
        let (signature, partial) = (delta.signature, delta.partial_json);
        let more = signature.as_ref().map_or(0, |text| text.len())
            + partial.as_ref().map_or(0, |text| text.len());
        self.hold(more)?;
        match self.open.get_mut(&index) {
            Some(Open::Thinking { signature: held }) => {
                if let Some(piece) = signature.filter(|piece| !piece.is_empty()) {
                    held.get_or_insert_default().push_str(&piece);
                }
            }
            Some(Open::Call { json, .. } | Open::Kept { json, .. }) => {
                json.push_str(&partial.unwrap_or_default());
            }
            // The rest of a block that was never started says nothing.
            None => {}
        }
        Ok(())
    }

    /// A block is whole.
    fn stop(&mut self, index: u64) {
        match self.open.remove(&index) {
            None => {}
            Some(Open::Thinking { signature }) => {
                let mut block = json!({ "type": "thinking" });
                if let Some(signature) = signature {
                    block["signature"] = signature.into();
                }
                self.keep(block);
            }
            Some(Open::Call { id, name, input, json }) => {
                self.calls += 1;
                let arguments = arguments(input, &json);
                let call = ModelCall { provider_call_id: id, name, arguments };
                self.ready.push(ModelEvent::Call(call));
            }
            Some(Open::Kept { mut block, json }) => {
                if let Ok(input) = serde_json::from_str::<Value>(&json)
                    && let Some(block) = block.as_object_mut()
                {
                    block.insert("input".to_owned(), input);
                }
                self.keep(block);
            }
        }
    }

    fn keep(&mut self, block: Value) {
        self.ready.push(ModelEvent::Signature(Kept::signature(self.calls, block)));
    }

    fn hold(&mut self, bytes: usize) -> Result<(), ModelError> {
        self.held_bytes += bytes;
        if self.held_bytes > MAX_HELD_BYTES {
            let what = format_args!("its blocks are longer than {MAX_HELD_BYTES} bytes");
            return Err(bad(&self.who, what));
        }
        Ok(())
    }

    /// Counts only grow: some servers say at the start what others say at the end, and zeros
    /// otherwise.
    fn report(&mut self, report: Option<UsageReport>) {
        let Some(report) = report else { return };
        let usage = self.usage.get_or_insert_default();
        let cached = usage.cache_read.saturating_add(usage.cache_write);
        let plain = usage.input.saturating_sub(cached);
        let more = |known: u64, said: Option<u64>| known.max(said.unwrap_or_default());
        usage.cache_read = more(usage.cache_read, report.cache_read);
        usage.cache_write = more(usage.cache_write, report.cache_write);
        usage.output = more(usage.output, report.output);
        // What the format calls input leaves the cached tokens out.
        let plain = more(plain, report.input);
        usage.input = plain.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
    }

    fn complaint(&self, data: &[u8]) -> ModelError {
        let value: Value = serde_json::from_slice(data).unwrap_or_default();
        classify(&self.who, None, &Complaint::of_value(&value).unwrap_or_default())
    }
}

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
        let name = String::from_utf8_lossy(event.name);
        let kind = read.kind.clone().unwrap_or(name);
        if kind == "error" || read.error.is_some() {
            return Err(self.complaint(data));
        }
        self.event(&kind, read)
    }

    fn whole(&mut self, body: &[u8]) -> Result<(), ModelError> {
        let text = String::from_utf8_lossy(body);
        let event: StreamEvent<'_> = serde_json::from_str(&text).unwrap_or_default();
        if event.kind.as_deref() == Some("error") || event.error.is_some() {
            return Err(self.complaint(body));
        }
        let answer: Whole<'_> = serde_json::from_str(&text).unwrap_or_default();
        let Some(blocks) = answer.content else {
            return Err(bad(&self.who, "its answer has no `content`"));
        };
        for block in blocks {
            self.start(0, block)?;
            self.stop(0);
        }
        self.report(answer.usage);
        self.stop_reason = answer.stop_reason;
        self.done();
        Ok(())
    }

    fn pop(&mut self) -> Option<ModelEvent> {
        self.ready.pop()
    }

    fn ready(&self) -> &Ready {
        &self.ready
    }

    fn is_finished(&self) -> bool {
        self.done || self.stop_reason.is_some()
    }

    fn done(&mut self) {
        self.done = true;
        while let Some((index, _)) = self.open.first_key_value() {
            self.stop(*index);
        }
        self.flush_usage();
        let reason = self.stop_reason.take();
        let continues = reason.as_deref() == Some("pause_turn");
        let finish_reason = reason.map(|reason| match reason.as_str() {
            "max_tokens" | "model_context_window_exceeded" => "length".to_owned(),
            _ => reason,
        });
        self.ready.push(ModelEvent::End { finish_reason, continues });
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn flush_usage(&mut self) {
        self.ready.usage(self.usage.take());
    }
}

/// The arguments as an object; no text is an empty one, and what is none stays text.
fn arguments(input: Option<Value>, json: &str) -> Value {
    if json.trim().is_empty() {
        return input.filter(Value::is_object).unwrap_or_else(|| json!({}));
    }
    match serde_json::from_str(json) {
        Ok(Value::Object(object)) => Value::Object(object),
        Ok(Value::Null) => json!({}),
        _ => Value::String(json.to_owned()),
    }
}
