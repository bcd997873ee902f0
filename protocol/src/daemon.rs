//! The daemon itself: handshake, status, configuration, life, and the words of `daemon/event`.
//!
//! Receives requests about the daemon; hands out what it is and can do.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{DaemonId, SessionId};
use crate::permission::Risk;
use crate::session::{Session, SessionState};
use crate::time::Time;

/// The version of the protocol in this crate.
pub const PROTOCOL_VERSION: u32 = 1;

/// A client program.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientInfo {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

impl Default for ClientInfo {
    /// A connection that did not say what it is.
    fn default() -> Self {
        Self { name: "unknown".to_owned(), version: String::new() }
    }
}

/// Protocol versions, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProtocolRange {
    /// The lowest.
    pub min: u32,
    /// The highest.
    pub max: u32,
}

/// What a connection may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Everything.
    #[default]
    Controller,
    /// Read and subscribe.
    Observer,
}

/// Parameters of `initialize`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InitializeParams {
    /// Who calls.
    pub client: ClientInfo,
    /// The versions it speaks.
    pub protocol: ProtocolRange,
    /// What it wants to be.
    #[serde(default)]
    pub role: Role,
}

/// One run of the daemon.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonInfo {
    /// Its id, new with each start.
    pub id: DaemonId,
    /// Its process.
    pub pid: u32,
    /// When it started.
    pub started_at: Time,
}

/// What the daemon takes at most.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WireLimits {
    /// Bytes of one message, either way.
    pub max_message_bytes: u64,
    /// Connections at once.
    pub max_connections: u64,
    /// Entries of a batch.
    pub max_batch: u64,
    /// Calls that one connection may have running.
    pub max_calls: u64,
}

/// Result of `initialize`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InitializeResult {
    /// The version both sides speak.
    pub protocol: u32,
    /// The server program.
    pub server: ClientInfo,
    /// The daemon.
    pub daemon: DaemonInfo,
    /// What it has: `true`, or an object with details. What is not there is left out.
    pub capabilities: BTreeMap<String, Value>,
    /// What it takes at most.
    pub limits: WireLimits,
}

/// No parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NoParams {}

/// Result of `daemon/status`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonStatus {
    /// The daemon's version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// How long it has run.
    pub uptime_ms: u64,
    /// Sessions by state.
    pub sessions: BTreeMap<String, u64>,
    /// Open connections.
    pub connections: u64,
    /// Bytes of the database and its log.
    pub store_bytes: u64,
    /// Resident memory, where the system says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    /// Turns that run.
    pub turns_running: u64,
    /// The socket.
    pub socket: String,
    /// The state directory.
    pub state_dir: String,
    /// It stops when its turns have ended.
    pub draining: bool,
}

/// One value of the effective configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigValue {
    /// The key, dotted.
    pub key: String,
    /// The value; secrets are masked.
    pub value: Value,
    /// `built-in`, a file with its line, or an environment variable.
    pub origin: String,
}

/// Result of `daemon/config`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DaemonConfig {
    /// The files that were read.
    pub files: Vec<String>,
    /// Every value, by key.
    pub values: Vec<ConfigValue>,
    /// What `daemon/reload` would do now; absent where it would change nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_disk: Option<OnDisk>,
}

/// A configuration on disk that is not in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDisk {
    /// It cannot be read: what was wrong, with what. The one that was read before is in force.
    Broken(String),
    /// It says something else of these keys.
    Changed(Vec<String>),
}

/// Result of `daemon/reload`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReloadResult {
    /// The keys that changed.
    pub changed: Vec<String>,
}

/// How to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShutdownMode {
    /// Let turns end; new ones are refused.
    #[default]
    Drain,
    /// Abort them with reason `shutdown`.
    Now,
}

/// Parameters of `daemon/shutdown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShutdownParams {
    /// How.
    #[serde(default)]
    pub mode: ShutdownMode,
}

/// Result of `daemon/shutdown`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ShutdownResult {
    /// Turns that are being waited for.
    pub turns_running: u64,
}

/// Result of `daemon/check`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CheckResult {
    /// What SQLite found to be damaged; nothing if all is well.
    pub damage: Vec<String>,
}

/// Parameters of `daemon/backup`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupParams {
    /// The file that is made, absolute; refused if it is there already.
    pub path: String,
}

/// Result of `daemon/backup`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackupResult {
    /// The file.
    pub path: String,
    /// Its size.
    pub bytes: u64,
}

/// What the notification `daemon/event` carries in `result`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
#[allow(missing_docs, reason = "the words say it")]
pub enum DaemonEvent {
    #[serde(rename = "session.created")]
    SessionCreated { session: Box<Session> },
    #[serde(rename = "session.changed")]
    SessionChanged { session: Box<Session> },
    #[serde(rename = "session.deleted")]
    SessionDeleted { session_id: SessionId },
    #[serde(rename = "session.state")]
    SessionState { session_id: SessionId, state: SessionState },
    #[serde(rename = "config.reloaded")]
    ConfigReloaded { changed: Vec<String> },
    #[serde(rename = "daemon.shutting_down")]
    ShuttingDown { mode: ShutdownMode },
    /// Events were left out because this client was too slow: ask `session/list` again.
    #[serde(rename = "daemon.lagged")]
    Lagged { missed: u64 },
}

/// Parameters of `model/list`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelListParams {
    /// Ask the providers too.
    #[serde(default)]
    pub probe: bool,
}

/// USD per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Input that is not cached.
    #[serde(default)]
    pub input: f64,
    /// Input from the cache.
    #[serde(default)]
    pub cached_input: f64,
    /// Input written to the cache.
    #[serde(default)]
    pub cache_write: f64,
    /// Output.
    #[serde(default)]
    pub output: f64,
}

/// A model that can be used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Model {
    /// `provider/name`.
    pub id: String,
    /// The provider's name in the configuration.
    pub provider: String,
    /// The model's name at the provider.
    pub name: String,
    /// Tokens it can read and write in one request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// What it costs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
}

/// A provider that could not say what models it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeFailure {
    /// The provider's name in the configuration.
    pub provider: String,
    /// What was wrong and what to do.
    pub message: String,
}

/// Result of `model/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ModelListResult {
    /// The models.
    pub models: Vec<Model>,
    /// With `probe`: the providers that could not be asked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<ProbeFailure>,
    /// The one a new session gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
}

/// Parameters of `tool/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolListParams {
    /// The tools of this session; absent: those of any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}

/// A tool the model can call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What the model reads about it.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// What it may do at worst.
    pub risk: Risk,
    /// `builtin`, or the MCP server's name.
    pub origin: String,
}

/// Result of `tool/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolListResult {
    /// The tools.
    pub tools: Vec<Tool>,
}
