//! Styled text broken into rows that fit.
//!
//! ratatui wraps inside of a widget, for a place that is known; here rows are wanted, since they
//! go into the terminal's own scrollback and are never touched again.
//!
//! Invariants: no row is wider than asked for, unless a single character is; nothing that would
//! move the cursor or turn the direction of text is in a row; no text is lost but white space at
//! a break.
//!
//! Receives spans; hands rows to whoever draws.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthChar;

use crate::terminal::harmless;

/// Columns of a tab.
const TAB: &str = "    ";

/// What stands before the rows of a block: a mark before the first, as much space before others.
#[derive(Debug, Clone, Default)]
pub(super) struct Indent {
    pub(super) first: Vec<Span<'static>>,
    pub(super) rest: Vec<Span<'static>>,
}

impl Indent {
    /// The same before all rows.
    pub(super) fn all(text: &'static str) -> Self {
        Self { first: vec![text.into()], rest: vec![text.into()] }
    }

    /// A mark, and blanks of its width before the other rows.
    pub(super) fn mark(text: &'static str, style: Style) -> Self {
        let blanks = " ".repeat(Span::raw(text).width());
        Self { first: vec![Span::styled(text, style)], rest: vec![blanks.into()] }
    }
}

/// Breaks one logical line.
pub(super) fn wrap(spans: &[Span<'_>], width: usize, indent: &Indent) -> Vec<Line<'static>> {
    let cells = cells(spans);
    let taken = columns(&indent.first).max(columns(&indent.rest));
    let room = width.saturating_sub(taken).max(1);
    let mut rows = Vec::new();
    for (from, to) in breaks(&cells, room) {
        let before = if rows.is_empty() { &indent.first } else { &indent.rest };
        let mut row = before.clone();
        row.extend(grouped(&cells[from..to]));
        rows.push(Line::from(row));
    }
    rows
}

/// Breaks text of one style, line by line.
pub(super) fn wrap_text(
    text: &str,
    style: Style,
    width: usize,
    indent: &Indent,
) -> Vec<Line<'static>> {
    let mut rows = Vec::new();
    let rest = Indent { first: indent.rest.clone(), rest: indent.rest.clone() };
    for line in text.lines() {
        let indent = if rows.is_empty() { indent } else { &rest };
        rows.extend(wrap(&[Span::styled(line, style)], width, indent));
    }
    rows
}

/// One row: what does not fit is cut off, and an ellipsis says so.
pub(super) fn cut(spans: &[Span<'_>], width: usize) -> Line<'static> {
    let mut cells = cells(spans);
    let total: usize = cells.iter().map(|(c, _)| columns_of(*c)).sum();
    if total > width {
        let mut used = 0;
        let fits = |(c, _): &&(char, Style)| {
            used += columns_of(*c);
            used < width
        };
        let kept = cells.iter().take_while(fits).count();
        let style = cells.get(kept).map(|(_, style)| *style).unwrap_or_default();
        cells.truncate(kept);
        if width > 0 {
            cells.push(('…', style));
        }
    }
    Line::from(grouped(&cells))
}

fn columns(spans: &[Span<'_>]) -> usize {
    spans.iter().map(Span::width).sum()
}

fn columns_of(c: char) -> usize {
    c.width().unwrap_or(0)
}

fn cells(spans: &[Span<'_>]) -> Vec<(char, Style)> {
    let mut cells = Vec::new();
    for span in spans {
        let text = harmless(&span.content).replace('\t', TAB).replace('\n', " ");
        cells.extend(text.chars().map(|c| (c, span.style)));
    }
    cells
}

/// Where rows begin and end, at white space if there is some.
fn breaks(cells: &[(char, Style)], room: usize) -> Vec<(usize, usize)> {
    let mut rows = Vec::new();
    let (mut start, mut used) = (0, 0);
    // Where the next row would begin, if the present one ended at the last white space.
    let mut word = None;
    let mut at = 0;
    while at < cells.len() {
        let (c, _) = cells[at];
        used += columns_of(c);
        if used > room && at > start {
            if c == ' ' {
                rows.push((start, at));
                start = at + cells[at..].iter().take_while(|(c, _)| *c == ' ').count();
            } else {
                let next = word.filter(|next| *next > start).unwrap_or(at);
                rows.push((start, next));
                start = next;
            }
            (at, used, word) = (start, 0, None);
            continue;
        }
        at += 1;
        if c == ' ' {
            word = Some(at);
        }
    }
    if start < cells.len() || rows.is_empty() {
        rows.push((start, cells.len()));
    }
    let last = rows.len() - 1;
    let trimmed = |(index, (from, to)): (usize, (usize, usize))| {
        let blanks = cells[from..to].iter().rev().take_while(|(c, _)| *c == ' ').count();
        (from, if index < last && blanks < to - from { to - blanks } else { to })
    };
    rows.into_iter().enumerate().map(trimmed).collect()
}

fn grouped(cells: &[(char, Style)]) -> Vec<Span<'static>> {
    let groups = cells.chunk_by(|(_, a), (_, b)| a == b);
    groups
        .map(|group| Span::styled(group.iter().map(|(c, _)| *c).collect::<String>(), group[0].1))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rows(text: &str, width: usize) -> Vec<String> {
        let rows = wrap(&[Span::raw(text)], width, &Indent::default());
        rows.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn words_are_kept_whole_where_they_fit() {
        for (text, width, expected) in [
            ("", 5, vec![""]),
            ("one two", 10, vec!["one two"]),
            ("one two three", 8, vec!["one two", "three"]),
            ("one  two", 4, vec!["one", "two"]),
            ("abcdefgh", 3, vec!["abc", "def", "gh"]),
            ("a bcdefgh", 3, vec!["a", "bcd", "efg", "h"]),
            ("犬猫鳥", 4, vec!["犬猫", "鳥"]),
            ("  indented", 20, vec!["  indented"]),
            ("a\tb", 20, vec!["a    b"]),
            ("\x1b[31mred\u{202e}", 40, vec!["\u{fffd}[31mred\u{fffd}"]),
        ] {
            assert_eq!(rows(text, width), expected, "{text:?} in {width}");
        }
    }

    #[test]
    fn a_mark_stands_once() {
        let rows = wrap_text("one two\nthree", Style::new(), 6, &Indent::mark("- ", Style::new()));
        let rows: Vec<_> = rows.iter().map(ToString::to_string).collect();
        assert_eq!(rows, ["- one", "  two", "  thre", "  e"]);
    }

    #[test]
    fn what_is_cut_says_so() {
        for (text, width, expected) in
            [("abc", 3, "abc"), ("abcd", 3, "ab…"), ("犬猫", 3, "犬…"), ("abc", 0, "")]
        {
            assert_eq!(cut(&[Span::raw(text)], width).to_string(), expected);
        }
    }

    proptest! {
        #[test]
        fn no_row_is_too_wide_and_no_word_is_lost(text in "[a-c 犬]{0,60}", width in 2_usize..20) {
            let rows = rows(&text, width);
            for row in &rows {
                prop_assert!(Span::raw(row.as_str()).width() <= width, "{row:?}");
            }
            let words = |text: &str| text.replace(' ', "");
            prop_assert_eq!(words(&rows.concat()), words(&text));
        }
    }
}
