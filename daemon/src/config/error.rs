//! What can be wrong with a configuration, said so that a person can mend it.
//!
//! Texts of the TOML reader are turned into ours: `unknown key`, the nearest known one, what was
//! expected. No source line is quoted, since it may hold a secret.
//!
//! Receives faults of files and values; hands them to `boot`, which exits with 78, and to
//! `daemon/reload`.

use std::io;
use std::path::{Path, PathBuf};

use crate::config::place::Origin;

/// Why a configuration was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file could not be read.
    #[error("cannot read the configuration file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The path names something that is not a file.
    #[error("{} is {found}, not a configuration file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// The file is too long to be a configuration.
    #[error("{} is longer than {limit_bytes} bytes; it cannot be a configuration file", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The longest.
        limit_bytes: u64,
    },
    /// A key or a value is wrong.
    #[error("{at}: {message}")]
    Invalid {
        /// Where.
        at: Origin,
        /// The key, dotted, where one can be named.
        key: Option<String>,
        /// What is wrong, what was expected, and what to do.
        message: String,
    },
}

impl ConfigError {
    /// The file with the fault, if it is in one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::Read { path, .. } | Self::NotAFile { path, .. } | Self::TooLong { path, .. } => {
                Some(path)
            }
            Self::Invalid { at: Origin::File { path, .. }, .. } => Some(path),
            Self::Invalid { at: Origin::BuiltIn | Origin::Variable(_), .. } => None,
        }
    }

    /// Its line, from 1.
    pub fn line(&self) -> Option<u64> {
        match self {
            Self::Invalid { at: Origin::File { line, .. }, .. } => Some(*line),
            Self::Invalid { .. }
            | Self::Read { .. }
            | Self::NotAFile { .. }
            | Self::TooLong { .. } => None,
        }
    }

    /// The key with the fault, dotted.
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Invalid { key, .. } => key.as_deref(),
            Self::Read { .. } | Self::NotAFile { .. } | Self::TooLong { .. } => None,
        }
    }
}

/// A fault of a value or a key, before it is known where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// The key that is unknown, where that is the fault.
    pub(super) unknown_key: Option<String>,
    /// What to say.
    pub(super) message: String,
}

/// Says in our words what serde or the TOML reader found.
pub(super) fn explain(text: &str) -> Fault {
    let mut quoted = text.split('`').skip(1).step_by(2);
    let found = quoted.next().unwrap_or_default();
    let known: Vec<&str> = quoted.collect();
    if text.starts_with("unknown field `") {
        return Fault {
            unknown_key: Some(found.to_owned()),
            message: unknown("key", found, &known),
        };
    }
    let message = if text.starts_with("unknown variant `") {
        unknown("value", found, &known)
    } else if text.starts_with("cannot extend value of type inline table") {
        "this table was written in braces before: put the key into the braces, or write the table \
         under a [header] of its own"
            .to_owned()
    } else {
        let kinds = [("u32", "a whole number"), ("u64", "a whole number"), ("f64", "a number")];
        kinds.iter().fold(text.to_owned(), |text, (rust, ours)| {
            text.replace(&format!("expected {rust}"), &format!("expected {ours}"))
        })
    };
    Fault { unknown_key: None, message }
}

fn unknown(what: &str, found: &str, known: &[&str]) -> String {
    let hint = nearest(found, known.iter().copied())
        .map(|near| format!("did you mean `{near}`? "))
        .unwrap_or_default();
    let known = known.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
    format!("unknown {what} `{found}`; {hint}known here: {known}")
}

/// How much alike two words must be for one to be taken for the other.
const ALIKE: f64 = 0.5;

/// The word of `known` that `found` was probably meant to be.
pub(super) fn nearest<'a>(
    found: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    known
        .into_iter()
        .map(|word| (strsim::normalized_damerau_levenshtein(found, word), word))
        .filter(|(alike, _)| *alike > ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, word)| word)
}
