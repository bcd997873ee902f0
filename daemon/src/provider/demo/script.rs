//! What the demo model says and does next: a pure function of the turn so far.
//!
//! Each answer plays steps up to and with the next call; the calls that were made tell how far the
//! turn is. When no step is left, the answer sums up what each came to, refusals and failures too.
//!
//! Receives the turn so far; hands pieces of an answer to the stream.

use std::fmt::Write as _;

use agentd_protocol::item::ToolStatus;
use serde_json::{Value, json};

use super::history::{Outcome, Turn};
use super::prompt::{Step, understand};

/// A part of an answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    Text(String),
    Reasoning(String),
    Call { name: &'static str, arguments: Value },
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Answer {
    pub(super) pieces: Vec<Piece>,
    pub(super) slowly: bool,
}

/// Characters of a result that a summary shows.
const EXCERPT_CHARS: usize = 80;

const INTRODUCTION: &str = "This is agentd's demo model: it follows a few rules, works offline, \
                            and no real model is asked.";

const HELP: &str = "I understand: read FILE, list [DIR], run COMMAND, write FILE with TEXT, search \
                    TEXT and think about THINGS, several in one prompt (read a.txt and then write \
                    b.txt with hello); with the word slowly I take my time. For anything more, \
                    configure a real model.";

/// The next answer. `offered` tells whether the request has a tool of that name.
pub(super) fn answer(turn: &Turn, offered: impl Fn(&str) -> bool) -> Answer {
    let wishes: Vec<_> = turn.prompts.iter().map(|prompt| understand(prompt)).collect();
    let slowly = wishes.iter().any(|wish| wish.slowly);
    let steps: Vec<Step> = wishes.into_iter().flat_map(|wish| wish.steps).collect();
    let mut script = Script { pieces: Vec::new() };
    if turn.summary {
        script.say(format!("{INTRODUCTION} The last prompt was: {}", turn.prompts.join(" ")));
    } else if steps.is_empty() {
        script.say(format!("{INTRODUCTION} {HELP}"));
    } else {
        script.play(turn, &steps, offered);
    }
    Answer { pieces: script.pieces, slowly }
}

struct Script {
    pieces: Vec<Piece>,
}

impl Script {
    fn say(&mut self, text: impl Into<String>) {
        self.pieces.push(Piece::Text(text.into()));
    }

    fn play(&mut self, turn: &Turn, steps: &[Step], offered: impl Fn(&str) -> bool) {
        let made = turn.outcomes.len();
        if made == 0 {
            self.say(format!("{INTRODUCTION} {}\n\n", plan(steps)));
        }
        if let Some(last) = turn.outcomes.last().filter(|outcome| !outcome.is_ok()) {
            self.say(format!("The last step {}. ", last.in_words()));
        }
        if turn.last_step {
            return self.sum_up(turn, steps, &offered);
        }
        let mut calls = 0;
        for (at, step) in steps.iter().enumerate() {
            let call = step.call().filter(|(name, _)| offered(name));
            // Steps before the last call were played with the answers that came before.
            let played = calls < made;
            calls += usize::from(call.is_some());
            if played {
                continue;
            }
            let order = if at == 0 { "First" } else { "Next" };
            match call {
                Some((name, arguments)) => {
                    self.say(format!("{order} I {}.", step.in_words()));
                    self.pieces.push(Piece::Call { name, arguments });
                    return;
                }
                None => self.without_call(step, order),
            }
        }
        self.sum_up(turn, steps, &offered);
    }

    fn without_call(&mut self, step: &Step, order: &str) {
        if let Step::Think { about } = step {
            self.pieces.push(Piece::Reasoning(format!(
                "I am asked to think about {about}. I am a demo, so I have no thoughts of my own, \
                 but this is where a model's reasoning would be shown, apart from its answer."
            )));
            self.say(format!("{order} I thought about {about}.\n\n"));
        } else {
            self.say(format!(
                "I cannot {}: this session has no tool for that.\n\n",
                step.in_words()
            ));
        }
    }

    fn sum_up(&mut self, turn: &Turn, steps: &[Step], offered: &impl Fn(&str) -> bool) {
        let mut text = String::from("In short, says the demo model:\n");
        let mut outcomes = turn.outcomes.iter();
        let mut all_ok = true;
        for step in steps {
            let came_to = match step.call().filter(|(name, _)| offered(name)) {
                None if matches!(step, Step::Think { .. }) => "done".to_owned(),
                None => "not done, there is no tool for it".to_owned(),
                Some(_) => outcomes
                    .next()
                    .map_or_else(|| "not done, no step was left".to_owned(), Outcome::in_words),
            };
            all_ok &= came_to.starts_with("done");
            let _ = writeln!(text, "- {}: {came_to}", step.in_words());
        }
        // A paragraph of its own, not a part of the last line of the list.
        text.push('\n');
        text.push_str(if all_ok { "All done." } else { "Not all of it was done." });
        self.say(text);
    }
}

fn plan(steps: &[Step]) -> String {
    let words: Vec<_> = steps.iter().map(Step::in_words).collect();
    match words.as_slice() {
        [one] => format!("You want me to {one}."),
        many => format!("You want {} things: {}.", many.len(), many.join(", ")),
    }
}

impl Step {
    fn in_words(&self) -> String {
        match self {
            Self::Read { path } => format!("read `{path}`"),
            Self::List { path: Some(path) } => format!("list `{path}`"),
            Self::List { path: None } => "list the files here".to_owned(),
            Self::Run { command } => format!("run `{command}`"),
            Self::Start { command } => format!("start `{command}`"),
            Self::Write { path, .. } => format!("write `{path}`"),
            Self::Search { text } => format!("search for `{text}`"),
            Self::Think { about } => format!("think about {about}"),
        }
    }

    /// The tool call that does the step, if one is needed.
    fn call(&self) -> Option<(&'static str, Value)> {
        match self {
            Self::Read { path } => Some(("read", json!({ "path": path }))),
            Self::List { path: Some(path) } => Some(("list", json!({ "path": path }))),
            Self::List { path: None } => Some(("list", json!({}))),
            Self::Run { command } => Some(("shell", json!({ "command": command }))),
            Self::Start { command } => {
                Some(("shell", json!({ "command": command, "background": true })))
            }
            Self::Write { path, content } => {
                Some(("write", json!({ "path": path, "content": content })))
            }
            Self::Search { text } => Some(("grep", json!({ "pattern": escaped(text) }))),
            Self::Think { .. } => None,
        }
    }
}

impl Outcome {
    fn is_ok(&self) -> bool {
        matches!(self.status, Some(ToolStatus::Ok | ToolStatus::Duplicate))
    }

    /// What it came to, to follow the step and a colon.
    fn in_words(&self) -> String {
        let excerpt = excerpt(&self.text);
        match self.status {
            Some(ToolStatus::Ok) if excerpt.is_empty() => "done".to_owned(),
            Some(ToolStatus::Ok) => match self.text.lines().count() {
                1 => format!("done, `{excerpt}`"),
                lines => format!("done, {lines} lines, the first one is `{excerpt}`"),
            },
            Some(ToolStatus::Duplicate) => "done before in this turn".to_owned(),
            Some(ToolStatus::Denied) => format!("was denied (`{excerpt}`)"),
            Some(ToolStatus::Blocked) => format!("was blocked by a hook (`{excerpt}`)"),
            Some(ToolStatus::Error | ToolStatus::Invalid) => format!("failed (`{excerpt}`)"),
            Some(ToolStatus::NotRun) => "was not run".to_owned(),
            Some(ToolStatus::Interrupted) | None => {
                "was interrupted, I do not know what it came to".to_owned()
            }
        }
    }
}

/// The first line with something in it, cut, without the number that `read` puts before it.
fn excerpt(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let line = match line.split_once('\t') {
        Some((number, line)) if number.chars().all(|c| c.is_ascii_digit()) => line,
        _ => line,
    };
    match line.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// Text as a regular expression that matches just this text.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for char in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(char) {
            escaped.push('\\');
        }
        escaped.push(char);
    }
    escaped
}
