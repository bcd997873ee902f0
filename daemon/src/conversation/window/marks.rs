//! Marks: what marker items say about the view.
//!
//! A marker that a rollback hides has no effect, so taking a rollback back brings the view back
//! too. The last compaction that is in force counts; prunings add up.
//!
//! Receives markers from the window; hands it the [`View`] that they make.

use std::collections::HashSet;
use std::sync::Arc;

use agentd_protocol::id::ItemId;
use agentd_protocol::item::{Item, ItemBody, Marker, Origin, Part};

use super::{Round, View};

/// No window is taken for smaller than this because of a request that was too long: servers may mean
/// something else by it.
const SMALLEST: u64 = 4_096;

/// The markers so far, and the view that they make.
#[derive(Debug, Default)]
pub(super) struct Marks {
    rollbacks: Rollbacks,
    /// Compactions, those that failed, prunings and overflows, in order.
    others: Vec<Arc<Item>>,
    view: View,
}

/// Which items are hidden.
#[derive(Debug, Default)]
struct Rollbacks {
    active: Vec<(ItemId, Vec<ItemId>)>,
    undone: HashSet<ItemId>,
    /// The items of all active rollbacks.
    hidden: HashSet<ItemId>,
}

impl Marks {
    /// Takes the next marker; whether the view is another by it.
    pub(super) fn push(&mut self, item: &Arc<Item>, marker: &Marker, rounds: &[Round]) -> bool {
        match marker {
            Marker::Rollback { hidden, undo } => {
                self.rollbacks.push(&item.item_id, hidden, undo.as_ref());
            }
            Marker::Compaction { .. } | Marker::Pruning { .. } => {
                self.others.push(Arc::clone(item));
            }
            Marker::CompactionFailed { .. } | Marker::Overflow { .. } => {
                self.others.push(Arc::clone(item));
                return false;
            }
        }
        self.view = self.settled(rounds);
        true
    }

    pub(super) fn view(&self) -> &View {
        &self.view
    }

    /// Whether an item is hidden.
    pub(super) fn hide(&self, item: &Item) -> bool {
        self.rollbacks.hide(item)
    }

    pub(super) fn failed_compactions(&self) -> u32 {
        let mut failed = 0;
        for marker in self.in_force() {
            match marker.1 {
                Marker::Compaction { useless: false, .. } => failed = 0,
                Marker::Compaction { useless: true, .. } | Marker::CompactionFailed { .. } => {
                    failed += 1;
                }
                Marker::Pruning { .. } | Marker::Overflow { .. } | Marker::Rollback { .. } => {}
            }
        }
        failed
    }

    /// The window of a model, of which `known` is known: a smaller one that its provider said
    /// counts, and where nothing is known, one that is as large as the shortest request that was too
    /// long. A rollback does not change what a model takes.
    pub(super) fn window_of(&self, model: &str, known: Option<u64>) -> Option<u64> {
        let overflows = self.others.iter().filter_map(|item| match &item.body {
            ItemBody::Marker { marker: Marker::Overflow { model: of, tokens, window } } => {
                (of == model).then_some((*tokens, *window))
            }
            _ => None,
        });
        let said = overflows.clone().filter_map(|(_, window)| window);
        let refused = overflows.map(|(tokens, _)| tokens);
        said.chain(known).min().or_else(|| refused.min().map(|tokens| tokens.max(SMALLEST)))
    }

    fn in_force(&self) -> impl DoubleEndedIterator<Item = (&Arc<Item>, &Marker)> {
        self.others.iter().filter(|item| !self.rollbacks.hide(item)).filter_map(|item| match &item
            .body
        {
            ItemBody::Marker { marker } => Some((item, marker)),
            _ => None,
        })
    }

    fn settled(&self, rounds: &[Round]) -> View {
        let mut view = View::default();
        let find = |id: &ItemId| {
            let mut items = rounds.iter().flat_map(Round::items);
            items.find(|item| item.item_id == *id).cloned()
        };
        for (item, marker) in self.in_force().rev() {
            match marker {
                // A last item that is not in the record says nothing.
                Marker::Compaction { until, summary, kept, .. } if view.until == 0 => {
                    let Some(until) = find(until) else { continue };
                    view.until = until.index;
                    view.lead = kept.iter().filter_map(find).collect();
                    view.lead.retain(|kept| is_kept(kept, view.until) && !self.hide(kept));
                    view.lead.push(Arc::new(said_by_agentd(item, summary)));
                }
                Marker::Pruning { items, text } => {
                    view.stubs.extend(items.iter().map(|id| (id.clone(), text.clone())));
                }
                Marker::Compaction { .. }
                | Marker::CompactionFailed { .. }
                | Marker::Overflow { .. }
                | Marker::Rollback { .. } => {}
            }
        }
        view
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

/// Whether an item can stay in front of a summary: an input only, since nothing belongs to it.
fn is_kept(item: &Item, until: u64) -> bool {
    item.index <= until && matches!(item.body, ItemBody::User { .. })
}

/// A text that is in no item of its own, as an input. It takes its place and time from `item`, so
/// that the same record always gives the same bytes.
pub(super) fn said_by_agentd(item: &Item, text: &str) -> Item {
    let content = vec![Part::text(text)];
    let body = ItemBody::User { content, origin: Origin::Agentd, submission_id: None };
    Item { hidden_by: None, body, ..item.clone() }
}
