//! `[providers.X]`: where a model server is, how to talk to it, and what its models are.
//!
//! Receives tables; hands typed settings to `provider`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use agentd_protocol::daemon::Price;
use schemars::JsonSchema;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::config::form;

/// `[providers.X]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProviderConfig {
    /// The wire format.
    pub wire: Wire,
    /// Where it is; nothing for `demo`.
    pub base_url: Option<String>,
    /// Where its key comes from.
    pub api_key: Option<KeySource>,
    /// More headers of every request.
    pub headers: BTreeMap<String, String>,
    /// Retries of one request.
    pub max_retries: u32,
    /// The longest wait a provider may ask for.
    #[serde(with = "form::duration")]
    #[schemars(with = "form::DurationText")]
    pub max_retry_wait: Duration,
    /// The longest silence of a stream.
    #[serde(with = "form::duration")]
    #[schemars(with = "form::DurationText")]
    pub idle_timeout: Duration,
    /// The longest wait for a connection.
    #[serde(with = "form::duration")]
    #[schemars(with = "form::DurationText")]
    pub connect_timeout: Duration,
    /// A proxy; absent: HTTPS_PROXY and its like.
    pub proxy: Option<String>,
    /// One more certificate authority, PEM; relative to the file that names it.
    pub ca_file: Option<PathBuf>,
    /// A file that gets every request and answer, to look for faults; relative likewise.
    pub record: Option<PathBuf>,
    /// A recording that answers in place of a server; relative likewise.
    pub replay: Option<PathBuf>,
    /// How fast a recording is played.
    pub replay_pace: ReplayPace,
    /// Models with known facts, by their name at the provider.
    pub models: BTreeMap<String, ModelConfig>,
    /// Whether reasoning is sent back with the history.
    pub reasoning_echo: ReasoningEcho,
    /// Whether `<think>` in the text is taken as reasoning.
    pub think_tags: ThinkTags,
    /// The name of the field that bounds an answer.
    pub max_tokens_field: MaxTokensField,
    /// Whether to ask for usage in the stream.
    pub stream_usage: bool,
    /// What stands for a tool without parameters.
    pub empty_parameters: EmptyParameters,
    /// What stands for the content of an answer that has only calls.
    pub null_content: NullContent,
    /// Whether messages of one role in a row become one.
    pub merge_roles: Auto,
    /// Sent as it is; absent: not sent.
    pub parallel_tool_calls: Option<bool>,
    /// The role of the system message.
    pub system_role: SystemRole,
}

impl Default for ProviderConfig {
    fn default() -> Self {
        Self {
            wire: Wire::default(),
            base_url: None,
            api_key: None,
            headers: BTreeMap::new(),
            max_retries: 5,
            max_retry_wait: Duration::from_mins(1),
            idle_timeout: Duration::from_mins(2),
            connect_timeout: Duration::from_secs(10),
            proxy: None,
            ca_file: None,
            record: None,
            replay: None,
            replay_pace: ReplayPace::default(),
            models: BTreeMap::new(),
            reasoning_echo: ReasoningEcho::default(),
            think_tags: ThinkTags::default(),
            max_tokens_field: MaxTokensField::default(),
            stream_usage: true,
            empty_parameters: EmptyParameters::default(),
            null_content: NullContent::default(),
            merge_roles: Auto::default(),
            parallel_tool_calls: None,
            system_role: SystemRole::default(),
        }
    }
}

/// The wire formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Wire {
    /// Chat Completions.
    #[default]
    OpenaiChat,
    /// Responses.
    OpenaiResponses,
    /// Messages.
    AnthropicMessages,
    /// Built in, offline.
    Demo,
}

/// Where a key comes from. The key itself is read when a request needs it and never kept here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KeySource {
    /// An environment variable of the daemon.
    Env(String),
    /// A file; its content without white space around it. Relative to the file that names it.
    File(PathBuf),
    /// A command's output.
    Command(Vec<String>),
    /// A systemd credential.
    Credential(String),
}

impl<'de> Deserialize<'de> for KeySource {
    /// By hand for one reason: a key that was written where its source belongs must not be quoted
    /// in the error, as derived code would.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Form {
            Env(String),
            File(PathBuf),
            Command(Vec<String>),
            Credential(String),
        }
        struct Table;
        impl<'de> Visitor<'de> for Table {
            type Value = Form;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "{ env = … }, { file = … }, { command = [ … ] } or { credential = … }; \
                     a key itself is not written into the configuration",
                )
            }

            fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<Form, E> {
                Err(E::invalid_type(serde::de::Unexpected::Other("a string"), &self))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Form, A::Error> {
                Form::deserialize(MapAccessDeserializer::new(map))
            }
        }
        Ok(match deserializer.deserialize_any(Table)? {
            Form::Env(name) => Self::Env(name),
            Form::File(path) => Self::File(path),
            Form::Command(command) => Self::Command(command),
            Form::Credential(name) => Self::Credential(name),
        })
    }
}

/// `[providers.X.models.Y]`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// Tokens it can read and write in one request.
    pub context_window: Option<u64>,
    /// The longest answer, in tokens.
    pub max_output_tokens: Option<u64>,
    /// What it costs.
    pub price: Option<Price>,
}

/// How fast a recording is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplayPace {
    /// As fast as it is read.
    #[default]
    Full,
    /// As it was timed.
    Recorded,
}

/// Whether reasoning is sent back with the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum ReasoningEcho {
    #[default]
    Auto,
    Always,
    Never,
}

impl ReasoningEcho {
    /// What is said for good; nothing for `auto`.
    pub fn said(self) -> Option<bool> {
        match self {
            Self::Auto => None,
            Self::Always => Some(true),
            Self::Never => Some(false),
        }
    }
}

/// Whether `<think>` in the text is taken as reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum ThinkTags {
    #[default]
    Auto,
    On,
    Off,
}

/// The name of the field that bounds an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum MaxTokensField {
    #[default]
    Auto,
    MaxTokens,
    MaxCompletionTokens,
}

/// What stands for a tool without parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum EmptyParameters {
    #[default]
    Auto,
    Object,
    Omit,
}

/// What stands for the content of an answer that has only calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum NullContent {
    #[default]
    Auto,
    Null,
    Empty,
}

/// A switch that can find out by itself: `"auto"`, `true` or `false`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs, reason = "the words say it")]
pub enum Auto {
    #[default]
    Auto,
    On,
    Off,
}

/// The role of the system message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum SystemRole {
    #[default]
    System,
    Developer,
}
