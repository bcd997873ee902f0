//! Shares of a model's window: when the view is too large, and what of it stays.
//!
//! Where a model's window is not known, nothing is too large before the provider says so, which the
//! record keeps ([`super::Window::window_of`]), and the shares are those of the view itself.
//!
//! Receives what is known of a model from `session`; hands shares to the window's plans.

/// The view is too large past this share of what the output reserve leaves, in percent.
const FULL_PERCENT: u64 = 85;

/// Where the longest answer is not known, this part of the window is for it, and so much at most.
const RESERVE_PART: u64 = 8;
const MAX_RESERVE: u64 = 8_192;

/// What a compaction leaves as it is at the end: so many tokens, and this share in percent.
const TAIL: u64 = 20_000;
const TAIL_PERCENT: u64 = 25;

/// User messages that a compaction keeps word for word.
const INPUTS: u64 = 20_000;
const INPUTS_PERCENT: u64 = 15;

/// Results that a pruning leaves whole, the newest.
const RESULTS: u64 = 40_000;
const RESULTS_PERCENT: u64 = 30;

/// A pruning that frees this share, in percent, is enough.
const ENOUGH_PERCENT: u64 = 20;

/// A model's window and what is in it besides the conversation, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// 0 where it is not known.
    window: u64,
    /// Kept free for the answer.
    reserve: u64,
    /// The tools.
    pub(super) tools: u64,
}

impl Budget {
    /// The budget of a model with this window, its longest answer, and tools of this size; all in
    /// tokens.
    pub fn new(window: Option<u64>, longest_answer: Option<u64>, tools: u64) -> Self {
        let window = window.unwrap_or(0);
        let reserve = match longest_answer {
            Some(longest) => longest.min(window / 2),
            None => (window / RESERVE_PART).min(MAX_RESERVE),
        };
        Self { window, reserve, tools }
    }

    /// Whether a view of so many tokens is too large to be sent.
    pub fn is_exceeded(&self, tokens: u64) -> bool {
        self.window > 0 && tokens > percent(self.window - self.reserve, FULL_PERCENT)
    }

    /// Whether a request of so many tokens leaves no room for its answer.
    pub fn is_too_long(&self, tokens: u64) -> bool {
        self.window > 0 && tokens > self.window - self.reserve
    }

    /// The size of a view that the provider says is too long, and that was taken for so large.
    pub fn at_least(&self, tokens: u64) -> u64 {
        tokens.max(self.window.saturating_add(1))
    }

    /// What a request may have, for a view of so many tokens.
    pub(super) fn room(&self, tokens: u64) -> u64 {
        self.of(tokens) - self.reserve.min(self.of(tokens))
    }

    /// Tokens at the view's end that a compaction leaves as they are: never more than half of it,
    /// so that one that was asked for early has something to do.
    pub(super) fn tail(&self, tokens: u64) -> u64 {
        TAIL.min(percent(self.of(tokens), TAIL_PERCENT)).min(tokens / 2)
    }

    pub(super) fn inputs(&self, tokens: u64) -> u64 {
        INPUTS.min(percent(self.of(tokens), INPUTS_PERCENT))
    }

    pub(super) fn results(&self, tokens: u64) -> u64 {
        RESULTS.min(percent(self.of(tokens), RESULTS_PERCENT))
    }

    pub(super) fn is_enough(&self, freed: u64, tokens: u64) -> bool {
        freed >= percent(self.of(tokens), ENOUGH_PERCENT).max(1)
    }

    fn of(&self, tokens: u64) -> u64 {
        if self.window == 0 { tokens } else { self.window }
    }
}

fn percent(of: u64, percent: u64) -> u64 {
    of.saturating_mul(percent) / 100
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_windows() {
        // window: full from, tail, inputs, results
        for (window, expected) in [
            (4_096, (3_046, 1_024, 614, 1_228)),
            (8_192, (6_092, 2_048, 1_228, 2_457)),
            (32_768, (24_371, 8_192, 4_915, 9_830)),
            (200_000, (163_036, 20_000, 20_000, 40_000)),
            (1_000_000, (843_036, 20_000, 20_000, 40_000)),
        ] {
            let budget = Budget::new(Some(window), None, 0);
            let (full, tail, inputs, results) = expected;
            assert!(!budget.is_exceeded(full), "{window}");
            assert!(budget.is_exceeded(full + 1), "{window}");
            let of = |share: fn(&Budget, u64) -> u64| share(&budget, window);
            assert_eq!((of(Budget::tail), of(Budget::inputs)), (tail, inputs), "{window}");
            assert_eq!(of(Budget::results), results, "{window}");
        }
    }

    #[test]
    fn the_output_reserve_is_what_is_known_of_the_longest_answer() {
        let budget = Budget::new(Some(100_000), Some(20_000), 0);
        assert!(!budget.is_exceeded(68_000));
        assert!(budget.is_exceeded(68_001));
        // An answer as long as the window leaves half of it.
        assert!(Budget::new(Some(1_000), Some(9_000), 0).is_exceeded(426));
    }

    #[test]
    fn a_window_that_is_not_known_is_never_exceeded() {
        let budget = Budget::new(None, Some(10), 0);
        assert!(!budget.is_exceeded(u64::MAX));
        assert_eq!((budget.tail(1_000), budget.room(1_000)), (250, 1_000));
    }
}
