//! An answer while it streams: its text so far, and what is not yet checkpointed.
//!
//! Receives deltas from the machine; hands it checkpoints and, at the end, the item.

use agentd_protocol::id::ItemId;
use agentd_protocol::item::{AssistantItem, AssistantPart, AssistantStatus, Call};
use agentd_protocol::progress::{DeltaKind, InFlightItem, Progress};
use agentd_protocol::session::Usage;

use super::context::Cut;
use super::effect::Record;
use super::text;

/// One attempt at an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Stream {
    pub(super) item_id: ItemId,
    /// The item's place in the session, taken when it was booked.
    pub(super) index: u64,
    pub(super) attempt: u32,
    pub(super) purpose: Purpose,
    /// Text and reasoning in the order in which they came.
    parts: Vec<AssistantPart>,
    text: Track,
    reasoning: Track,
    pub(super) usage: Usage,
    /// About how many tokens the request has; 0 where nobody has said.
    pub(super) asked_tokens: u64,
}

/// What a request is for.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Purpose {
    Answer,
    Summary {
        /// How often the request was too long.
        narrowed: u32,
        /// What the summary will replace; absent before its request went out.
        cut: Option<Box<Cut>>,
    },
}

/// How far one kind of text is.
#[derive(Debug, Clone, Default, PartialEq)]
struct Track {
    /// Bytes so far.
    bytes: u64,
    /// What no checkpoint holds.
    unsaved: String,
}

impl Stream {
    pub(super) fn new(item_id: ItemId, index: u64, attempt: u32) -> Self {
        Self {
            item_id,
            index,
            attempt,
            purpose: Purpose::Answer,
            parts: Vec::new(),
            text: Track::default(),
            reasoning: Track::default(),
            usage: Usage::default(),
            asked_tokens: 0,
        }
    }

    /// An attempt at a summary: it has no place before it is whole.
    pub(super) fn summary(item_id: ItemId, attempt: u32, narrowed: u32) -> Self {
        let purpose = Purpose::Summary { narrowed, cut: None };
        Self { purpose, ..Self::new(item_id, 0, attempt) }
    }

    /// The same attempt, of which nothing has come.
    pub(super) fn emptied(&self) -> Self {
        let purpose = self.purpose.clone();
        Self { purpose, ..Self::new(self.item_id.clone(), self.index, self.attempt) }
    }

    pub(super) fn is_summary(&self) -> bool {
        matches!(self.purpose, Purpose::Summary { .. })
    }

    /// What a restart finds of it.
    pub(super) fn restore(&mut self, in_flight: InFlightItem) {
        if in_flight.item_id != self.item_id || in_flight.attempt != self.attempt {
            return;
        }
        for (kind, text) in
            [(DeltaKind::Reasoning, in_flight.reasoning), (DeltaKind::Text, in_flight.text)]
        {
            if !text.is_empty() {
                self.track(kind).bytes = text.len() as u64;
                self.parts.push(part(kind, text));
            }
        }
    }

    fn track(&mut self, kind: DeltaKind) -> &mut Track {
        match kind {
            DeltaKind::Text => &mut self.text,
            DeltaKind::Reasoning => &mut self.reasoning,
        }
    }

    /// More text; the news for watchers. A summary is shown when it is whole, and in no crash is
    /// half of one worth keeping.
    pub(super) fn extend(&mut self, kind: DeltaKind, delta: String) -> Option<Progress> {
        if self.is_summary() {
            self.append(kind, &delta);
            return None;
        }
        let track = self.track(kind);
        let offset = track.bytes;
        track.bytes += delta.len() as u64;
        track.unsaved.push_str(&delta);
        self.append(kind, &delta);
        Some(Progress::MessageDelta {
            item_id: self.item_id.clone(),
            attempt: self.attempt,
            kind,
            offset,
            delta,
        })
    }

    fn append(&mut self, kind: DeltaKind, delta: &str) {
        match (self.parts.last_mut(), kind) {
            (Some(AssistantPart::Text { text }), DeltaKind::Text)
            | (Some(AssistantPart::Reasoning { text, signature: None }), DeltaKind::Reasoning) => {
                text.push_str(delta);
            }
            _ => self.parts.push(part(kind, delta.to_owned())),
        }
    }

    /// The text without the reasoning.
    pub(super) fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            AssistantPart::Text { text } => Some(text.as_str()),
            AssistantPart::Reasoning { .. } => None,
        });
        texts.collect()
    }

    /// Tokens of the request and its answer: the provider's count, else an estimate.
    pub(super) fn context_tokens(&self) -> u64 {
        match self.usage.input {
            0 => self.asked_tokens + text::tokens(self.text().len()),
            input => input + self.usage.output,
        }
    }

    /// What the provider wants back with the reasoning before it, or by itself. No checkpoint holds
    /// it: what was cut off is not sent back.
    pub(super) fn sign(&mut self, signed: String) {
        match self.parts.last_mut() {
            Some(AssistantPart::Reasoning { signature: signature @ None, .. }) => {
                *signature = Some(signed);
            }
            _ => self
                .parts
                .push(AssistantPart::Reasoning { text: String::new(), signature: Some(signed) }),
        }
    }

    pub(super) fn has_unsaved(&self) -> bool {
        !self.text.unsaved.is_empty() || !self.reasoning.unsaved.is_empty()
    }

    /// What no checkpoint holds yet.
    pub(super) fn checkpoints(&mut self) -> Vec<Record> {
        let mut records = Vec::new();
        for kind in [DeltaKind::Reasoning, DeltaKind::Text] {
            let track = self.track(kind);
            let text = std::mem::take(&mut track.unsaved);
            if text.is_empty() {
                continue;
            }
            let offset = track.bytes - text.len() as u64;
            records.push(Record::Checkpoint {
                item_id: self.item_id.clone(),
                attempt: self.attempt,
                kind,
                offset,
                text,
            });
        }
        records
    }

    /// Whether there is text that is not white space.
    pub(super) fn has_text(&self) -> bool {
        !self.text().trim().is_empty()
    }

    /// The item that the stream and its calls came to.
    pub(super) fn item(
        &self,
        model: String,
        calls: Vec<Call>,
        status: AssistantStatus,
        finish_reason: Option<String>,
    ) -> AssistantItem {
        AssistantItem {
            content: self.parts.clone(),
            calls,
            status,
            model,
            usage: self.usage,
            finish_reason,
        }
    }
}

fn part(kind: DeltaKind, text: String) -> AssistantPart {
    match kind {
        DeltaKind::Text => AssistantPart::Text { text },
        DeltaKind::Reasoning => AssistantPart::Reasoning { text, signature: None },
    }
}
