//! The view: which items of the record the model sees, and in which rounds.
//!
//! What lies before a compaction's end is left out but for the system item; the user's words that
//! are kept and the summary open the conversation in its place, in one segment with the inputs
//! that follow them. Results without their call and calls without their result cannot come of it,
//! wherever the cut is: a round that lost its head has no results, and [`repair`] does the rest.
//!
//! Receives the record's rounds; hands the window those that are encoded.
//!
//! [`repair`]: super::super::repair

use std::collections::HashMap;
use std::sync::Arc;

use agentd_protocol::id::ItemId;
use agentd_protocol::item::{Item, ItemBody, Part};

use super::{Round, Window};

/// What markers make of the record.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// Items up to this place are left out; 0 where none are.
    pub(super) until: u64,
    /// What opens the conversation in their place.
    pub(super) lead: Vec<Arc<Item>>,
    /// Results of which something else is read.
    pub(super) stubs: HashMap<ItemId, String>,
}

impl Window {
    /// The rounds as a model sees them in this view, without the first `from` of the record.
    pub(super) fn seen(&self, view: &View, from: usize) -> Vec<Round> {
        let mut seen: Vec<Round> = Vec::new();
        let is_cut = from == 0 && view.until > 0;
        if is_cut {
            let head = self.system().cloned();
            seen.push(Round { head, results: Vec::new(), inputs: view.lead.clone() });
        }
        for round in &self.rounds[from..] {
            let shown = self.shown(view, round);
            let is_left_over = is_cut && round.items().any(|item| item.index <= view.until);
            match seen.first_mut() {
                Some(opening) if is_left_over => opening.inputs.extend(shown.inputs),
                _ if shown.items().next().is_none() => {}
                _ => seen.push(shown),
            }
        }
        seen
    }

    fn system(&self) -> Option<&Arc<Item>> {
        let heads = self.rounds.iter().filter_map(|round| round.head.as_ref());
        heads
            .into_iter()
            .find(|head| matches!(head.body, ItemBody::System { .. }) && !self.marks.hide(head))
    }

    fn shown(&self, view: &View, round: &Round) -> Round {
        let is_shown = |item: &&Arc<Item>| item.index > view.until && !self.marks.hide(item);
        let head = round.head.as_ref().filter(is_shown).cloned();
        let results: Vec<_> = match head {
            Some(_) => round.results.iter().filter(is_shown).map(|r| view.result(r)).collect(),
            None => Vec::new(),
        };
        Round { head, results, inputs: round.inputs.iter().filter(is_shown).cloned().collect() }
    }
}

impl View {
    /// A result, or what is read in its place.
    fn result(&self, item: &Arc<Item>) -> Arc<Item> {
        let Some(text) = self.stubs.get(&item.item_id) else { return Arc::clone(item) };
        let mut stub = Item::clone(item);
        if let ItemBody::Tool(tool) = &mut stub.body {
            tool.content = vec![Part::text(text)];
        }
        Arc::new(stub)
    }
}
