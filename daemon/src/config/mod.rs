//! Configuration: raw layers, checked into one [`Config`] in which every value knows its origin.
//!
//! Receives files, the environment and flags; hands a checked [`Config`] to every other module.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use agentd_protocol::daemon::Price;
use agentd_protocol::permission::{PermissionMode, Rule};
use agentd_protocol::session::Limits;

/// The effective configuration.
#[derive(Debug, Clone, PartialEq)]
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
    pub limits: Limits,
    /// Modes and rules.
    pub permission: PermissionConfig,
    /// Tools.
    pub tools: ToolsConfig,
    /// The socket's limits.
    pub server: ServerConfig,
    /// The daemon's life.
    pub daemon: DaemonConfig,
    /// The store.
    pub store: StoreConfig,
    /// The log.
    pub log: LogConfig,
}

/// `[providers.X]`.
#[derive(Debug, Clone, PartialEq)]
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
    pub max_retry_wait: Duration,
    /// The longest silence of a stream.
    pub idle_timeout: Duration,
    /// The longest wait for a connection.
    pub connect_timeout: Duration,
    /// A proxy; absent: HTTPS_PROXY and its like.
    pub proxy: Option<String>,
    /// One more certificate authority, PEM.
    pub ca_file: Option<PathBuf>,
    /// Models with known facts, by their name at the provider.
    pub models: BTreeMap<String, ModelConfig>,
}

/// The wire formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Chat Completions.
    OpenaiChat,
    /// Responses.
    OpenaiResponses,
    /// Messages.
    AnthropicMessages,
    /// Built in, offline.
    Demo,
}

/// Where a key comes from. The key itself is read when a request needs it and never kept here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// An environment variable of the daemon.
    Env(String),
    /// A file; its content without white space around it.
    File(PathBuf),
    /// A command's output.
    Command(Vec<String>),
    /// A systemd credential.
    Credential(String),
}

/// `[providers.X.models.Y]`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ModelConfig {
    /// Tokens it can read and write in one request.
    pub context_window: Option<u64>,
    /// The longest answer, in tokens.
    pub max_output_tokens: Option<u64>,
    /// What it costs.
    pub price: Option<Price>,
}

/// `[permission]`.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionConfig {
    /// The mode of new sessions.
    pub mode: PermissionMode,
    /// The user's rules.
    pub rules: Vec<Rule>,
    /// An unanswered prompt is denied after this; absent: never.
    pub timeout: Option<Duration>,
}

/// `[tools]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolsConfig {
    /// Safe reads at once.
    pub max_parallel: usize,
    /// What the duplicate guard refuses.
    pub duplicates: Duplicates,
    /// `[tools.shell]`.
    pub shell: ShellConfig,
    /// Variables that are handed on although they look like secrets.
    pub env_keep: Vec<String>,
    /// Variables that are set.
    pub env_set: BTreeMap<String, String>,
}

/// What the duplicate guard refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Duplicates {
    /// A call that succeeded before, unless something may have changed since.
    Unchanged,
    /// A call that succeeded before in the turn.
    Turn,
}

/// `[tools.shell]`.
#[derive(Debug, Clone, PartialEq)]
pub struct ShellConfig {
    /// The longest run of a command that names none.
    pub timeout: Duration,
    /// Between SIGTERM and SIGKILL.
    pub kill_grace: Duration,
    /// How far commands are confined.
    pub sandbox: Sandbox,
    /// Whether confined commands may use the network.
    pub network: bool,
}

/// How far commands are confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sandbox {
    /// They write in the workspace only.
    WorkspaceWrite,
    /// They write nothing.
    ReadOnly,
    /// Not at all.
    Off,
}

/// `[server]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// Connections at once.
    pub max_connections: usize,
    /// Bytes of one message, either way.
    pub max_message_bytes: usize,
}

/// `[daemon]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonConfig {
    /// A lease's life.
    pub lease_ttl: Duration,
    /// What becomes of turns that a crash cut off.
    pub recovery: Recovery,
    /// Stop when nothing happens for this long; absent: never.
    pub idle_exit: Option<Duration>,
    /// How long an orderly stop waits for turns.
    pub drain_timeout: Duration,
}

/// What becomes of turns that a crash cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// They are closed.
    Close,
    /// They are closed and go on as new ones.
    Resume,
}

/// `[store]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreConfig {
    /// What survives what.
    pub synchronous: Synchronous,
    /// Several daemons share the database.
    pub shared: bool,
}

/// What survives what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Synchronous {
    /// What was acknowledged survives a power cut.
    Full,
    /// What was acknowledged survives a killed process.
    Normal,
}

/// `[log]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogConfig {
    /// The log file's largest size, older parts included.
    pub max_bytes: u64,
}
