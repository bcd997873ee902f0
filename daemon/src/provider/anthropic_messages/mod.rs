//! `anthropic-messages`: Anthropic's Messages, which some other servers speak too.
//!
//! A request's body is fixed fields, tools, the system text, messages and a closing. Two cache
//! markers tell the provider what will come again: one on the system text (tools stand before it),
//! one on the last block of all, which moves on with every request. They are put between the kept
//! bytes when a request is sent and are never kept themselves.
//!
//! Receives requests from `session` through [`Provider`]; hands back model events.

use std::sync::Arc;

use agentd_protocol::event::TurnErrorCode;
use agentd_protocol::item::Item;
use agentd_protocol::session::{ModelOptions, ReasoningEffort};
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

use super::exchange::{self, Format};
use super::facts::{self, Thinks};
use super::http::{Endpoint, KeyHeader, Rope, Transports};
use super::lessons::{Habit, Lessons};
use super::{Carriage, ModelError, ModelEvent, ModelStream, Provider, Request, ToolDefinition};
use crate::clock::Clock;
use crate::config::ProviderConfig;

mod encode;
pub(super) mod stream;
#[cfg(test)]
mod tests;
mod wire;

use encode::Profile;
use stream::Assembler;

/// The version of the format, as it calls itself.
const VERSION: &str = "2023-06-01";
/// The longest answer of a model of which nothing is known: all take it.
const CAUTIOUS_MAX_TOKENS: u64 = 8_192;
/// The longest answer that is asked for unasked. The format counts it towards the window.
const USUAL_MAX_TOKENS: u64 = 32_000;
/// The least that a model may think, where thinking has a budget.
const LEAST_THINKING: u64 = 1_024;
/// Marks the end of what will be sent again.
const CACHE_MARK: &[u8] = br#","cache_control":{"type":"ephemeral"}"#;
/// What every message ends with: its last block, the list, the message.
const MESSAGE_END: &[u8] = b"}]}";

/// A server of this format.
#[derive(Debug, Clone)]
pub struct AnthropicMessages(Arc<Server>);

#[derive(Debug)]
struct Server {
    /// The provider's name.
    name: String,
    endpoint: Endpoint,
    /// The path of its list of models.
    models: &'static str,
    config: ProviderConfig,
    lessons: Lessons,
}

/// In which form requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Form {
    /// What was thought goes back with the history.
    reasoning: bool,
    /// The model may be asked to think.
    thinks: bool,
    /// Only where the answer before began with what was thought.
    thinks_on: bool,
}

impl AnthropicMessages {
    /// A server from its table. `Err` says what is wrong with the table.
    pub(super) fn new(
        name: &str,
        config: &ProviderConfig,
        transports: &mut Transports,
        lessons: Lessons,
        clock: Clock,
    ) -> Result<Self, String> {
        let base = config.base_url.as_deref().unwrap_or_default().trim_end_matches('/');
        // Both habits are common: the address with its version, and without.
        let (path, models) = if base.ends_with("/v1") {
            ("messages", "models")
        } else {
            ("v1/messages", "v1/models")
        };
        let version = HeaderName::from_static("anthropic-version");
        let endpoint = Endpoint::new(name, config, path, transports, clock)?
            .with_key_in(KeyHeader::Plain(HeaderName::from_static("x-api-key")))
            .with_header(version, HeaderValue::from_static(VERSION));
        let (name, config) = (name.to_owned(), config.clone());
        Ok(Self(Arc::new(Server { name, endpoint, models, config, lessons })))
    }
}

impl Provider for AnthropicMessages {
    fn encoding_key(&self, model: &str) -> String {
        self.0.profile(model).key()
    }

    fn encode(&self, model: &str, answers: Option<&Item>, segment: &[Arc<Item>]) -> Bytes {
        self.0.profile(model).encode(answers, segment)
    }

    fn separator(&self) -> &'static str {
        ","
    }

    fn encode_tools(&self, _model: &str, tools: &[ToolDefinition]) -> Bytes {
        encode::encode_tools(tools)
    }

    fn models(&self) -> BoxFuture<'_, Result<Option<Vec<String>>, ModelError>> {
        async { self.0.endpoint.models(self.0.models).await.map(Some) }.boxed()
    }

    fn stream(&self, request: Request) -> ModelStream {
        exchange::stream(Arc::clone(&self.0), request)
    }
}

impl Format for Server {
    type Assembler = Assembler;
    type Form = Form;

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn form(&self, model: &str) -> Form {
        self.learned(model)
    }

    fn body(&self, request: &Request, form: Form) -> Result<Rope, String> {
        let mut opening = Vec::new();
        let (system, messages) = encode::split_system(&request.messages);
        if let Some(system) = system {
            opening.extend_from_slice(b",\"system\":[");
            opening.extend_from_slice(system.strip_suffix(b"}").unwrap_or(&system));
            opening.extend_from_slice(CACHE_MARK);
            opening.extend_from_slice(b"}]");
        }
        opening.extend_from_slice(b",\"messages\":[");
        let thinks = form.thinks && (!form.thinks_on || encode::goes_on_thinking(&messages));
        let fixed = self.fixed(request, thinks)?;
        Ok(Rope::object(fixed, &request.tools, &opening, marked(messages)))
    }

    fn assembler(&self) -> Assembler {
        Assembler::new(self.endpoint.who())
    }

