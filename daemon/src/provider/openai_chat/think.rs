//! Reasoning that stands in the text, between `<think>` and `</think>`.
//!
//! Servers that do not part the two leave it to us. With `auto` only a text that begins with the
//! opening tag is taken so; with `on` also one that has the closing tag alone, since the opening
//! one was the end of the prompt: its text is held back until the tag has come, or the end. A text
//! has one such part, at its start, and a server that has sent reasoning in a field of its own
//! quotes tags as text.
//!
//! Invariants: the result does not depend on how the text was cut; nothing is lost.
//!
//! Receives pieces of text from `stream`; hands them back as text or reasoning.

use crate::config::ThinkTags;

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A piece of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Reasoning(String),
}

/// Parts reasoning from text.
#[derive(Debug)]
pub(super) struct Thoughts {
    place: Place,
    /// What is not decided yet.
    held: String,
    /// The closing tag alone is enough.
    closing_is_enough: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At the start of the text.
    Start,
    /// After the opening tag, before the reasoning itself.
    Opened,
    /// Between the tags.
    Inside,
    /// After the closing tag, before the text itself.
    Behind,
    /// In the text.
    Text,
}

impl Thoughts {
    pub(super) fn new(tags: ThinkTags) -> Self {
        let place = if tags == ThinkTags::Off { Place::Text } else { Place::Start };
        Self { place, held: String::new(), closing_is_enough: tags == ThinkTags::On }
    }

    /// Takes a piece of the text.
    pub(super) fn take(&mut self, text: &str) -> Vec<Piece> {
        let mut pieces = Vec::new();
        if self.place == Place::Text {
            pieces.push(Piece::Text(text.to_owned()));
            return pieces;
        }
        // Where a tag may begin that this piece ends.
        let from = self.held.len().saturating_sub(CLOSE.len() - 1);
        self.held.push_str(text);
        if self.place == Place::Start {
            self.begin(from, &mut pieces);
        }
        if matches!(self.place, Place::Opened | Place::Inside) {
            self.think(&mut pieces);
        }
        if self.place == Place::Behind {
            self.arrive(&mut pieces);
        }
        pieces
    }

    /// The server has a field for reasoning, so tags in its text are text; or the text is over.
    pub(super) fn settle(&mut self) -> Option<Piece> {
        let held = std::mem::take(&mut self.held);
        let place = std::mem::replace(&mut self.place, Place::Text);
        if held.is_empty() {
            return None;
        }
        Some(match place {
            Place::Opened | Place::Inside => Piece::Reasoning(held),
            Place::Start | Place::Behind | Place::Text => Piece::Text(held),
        })
    }

    fn begin(&mut self, from: usize, pieces: &mut Vec<Piece>) {
        let trimmed = self.held.trim_start();
        if let Some(rest) = trimmed.strip_prefix(OPEN) {
            self.held = rest.to_owned();
            self.place = Place::Opened;
        } else if OPEN.starts_with(trimmed) {
            // It may still become the tag.
        } else if !self.closing_is_enough {
            pieces.extend(self.settle());
        } else if let Some(at) = find(&self.held, CLOSE, from) {
            pieces.push(Piece::Reasoning(self.held[..at].to_owned()));
            self.held.drain(..at + CLOSE.len());
            self.place = Place::Behind;
        }
    }

    fn think(&mut self, pieces: &mut Vec<Piece>) {
        if self.place == Place::Opened {
            self.held = self.held.trim_start().to_owned();
            if self.held.is_empty() {
                return;
            }
            self.place = Place::Inside;
        }
        let (said, next) = if let Some(at) = self.held.find(CLOSE) {
            self.place = Place::Behind;
            (at, at + CLOSE.len())
        } else {
            let said = self.held.len() - started(&self.held, CLOSE);
            (said, said)
        };
        if said > 0 {
            pieces.push(Piece::Reasoning(self.held[..said].to_owned()));
        }
        self.held.drain(..next);
    }

    fn arrive(&mut self, pieces: &mut Vec<Piece>) {
        let text = self.held.trim_start();
        if !text.is_empty() {
            pieces.push(Piece::Text(text.to_owned()));
            self.place = Place::Text;
        }
        self.held.clear();
    }
}

fn find(text: &str, tag: &str, from: usize) -> Option<usize> {
    let from = (0..=from).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[from..].find(tag).map(|at| from + at)
}

/// How many bytes at the end of `text` may be the start of `tag`.
fn started(text: &str, tag: &str) -> usize {
    (1..tag.len()).rev().find(|length| text.ends_with(&tag[..*length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reasoning and text of `text`, cut into pieces of `size` bytes at most.
    fn parted(tags: ThinkTags, text: &str, size: usize) -> (String, String) {
        let mut thoughts = Thoughts::new(tags);
        let (mut reasoning, mut said) = (String::new(), String::new());
        let mut rest = text;
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let at = (1..=rest.len()).find(|at| *at >= size && rest.is_char_boundary(*at));
            let (piece, after) = rest.split_at(at.unwrap_or(rest.len()));
            pieces.extend(thoughts.take(piece));
            rest = after;
        }
        pieces.extend(thoughts.settle());
        for piece in pieces {
            match piece {
                Piece::Text(text) => said.push_str(&text),
                Piece::Reasoning(text) => reasoning.push_str(&text),
            }
        }
        (reasoning, said)
    }

    #[test]
    fn tags_are_understood_however_the_text_is_cut() {
        use ThinkTags::{Auto, Off, On};
        let table = [
            (Auto, "<think>why</think>\n\nanswer", "why", "answer"),
            (Auto, "\n<think>\nwhy é</think>answer", "why é", "answer"),
            (Auto, "<think>a</thin b</think>c", "a</thin b", "c"),
            (Auto, "<think></think>answer", "", "answer"),
            (Auto, "<think>never closed", "never closed", ""),
            (Auto, "<think>never closed</thi", "never closed</thi", ""),
            (Auto, "why</think>\n\nanswer", "", "why</think>\n\nanswer"),
            (Auto, "<thin", "", "<thin"),
            (Auto, "<thing> <think>", "", "<thing> <think>"),
            (Auto, "use `<think>` here", "", "use `<think>` here"),
            (Auto, "<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
            (Auto, "  plain", "", "  plain"),
            (On, "why</think>\n\nanswer", "why", "answer"),
            (On, "é why</think> answer é", "é why", "answer é"),
            (On, "<think>why</think>answer", "why", "answer"),
            (On, "no tag at all", "", "no tag at all"),
            (Off, "<think>why</think>answer", "", "<think>why</think>answer"),
        ];
        for (tags, text, reasoning, said) in table {
            for size in 1..=text.len() {
                let parts = parted(tags, text, size);
                let parts = (parts.0.as_str(), parts.1.as_str());
                assert_eq!(parts, (reasoning, said), "{tags:?} {text:?} by {size}");
            }
        }
    }

    #[test]
    fn a47_a_server_with_a_field_for_reasoning_quotes_tags() {
        let mut thoughts = Thoughts::new(ThinkTags::On);
        assert_eq!(thoughts.settle(), None);
        let text = "<think> and </think>";
        assert_eq!(thoughts.take(text), [Piece::Text(text.to_owned())]);
    }
}
