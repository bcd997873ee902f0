//! Texts with letters and their marks composed: NFC, as Unicode's Annex #15 defines it.
//!
//! A model writes `é` as one character; a file may hold `e` and a combining accent, which look the
//! same and are equal by the standard, but not byte for byte. [`Composed`] keeps the way back, so
//! that a place found in the composed text is one in the original; only whole letters with all their
//! marks have one.
//!
//! Pure. Receives texts from `matching` and names from `path`; hands them back composed.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::{compose, is_combining_mark};

/// The text with its letters composed.
pub(super) fn composed(text: &str) -> String {
    text.nfc().collect()
}

/// A composed text that knows where it came from.
pub(super) struct Composed {
    text: String,
    /// Where each letter starts, here and in the original, and where both end.
    starts: Vec<(usize, usize)>,
}

impl Composed {
    pub(super) fn of(original: &str) -> Self {
        let mut composed = Self { text: String::new(), starts: vec![(0, 0)] };
        let mut start = 0;
        let mut before = None;
        for (at, next) in original.char_indices() {
            // Hangul composes from letters that are no marks.
            let joins = is_combining_mark(next)
                || before.is_some_and(|before| compose(before, next).is_some());
            if at > 0 && !joins {
                composed.push(&original[start..at], at);
                start = at;
            }
            before =
                if joins { before.and_then(|before| compose(before, next)) } else { Some(next) };
        }
        composed.push(&original[start..], original.len());
        composed
    }

    fn push(&mut self, letter: &str, end: usize) {
        self.text.extend(letter.nfc());
        self.starts.push((self.text.len(), end));
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// A place of the composed text in the original; nothing if it cuts a letter.
    pub(super) fn original(&self, place: &Range<usize>) -> Option<Range<usize>> {
        let at = |place: usize| {
            let found = self.starts.binary_search_by_key(&place, |(composed, _)| *composed).ok()?;
            Some(self.starts[found].1)
        };
        Some(at(place.start)?..at(place.end)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lead_back_and_cut_no_letter() {
        // e + acute, a plain letter, Hangul from its parts, a + two marks.
        let original = "e\u{301}x\u{1112}\u{1161}\u{11ab}a\u{323}\u{302}";
        let composed = Composed::of(original);
        assert_eq!(composed.text(), original.nfc().collect::<String>());
        assert_eq!(composed.text(), "éx한ậ");
        let place = |text: &str| {
            let at = composed.text().find(text).expect("it is there");
            composed.original(&(at..at + text.len())).map(|place| &original[place])
        };
        assert_eq!(place("é"), Some("e\u{301}"));
        assert_eq!(place("x"), Some("x"));
        assert_eq!(place("한ậ"), Some("\u{1112}\u{1161}\u{11ab}a\u{323}\u{302}"));
        assert_eq!(composed.original(&(1..2)), None);
    }
}
