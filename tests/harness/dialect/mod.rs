//! The wire formats that the model server speaks, each as strict as its real servers are.
//!
//! A test says what the model does (`Step`); a dialect makes events of it, refuses what a real
//! server would refuse, and words its refusals as that would.
//!
//! Receives steps and requests from the model server; hands it streams and refusals, and the test
//! what was said in a request, the same for every dialect.

use serde_json::{Value, json};

mod chat;
mod messages;
mod responses;

use crate::history;

pub use messages::check as check_messages;
pub use responses::check as check_responses;

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// Chat Completions.
    #[default]
    Chat,
    /// Responses.
    Responses,
    /// Anthropic's Messages.
    Messages,
}

/// A piece of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// More text.
    Text(String),
    /// More reasoning.
    Reasoning(String),
    /// A call begins.
    Call { index: usize, name: String },
    /// More of the arguments of the call that began last.
    Arguments { index: usize, piece: String },
    /// A call that the provider runs itself, at whose end the turn has not ended.
    Pause,
}

/// What an answer ends with.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    /// In the words of Chat Completions.
    pub(crate) finish_reason: &'static str,
    /// In the form of Chat Completions.
    pub(crate) usage: Value,
    pub(crate) pauses: bool,
}

/// Makes one answer's stream.
pub(crate) trait Speak: Send {
    /// What comes before the first step.
    fn begin(&mut self) -> String;
    /// A step.
    fn step(&mut self, step: &Step) -> String;
    /// What an answer used, where a dialect tells it before the end.
    fn usage(&mut self, ending: &Ending) -> String;
    /// The proper end, with the usage.
    fn end(&mut self, ending: &Ending) -> String;
    /// The same answer for a client that asked for it as a whole.
    fn whole(&mut self, steps: &[Step], ending: &Ending) -> Value;
}

impl Dialect {
    /// The name in a configuration.
    pub fn wire(self) -> &'static str {
        match self {
            Self::Chat => "openai-chat",
            Self::Responses => "openai-responses",
            Self::Messages => "anthropic-messages",
        }
    }

    /// Where requests go.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
        }
    }

    /// Checks a request.
    pub(crate) fn check(self, body: &Value) -> Result<(), String> {
        match self {
            Self::Chat => history::check(body),
            Self::Responses => responses::check(body),
            Self::Messages => messages::check(body).and_then(|()| messages::alternates(body)),
        }
    }

    /// The body of a refusal.
    pub(crate) fn refusal(self, message: &str) -> Value {
        let error = json!({ "type": "invalid_request_error", "message": message });
        match self {
            Self::Chat => json!({ "error": { "message": message, "type": "refused" } }),
            Self::Responses => json!({ "error": error }),
            Self::Messages => json!({ "type": "error", "error": error, "request_id": "req_1" }),
        }
    }

    pub(crate) fn speak(self) -> Box<dyn Speak> {
        match self {
            Self::Chat => Box::new(chat::Speaker),
            Self::Responses => Box::new(responses::Speaker::default()),
            Self::Messages => Box::new(messages::Speaker::default()),
        }
    }

    /// Who said what in a request, without the system text: `user`, `assistant` (text and the names
    /// of calls, each by itself), `tool`.
    pub fn said(self, body: &Value) -> Vec<(String, String)> {
        match self {
            Self::Chat => chat::said(body),
            Self::Responses => responses::said(body),
            Self::Messages => messages::said(body),
        }
    }

    /// A body without its closing and without what may move in it.
    pub fn prefix(self, bytes: &[u8]) -> String {
        let body = String::from_utf8_lossy(bytes).replace(messages::CACHE_MARK, "");
        body.strip_suffix("]}").expect("a body ends with its closing").to_owned()
    }
}

/// One event of a stream, with its name.
fn event(data: &Value) -> String {
    let name = data["type"].as_str().unwrap_or_default();
    format!("event: {name}\ndata: {data}\n\n")
}

fn strings(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
