//! Chunks of a Chat Completions stream → our events.
//!
//! Invariants: an answer ends with [`ModelEvent::End`] only if its server said that it was over
//! (`[DONE]`, or a finish reason); the calls come before it, and a call that was cut off never
//! comes at all.
//!
//! Receives events from `sse`; hands model events to the request's stream.

use agentd_protocol::session::Usage;
use serde_json::Value;
use serde_json::value::RawValue;

use super::calls::Calls;
use super::think::{Piece, Thoughts};
use super::wire::{Choice, Chunk, ContentPart, Delta, UsageReport, nonempty, number, text};
use crate::config::ThinkTags;
use crate::provider::decoder::{self, Assemble, Ready, bad};
use crate::provider::failure::{Complaint, classify};
use crate::provider::sse::Event;
use crate::provider::{ModelError, ModelEvent};

/// How deep content parts may nest: a thinking part holds text parts.
const MAX_DEPTH: usize = 4;

/// Puts an answer together.
#[derive(Debug)]
pub(in crate::provider) struct Assembler {
    /// The provider in messages.
    who: String,
    ready: Ready,
    calls: Calls,
    usage: Option<Usage>,
    finish_reason: Option<String>,
    thoughts: Thoughts,
    /// The end is among the events.
    done: bool,
}

impl Assembler {
    pub(in crate::provider) fn new(who: &str, tags: ThinkTags) -> Self {
        Self {
            who: who.to_owned(),
            ready: Ready::default(),
            calls: Calls::default(),
            usage: None,
            finish_reason: None,
            thoughts: Thoughts::new(tags),
            done: false,
        }
    }

    /// Takes a chunk and tells whether it had a choice.
    fn chunk(&mut self, name: &[u8], data: &[u8], at_end: bool) -> Result<bool, ModelError> {
        // Borrowed but where some of it is no UTF-8.
        let text = String::from_utf8_lossy(data);
        let chunk = decoder::json::<Chunk<'_>>(&self.who, "a chunk", &text, at_end)?;
        let Some(chunk) = chunk else { return Ok(false) };
        if let Some(complaint) = complaint(name, &chunk, data) {
            return Err(classify(&self.who, None, &complaint));
        }
        if let Some(usage) = chunk.usage.and_then(usage) {
            self.usage = Some(usage);
        }
        let choices = chunk.choices.unwrap_or_default();
        for choice in &choices {
            self.choice(choice)?;
        }
        Ok(!choices.is_empty())
    }

    fn choice(&mut self, choice: &Choice<'_>) -> Result<(), ModelError> {
        // We ask for one; a server may send more all the same.
        if number(choice.index).is_some_and(|index| index > 0) {
            return Ok(());
        }
        if let Some(delta) = choice.delta.as_ref().or(choice.message.as_ref()) {
            self.delta(delta)?;
        }
        if let Some(reason) = nonempty(choice.finish_reason) {
            if reason == "error" {
                let complaint = Complaint::default();
                return Err(classify(&self.who, None, &complaint));
            }
            self.finish_reason = Some(reason.into_owned());
        }
        Ok(())
    }

    fn delta(&mut self, delta: &Delta<'_>) -> Result<(), ModelError> {
        // Some servers send the same reasoning under both names.
        if let Some(reasoning) =
            nonempty(delta.reasoning_content).or_else(|| nonempty(delta.reasoning))
        {
            self.settle_thoughts();
            self.ready.reasoning(&reasoning);
        }
        if let Some(content) = delta.content {
            self.content(content, false, 0);
        }
        if let Some(refusal) = nonempty(delta.refusal) {
            self.ready.text(&refusal);
        }
        if let Some(calls) = &delta.tool_calls {
            self.calls.take(calls).map_err(|too_much| bad(&self.who, too_much))?;
            while let Some(call) = self.calls.next_complete() {
                self.ready.push(ModelEvent::Call(call));
            }
        }
        Ok(())
    }

    /// Text, or a list of parts that may nest.
    fn content(&mut self, raw: &RawValue, thinking: bool, depth: usize) {
        if let Some(text) = text(raw) {
            if thinking {
                self.settle_thoughts();
                return self.ready.reasoning(&text);
            }
            let pieces = self.thoughts.take(&text);
            return pieces.into_iter().for_each(|piece| self.piece(piece));
        }
        let Ok(parts) = serde_json::from_str::<Vec<ContentPart<'_>>>(raw.get()) else { return };
        for part in parts.iter().filter(|_| depth < MAX_DEPTH) {
            let kind = nonempty(part.kind).unwrap_or_default();
            let (inner, thinking) = match &*kind {
                "text" | "output_text" => (part.text, thinking),
                "thinking" | "reasoning" => (part.thinking.or(part.text), true),
                _ => continue,
            };
            if let Some(inner) = inner {
                self.content(inner, thinking, depth + 1);
            }
        }
    }

    fn piece(&mut self, piece: Piece) {
        match piece {
            Piece::Text(text) => self.ready.text(&text),
            Piece::Reasoning(text) => self.ready.reasoning(&text),
        }
    }

    /// From here on tags are text.
    fn settle_thoughts(&mut self) {
        if let Some(piece) = self.thoughts.settle() {
            self.piece(piece);
        }
    }
}

impl Assemble for Assembler {
    fn take(&mut self, event: Event<'_>, at_end: bool) -> Result<(), ModelError> {
        let data = event.data.trim_ascii();
        if self.done || data.is_empty() {
            return Ok(());
        }
        if data == b"[DONE]" {
            self.done();
            return Ok(());
        }
        self.chunk(event.name, data, at_end).map(drop)
    }

    fn whole(&mut self, body: &[u8]) -> Result<(), ModelError> {
        if !self.chunk(b"", body, false)? {
            return Err(bad(&self.who, "its answer has no `choices`"));
        }
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
        self.done || self.finish_reason.is_some()
    }

    fn done(&mut self) {
        self.done = true;
        self.settle_thoughts();
        self.ready.extend(self.calls.rest().map(ModelEvent::Call));
        self.flush_usage();
        let finish_reason = self.finish_reason.take();
        self.ready.push(ModelEvent::End { finish_reason, continues: false });
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn flush_usage(&mut self) {
        self.ready.usage(self.usage.take());
    }
}

/// The error that a chunk is or carries, also beside proper choices.
fn complaint(name: &[u8], chunk: &Chunk<'_>, data: &[u8]) -> Option<Complaint> {
    let is_error = chunk.error.is_some_and(|error| !matches!(error.get(), "\"\"" | "{}" | "false"))
        || chunk.error_type.is_some()
        || chunk.error_message.is_some()
        || name == b"error"
        || nonempty(chunk.object).is_some_and(|object| object == "error");
    // Only now is it worth the work of a whole tree.
    let value: Value = is_error.then(|| serde_json::from_slice(data).ok()).flatten()?;
    Some(Complaint::of_value(&value).unwrap_or_default())
}

fn usage(raw: &RawValue) -> Option<Usage> {
    let report: UsageReport = serde_json::from_str(raw.get()).ok()?;
    let prompt = report.prompt_tokens_details.unwrap_or_default();
    let completion = report.completion_tokens_details.unwrap_or_default();
    let cached = prompt.cached_tokens.or(report.prompt_cache_hit_tokens);
    Some(Usage {
        input: report.prompt_tokens.unwrap_or_default(),
        output: report.completion_tokens.unwrap_or_default(),
        cache_read: cached.unwrap_or_default(),
        cache_write: prompt.cache_write_tokens.unwrap_or_default(),
        reasoning: completion.reasoning_tokens.unwrap_or_default(),
        cost_usd: None,
    })
}
