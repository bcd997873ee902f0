//! How large the view is, in tokens.
//!
//! The provider's own count of the last request and its answer, and an estimate of what came
//! since; an estimate of everything where there is no count of this view.
//!
//! Invariant: items of the record alone decide, so it is the same after a restart.
//!
//! Receives items from the window; hands `session` the number to compare with the budget.

use std::sync::Arc;

use agentd_protocol::item::{Item, ItemBody};

use super::super::tokens;
use super::{Round, Window};

/// The parts of the number.
#[derive(Debug, Default)]
pub(super) struct Size {
    /// The last request and its answer, by the provider's count.
    reported: Option<u64>,
    /// What came since.
    since: u64,
    /// All of it, where it was looked for.
    estimate: Option<u64>,
}

impl Size {
    pub(super) fn add(&mut self, item: &Item) {
        let estimate = tokens::of_item(item);
        self.estimate = self.estimate.map(|all| all.saturating_add(estimate));
        match &item.body {
            ItemBody::Assistant(answer) if answer.usage.input > 0 => {
                self.reported = Some(answer.usage.input.saturating_add(answer.usage.output));
                self.since = 0;
            }
            _ => self.since = self.since.saturating_add(estimate),
        }
    }
}

impl Window {
    /// Tokens of the next request, with tools of so many.
    pub fn tokens(&mut self, tools: u64) -> u64 {
        match self.size.reported {
            Some(reported) => reported.saturating_add(self.size.since),
            None => self.estimate().saturating_add(tools),
        }
    }

    /// Tokens of the system item, estimated.
    pub fn system_tokens(&self) -> u64 {
        let system = |round: &Round| {
            let head = round.head.as_ref()?;
            matches!(head.body, ItemBody::System { .. }).then(|| tokens::of_item(head))
        };
        self.rounds.iter().find_map(system).unwrap_or(0)
    }

    /// Tokens of the view, estimated.
    fn estimate(&mut self) -> u64 {
        let known = self.size.estimate;
        let estimate = known.unwrap_or_else(|| estimate_of(&self.seen(self.marks.view(), 0)));
        self.size.estimate = Some(estimate);
        estimate
    }
}

pub(super) fn estimate_of(rounds: &[Round]) -> u64 {
    rounds.iter().flat_map(Round::items).map(|item| tokens::of_item(item)).sum()
}

pub(super) fn estimate_of_items(items: &[Arc<Item>]) -> u64 {
    items.iter().map(|item| tokens::of_item(item)).sum()
}

/// Between estimates and a provider's count of the same view. A count that is smaller than the
/// estimate is not believed: it may leave out what was cached.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    counted: u64,
    estimated: u64,
}

impl Scale {
    pub(super) fn new(counted: u64, estimated: u64) -> Self {
        let estimated = estimated.max(1);
        Self { counted: counted.max(estimated), estimated }
    }

    /// The whole view, by the count that is believed.
    pub(super) fn all(self) -> u64 {
        self.counted
    }

    /// An estimate as the provider would count it.
    pub(super) fn counted(self, estimate: u64) -> u64 {
        scaled(estimate, self.counted, self.estimated)
    }

    /// What a provider's count would be estimated at.
    pub(super) fn estimated(self, count: u64) -> u64 {
        scaled(count, self.estimated, self.counted)
    }
}

fn scaled(value: u64, numerator: u64, denominator: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(numerator) / u128::from(denominator);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}
