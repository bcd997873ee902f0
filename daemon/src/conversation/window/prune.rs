//! Pruning: the oldest large results become stubs, which costs no request.
//!
//! The newest results stay whole. A pruning that would free little is not made: it would break the
//! prefix that the provider keeps, for nothing.
//!
//! Receives a budget from `session`; hands back which results are to go.

use agentd_protocol::id::ItemId;
use agentd_protocol::item::{Item, ItemBody};

use super::size::{Scale, estimate_of};
use super::{Round, Window};
use crate::conversation::{Budget, tokens};

/// What is read in a result's place.
const STUB: &str = "(This result was removed to make room. Call the tool again if you still need \
                    what it said.)";

/// A result of so many tokens is large.
const LARGE: u64 = 250;

/// Results that can go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruning {
    /// The tool items, oldest first.
    pub items: Vec<ItemId>,
    /// What is read in their place.
    pub text: String,
    /// Tokens that this frees.
    pub freed: u64,
}

impl Window {
    /// Which results can go from a view of so many tokens, if that frees enough.
    pub fn plan_pruning(&self, budget: &Budget, tokens: u64) -> Option<Pruning> {
        let seen = self.seen(self.marks.view(), 0);
        let scale = Scale::new(tokens, estimate_of(&seen) + budget.tools);
        let tokens = scale.all();
        let whole = scale.estimated(budget.results(tokens));
        let (items, freed) = old_results(&seen, whole);
        let freed = scale.counted(freed);
        budget.is_enough(freed, tokens).then(|| Pruning { items, text: STUB.to_owned(), freed })
    }
}

/// The large results before the newest ones of `whole` tokens, oldest first, and what stubs in
/// their place free; estimates.
pub(super) fn old_results(rounds: &[Round], whole: u64) -> (Vec<ItemId>, u64) {
    let stub = tokens::of_bytes(STUB.len());
    let (mut newer, mut freed, mut items) = (0, 0, Vec::new());
    for result in rounds.iter().rev().flat_map(|round| round.results.iter().rev()) {
        let size = tokens::of_item(result);
        newer += size;
        if newer > whole && size >= LARGE && !is_stub(result) {
            freed += size.saturating_sub(stub);
            items.push(result.item_id.clone());
        }
    }
    items.reverse();
    (items, freed)
}

/// What is read in the place of these results.
pub(super) fn stubs(items: Vec<ItemId>) -> impl Iterator<Item = (ItemId, String)> {
    items.into_iter().map(|item| (item, STUB.to_owned()))
}

fn is_stub(item: &Item) -> bool {
    matches!(&item.body, ItemBody::Tool(tool) if tool.text() == STUB)
}
