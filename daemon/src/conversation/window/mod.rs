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
//! rollback changed in between. *Every call has one result* ([`repair`]). *Same bytes*: another
//! window that gets the same items hands out the same bytes, which needs every item that is in the
//! record, an empty answer to a failed request too: it tells where a segment was sealed.
//!
//! Receives items from `session` once they are complete; hands out encoded messages.

use std::collections::HashSet;
use std::sync::Arc;

use agentd_protocol::id::{CallId, ItemId};
use agentd_protocol::item::{AssistantStatus, Item, ItemBody, Marker};
use bytes::{Bytes, BytesMut};

use super::repair;
use super::rope::Rope;

#[cfg(test)]
mod tests;

/// Turns a segment into the bytes of a wire format. It gets the assistant item whose calls the
/// segment answers, if it answers any, and the segment's items.
pub type Encode<'a> = dyn FnMut(Option<&Item>, &[Arc<Item>]) -> Bytes + 'a;

/// The model's view of a session.
#[derive(Debug, Default)]
pub struct Window {
    rounds: Vec<Round>,
    /// Calls that started and have no result so far.
    started: HashSet<CallId>,
    rollbacks: Rollbacks,
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

/// Which items are hidden.
#[derive(Debug, Default)]
struct Rollbacks {
    active: Vec<(ItemId, Vec<ItemId>)>,
    undone: HashSet<ItemId>,
    /// The items of all active rollbacks.
    hidden: HashSet<ItemId>,
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
            ItemBody::System { .. } => self.open_round(Some(item)),
            ItemBody::Assistant(assistant) => {
                if assistant.status != AssistantStatus::Streaming {
                    self.open_round(Some(item));
                }
            }
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
            ItemBody::Marker { marker } => self.push_marker(&item.item_id, marker),
        }
    }

    /// Notes that a call started to run. Without a result it may have taken effect, and the model
    /// is told so.
    pub fn call_started(&mut self, call_id: CallId) {
        self.started.insert(call_id);
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
        let mut fresh = BytesMut::new();
        let mut first = self.sent.bytes.is_empty();
        for round in &self.rounds[self.sent.rounds..] {
            let head = round.head.as_ref().filter(|item| !self.rollbacks.hide(item));
            for (answers, segment) in self.segments(head, round) {
                let bytes = encode(answers, &segment);
                if bytes.is_empty() {
                    continue;
                }
                if !std::mem::take(&mut first) {
                    fresh.extend_from_slice(separator.as_bytes());
                }
                fresh.extend_from_slice(&bytes);
            }
        }
        self.sent.bytes.append(fresh.freeze());
        self.sent.rounds = self.rounds.len();
        self.sent.bytes.pieces()
    }

    /// The segments of a round that are not empty.
    fn segments<'a>(
        &self,
        head: Option<&'a Arc<Item>>,
        round: &Round,
    ) -> impl Iterator<Item = (Option<&'a Item>, Vec<Arc<Item>>)> {
        let own = head.filter(|item| !is_empty_answer(item)).map(|item| vec![Arc::clone(item)]);
        let answers = head.map(AsRef::as_ref);
        let recorded = self.visible(&round.results);
        let mut after = repair::results(answers, &recorded, |call| self.started.contains(call));
        after.extend(self.visible(&round.inputs));
        let after = (!after.is_empty()).then_some(after);
        [own.map(|own| (None, own)), after.map(|after| (answers, after))].into_iter().flatten()
    }

    fn visible(&self, items: &[Arc<Item>]) -> Vec<Arc<Item>> {
        items.iter().filter(|item| !self.rollbacks.hide(item)).cloned().collect()
    }

    fn open_round(&mut self, head: Option<Arc<Item>>) {
        self.rounds.push(Round { head, ..Round::default() });
    }

    fn push_marker(&mut self, id: &ItemId, marker: &Marker) {
        match marker {
            Marker::Rollback { hidden, undo } => {
                self.rollbacks.push(id, hidden, undo.as_ref());
                self.sent = Sent::default();
            }
            // Nobody writes these yet: the view is what was recorded, whole.
            Marker::Compaction { .. }
            | Marker::CompactionFailed { .. }
            | Marker::Pruning { .. } => {}
        }
    }
}

impl Rollbacks {
    fn push(&mut self, id: &ItemId, hidden: &[ItemId], undo: Option<&ItemId>) {
        match undo {
            Some(undone) => {
                self.active.retain(|(marker, _)| marker != undone);
                self.undone.insert(undone.clone());
            }
            None => self.active.push((id.clone(), hidden.to_vec())),
        }
        self.hidden = self.active.iter().flat_map(|(_, items)| items.iter().cloned()).collect();
    }

    /// Whether an item is hidden: by a marker, or by its own word where its marker is not here.
    fn hide(&self, item: &Item) -> bool {
        self.hidden.contains(&item.item_id)
            || item.hidden_by.as_ref().is_some_and(|marker| !self.undone.contains(marker))
    }
}

fn is_empty_answer(item: &Item) -> bool {
    matches!(&item.body, ItemBody::Assistant(assistant) if repair::is_empty(assistant))
}
