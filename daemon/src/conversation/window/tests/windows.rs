//! Long sessions in windows of every size: the view always fits, and its shares are kept.

use super::*;
use crate::conversation::{Budget, tokens};

const TOOLS: u64 = 300;
const SUMMARY: &str = "What was done, what is left, and which files matter.";

/// A session that a model works in, with a count of its own that is a fifth over our estimate.
struct Work {
    window: Window,
    budget: Budget,
    size: u64,
    index: u64,
    calls: u64,
    compactions: u32,
    prunings: u32,
}

impl Work {
    fn new(size: u64) -> Self {
        let budget = Budget::new(Some(size), None, TOOLS);
        let mut work = Self {
            window: Window::new(),
            budget,
            size,
            index: 0,
            calls: 0,
            compactions: 0,
            prunings: 0,
        };
        work.push(|index| system(index, &"q".repeat(800)));
        work.push(|index| user(index, "The task."));
        work
    }

    fn push(&mut self, item: impl FnOnce(u64) -> Arc<Item>) {
        self.index += 1;
        self.window.push(item(self.index));
    }

    fn counted(&mut self) -> u64 {
        self.window.tokens(TOOLS)
    }

    /// Makes room as a session does: prunes, else compacts.
    fn fit(&mut self) {
        let tokens = self.counted();
        if !self.budget.is_exceeded(tokens) {
            return;
        }
        if let Some(plan) = self.window.plan_pruning(&self.budget, tokens) {
            assert!(plan.freed * 5 >= self.size, "{} of {}", plan.freed, self.size);
            let marker = Marker::Pruning { items: plan.items, text: plan.text };
            self.push(|index| item(index, ItemBody::Marker { marker }));
            self.prunings += 1;
            return self.fit();
        }
        let plan = self.window.plan_compaction(&self.budget, tokens).expect("something can go");
        let kept: u64 = self
            .window
            .rounds
            .iter()
            .flat_map(Round::items)
            .filter(|item| plan.kept.contains(&item.item_id))
            .map(|item| tokens::of_item(item))
            .sum();
        assert!(kept <= (self.size * 15 / 100).min(20_000), "{kept} tokens of words kept");
        let (until, kept) = (plan.until, plan.kept);
        self.push(|index| summary(index, &until, &kept, SUMMARY));
        self.compactions += 1;
        let after = self.counted();
        let most = self.size * (25 + 15) / 100 + TOOLS + 250;
        assert!(after <= most, "{after} of {} after a compaction", self.size);
        assert!(tokens - after >= self.size / 10, "it is of use");
    }

    /// An iteration whose result is this large.
    fn iterate(&mut self, bytes: usize) {
        self.fit();
        let sent = self.counted();
        assert!(sent < self.size, "{sent} in {}", self.size);
        check_pairs(&outline(&mut self.window)).expect("a valid request");
        self.calls += 1;
        let call = format!("c{}", self.calls);
        // What no pruning can take.
        let text = "t".repeat(usize::try_from(self.size / 8).expect("small"));
        let output = tokens::of_bytes(text.len());
        self.push(|index| {
            let mut answer = Item::clone(&assistant(index, &text, &[&call]));
            if let ItemBody::Assistant(answer) = &mut answer.body {
                answer.usage = Usage { input: sent, output, ..Usage::default() };
            }
            Arc::new(answer)
        });
        self.push(|index| result(index, &call, &"r".repeat(bytes)));
    }
}

/// The view without its long texts, which would be all of the work.
fn outline(window: &mut Window) -> String {
    let mut short = |answers: Option<&Item>, segment: &[Arc<Item>]| {
        let text = readable(answers, segment);
        let text = std::str::from_utf8(&text).expect("UTF-8");
        let letters = ["rr", "tt", "ww", "qq"];
        letters.iter().fold(text.to_owned(), |text, two| text.replace(two, "")).into()
    };
    let pieces = window.messages("k", ",", &mut short);
    String::from_utf8(pieces.concat()).expect("UTF-8")
}

#[test]
fn sessions_fit_into_windows_of_every_size() {
    for size in [4_096, 8_192, 32_768, 200_000, 1_000_000] {
        let mut work = Work::new(size);
        let unit = usize::try_from(size / 10).expect("small");
        for round in 0..120_usize {
            // From a hundredth to an eighth of the window.
            work.iterate(unit * (1 + round * 7 % 5) * 4 / 40 + unit / 5);
            if round % 9 == 0 {
                work.push(|index| {
                    user(index, &format!("Remark {round}: {}", "w".repeat(unit / 8)))
                });
            }
        }
        assert!(
            work.compactions >= 1 && work.prunings + work.compactions >= 3,
            "{} compactions in {size}",
            work.compactions
        );
        assert!(work.compactions + work.prunings <= 40, "not all the time in {size}");
    }
}

#[test]
fn results_larger_than_the_window_go_too() {
    for size in [4_096, 8_192, 32_768] {
        let mut work = Work::new(size);
        for _ in 0..5 {
            work.iterate(usize::try_from(size * 5).expect("small"));
        }
        assert!(work.compactions + work.prunings >= 4);
    }
}
