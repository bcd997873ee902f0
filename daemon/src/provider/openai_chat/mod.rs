//! `openai-chat`: Chat Completions, the format of OpenAI, Ollama, llama.cpp, vLLM, LM Studio,
//! OpenRouter, DeepSeek and many more.
//!
//! A request's body is fixed fields, tools, messages and a constant closing; the messages are the
//! kept pieces of the conversation, so sending message 10,000 encodes one. The answer is read as it
//! comes: bytes → events (`sse`) → model events (`stream`), by `exchange`. Reasoning is kept apart from text under
//! each of its names.
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
use super::{ModelError, ModelStream, Provider, Request, ToolDefinition};
use crate::clock::Clock;
use crate::config::{MaxTokensField, ProviderConfig};

mod calls;
mod encode;
mod roles;
mod stream;
#[cfg(test)]
mod tests;
mod wire;

use encode::Profile;
use roles::Roles;
use stream::Assembler;

/// A server of this format.
#[derive(Debug, Clone)]
pub struct OpenaiChat(Arc<Server>);

#[derive(Debug)]
struct Server {
    endpoint: Endpoint,
    profile: Profile,
    roles: Roles,
    fields: Fields,
}

/// What decides about a request's fixed fields.
#[derive(Debug)]
struct Fields {
    stream_usage: bool,
    max_tokens: &'static str,
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
        clock: Clock,
    ) -> Result<Self, String> {
        let endpoint = Endpoint::new(name, config, "chat/completions", transports, clock)?;
        let max_tokens = match config.max_tokens_field {
            MaxTokensField::MaxCompletionTokens => "max_completion_tokens",
            // OpenAI's own newer models know the newer name only, other servers the older one.
            MaxTokensField::Auto if endpoint.host() == "api.openai.com" => "max_completion_tokens",
            MaxTokensField::Auto | MaxTokensField::MaxTokens => "max_tokens",
        };
        let longest = |(name, model): (&String, &crate::config::ModelConfig)| {
            Some((name.clone(), model.max_output_tokens?))
        };
        let fields = Fields {
            stream_usage: config.stream_usage,
            max_tokens,
            parallel_tool_calls: config.parallel_tool_calls,
            max_output_tokens: config.models.iter().filter_map(longest).collect(),
        };
        let (profile, roles) = (Profile::new(config), Roles::new(config.merge_roles));
        Ok(Self(Arc::new(Server { endpoint, profile, roles, fields })))
    }
}

impl Provider for OpenaiChat {
    fn encoding_key(&self, _model: &str) -> String {
        self.0.profile().key()
    }

    fn encode(&self, _model: &str, answers: Option<&Item>, segment: &[Arc<Item>]) -> Bytes {
        self.0.profile().encode(answers, segment)
    }

    fn separator(&self) -> &'static str {
        ","
    }

    fn encode_tools(&self, tools: &[ToolDefinition]) -> Bytes {
        self.0.profile().encode_tools(tools)
    }

    fn models(&self) -> BoxFuture<'_, Result<Option<Vec<String>>, ModelError>> {
        async { self.0.endpoint.models("models").await.map(Some) }.boxed()
    }

    fn stream(&self, request: Request) -> ModelStream {
        exchange::stream(Arc::clone(&self.0), request)
    }
}

impl Server {
    /// What the server wants, as far as is known by now.
    fn profile(&self) -> Profile {
        if self.roles.are_merged() { self.profile.merging_roles() } else { self.profile }
    }
}

impl Format for Server {
    type Assembler = Assembler;

    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn body(&self, request: &Request) -> Result<Rope, String> {
        self.fields.body(request)
    }

    fn assembler(&self) -> Assembler {
        Assembler::new(self.endpoint.who())
    }

    fn learn(&self, error: ModelError) -> ModelError {
        self.roles.learn(error)
    }
}

impl Fields {
    /// The body of a request. `Err` says what cannot be sent.
    fn body(&self, request: &Request) -> Result<Rope, String> {
        let fields = Value::Object(self.fixed(request)?).to_string();
        let mut head = fields.into_bytes();
        // The last brace makes room for what follows.
        head.pop();
        let mut pieces = Vec::with_capacity(request.messages.len() + 4);
        if !request.tools.is_empty() {
            head.extend_from_slice(b",\"tools\":");
            pieces.extend([Bytes::from(std::mem::take(&mut head)), request.tools.clone()]);
        }
        head.extend_from_slice(b",\"messages\":[");
        pieces.push(head.into());
        pieces.extend(request.messages.iter().cloned());
        pieces.push(Bytes::from_static(b"]}"));
        Ok(Rope::new(pieces))
    }

    fn fixed(&self, request: &Request) -> Result<Map<String, Value>, String> {
        let options = &request.options;
        let mut fields = Map::new();
        let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        set("model", json!(request.model));
        set("stream", json!(true));
        if self.stream_usage {
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
            set(self.max_tokens, json!(tokens));
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
