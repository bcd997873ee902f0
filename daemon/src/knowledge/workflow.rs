//! Workflows: a run of calls that may be done again, with their particulars taken out.
//!
//! A run is calls one after the other that all succeeded; the longest of a turn counts, if it has
//! at least [`MIN_CALLS`] calls of at least [`MIN_TOOLS`] tools. Its steps keep commands and
//! patterns, which are what the workflow is; paths and contents become names in braces, the same
//! value the same name, also inside a command.
//!
//! Receives the calls of a turn; hands a candidate to the observer.

use std::collections::HashSet;

use agentd_protocol::item::ToolStatus;
use serde_json::{Map, Value, json};

use super::observer::Seen;

/// Fewer calls are no workflow.
const MIN_CALLS: usize = 4;
/// A workflow does more than one kind of thing.
const MIN_TOOLS: usize = 2;
/// Words of the request that become the name.
const NAME_WORDS: usize = 6;
/// Characters of the request that the description shows.
const REQUEST_CHARS: usize = 200;
/// Arguments that say how, and not with what.
const KEPT: [&str; 6] = ["command", "pattern", "glob", "mode", "description", "format"];
/// Shorter values are words of every command.
const MIN_VALUE_CHARS: usize = 3;

/// A candidate for a skill.
#[derive(Debug, PartialEq)]
pub(super) struct Workflow {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) steps: Vec<Value>,
}

/// What may be kept of these calls, made for `asked`.
pub(super) fn of(asked: &str, calls: &[Seen]) -> Option<Workflow> {
    let run = calls
        .split(|call| call.status != Some(ToolStatus::Ok))
        .max_by_key(|run| run.len())
        .filter(|run| run.len() >= MIN_CALLS)?;
    let tools: HashSet<&str> = run.iter().map(|call| call.tool.as_str()).collect();
    if tools.len() < MIN_TOOLS {
        return None;
    }
    let mut names = Names::default();
    for call in run {
        names.collect(&call.arguments);
    }
    let steps = run
        .iter()
        .map(|call| json!({ "tool": call.tool, "arguments": names.generalised(&call.arguments) }))
        .collect();
    let asked = asked.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    let request: String = asked.chars().take(REQUEST_CHARS).collect();
    let description = format!("When asked for something like: {request}");
    Some(Workflow { name: name(asked, run), description, steps })
}

/// The request's first words, joined; the tools' where it has none that can be written so.
fn name(asked: &str, run: &[Seen]) -> String {
    let words = |text: &str| {
        text.split(|letter: char| !letter.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .take(NAME_WORDS)
            .collect::<Vec<_>>()
            .join("-")
            .to_lowercase()
    };
    let name = words(asked);
    if !name.is_empty() {
        return name;
    }
    let mut tools: Vec<&str> = run.iter().map(|call| call.tool.as_str()).collect();
    tools.dedup();
    words(&tools.join(" "))
}

/// What stands for which value, in the order in which they came.
#[derive(Debug, Default)]
struct Names(Vec<(String, String)>);

impl Names {
    fn collect(&mut self, arguments: &Value) {
        for (parameter, value) in arguments.as_object().into_iter().flatten() {
            if let Some(value) = value.as_str().filter(|_| !KEPT.contains(&parameter.as_str())) {
                self.add(parameter, value);
            }
        }
    }

    fn add(&mut self, parameter: &str, value: &str) {
        if self.0.iter().any(|(known, _)| known == value) {
            return;
        }
        let like = |name: &str| {
            name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_') == parameter
        };
        let name = match self.0.iter().filter(|(_, name)| like(name)).count() {
            0 => parameter.to_owned(),
            before => format!("{parameter}_{}", before + 1),
        };
        self.0.push((value.to_owned(), name));
    }

    fn generalised(&self, arguments: &Value) -> Value {
        let Some(arguments) = arguments.as_object() else { return arguments.clone() };
        let generalised = arguments.iter().map(|(parameter, value)| {
            let value = match value.as_str() {
                Some(text) if KEPT.contains(&parameter.as_str()) => self.within(text).into(),
                Some(text) => self.whole(text).into(),
                None => value.clone(),
            };
            (parameter.clone(), value)
        });
        Value::Object(generalised.collect::<Map<_, _>>())
    }

    fn whole(&self, text: &str) -> String {
        let known = self.0.iter().find(|(value, _)| value == text);
        known.map_or_else(|| text.to_owned(), |(_, name)| format!("{{{name}}}"))
    }

    /// The longest values first, so that a path is not taken apart by a shorter one.
    fn within(&self, text: &str) -> String {
        let mut known: Vec<_> =
            self.0.iter().filter(|(value, _)| value.chars().count() >= MIN_VALUE_CHARS).collect();
        known.sort_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        known.into_iter().fold(text.to_owned(), |text, (value, name)| {
            text.replace(value.as_str(), &format!("{{{name}}}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use agentd_protocol::id::CallId;

    use super::*;

    fn seen(tool: &str, arguments: Value, status: ToolStatus) -> Seen {
        let call_id = CallId::from("call_1");
        Seen { call_id, tool: tool.to_owned(), arguments, status: Some(status) }
    }

    fn release() -> Vec<Seen> {
        let ok = ToolStatus::Ok;
        vec![
            seen("read", json!({ "path": "src/version.rs" }), ok),
            seen("edit", json!({ "path": "src/version.rs", "old": "1.0", "new": "1.1" }), ok),
            seen("read", json!({ "path": "CHANGELOG.md", "limit": 20 }), ok),
            seen("shell", json!({ "command": "git add src/version.rs && cargo test" }), ok),
        ]
    }

    #[test]
    fn a_run_becomes_steps_without_particulars() {
        let workflow = of("\nRelease the next version, please\nmore", &release()).expect("one");
        assert_eq!(workflow.name, "release-the-next-version-please");
        assert_eq!(
            workflow.description,
            "When asked for something like: Release the next version, please"
        );
        assert_eq!(
            workflow.steps,
            [
                json!({ "tool": "read", "arguments": { "path": "{path}" } }),
                json!({ "tool": "edit", "arguments": { "path": "{path}", "old": "{old}", "new": "{new}" } }),
                json!({ "tool": "read", "arguments": { "path": "{path_2}", "limit": 20 } }),
                json!({ "tool": "shell", "arguments": { "command": "git add {path} && cargo test" } }),
            ]
        );
    }

    #[test]
    fn few_calls_one_tool_and_failures_make_none() {
        assert_eq!(of("x", &release()[..3]), None);
        let one = vec![seen("read", json!({ "path": "a" }), ToolStatus::Ok); 5];
        assert_eq!(of("x", &one), None);
        let mut broken = release();
        broken.insert(2, seen("shell", json!({ "command": "false" }), ToolStatus::Error));
        assert_eq!(of("x", &broken), None);
        let mut later = release();
        later.insert(0, seen("shell", json!({ "command": "false" }), ToolStatus::Error));
        assert!(of("x", &later).is_some());
        assert_eq!(of("", &release()).expect("one").name, "read-edit-read-shell");
    }
}
