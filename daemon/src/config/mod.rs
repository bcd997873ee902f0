//! Configuration: layers of TOML and environment, checked into one [`Config`].
//!
//! Layers, later ones stronger: built-in, `/etc/agentd/config.toml`, the user's file, the
//! environment (`AGENTD_TOOLS__SHELL__TIMEOUT=60s`). The types here are the whole list of keys:
//! each layer is parsed into them alone, so that an unknown key or a wrong value is an error with
//! its own file, line and column, and only layers that are right are merged. The JSON Schema for
//! editors comes from the same types.
//!
//! - A wrong file never replaces a good configuration: [`Handle::reload`] keeps the last good one.
//! - Keys of providers are not kept here; [`KeySource::read`] reads one when a request needs it.
//! - What [`Loaded::view`] shows has its secrets masked, and no error quotes a value that may be
//!   one.
//!
//! Receives files, the environment and flags; hands a checked [`Config`] to every other module.

mod check;
mod error;
mod file;
mod form;
mod handle;
mod key;
mod later;
mod layer;
mod load;
mod place;
mod preset;
mod provider;
mod show;
#[cfg(test)]
mod tests;
mod tools;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::permission::{PermissionMode, Rule};
use agentd_protocol::session::Limits;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use error::ConfigError;
pub use handle::Handle;
pub use key::{Key, KeyError};
pub use load::{Loaded, Sources, load};
pub use place::Origin;
pub use provider::{
    Auto, EmptyParameters, KeySource, MaxTokensField, ModelConfig, NullContent, ProviderConfig,
    ReasoningEcho, ReplayPace, SystemRole, ThinkTags, Wire,
};
pub use tools::{
    Duplicates, EnvConfig, HookConfig, HookEvent, McpConfig, Sandbox, ShellConfig, ShellRead,
    ToolsConfig,
};

/// The effective configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The model of new sessions, `provider/name`.
    pub model: Option<String>,
    /// For titles and summaries.
    pub small_model: Option<String>,
    /// When the model is overloaded.
    pub fallback_model: Option<String>,
    /// By name; `demo` is always there.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// Limits of new sessions.
    #[serde(with = "form::limits")]
    #[schemars(with = "form::limits::Form")]
    pub limits: Limits,
    /// Modes and rules.
    pub permission: PermissionConfig,
    /// Tools.
    pub tools: Arc<ToolsConfig>,
    /// Commands that run at points of a turn. Layers add to each other.
    pub hooks: Vec<HookConfig>,
    /// MCP servers, by name.
    pub mcp: BTreeMap<String, McpConfig>,
    /// The socket's limits.
    pub server: ServerConfig,
    /// The daemon's life.
    pub daemon: DaemonConfig,
    /// The store.
    pub store: StoreConfig,
    /// The log.
    pub log: LogConfig,
}

/// Model requests of a turn, where nothing else is said.
const MAX_ITERATIONS: u32 = 50;

impl Default for Config {
    fn default() -> Self {
        Self {
            model: None,
            small_model: None,
            fallback_model: None,
            providers: BTreeMap::new(),
            limits: Limits { max_iterations: Some(MAX_ITERATIONS), ..Limits::default() },
            permission: PermissionConfig::default(),
            tools: Arc::default(),
            hooks: Vec::new(),
            mcp: BTreeMap::new(),
            server: ServerConfig::default(),
            daemon: DaemonConfig::default(),
            store: StoreConfig::default(),
            log: LogConfig::default(),
        }
    }
}

/// `[permission]`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PermissionConfig {
    /// The mode of new sessions.
    pub mode: PermissionMode,
    /// The user's rules. Layers add to each other: deny beats ask beats allow.
    pub rules: Vec<Rule>,
    /// An unanswered prompt is denied after this; absent or `"off"`: never.
    #[serde(with = "form::optional_duration")]
    #[schemars(with = "form::OptionalDurationText")]
    pub timeout: Option<Duration>,
}

/// `[server]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Connections at once.
    pub max_connections: usize,
    /// Bytes of one message, either way.
    pub max_message_bytes: usize,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self { max_connections: 256, max_message_bytes: 16 << 20 }
    }
}

/// `[daemon]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DaemonConfig {
    /// A lease's life.
    #[serde(with = "form::duration")]
    #[schemars(with = "form::DurationText")]
    pub lease_ttl: Duration,
    /// What becomes of turns that a crash cut off.
    pub recovery: Recovery,
    /// Stop when nothing happens for this long; `"off"`: never.
    #[serde(with = "form::optional_duration")]
    #[schemars(with = "form::OptionalDurationText")]
    pub idle_exit: Option<Duration>,
    /// How long an orderly stop waits for turns.
    #[serde(with = "form::duration")]
    #[schemars(with = "form::DurationText")]
    pub drain_timeout: Duration,
    /// Sessions that did not change for this long are deleted; `"off"`: never.
    #[serde(with = "form::optional_duration")]
    #[schemars(with = "form::OptionalDurationText")]
    pub retention: Option<Duration>,
    /// A command that runs when a turn ends or a prompt waits; empty: none.
    pub notify: Vec<String>,
}

impl Default for DaemonConfig {
    fn default() -> Self {
        Self {
            lease_ttl: Duration::from_secs(15),
            recovery: Recovery::default(),
            idle_exit: None,
            drain_timeout: Duration::from_secs(10),
            retention: None,
            notify: Vec::new(),
        }
    }
}

/// What becomes of turns that a crash cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// They are closed.
    #[default]
    Close,
    /// They are closed and go on as new ones.
    Resume,
}

/// `[store]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// What survives what.
    pub synchronous: Synchronous,
    /// Several daemons share the database.
    pub shared: bool,
}

/// What survives what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Synchronous {
    /// What was acknowledged survives a power cut.
    #[default]
    Full,
    /// What was acknowledged survives a killed process.
    Normal,
}

/// `[log]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// The log file's largest size, older parts included.
    pub max_bytes: u64,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { max_bytes: 10 << 20 }
    }
}
