//! Providers: the wire formats of model servers, behind common events.
//!
//! A provider turns items into the bytes of its wire format, once per segment, and a request into
//! a stream of [`ModelEvent`]s. What a finish reason means, whether to go on, what to run: that is
//! the loop's business, never a provider's.
//!
//! Receives requests from `session`; hands it a stream of common events.

pub mod anthropic_messages;
mod content;
mod decoder;
pub mod demo;
mod exchange;
mod facts;
mod failure;
#[cfg(any(test, feature = "testing"))]
pub mod fuzzing;
mod http;
mod kept;
mod lessons;
pub mod openai_chat;
pub mod openai_responses;
pub mod retry;
mod set;
mod sse;
#[cfg(test)]
mod tests;
mod truncation;

use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::event::TurnErrorCode;
use agentd_protocol::item::Item;
use agentd_protocol::session::{ModelOptions, Usage};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
use serde_json::Value;

pub use lessons::LEARNED;
pub use set::{ModelFacts, Providers, SelectError, Selected};

/// What a provider must know about a tool. (`tools` is not this module's to import.)
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
}

/// How a request is carried. After a broken transport the next attempt takes the next way; the last
/// one is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Carriage {
    /// A stream, over a kept connection if there is one.
    #[default]
    Usual,
    /// A stream, over a connection of its own.
    Fresh,
    /// The same, and HTTP/1.1.
    Http1,
    /// The same, and the answer as a whole.
    Whole,
}

impl Carriage {
    /// The way to take after this one was broken.
    #[must_use]
    pub fn next(self) -> Self {
        match self {
            Self::Usual => Self::Fresh,
            Self::Fresh => Self::Http1,
            Self::Http1 | Self::Whole => Self::Whole,
        }
    }
}

/// One request to a model. Cheap to clone: a retry sends it again.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The model's name at the provider.
    pub model: String,
    /// Options of the session, over those of the configuration.
    pub options: ModelOptions,
    /// The messages, encoded by this provider and joined by its separator; few large pieces, each
    /// of which ends where a segment ends.
    pub messages: Vec<Bytes>,
    /// The tools, encoded by this provider; empty where there are none.
    pub tools: Bytes,
    /// How it is carried.
    pub carriage: Carriage,
}

/// News from a model's stream, the same for every wire format.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// More of the answer.
    Text(String),
    /// More of the reasoning.
    Reasoning(String),
    /// What the provider wants back with the reasoning before it, which is complete; where there
    /// is none, it stands for itself. Opaque, in the form of `kept`.
    Signature(String),
    /// A call is complete.
    Call(ModelCall),
    /// What the request used; the last one counts.
    Usage(Usage),
    /// Something that a person should know: a server's habit that was learned. Before an error it
    /// tells what the next attempt does otherwise.
    Warning {
        /// A word for programs.
        code: &'static str,
        /// In a sentence; no secrets.
        message: String,
    },
    /// The stream came to its proper end. Nothing follows.
    End {
        /// The provider's word, for information (and for `length`, which marks a cut answer).
        finish_reason: Option<String>,
        /// The provider says that its turn has not ended: go on without new input.
        continues: bool,
    },
}

/// A call as a model's stream gave it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCall {
    /// The provider's id; absent or empty where it gave none.
    pub provider_call_id: Option<String>,
    /// The tool's name.
    pub name: String,
    /// An object; the raw string where the text is no JSON object. Empty text is `{}`.
    pub arguments: Value,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ModelError {
    /// The kind.
    pub code: TurnErrorCode,
    /// What was wrong, with what, and what to do; no secrets.
    pub message: String,
    /// Whether the same again may work.
    pub retryable: bool,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// The provider's own code.
    pub provider_code: Option<String>,
    /// How long the provider asks to wait before the next attempt.
    pub retry_after: Option<Duration>,
    /// The connection broke or fell silent in use: another [`Carriage`] may get through.
    pub broken: bool,
    /// The next attempt is sent in another form, because this one was refused for its form. It is
    /// worth an attempt at once, whatever the number of retries; each form is learned once.
    pub adapted: bool,
    /// With an overflow: the window in tokens that the server says it has.
    pub context_window: Option<u64>,
}

impl ModelError {
    /// An error that is final and that no HTTP status goes with.
    pub fn new(code: TurnErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            retryable: false,
            status: None,
            provider_code: None,
            retry_after: None,
            broken: false,
            adapted: false,
            context_window: None,
        }
    }

    /// The same, but the same request may work another time.
    pub fn retryable(code: TurnErrorCode, message: impl Into<String>) -> Self {
        Self { retryable: true, ..Self::new(code, message) }
    }
}

/// A stream ends with [`ModelEvent::End`] or with an error, and never silently.
pub type ModelStream = BoxStream<'static, Result<ModelEvent, ModelError>>;

/// A wire format with an address. Dropping a stream drops its connection.
pub trait Provider: Send + Sync + 'static {
    /// The key under which encoded bytes may be used again: wire, quirk profile, model family.
    fn encoding_key(&self, model: &str) -> String;

    /// The messages of one segment (an assistant item; or results and the inputs after them; or
    /// the system item), in the form that [`Request::messages`] joins. `answers` is the assistant
    /// item whose calls the segment's results answer. A pure function of its arguments; `model`
    /// and what was kept under [`Provider::encoding_key`] belong together. Empty where nothing is
    /// to be sent.
    fn encode(&self, model: &str, answers: Option<&Item>, segment: &[Arc<Item>]) -> Bytes;

    /// What stands between two segments: `,` for JSON arrays.
    fn separator(&self) -> &'static str;

    /// The tools, in the form of [`Request::tools`]; the same input gives the same bytes.
    fn encode_tools(&self, model: &str, tools: &[ToolDefinition]) -> Bytes;

    /// The models that the server says it has, by their names there; `None` where it has no way to
    /// say so.
    fn models(&self) -> BoxFuture<'_, Result<Option<Vec<String>>, ModelError>> {
        futures_util::future::ready(Ok(None)).boxed()
    }

    /// Sends a request. The future that makes the stream does no I/O before it is polled.
    fn stream(&self, request: Request) -> ModelStream;
}
