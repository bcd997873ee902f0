//! The window: a session's items, cut into segments whose encoded bytes are kept.
//!
//! A segment is what becomes messages together: a system item; an assistant item; or the results
//! of its calls with the inputs after them, since some wire formats want those in one message.
//! [`Window::messages`] encodes the segments that are new, puts their bytes behind those it kept,
//! and seals them: they are about to be sent. So an iteration converts what is new since the last
//! one, and never the history.
//!
//! Invariants. *New work only*: a segment is encoded once for an encoding key. *Stable prefix*:
//! what is handed out starts with what was handed out before, byte for byte, unless the key or a
//! marker changed in between. *Every call has one result* ([`repair`]). *Same bytes*: another
//! window that gets the same items hands out the same bytes, which needs every item that is in the
//! record, an empty answer to a failed request too: it tells where a segment was sealed.
//!
//! Receives items from `session` once they are complete; hands out encoded messages.

mod compaction;
mod marks;
mod prune;
mod size;
mod view;

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use agentd_protocol::id::CallId;
use agentd_protocol::item::{AssistantStatus, Item, ItemBody, Marker};
use bytes::{Bytes, BytesMut};

use super::repair;
use super::rope::Rope;

pub use compaction::Compaction;
pub use prune::Pruning;

use marks::Marks;
use size::Size;
use view::View;

/// Turns a segment into the bytes of a wire format. It gets the assistant item whose calls the
/// segment answers, if it answers any, and the segment's items.
pub type Encode<'a> = dyn FnMut(Option<&Item>, &[Arc<Item>]) -> Bytes + 'a;

/// The model's view of a session.
#[derive(Debug, Default)]
pub struct Window {
    /// Everything of the record, also what the view leaves out: a rollback may bring it back.
    rounds: Vec<Round>,
    /// Calls that started and have no result so far.
    started: HashSet<CallId>,
    marks: Marks,
    size: Size,
    sent: Sent,
}

/// An item of the model's or of the system, and what followed it: two segments at most.
#[derive(Debug, Default)]
struct Round {
    /// A system or assistant item. Absent where inputs follow a segment that was sealed.
    head: Option<Arc<Item>>,
    results: Vec<Arc<Item>>,
    inputs: Vec<Arc<Item>>,
}

/// What was handed out.
#[derive(Debug, Default)]
struct Sent {
    key: String,
    /// The first so many rounds are sealed: their bytes are in `bytes`.
    rounds: usize,
    bytes: Rope,
}

impl Window {
    /// A window without items.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next item of the record. An assistant item that still streams is no part of the
    /// view and is left out: push it again when it is complete or partial.
    pub fn push(&mut self, item: Arc<Item>) {
        match &item.body {
            ItemBody::Marker { marker } => return self.mark(&item, marker),
            ItemBody::Assistant(answer) if answer.status == AssistantStatus::Streaming => return,
            _ => self.size.add(&item),
        }
        match &item.body {
            ItemBody::System { .. } | ItemBody::Assistant(_) => self.open_round(Some(item)),
            ItemBody::User { .. } => {
                if self.rounds.len() == self.sent.rounds {
                    self.open_round(None);
                }
                if let Some(round) = self.rounds.last_mut() {
                    round.inputs.push(item);
                }
            }
            ItemBody::Tool(tool) => {
                self.started.remove(&tool.call_id);
                // A result that comes when its segment was sent belongs to no call any more: the
                // model has read what stood in for it.
                if let Some(round) = self.rounds[self.sent.rounds..].last_mut() {
                    round.results.push(item);
                }
            }
            ItemBody::Marker { .. } => {}
        }
    }

    fn mark(&mut self, item: &Arc<Item>, marker: &Marker) {
        if self.marks.push(item, marker, &self.rounds) {
            self.sent = Sent::default();
            self.size = Size::default();
        }
    }

    /// Notes that a call started to run. Without a result it may have taken effect, and the model
    /// is told so.
    pub fn call_started(&mut self, call_id: CallId) {
        self.started.insert(call_id);
    }

    /// Notes that the answer these calls were of was taken back.
    pub fn calls_discarded(&mut self, calls: &[CallId]) {
        for call_id in calls {
            self.started.remove(call_id);
        }
    }

    /// How many compactions in a row failed or were of no use, those apart that were asked for.
    pub fn failed_compactions(&self) -> u32 {
        self.marks.failed_compactions()
    }

    /// The window in tokens of a model, of which `known` is known, by what was refused of it too.
    pub fn window_of(&self, model: &str, known: Option<u64>) -> Option<u64> {
        self.marks.window_of(model, known)
    }

    /// Whether the model has answered nothing yet.
    pub fn is_unanswered(&self) -> bool {
        let answers = |head: &Arc<Item>| matches!(head.body, ItemBody::Assistant(_));
        !self.rounds.iter().any(|round| round.head.as_ref().is_some_and(answers))
    }

    /// The messages of the next request: every segment's bytes from `encode`, joined by
    /// `separator`, in few large pieces that end where segments end. What is handed out is sealed.
    ///
    /// `encode` must be a pure function of its arguments under `key`, and returns nothing for a
    /// segment that sends nothing. Another `key` than last time encodes all of it again.
    pub fn messages(&mut self, key: &str, separator: &str, encode: &mut Encode<'_>) -> Vec<Bytes> {
        if self.sent.key != key {
            self.sent = Sent { key: key.to_owned(), ..Sent::default() };
        }
        let fresh = self.seen(self.marks.view(), self.sent.rounds);
        let is_first = self.sent.bytes.is_empty();
        let fresh = self.encoded(&fresh, is_first, separator, encode);
        self.sent.bytes.append(fresh);
        self.sent.rounds = self.rounds.len();
        self.sent.bytes.pieces()
    }

    /// These rounds' bytes.
    fn encoded(
        &self,
        rounds: &[Round],
        is_first: bool,
        separator: &str,
        encode: &mut Encode<'_>,
    ) -> Bytes {
        let mut encoded = BytesMut::new();
        let mut first = is_first;
        for round in rounds {
            for (answers, segment) in self.segments(round) {
                let bytes = encode(answers, &segment);
                if bytes.is_empty() {
                    continue;
                }
                if !std::mem::take(&mut first) {
                    encoded.extend_from_slice(separator.as_bytes());
                }
                encoded.extend_from_slice(&bytes);
            }
        }
        encoded.freeze()
    }

    /// The segments of a round that are not empty.
    fn segments<'a>(
        &self,
        round: &'a Round,
    ) -> impl Iterator<Item = (Option<&'a Item>, Vec<Arc<Item>>)> {
        let head = round.head.as_ref();
        let own = head.filter(|item| !is_empty_answer(item)).map(|item| vec![Arc::clone(item)]);
        let answers = head.map(AsRef::as_ref);
        let started = |call: &CallId| self.started.contains(call);
        let mut after = repair::results(answers, &round.results, started);
        after.extend(round.inputs.iter().cloned());
        let after = (!after.is_empty()).then_some(after);
        [own.map(|own| (None, own)), after.map(|after| (answers, after))].into_iter().flatten()
    }

    fn open_round(&mut self, head: Option<Arc<Item>>) {
        self.rounds.push(Round { head, ..Round::default() });
    }
}

impl Round {
    fn items(&self) -> impl Iterator<Item = &Arc<Item>> {
        self.head.iter().chain(&self.results).chain(&self.inputs)
    }
}

fn is_empty_answer(item: &Item) -> bool {
    matches!(&item.body, ItemBody::Assistant(assistant) if repair::is_empty(assistant))
}
