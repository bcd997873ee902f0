//! Compaction: a summary, written by the model, takes the place of what lies before the view's end.
//!
//! The cut is before an answer or before the inputs after its results, so a batch of calls stays
//! whole. What nobody has answered yet is never replaced, nor are the user's own words as far as
//! they fit their share. Files that calls named are listed by us: that must not depend on a
//! model's memory.
//!
//! The request for the summary is the view as it was, so that the provider has it in its cache,
//! with an instruction at its end. It is not sealed: when it fails nothing has changed. One that
//! does not fit either is narrowed: large results become stubs, the oldest rounds are left out.
//!
//! Receives a budget from `session`; hands back where to cut, and the request's messages.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use agentd_protocol::id::ItemId;
use agentd_protocol::item::{Item, ItemBody, Origin};
use bytes::Bytes;

use super::marks::said_by_agentd;
use super::prune::{old_results, stubs};
use super::size::{Scale, estimate_of, estimate_of_items};
use super::view::View;
use super::{Encode, Round, Window, is_empty_answer};
use crate::conversation::{Budget, tokens};

/// What asks a model for the summary.
const INSTRUCTION: &str = "The conversation is about to outgrow its window. Write a summary that \
     takes its place: whoever reads it goes on with the work and knows nothing else. Do not call \
     tools and do not go on with the work now; answer with the summary alone, under these \
     headings:\n\n\
     1. Task: what the user wants, in the user's own words where they matter; constraints and \
     preferences; corrections the user made.\n\
     2. State: what is done and what is not; the step in hand, precisely enough to go on with it.\n\
     3. Files: paths that were read or changed, and what matters in each.\n\
     4. Findings: facts, decisions with their reasons, commands and what they came to, errors and \
     how they were solved.\n\
     5. Next: what is to be done, in order.";

/// Stands where a narrowed request leaves out what was oldest.
const LEFT_OUT: &str = "(The oldest part of this conversation does not fit and was left out.)";

/// Files that are listed of each tool, the last ones named.
const MAX_FILES: usize = 50;

/// Where a view can be cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compaction {
    /// The last item that the summary replaces.
    pub until: ItemId,
    /// User items up to it that stay, oldest first.
    pub kept: Vec<ItemId>,
    /// What the summary does not depend on the model for; empty where there is nothing.
    pub files: String,
    /// Tokens of all that stays beside the summary.
    pub rest: u64,
}

/// A place between two items of the view: before a round's head or before its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    round: usize,
    before_inputs: bool,
}

impl Window {
    /// Where a view of so many tokens can be cut; nowhere if no answer would be replaced.
    pub fn plan_compaction(&self, budget: &Budget, tokens: u64) -> Option<Compaction> {
        let view = self.marks.view();
        let seen = self.seen(view, 0);
        let scale = Scale::new(tokens, estimate_of(&seen) + budget.tools);
        let tokens = scale.all();
        let cut = cut(&seen, scale.estimated(budget.tail(tokens)))?;
        let until = last_replaced(&seen, cut, view)?;
        let kept = self.inputs(until.index, scale.estimated(budget.inputs(tokens)));
        let rest = self.system_tokens()
            + budget.tools
            + estimate_of_items(&kept)
            + estimate_of_items(&after(&seen, cut));
        Some(Compaction {
            until: until.item_id.clone(),
            kept: kept.iter().map(|item| item.item_id.clone()).collect(),
            files: self.files(until.index),
            rest: scale.counted(rest),
        })
    }

    /// The messages of the request for a summary, as [`Window::messages`] but sealing nothing.
    /// `narrowed` says how often it did not fit so far: each time it is half as long.
    pub fn summary_messages(
        &self,
        (key, separator): (&str, &str),
        (budget, tokens): (&Budget, u64),
        narrowed: u32,
        encode: &mut Encode<'_>,
    ) -> Vec<Bytes> {
        let narrow = (narrowed > 0).then(|| self.narrow(budget, tokens, narrowed));
        let same = self.sent.key == key && narrow.is_none();
        let (mut pieces, from) =
            if same { (self.sent.bytes.pieces(), self.sent.rounds) } else { (Vec::new(), 0) };
        let mut rounds = self.seen(narrow.as_ref().unwrap_or(self.marks.view()), from);
        let Some(last) = self.rounds.iter().flat_map(Round::items).last() else { return pieces };
        let instruction = Arc::new(said_by_agentd(last, INSTRUCTION));
        match rounds.last_mut() {
            Some(round) => round.inputs.push(instruction),
            None => rounds.push(Round { inputs: vec![instruction], ..Round::default() }),
        }
        pieces.push(self.encoded(&rounds, pieces.is_empty(), separator, encode));
        pieces
    }

