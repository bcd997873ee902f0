//! Where a value stands: built in, in a file at a line and column, or in a variable.
//!
//! Receives the spans of a TOML document; hands places to errors and to `daemon/config`.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// agentd itself.
    BuiltIn,
    /// A configuration file.
    File {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// In characters, from 1.
        column: u64,
    },
    /// An environment variable.
    Variable(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built-in"),
            Self::File { path, line, column } => write!(f, "{}:{line}:{column}", path.display()),
            Self::Variable(name) => f.write_str(name),
        }
    }
}

impl Origin {
    /// The place of byte `offset` in the file `path`, whose content is `text`.
    pub(super) fn in_file(path: &Path, text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        Self::File {
            path: path.to_owned(),
            line: count(before.matches('\n').count() + 1),
            column: count(before[line_start..].chars().count() + 1),
        }
    }
}

/// The dotted key of `name` in `parent`, quoted where TOML wants that.
pub(super) fn dotted(parent: &str, name: &str) -> String {
    let bare = !name.is_empty()
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'));
    let name = if bare { name.to_owned() } else { toml::Value::from(name).to_string() };
    if parent.is_empty() { name } else { format!("{parent}.{name}") }
}

/// The keys of a document and the bytes that belong to each, tables included.
pub(super) struct Spans(BTreeMap<String, Range<usize>>);

impl Spans {
    /// All keys of `table`.
    pub(super) fn of(table: &DeTable<'_>) -> Self {
        let mut spans = BTreeMap::new();
        collect("", table, &mut spans);
        Self(spans)
    }

    /// The innermost key whose name or value holds the byte `offset`.
    pub(super) fn key_at(&self, offset: usize) -> Option<&str> {
        self.0
            .iter()
            .filter(|(_, span)| span.contains(&offset))
            .min_by_key(|(_, span)| span.len())
            .map(|(key, _)| key.as_str())
    }

    /// Each key with where it starts.
    pub(super) fn starts(&self) -> impl Iterator<Item = (&str, usize)> {
        self.0.iter().map(|(key, span)| (key.as_str(), span.start))
    }
}

fn collect(parent: &str, table: &DeTable<'_>, spans: &mut BTreeMap<String, Range<usize>>) {
    for (name, value) in table {
        let key = dotted(parent, name.get_ref());
        if let DeValue::Table(inner) = value.get_ref() {
            collect(&key, inner, spans);
        }
        spans.insert(key, whole(name.span(), value));
    }
}

fn whole(name: Range<usize>, value: &Spanned<DeValue<'_>>) -> Range<usize> {
    name.start.min(value.span().start)..name.end.max(value.span().end)
}
