//! `openai-responses`: OpenAI's Responses, which some other servers speak too.
//!
//! It is used without its memory (`store: false`): the record is ours, and a conversation must not
//! depend on what a provider keeps. Reasoning therefore comes encrypted and goes back with the
//! history. The provider caches prefixes by itself; there is nothing to mark.
//!
//! Receives requests from `session` through [`Provider`]; hands back model events.

use std::sync::Arc;

use agentd_protocol::event::TurnErrorCode;
use agentd_protocol::item::Item;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::exchange::{self, Format};
use super::facts;
use super::http::{Endpoint, Rope, Transports};
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

/// A server of this format.
#[derive(Debug, Clone)]
pub struct OpenaiResponses(Arc<Server>);

#[derive(Debug)]
struct Server {
    /// The provider's name.
    name: String,
    endpoint: Endpoint,
    config: ProviderConfig,
    lessons: Lessons,
}

/// In which form requests are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Form {
    /// Reasoning comes encrypted and goes back with the history.
    reasoning: bool,
    /// A summary of it is asked for.
    sums_up: bool,
}

impl OpenaiResponses {
    /// A server from its table. `Err` says what is wrong with the table.
    pub(super) fn new(
        name: &str,
        config: &ProviderConfig,
        transports: &mut Transports,
        lessons: Lessons,
        clock: Clock,
    ) -> Result<Self, String> {
        let endpoint = Endpoint::new(name, config, "responses", transports, clock)?;
        let (name, config) = (name.to_owned(), config.clone());
        Ok(Self(Arc::new(Server { name, endpoint, config, lessons })))
    }
}

impl Provider for OpenaiResponses {
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
        async { self.0.endpoint.models("models").await.map(Some) }.boxed()
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
        let (fixed, messages) = (self.fixed(request, form)?, request.messages.iter().cloned());
        Ok(Rope::object(fixed, &request.tools, b",\"input\":[", messages))
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
        let taught = refused(sent, &error).filter(open).map(|habit| (habit, false));
        self.lessons.heed(model, taught, error)
    }
}

impl Server {
    fn profile(&self, model: &str) -> Profile {
        Profile {
            model: format!("{}/{model}", self.name),
            reasoning: self.learned(model).reasoning,
            system: self.config.system_role,
        }
    }

    fn learned(&self, model: &str) -> Form {
        let is = |habit| self.lessons.of(model, habit).unwrap_or(true);
        let said = self.config.reasoning_echo.said();
        let reasoning = said.unwrap_or_else(|| is(Habit::WantsReasoning));
        Form { reasoning, sums_up: is(Habit::SumsUp) }
    }

    fn fixed(&self, request: &Request, form: Form) -> Result<Map<String, Value>, String> {
        let options = &request.options;
        let mut fields = Map::new();
        let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        set("model", json!(request.model));
        set("stream", json!(request.carriage != Carriage::Whole));
        set("store", json!(false));
        // Models that do not reason refuse to be asked for reasoning.
        if options.reasoning_effort.is_some() || facts::reasons(&request.model) {
            let mut reasoning = Map::new();
            if form.sums_up {
                reasoning.insert("summary".to_owned(), json!("auto"));
            }
            if let Some(effort) = options.reasoning_effort {
                reasoning.insert("effort".to_owned(), json!(effort));
            }
            if !reasoning.is_empty() {
                set("reasoning", Value::Object(reasoning));
            }
            if form.reasoning {
                set("include", json!(["reasoning.encrypted_content"]));
            }
        }
        if let Some(temperature) = options.temperature {
            set("temperature", json!(temperature));
        }
        let known = self.config.models.get(&request.model).and_then(|m| m.max_output_tokens);
        if let Some(tokens) = options.max_output_tokens.or(known) {
            set("max_output_tokens", json!(tokens));
        }
        if let Some(parallel) =
            self.config.parallel_tool_calls.filter(|_| !request.tools.is_empty())
        {
            set("parallel_tool_calls", json!(parallel));
        }
        for (name, value) in options.extra_body.iter().flatten() {
            if matches!(name.as_str(), "input" | "tools" | "stream" | "store") {
                return Err(format!("`extra_body` must not set `{name}`"));
            }
            set(name, value.clone());
        }
        Ok(fields)
    }
}

/// What of this form a server refused: summaries, which some accounts do not get, or reasoning that
/// it does not give or take back.
fn refused(sent: Form, error: &ModelError) -> Option<Habit> {
    let is_about_form = error.code == TurnErrorCode::ProviderRefused
        && matches!(error.status, Some(400 | 404 | 422));
    let words = error.message.to_ascii_lowercase();
    let says = |any: &[&str]| is_about_form && any.iter().any(|part| words.contains(part));
    if says(&["reasoning summar", "reasoning.summary"]) {
        return sent.sums_up.then_some(Habit::SumsUp);
    }
    let encrypted = ["encrypted content", "encrypted_content", "of type 'reasoning'", "'include'"];
    (says(&encrypted) && sent.reasoning).then_some(Habit::WantsReasoning)
}
