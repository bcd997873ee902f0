//! Keeps what looks like a secret out of the log, whoever put it into a message.
//!
//! Receives finished lines from `telemetry`; hands back lines to write.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// What is written instead.
const MASK: &str = "***";

/// A name that announces a secret, then the secret; or a secret that announces itself.
static SECRET: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?xi)
        (?P<name> bearer\s+ | basic\s+
            | (?: api[_-]?key | token | secret | passw(?:or)?d | authorization ) ["'\\]* \s*[=:]\s* ["'\\]* (?:bearer\s+)? )
        (?P<value> [^\s"'\\,;&}\])]{6,} )
        | \b (?: sk | pk | rk | gh[opsu] | github_pat | xox[abpr] | glpat ) [-_] [A-Za-z0-9_\-]{12,}
        "#,
    )
    .expect("the pattern is constant")
});

/// The line without what looks like a secret.
pub fn mask(line: &str) -> Cow<'_, str> {
    SECRET.replace_all(line, |found: &Captures<'_>| {
        found
            .name("name")
            .map_or_else(|| MASK.to_owned(), |name| format!("{}{MASK}", name.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_the_rest_is_not() {
        let table = [
            ("authorization: Bearer abcdefgh123", "authorization: Bearer ***"),
            (r#"{"api_key":"abcdefgh","model":"m"}"#, r#"{"api_key":"***","model":"m"}"#),
            (r#"{\"token\":\"abcdefgh\"}"#, r#"{\"token\":\"***\"}"#),
            ("key sk-abcdefghijklmnop was refused", "key *** was refused"),
            ("https://h/v1?api_key=abcdefgh&x=1", "https://h/v1?api_key=***&x=1"),
            ("password = hunter22", "password = ***"),
            ("tokens: 1200", "tokens: 1200"),
            ("turn_0198 ended in task-manager-service", "turn_0198 ended in task-manager-service"),
            ("a basic  fact", "a basic  fact"),
        ];
        for (line, expected) in table {
            assert_eq!(mask(line), expected);
        }
    }
}
