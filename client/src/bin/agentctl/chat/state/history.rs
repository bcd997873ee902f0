//! What was written before: Up and Down go through it.
//!
//! Invariants: what is the same stands in it once, where it was written last; what is being
//! written is not lost by looking back.
//!
//! Receives drafts that were sent, here or elsewhere, now or in an earlier run; hands them back.

use super::Draft;

/// Inputs that are remembered, here and in the file.
pub(crate) const HISTORY: usize = 1000;

/// What was written before, the oldest first, and where in it the editor is.
#[derive(Debug, Default)]
pub(super) struct History {
    entries: Vec<Draft>,
    /// Its end is what is being written.
    at: usize,
    present: Draft,
}

impl History {
    /// Puts what was written in earlier runs before what is there.
    pub(super) fn recall(&mut self, earlier: Vec<Draft>) {
        let since = std::mem::take(&mut self.entries);
        for draft in earlier.into_iter().chain(since) {
            self.remember(draft);
        }
        self.rest();
    }

    /// Remembers a draft as the last one.
    pub(super) fn remember(&mut self, draft: Draft) {
        if draft.text.trim().is_empty() {
            return;
        }
        let rests = self.at == self.entries.len();
        let same = self.entries.iter().position(|entry| *entry == draft);
        let full = (same.is_none() && self.entries.len() == HISTORY).then_some(0);
        if let Some(gone) = same.or(full) {
            self.entries.remove(gone);
            self.at -= usize::from(gone < self.at);
        }
        self.entries.push(draft);
        if rests {
            self.rest();
        }
    }

    /// Goes back to its end.
    pub(super) fn rest(&mut self) {
        self.at = self.entries.len();
    }

    /// The one before; `present` is what the editor holds.
    pub(super) fn older(&mut self, present: Draft) -> Option<Draft> {
        let at = self.at.checked_sub(1)?;
        if self.at == self.entries.len() {
            self.present = present;
        }
        self.at = at;
        Some(self.entries[at].clone())
    }

    /// The one after, or what was being written.
    pub(super) fn newer(&mut self) -> Option<Draft> {
        if self.at == self.entries.len() {
            return None;
        }
        self.at += 1;
        Some(self.entries.get(self.at).unwrap_or(&self.present).clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn older(history: &mut History) -> Option<String> {
        history.older(Draft::of("present")).map(|draft| draft.text)
    }

    fn newer(history: &mut History) -> Option<String> {
        history.newer().map(|draft| draft.text)
    }

    #[test]
    fn each_stands_once_where_it_was_last() {
        let mut history = History::default();
        for text in ["a", "b", "a", " ", "c"] {
            history.remember(Draft::of(text));
        }
        history.recall(["x", "c", "y"].map(Draft::of).to_vec());
        let back: Vec<_> = std::iter::from_fn(|| older(&mut history)).collect();
        assert_eq!(back, ["c", "a", "b", "y", "x"]);
        let forth: Vec<_> = std::iter::from_fn(|| newer(&mut history)).collect();
        assert_eq!(forth, ["y", "b", "a", "c", "present"]);
    }

    #[test]
    fn what_comes_while_one_looks_back_moves_nothing() {
        let mut history = History::default();
        for text in ["a", "b", "c"] {
            history.remember(Draft::of(text));
        }
        assert_eq!(older(&mut history).as_deref(), Some("c"));
        assert_eq!(older(&mut history).as_deref(), Some("b"));
        history.remember(Draft::of("a"));
        history.remember(Draft::of("new"));
        assert_eq!(newer(&mut history).as_deref(), Some("c"));
        assert_eq!(newer(&mut history).as_deref(), Some("a"));
    }

    #[test]
    fn the_oldest_go() {
        let mut history = History::default();
        for number in 0..HISTORY + 5 {
            history.remember(Draft::of(&number.to_string()));
        }
        let back: Vec<_> = std::iter::from_fn(|| older(&mut history)).collect();
        assert_eq!((back.len(), back.last().map(String::as_str)), (HISTORY, Some("5")));
    }
}
