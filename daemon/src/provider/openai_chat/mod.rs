//! `openai-chat`: Chat Completions, the format of OpenAI, Ollama, llama.cpp, vLLM, LM Studio,
//! OpenRouter, DeepSeek and many more.
//!
//! A request's body is fixed fields, tools, messages and a constant closing; the messages are the
//! kept pieces of the conversation, so sending message 10,000 encodes one. The answer is read as it
//! comes: bytes → events (`sse`) → model events (`stream`). Reasoning is kept apart from text under
//! each of its names.
//!
//! Receives requests from `session` through [`Provider`]; hands back model events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::event::TurnErrorCode;
use agentd_protocol::item::Item;
use bytes::Bytes;
use futures_util::{StreamExt, stream as streams};
use serde_json::{Map, Value, json};

use super::http::{Answer, Endpoint, Rope, Secrets, Transports};
use super::sse::MAX_EVENT_BYTES;
use super::{ModelError, ModelEvent, ModelStream, Provider, Request, ToolDefinition};
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
use stream::Decoder;

/// How long usage and `[DONE]` may take once the answer is complete.
const TAIL_GRACE: Duration = Duration::from_secs(2);

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

    fn stream(&self, request: Request) -> ModelStream {
        let server = Arc::clone(&self.0);
        let start = State::Start(Box::new(request));
        streams::unfold(start, move |state| {
            let server = Arc::clone(&server);
            async move { server.step(state).await }
        })
        .boxed()
    }
}

/// Where a request's stream is.
enum State {
    Start(Box<Request>),
    Reading(Box<Reading>),
    Over,
}

/// An answer that is being read.
struct Reading {
    /// Absent once all that is needed of it was read.
    answer: Option<Answer>,
    /// When a complete answer's end is not waited for any longer, in boot time.
    tail_until_ms: Option<u64>,
    decoder: Decoder,
    secrets: Secrets,
    failed: Option<ModelError>,
}

type Next = Option<(Result<ModelEvent, ModelError>, State)>;

impl Server {
    /// What the server wants, as far as is known by now.
    fn profile(&self) -> Profile {
        if self.roles.are_merged() { self.profile.merging_roles() } else { self.profile }
    }

    /// Goes on until there is an event to hand out.
    async fn step(&self, state: State) -> Next {
        let mut reading = match state {
            State::Over => return None,
            State::Reading(reading) => reading,
            State::Start(request) => match self.start(&request).await {
                Ok(reading) => Box::new(reading),
                Err(error) => return Some((Err(self.roles.learn(error)), State::Over)),
            },
        };
        loop {
            if let Some(event) = reading.decoder.pop() {
                return Some((Ok(event), State::Reading(reading)));
            }
            if let Some(error) = reading.failed.take() {
                let error = self.roles.learn(reading.secrets.mask(error));
                return Some((Err(error), State::Over));
            }
            reading.answer.as_ref()?;
            if let Err(error) = reading.read(&self.endpoint).await {
                reading.answer = None;
                reading.decoder.flush_usage();
                reading.failed = Some(error);
            }
        }
    }

    async fn start(&self, request: &Request) -> Result<Reading, ModelError> {
        let body = self.fields.body(request).map_err(|what| {
            let message = format!("{}: {what}", self.endpoint.who());
            ModelError::new(TurnErrorCode::ProviderRefused, message)
        })?;
        let opened = self.endpoint.open().await?;
        let secrets = opened.secrets.clone();
        let answer = opened.post(body).await.map_err(|error| secrets.mask(error))?;
        let mut reading = Reading {
            answer: None,
            tail_until_ms: None,
            decoder: Decoder::new(self.endpoint.who()),
            secrets,
            failed: None,
        };
        if answer.content_type() == "application/json" {
            reading.whole(answer, &self.endpoint).await.map_err(|e| reading.secrets.mask(e))?;
        } else {
            reading.answer = Some(answer);
        }
        Ok(reading)
    }
}

impl Reading {
    /// Reads the next piece of the answer.
    async fn read(&mut self, endpoint: &Endpoint) -> Result<(), ModelError> {
        let Some(answer) = &mut self.answer else { return Ok(()) };
        let piece = if self.decoder.is_finished() {
            let now = endpoint.clock().boot_ms();
            let tail = u64::try_from(TAIL_GRACE.as_millis()).unwrap_or(u64::MAX);
            let until = *self.tail_until_ms.get_or_insert(now.saturating_add(tail));
            answer.next_within(Duration::from_millis(until.saturating_sub(now))).await
        } else {
            answer.next(endpoint).await?
        };
        let Some(piece) = piece else {
            self.answer = None;
            return self.decoder.close();
        };
        self.decoder.feed(&piece)?;
        if self.decoder.is_done()
            && let Some(answer) = self.answer.take()
        {
            answer.close().await;
        }
        Ok(())
    }

    /// A server that answers without streaming.
    async fn whole(&mut self, answer: Answer, endpoint: &Endpoint) -> Result<(), ModelError> {
        let body = answer.whole(endpoint, MAX_EVENT_BYTES).await?;
        self.decoder.whole(&body)
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
