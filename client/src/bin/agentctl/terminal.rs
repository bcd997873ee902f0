//! What the terminal can show, and what must not reach it.
//!
//! Receives text of models and tools; hands it on without what would move the cursor, change
//! colours or talk to the terminal.

use std::borrow::Cow;
use std::io::IsTerminal;

/// A way to write text on a terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Style {
    Bold,
    Dim,
    Red,
    Green,
    Yellow,
}

/// Whether and how a stream is styled.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Palette {
    colours: bool,
}

impl Palette {
    /// Colours only on a terminal that wants them.
    pub(crate) fn of(stream: &impl IsTerminal) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self { colours: stream.is_terminal() && !refused && !dumb }
    }

    /// Whether it has colours at all.
    pub(crate) fn has_colours(self) -> bool {
        self.colours
    }

    /// The text in this style, where the stream has styles.
    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        if !self.colours {
            return text.to_owned();
        }
        let code = match style {
            Style::Bold => 1,
            Style::Dim => 2,
            Style::Red => 31,
            Style::Green => 32,
            Style::Yellow => 33,
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }
}

/// Characters that are not seen and make what is shown another thing than what is there: they turn
/// the direction of text, break lines, or hide text in text. Joiners and variation selectors are
/// none of them: scripts and pictures need those.
const UNSEEN: [std::ops::RangeInclusive<char>; 10] = [
    '\u{ad}'..='\u{ad}',       // soft hyphen
    '\u{61c}'..='\u{61c}',     // Arabic letter mark
    '\u{180e}'..='\u{180e}',   // Mongolian vowel separator
    '\u{200b}'..='\u{200b}',   // zero width space
    '\u{200e}'..='\u{200f}',   // left-to-right and right-to-left marks
    '\u{2028}'..='\u{202e}',   // line and paragraph separators, embeddings and overrides
    '\u{2060}'..='\u{206f}',   // invisible operators, isolates, deprecated formats
    '\u{feff}'..='\u{feff}',   // byte order mark
    '\u{fff9}'..='\u{fffb}',   // interlinear annotations
    '\u{e0000}'..='\u{e007f}', // tags
];

/// The text without control characters but line breaks and tabs, and without what is not seen but
/// changes what is.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let is_unseen = |c: char| c >= '\u{ad}' && UNSEEN.iter().any(|range| range.contains(&c));
    let is_harmful = |c: char| (c.is_control() && c != '\n' && c != '\t') || is_unseen(c);
    if !text.contains(is_harmful) {
        return Cow::Borrowed(text);
    }
    // A carriage return before a line break is only an old way to break lines.
    let text = text.replace("\r\n", "\n");
    text.chars().map(|c| if is_harmful(c) { '\u{fffd}' } else { c }).collect::<String>().into()
}

/// The first line, harmless and not longer than `max_chars`.
pub(crate) fn one_line(text: &str, max_chars: usize) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = harmless(lines.next().unwrap_or("")).replace('\t', " ");
    let cut = first.chars().count() > max_chars || lines.next().is_some();
    let mut line: String = first.chars().take(max_chars.saturating_sub(usize::from(cut))).collect();
    if cut {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_do_not_reach_the_terminal() {
        for (text, shown) in [
            ("a\tb\n", "a\tb\n"),
            ("a\r\nb", "a\nb"),
            ("\x1b]0;title\x07", "\u{fffd}]0;title\u{fffd}"),
            ("over\rwritten", "over\u{fffd}written"),
            ("\u{9b}31m", "\u{fffd}31m"),
            ("rm \u{202e}a", "rm \u{fffd}a"),
        ] {
            assert_eq!(harmless(text), shown);
        }
    }

    #[test]
    fn what_is_not_seen_is_seen() {
        for c in "\u{ad}\u{61c}\u{180e}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\
                  \u{202d}\u{202e}\u{2060}\u{2064}\u{2066}\u{2067}\u{2068}\u{2069}\u{206f}\u{feff}\u{fff9}\
                  \u{e0001}\u{e0041}\u{e007f}"
            .chars()
        {
            let shown = harmless(&format!("a{c}b")).into_owned();
            assert_eq!(shown, "a\u{fffd}b", "U+{:04X}", u32::from(c));
        }
        // A family, Persian with a joiner, a heart in colour, Japanese.
        let kept = "👩\u{200d}👧 می\u{200c}خواهم ❤\u{fe0f} 葛\u{e0100} – “é”";
        assert_eq!(harmless(kept), kept);
    }

    #[test]
    fn one_line_says_when_there_is_more() {
        assert_eq!(one_line("short", 10), "short");
        assert_eq!(one_line("\n  a line\nmore", 10), "a line…");
        assert_eq!(one_line("0123456789", 5), "0123…");
        assert_eq!(one_line("", 5), "");
    }
}