    fn learn(
        &self,
        model: &str,
        sent: Form,
        error: ModelError,
    ) -> (Option<ModelEvent>, ModelError) {
        // What the table says is not learned.
        let said = self.config.reasoning_echo.said();
        let open = |habit: &Habit| *habit != Habit::WantsReasoning || said.is_none();
        let taught = refused(sent, &error).filter(|(habit, _)| open(habit));
        self.lessons.heed(model, taught, error)
    }
}

/// The messages with the cache mark on their last block.
fn marked(mut messages: Vec<Bytes>) -> Vec<Bytes> {
    let Some(last) = messages.last_mut().filter(|last| last.ends_with(MESSAGE_END)) else {
        return messages;
    };
    last.truncate(last.len() - MESSAGE_END.len());
    messages.extend([Bytes::from_static(CACHE_MARK), Bytes::from_static(MESSAGE_END)]);
    messages
}

impl Server {
    fn profile(&self, model: &str) -> Profile {
        Profile {
            model: format!("{}/{model}", self.name),
            reasoning: self.learned(model).reasoning,
        }
    }

    fn learned(&self, model: &str) -> Form {
        let is = |habit, unless_learned| self.lessons.of(model, habit).unwrap_or(unless_learned);
        let said = self.config.reasoning_echo.said();
        let reasoning = said.unwrap_or_else(|| is(Habit::WantsReasoning, true));
        let (thinks, thinks_on) = (is(Habit::Thinks, true), is(Habit::ThinksOn, false));
        Form { reasoning, thinks, thinks_on }
    }

    fn fixed(&self, request: &Request, thinks: bool) -> Result<Map<String, Value>, String> {
        let options = &request.options;
        let mut fields = Map::new();
        let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        set("model", json!(request.model));
        set("stream", json!(request.carriage != Carriage::Whole));
        let max_tokens = self.max_tokens(&request.model, options);
        set("max_tokens", json!(max_tokens));
        if let Some(effort) = options.reasoning_effort.filter(|_| thinks) {
            for (name, value) in thinking(&request.model, effort, max_tokens) {
                set(name, value);
            }
        }
        if let Some(temperature) = options.temperature {
            set("temperature", json!(temperature));
        }
        if let Some(parallel) =
            self.config.parallel_tool_calls.filter(|_| !request.tools.is_empty())
        {
            set("tool_choice", json!({ "type": "auto", "disable_parallel_tool_use": !parallel }));
        }
        for (name, value) in options.extra_body.iter().flatten() {
            if matches!(name.as_str(), "messages" | "system" | "tools" | "stream") {
                return Err(format!("`extra_body` must not set `{name}`"));
            }
            set(name, value.clone());
        }
        Ok(fields)
    }

    /// The format demands a limit. One that the user set is taken as it is.
    fn max_tokens(&self, model: &str, options: &ModelOptions) -> u64 {
        let configured = || self.config.models.get(model).and_then(|model| model.max_output_tokens);
        options.max_output_tokens.or_else(configured).unwrap_or_else(|| {
            let known = facts::built_in(self.endpoint.host(), model).max_output_tokens;
            known.map_or(CAUTIOUS_MAX_TOKENS, |most| most.min(USUAL_MAX_TOKENS))
        })
    }
}

/// The fields that make a model think so hard.
fn thinking(model: &str, effort: ReasoningEffort, max_tokens: u64) -> Vec<(&'static str, Value)> {
    let (word, budget) = match effort {
        ReasoningEffort::None => return vec![("thinking", json!({ "type": "disabled" }))],
        ReasoningEffort::Minimal => ("low", LEAST_THINKING),
        ReasoningEffort::Low => ("low", 4_096),
        ReasoningEffort::Medium => ("medium", 10_240),
        ReasoningEffort::High => ("high", 24_576),
    };
    match facts::thinks(model) {
        Thinks::Never => Vec::new(),
        Thinks::ByEffort => vec![
            ("thinking", json!({ "type": "adaptive", "display": "summarized" })),
            ("output_config", json!({ "effort": word })),
        ],
        // Thinking counts as a part of the answer, and the answer needs some room too.
        Thinks::ByBudget => {
            let budget = budget.min(max_tokens / 2).max(LEAST_THINKING);
            vec![("thinking", json!({ "type": "enabled", "budget_tokens": budget }))]
        }
    }
}

/// What a refusal of this form teaches: thinking that the server does not take back, or its being
/// asked to think, be it that the model cannot or that it misses what it thought before, which
/// another history may have.
fn refused(sent: Form, error: &ModelError) -> Option<(Habit, bool)> {
    let words = error.message.to_ascii_lowercase();
    let is_about_form = error.code == TurnErrorCode::ProviderRefused && error.status == Some(400);
    if !is_about_form || !words.contains("thinking") {
        return None;
    }
    let says = |any: &[&str]| any.iter().any(|part| words.contains(part));
    let unwanted = ["not supported", "does not support", "unsupported"];
    let misses = says(&["start with a thinking block", "expected `thinking`"]);
    if misses && !sent.thinks_on {
        return sent.thinks.then_some((Habit::ThinksOn, true));
    }
    if misses || says(&unwanted) {
        return sent.thinks.then_some((Habit::Thinks, false));
    }
    let blocks = ["signature", "thinking block", "cannot be modified", "redacted_thinking"];
    (sent.reasoning && says(&blocks)).then_some((Habit::WantsReasoning, false))
}
