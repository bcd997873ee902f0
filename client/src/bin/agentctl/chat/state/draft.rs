//! A text as it is written and sent: long pastes stand in it as a word of their own.
//!
//! `[paste 1: 300 lines]` is put in its place when the text is sent; taken out of the text, the
//! paste does not go along.
//!
//! Invariants: what a mark stands for is put in once, and never looked through for marks; no mark
//! is made that stands in the text already.
//!
//! Receives what is pasted; hands drafts to the editor, the history and whoever sends them.

use serde::{Deserialize, Serialize};

/// A paste with more lines or bytes than this is folded.
const PASTE_LINES: usize = 8;
const PASTE_BYTES: usize = 1000;

/// A long text that was pasted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Paste {
    mark: String,
    text: String,
}

/// The pastes that marks stand for.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Pastes(Vec<Paste>);

impl Pastes {
    /// What is to stand in the text `around` it for what was pasted: a mark, or the paste itself.
    pub(super) fn fold(&mut self, text: String, around: &str) -> String {
        let is_long = text.lines().count() > PASTE_LINES || text.len() > PASTE_BYTES;
        let looks_like_mark = self.0.iter().any(|paste| text.contains(&paste.mark));
        if !is_long && !looks_like_mark {
            return text;
        }
        let lines = text.lines().count();
        let lines = format!("{lines} line{}", if lines == 1 { "" } else { "s" });
        let marks = (self.0.len() + 1..).map(|number| format!("[paste {number}: {lines}]"));
        let mut marks = marks.skip_while(|mark| around.contains(mark));
        let mark = marks.next().expect("a text holds finitely many marks");
        self.0.push(Paste { mark: mark.clone(), text });
        mark
    }

    /// The text with its pastes in their places.
    fn unfold(&self, text: &str) -> String {
        let (mut whole, mut rest) = (String::new(), text);
        let next = |rest: &str| {
            let found = self.0.iter().filter_map(|paste| Some((rest.find(&paste.mark)?, paste)));
            found.min_by_key(|(at, _)| *at)
        };
        while let Some((at, paste)) = next(rest) {
            whole.push_str(&rest[..at]);
            whole.push_str(&paste.text);
            rest = &rest[at + paste.mark.len()..];
        }
        whole + rest
    }
}

/// A text that was written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Draft {
    /// As it stands in the editor, pastes folded.
    pub(crate) text: String,
    #[serde(default, skip_serializing_if = "is_empty")]
    pub(super) pastes: Pastes,
}

fn is_empty(pastes: &Pastes) -> bool {
    pastes.0.is_empty()
}

impl Draft {
    /// A text with its pastes, those that are no longer in it left out.
    pub(super) fn new(text: String, mut pastes: Pastes) -> Self {
        pastes.0.retain(|paste| text.contains(&paste.mark));
        Self { text, pastes }
    }

    /// A text that was not written here, folded as if it had been pasted.
    pub(super) fn of(text: &str) -> Self {
        let mut pastes = Pastes::default();
        let text = pastes.fold(text.to_owned(), "");
        Self { text, pastes }
    }

    /// A part of the text, with its pastes.
    pub(super) fn part(&self, text: &str) -> Self {
        Self::new(text.to_owned(), self.pastes.clone())
    }

    /// The text with its pastes in their places.
    pub(crate) fn whole(&self) -> String {
        self.pastes.unfold(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_inside_of_a_paste_are_only_text() {
        let long = "a line\n".repeat(9);
        let tricky = format!("see [paste 1: 9 lines] and [paste 2: 10 lines]\n{long}");
        let mut pastes = Pastes::default();
        let mut text = pastes.fold(long.clone(), "");
        for paste in [&tricky, "a short one with [paste 1: 9 lines]"] {
            let mark = pastes.fold(paste.to_owned(), &text);
            text = format!("{text} {mark}");
        }
        let draft = Draft::new(text, pastes);
        assert_eq!(draft.text, "[paste 1: 9 lines] [paste 2: 10 lines] [paste 3: 1 line]");
        let short = "a short one with [paste 1: 9 lines]";
        assert_eq!(draft.whole(), format!("{long} {tricky} {short}"));
    }

    #[test]
    fn a_mark_that_was_typed_is_no_mark() {
        let long = "a line\n".repeat(9);
        let mut pastes = Pastes::default();
        let typed = "I wrote [paste 1: 9 lines]: ";
        let mark = pastes.fold(long.clone(), typed);
        let draft = Draft::new(format!("{typed}{mark}"), pastes);
        assert_eq!(draft.whole(), format!("{typed}{long}"));
    }

    #[test]
    fn what_is_kept_is_what_is_there() {
        let draft = Draft::of(&"a line\n".repeat(300));
        assert_eq!(draft.text, "[paste 1: 300 lines]");
        let json = serde_json::to_string(&draft).unwrap();
        assert_eq!(serde_json::from_str::<Draft>(&json).unwrap(), draft);
        assert_eq!(draft.part("none"), Draft::of("none"));
        assert_eq!(serde_json::to_string(&Draft::of("x")).unwrap(), r#"{"text":"x"}"#);
    }
}