    /// A view that takes its part of the room at most, as far as that can be had.
    fn narrow(&self, budget: &Budget, tokens: u64, narrowed: u32) -> View {
        let mut view = self.marks.view().clone();
        let whole = self.seen(&view, 0);
        let scale = Scale::new(tokens, estimate_of(&whole) + budget.tools);
        let tokens = scale.all();
        view.stubs.extend(stubs(old_results(&whole, 0).0));
        let room = scale.estimated(budget.room(tokens)) >> narrowed.min(u64::BITS - 1);
        let seen = self.seen(&view, 0);
        let fixed = self.system_tokens() + budget.tools;
        if estimate_of(&seen) + budget.tools <= room {
            return view;
        }
        let Some(until) = cut(&seen, room.saturating_sub(fixed))
            .and_then(|cut| last_replaced(&seen, cut, &view).cloned())
        else {
            return view;
        };
        view.until = until.index;
        // The summary of an earlier compaction stays, being the last of what led.
        let earlier = view.lead.pop();
        view.lead = self.inputs(until.index, scale.estimated(budget.inputs(tokens)) >> narrowed);
        view.lead.extend(earlier);
        view.lead.push(Arc::new(said_by_agentd(&until, LEFT_OUT)));
        view
    }

    /// The user's own words up to this place, the newest that fit, oldest first.
    fn inputs(&self, until: u64, room: u64) -> Vec<Arc<Item>> {
        let mut taken = 0;
        let mut inputs: Vec<_> = self
            .rounds
            .iter()
            .rev()
            .flat_map(|round| round.inputs.iter().rev())
            .filter(|item| item.index <= until && !self.marks.hide(item) && is_users(item))
            .filter(|item| {
                let size = tokens::of_item(item);
                let fits = taken + size <= room;
                taken += if fits { size } else { 0 };
                fits
            })
            .cloned()
            .collect();
        inputs.reverse();
        inputs
    }

    /// The files that calls up to this place named, by tool.
    fn files(&self, until: u64) -> String {
        let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let heads = self.rounds.iter().filter_map(|round| round.head.as_ref());
        for head in heads.filter(|head| head.index <= until && !self.marks.hide(head)) {
            let ItemBody::Assistant(answer) = &head.body else { continue };
            for call in &answer.calls {
                let Some(path) = call.arguments.get("path").and_then(|path| path.as_str()) else {
                    continue;
                };
                let of_tool = files.entry(&call.name).or_default();
                of_tool.retain(|known| *known != path);
                of_tool.push(path);
            }
        }
        let mut text = String::new();
        for (tool, paths) in files {
            let last = &paths[paths.len().saturating_sub(MAX_FILES)..];
            // Writing to a string cannot fail.
            let _ = writeln!(text, "- {tool}: {}", last.join(", "));
        }
        text
    }
}

/// The place farthest from the end with at most `keep` tokens after it. What nobody has answered is
/// after it, whatever its size. `None` where no answer is before it.
fn cut(rounds: &[Round], keep: u64) -> Option<Cut> {
    let mut found = None;
    let (mut tail, mut unanswered) = (0, true);
    for (round, content) in rounds.iter().enumerate().rev() {
        tail += estimate_of_items(&content.inputs);
        if !unanswered && tail > keep {
            break;
        }
        if is_ordered(content) {
            found = Some(Cut { round, before_inputs: true });
        }
        let Some(head) = &content.head else { continue };
        if matches!(head.body, ItemBody::System { .. }) {
            break;
        }
        unanswered &= is_empty_answer(head);
        tail += tokens::of_item(head) + estimate_of_items(&content.results);
        if tail > keep {
            break;
        }
        found = Some(Cut { round, before_inputs: false });
    }
    found.filter(|cut| replaced(rounds, *cut).any(|item| is_answer(item)))
}

/// Whether all results were recorded before the inputs, so that a cut between them is a place.
fn is_ordered(round: &Round) -> bool {
    let last = round.results.iter().map(|item| item.index).max();
    last.is_none_or(|last| round.inputs.iter().all(|input| input.index > last))
}

/// The items before a cut.
fn replaced(rounds: &[Round], cut: Cut) -> impl Iterator<Item = &Arc<Item>> {
    let partly = cut.before_inputs.then(|| &rounds[cut.round]);
    let partly = partly.into_iter().flat_map(|round| round.head.iter().chain(&round.results));
    rounds[..cut.round].iter().flat_map(Round::items).chain(partly)
}

/// The items after it.
fn after(rounds: &[Round], cut: Cut) -> Vec<Arc<Item>> {
    let from = cut.round + usize::from(cut.before_inputs);
    let partly = cut.before_inputs.then(|| rounds[cut.round].inputs.iter());
    let whole = rounds[from..].iter().flat_map(Round::items);
    partly.into_iter().flatten().chain(whole).cloned().collect()
}

/// The last item of the record before a cut. What opens this view in the place of others is older,
/// or, being a summary, in no item of its own.
fn last_replaced<'a>(rounds: &'a [Round], cut: Cut, view: &View) -> Option<&'a Arc<Item>> {
    let is_lead = |item: &Arc<Item>| view.lead.iter().any(|lead| Arc::ptr_eq(lead, item));
    replaced(rounds, cut).filter(|item| !is_lead(item)).max_by_key(|item| item.index)
}

fn is_answer(item: &Item) -> bool {
    matches!(item.body, ItemBody::Assistant(_)) && !is_empty_answer(item)
}

fn is_users(item: &Item) -> bool {
    matches!(&item.body, ItemBody::User { origin: Origin::User | Origin::Steer, .. })
}
