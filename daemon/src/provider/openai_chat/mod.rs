//! `openai-chat`: Chat Completions, the format of OpenAI, Ollama, llama.cpp, vLLM, LM Studio,
//! OpenRouter, DeepSeek and many more.
//!
//! A request's body is fixed fields, tools, messages and a constant closing; the messages are the
//! kept pieces of the conversation, so sending message 10,000 encodes one. The answer is read as it
//! comes: bytes → events (`sse`) → model events (`stream`), by `exchange`. Reasoning is kept apart
//! from text under each of its names, and between `<think>` tags (`think`). What one server wants
//! and another refuses is in `quirks`.
//!
//! Receives requests from `session` through [`Provider`]; hands back model events.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_protocol::item::Item;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Map, Value, json};

use super::exchange::{self, Format};
use super::http::{Endpoint, Rope, Transports};
use super::lessons::Lessons;
use super::{Carriage, ModelError, ModelEvent, ModelStream, Provider, Request, ToolDefinition};
use crate::clock::Clock;
use crate::config::{ProviderConfig, ThinkTags};

mod calls;
mod encode;
mod quirks;
pub(super) mod stream;
#[cfg(test)]
mod tests;
mod think;
mod wire;

use encode::Profile;
use quirks::Quirks;
use stream::Assembler;

/// A server of this format.
#[derive(Debug, Clone)]
pub struct OpenaiChat(Arc<Server>);

#[derive(Debug)]
struct Server {
    endpoint: Endpoint,
    quirks: Quirks,
    think_tags: ThinkTags,
    fields: Fields,
}

/// What decides about a request's fixed fields.
#[derive(Debug)]
struct Fields {
    stream_usage: bool,
    parallel_tool_calls: Option<bool>,
    /// The longest answers, by model.
    max_output_tokens: BTreeMap<String, u64>,
}

impl OpenaiChat {
    /// A server from its table. `Err` says what is wrong with the table.
    pub(super) fn new(
        name: &str,
        config: &ProviderConfig,
        transports: &mut Transports,
        lessons: Lessons,
        clock: Clock,
    ) -> Result<Self, String> {
        let endpoint = Endpoint::new(name, config, "chat/completions", transports, clock)?;
        let longest = |(name, model): (&String, &crate::config::ModelConfig)| {
            Some((name.clone(), model.max_output_tokens?))
        };
        let fields = Fields {
            stream_usage: config.stream_usage,
            parallel_tool_calls: config.parallel_tool_calls,
            max_output_tokens: config.models.iter().filter_map(longest).collect(),
        };
        let quirks = Quirks::new(config, endpoint.host(), lessons);
        let think_tags = config.think_tags;
        Ok(Self(Arc::new(Server { endpoint, quirks, think_tags, fields })))
    }
}

impl Provider for OpenaiChat {
    fn encoding_key(&self, model: &str) -> String {
        self.0.quirks.profile(model).key()
    }

    fn encode(&self, model: &str, answers: Option<&Item>, segment: &[Arc<Item>]) -> Bytes {
        self.0.quirks.profile(model).encode(answers, segment)
    }

    fn separator(&self) -> &'static str {
        ","
    }

    fn encode_tools(&self, model: &str, tools: &[ToolDefinition]) -> Bytes {
        self.0.quirks.profile(model).encode_tools(tools)
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
    type Form = Profile;

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn form(&self, model: &str) -> Profile {
        self.quirks.profile(model)
    }

    fn body(&self, request: &Request, form: Profile) -> Result<Rope, String> {
        self.fields.body(request, form)
    }

    fn assembler(&self) -> Assembler {
        Assembler::new(self.endpoint.who(), self.think_tags)
    }

    fn learn(
        &self,
        model: &str,
        sent: Profile,
        error: ModelError,
    ) -> (Option<ModelEvent>, ModelError) {
        self.quirks.learn(model, sent, error)
    }
}

impl Fields {
    /// The body of a request. `Err` says what cannot be sent.
    fn body(&self, request: &Request, form: Profile) -> Result<Rope, String> {
        let (fixed, messages) = (self.fixed(request, form)?, request.messages.iter().cloned());
        Ok(Rope::object(fixed, &request.tools, b",\"messages\":[", messages))
    }

    fn fixed(&self, request: &Request, form: Profile) -> Result<Map<String, Value>, String> {
        let options = &request.options;
        let mut fields = Map::new();
        let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        set("model", json!(request.model));
        let streams = request.carriage != Carriage::Whole;
        set("stream", json!(streams));
        if streams && self.stream_usage {
            set("stream_options", json!({ "include_usage": true }));
        }
        if let Some(effort) = options.reasoning_effort {
            set("reasoning_effort", json!(effort));
        }
        if let Some(temperature) = options.temperature {
            set("temperature", json!(temperature));
        }
        let known = self.max_output_tokens.get(&request.model).copied();
        if let Some(tokens) = options.max_output_tokens.or(known) {
            let name = if form.counts_completion { "max_completion_tokens" } else { "max_tokens" };
            set(name, json!(tokens));
        }
        if let Some(parallel) = self.parallel_tool_calls.filter(|_| !request.tools.is_empty()) {
            set("parallel_tool_calls", json!(parallel));
        }
        for (name, value) in options.extra_body.iter().flatten() {
            if matches!(name.as_str(), "messages" | "tools" | "stream") {
                return Err(format!("`extra_body` must not set `{name}`"));
            }
            set(name, value.clone());
        }
        Ok(fields)
    }
}
