//! Code in colours: the terminal's own sixteen, so that it looks right on every background.
//!
//! The grammars are large. They are read when the first code is shown, and then only those of
//! its language; a start of the program pays nothing for them.
//!
//! Receives code, at once or as it comes, and the name of its language; hands back spans, line by
//! line.

use std::str::FromStr;
use std::sync::OnceLock;

use ratatui::style::{Color, Style};
use ratatui::text::Span;
use syntect::easy::HighlightLines;
use syntect::highlighting::{
    Color as Encoded, HighlightState, ScopeSelectors, StyleModifier, Theme, ThemeItem,
};
use syntect::parsing::{ParseState, SyntaxSet};

/// Code behind this many bytes is plain: colours are no help in a wall of text, and take time.
const MAX_BYTES: usize = 64 * 1024;

/// Scopes and the colour of each, the number of one of the sixteen.
const COLOURS: [(&str, u8); 9] = [
    ("comment", 8),
    ("string", 2),
    ("constant", 6),
    ("keyword, storage", 5),
    ("entity.name.function, support.function, variable.function", 4),
    ("entity.name.type, entity.name.class, support.type, support.class", 3),
    ("entity.name.tag, entity.name.section", 4),
    ("markup.inserted", 2),
    ("markup.deleted", 1),
];

struct Grammars {
    syntaxes: SyntaxSet,
    theme: Theme,
}

fn grammars() -> &'static Grammars {
    static GRAMMARS: OnceLock<Grammars> = OnceLock::new();
    GRAMMARS
        .get_or_init(|| Grammars { syntaxes: two_face::syntax::extra_newlines(), theme: theme() })
}

/// A theme whose colours are numbers: `r` is one of the sixteen, `a` of 0 says so.
fn theme() -> Theme {
    let encoded = |number| Some(Encoded { r: number, g: 0, b: 0, a: 0 });
    let item = |(scopes, number): (&str, u8)| ThemeItem {
        scope: ScopeSelectors::from_str(scopes).expect("the table holds scopes"),
        style: StyleModifier { foreground: encoded(number), ..StyleModifier::default() },
    };
    Theme { scopes: COLOURS.into_iter().map(item).collect(), ..Theme::default() }
}

/// Code whose lines come one after the other, in as many pieces as it takes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Code {
    /// Where the grammar stands; absent where the rest stays plain.
    colours: Option<(HighlightState, ParseState)>,
    bytes: usize,
}

impl Code {
    /// Code of a language, plain where that is not known.
    pub(super) fn new(language: &str) -> Self {
        let highlighter = (!language.is_empty()).then(grammars).and_then(|grammars| {
            let syntax = grammars.syntaxes.find_syntax_by_token(language)?;
            Some(HighlightLines::new(syntax, &grammars.theme))
        });
        Self { colours: highlighter.map(HighlightLines::state), bytes: 0 }
    }

    /// The next lines. The piece must end where a line does, unless it is the last one.
    pub(super) fn lines(&mut self, code: &str) -> Vec<Vec<Span<'static>>> {
        code.split_inclusive('\n').map(|line| self.line(line)).collect()
    }

    fn line(&mut self, line: &str) -> Vec<Span<'static>> {
        self.bytes += line.len();
        let text = |text: &str| text.trim_end_matches(['\n', '\r']).to_owned();
        let plain = vec![Span::raw(text(line))];
        let Some((highlighting, parsing)) = self.colours.take().filter(|_| self.bytes <= MAX_BYTES)
        else {
            return plain;
        };
        let Grammars { syntaxes, theme } = grammars();
        let mut highlighter = HighlightLines::from_state(theme, highlighting, parsing);
        // A grammar that fails leaves the rest plain.
        let Ok(parts) = highlighter.highlight_line(line, syntaxes) else { return plain };
        let spans = parts.into_iter().map(|(style, part)| match style.foreground {
            Encoded { r: number, a: 0, .. } => Span::styled(text(part), colour(number)),
            _ => Span::raw(text(part)),
        });
        let spans = spans.filter(|span| !span.content.is_empty()).collect();
        self.colours = Some(highlighter.state());
        spans
    }
}

fn colour(number: u8) -> Style {
    let colour = match number {
        1 => Color::Red,
        2 => Color::Green,
        3 => Color::Yellow,
        4 => Color::Blue,
        5 => Color::Magenta,
        6 => Color::Cyan,
        _ => Color::DarkGray,
    };
    Style::new().fg(colour)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_coloured_and_nothing_is_lost() {
        let code = "fn main() {\n    let x = \"a\"; // b\n}\n";
        for language in ["rust", "rs", "", "no-such-language"] {
            let lines = Code::new(language).lines(code);
            let text: Vec<String> =
                lines.iter().map(|line| line.iter().map(|span| &*span.content).collect()).collect();
            assert_eq!(text, ["fn main() {", "    let x = \"a\"; // b", "}"], "{language}");
            let coloured = lines.iter().flatten().any(|span| span.style.fg.is_some());
            assert_eq!(coloured, language.starts_with('r'), "{language}");
        }
        let string = Code::new("rust").lines(code)[1]
            .iter()
            .find(|span| span.content.contains('a'))
            .cloned();
        assert_eq!(string.unwrap().style.fg, Some(Color::Green));
    }

    #[test]
    fn pieces_are_coloured_as_the_whole() {
        let code = "/* a\nlet b = 1;\n*/ let c = \"d\ne\";\n";
        let whole = Code::new("rust").lines(code);
        let mut pieces = Code::new("rust");
        let lines: Vec<_> =
            code.split_inclusive('\n').flat_map(|line| pieces.lines(line)).collect();
        assert_eq!(lines, whole);
        let comment = lines[1].iter().all(|span| span.style.fg == Some(Color::DarkGray));
        assert!(comment, "{lines:?}");
        let wall = format!("let x = 1;\n{}\nlet x = 1;\n", " ".repeat(MAX_BYTES));
        let lines = Code::new("rust").lines(&wall);
        assert!(lines[0].len() > 1 && lines.last().is_some_and(|last| last.len() == 1));
    }

    #[test]
    fn common_languages_are_there() {
        for language in ["toml", "ts", "python", "go", "json", "sh", "yaml", "dockerfile", "diff"] {
            let syntaxes = &grammars().syntaxes;
            assert!(syntaxes.find_syntax_by_token(language).is_some(), "{language}");
        }
    }
}
