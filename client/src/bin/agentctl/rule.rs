//! `--allow RULE`: calls that a run allows by itself, so that nobody has to be asked.
//!
//! The protocol has no rules that end with a turn, so the run answers the prompts of matching
//! calls itself, each once. It errs on the side of asking: a command that is not made of plain
//! words never matches, a path that climbs neither.
//!
//! Receives rules from the command line and prompts from the session; hands back yes or no.

use std::path::{Component, Path};
use std::str::FromStr;

use agentd_client::protocol::permission::Prompt;
use globset::{GlobBuilder, GlobMatcher};
use serde_json::Value;

/// `TOOL` or `TOOL:PATTERN`; `*` is every tool.
#[derive(Debug, Clone)]
pub(crate) struct AllowRule {
    tool: String,
    pattern: Option<Pattern>,
}

#[derive(Debug, Clone)]
struct Pattern {
    /// The words of a command; a last `*` stands for any further ones.
    words: Vec<GlobMatcher>,
    open: bool,
    /// A path relative to the session's directory, or absolute.
    path: GlobMatcher,
}

impl FromStr for AllowRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tool, pattern) = match text.split_once(':') {
            Some((tool, pattern)) => (tool.trim(), Some(pattern.trim())),
            None => (text.trim(), None),
        };
        if tool.is_empty() || pattern.is_some_and(str::is_empty) {
            return Err("expected TOOL or TOOL:PATTERN, for example shell:cargo test *".to_owned());
        }
        let pattern = pattern.map(Pattern::new).transpose()?;
        Ok(Self { tool: tool.to_owned(), pattern })
    }
}

impl AllowRule {
    /// Whether the call behind this prompt is meant.
    pub(crate) fn matches(&self, prompt: &Prompt) -> bool {
        if self.tool != "*" && self.tool != prompt.tool {
            return false;
        }
        let Some(pattern) = &self.pattern else { return true };
        let argument = |name: &str| prompt.arguments.get(name).and_then(Value::as_str);
        match (argument("command"), argument("path")) {
            (Some(command), _) => pattern.matches_command(command),
            (None, Some(path)) => pattern.matches_path(path),
            (None, None) => false,
        }
    }
}

impl Pattern {
    fn new(text: &str) -> Result<Self, String> {
        let glob = |text: &str| {
            let glob = GlobBuilder::new(text).literal_separator(true).build();
            glob.map(|glob| glob.compile_matcher()).map_err(|error| error.to_string())
        };
        // In a word only `*` is special, and it crosses slashes.
        let word = |text: &str| {
            let escaped: Vec<_> = text.split('*').map(globset::escape).collect();
            let glob = GlobBuilder::new(&escaped.join("*")).build();
            glob.map(|glob| glob.compile_matcher()).map_err(|error| error.to_string())
        };
        let mut words: Vec<_> = text.split_whitespace().collect();
        let open = words.len() > 1 && words.last() == Some(&"*");
        if open {
            words.pop();
        }
        let words = words.into_iter().map(word).collect::<Result<_, _>>()?;
        Ok(Self { words, open, path: glob(text)? })
    }

    fn matches_command(&self, command: &str) -> bool {
        let is_plain = |c: char| c.is_alphanumeric() || " _-./:,@%+=".contains(c);
        let words: Vec<_> = command.split_whitespace().collect();
        let enough = if self.open {
            words.len() >= self.words.len()
        } else {
            words.len() == self.words.len()
        };
        command.trim().chars().all(is_plain)
            && words.first().is_some_and(|first| !first.contains('='))
            && enough
            && self.words.iter().zip(words).all(|(pattern, word)| pattern.is_match(word))
    }

    fn matches_path(&self, path: &str) -> bool {
        let climbs = Path::new(path).components().any(|part| part == Component::ParentDir);
        !climbs && self.path.is_match(path.strip_prefix("./").unwrap_or(path))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matches(rule: &str, tool: &str, arguments: &Value) -> bool {
        let prompt = json!({
            "prompt_id": "prm_1", "session_id": "ses_1", "turn_id": "turn_1", "call_id": "call_1",
            "tool": tool, "summary": "", "risk": "execute", "arguments": arguments,
            "suggestions": [], "requested_at": "2026-01-01T00:00:00.000Z"
        });
        let rule: AllowRule = rule.parse().unwrap();
        rule.matches(&serde_json::from_value(prompt).unwrap())
    }

    #[test]
    fn commands() {
        for (rule, command, expected) in [
            ("shell", "anything; at all", true),
            ("*", "rm -rf /", true),
            ("write", "ls", false),
            ("shell:ls", "ls", true),
            ("shell:ls", "ls -l", false),
            ("shell:cargo test *", "cargo test", true),
            ("shell:cargo test *", "cargo test --all -p a", true),
            ("shell:cargo test *", "cargo build", false),
            ("shell:cargo test *", "cargo test; rm -rf /", false),
            ("shell:cargo test *", "cargo test $(rm -rf /)", false),
            ("shell:cargo test *", "cargo test\nrm -rf /", false),
            ("shell:cargo test *", "cargo test > /etc/passwd", false),
            ("shell:cargo test *", "A=1 cargo test", false),
            ("shell:cargo test *", "cargo test 'a b'", false),
            ("shell:A=1 ls", "A=1 ls", false),
            ("shell:make *-check", "make a/b-check", true),
            ("shell:*", "ls", true),
            ("shell:*", "ls -l", false),
            ("shell: git status ", "git  status", true),
        ] {
            assert_eq!(
                matches(rule, "shell", &json!({ "command": command })),
                expected,
                "{rule} {command}"
            );
        }
    }

    #[test]
    fn paths() {
        for (rule, path, expected) in [
            ("write", "/etc/passwd", true),
            ("write:src/**", "src/a/b.rs", true),
            ("write:src/*", "src/a/b.rs", false),
            ("write:src/*", "./src/a.rs", true),
            ("write:src/**", "src/../../etc/passwd", false),
            ("write:notes.txt", "notes.txt", true),
            ("write:notes.txt", "other.txt", false),
        ] {
            assert_eq!(matches(rule, "write", &json!({ "path": path })), expected, "{rule} {path}");
        }
        assert!(!matches("fetch:example.org", "fetch", &json!({ "url": "https://example.org" })));
    }

    #[test]
    fn nonsense_is_refused() {
        for rule in ["", ":x", "shell:", "write:[", " "] {
            assert!(rule.parse::<AllowRule>().is_err(), "{rule:?}");
        }
    }
}
