//! `[tools]`, `[[hooks]]` and `[mcp.X]`: what models can do and what watches over it.
//!
//! Receives tables; hands typed settings to `tools`, `launcher` and `session`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::form;

/// `[tools]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ToolsConfig {
    /// Safe reads at once.
    pub max_parallel: usize,
    /// What the duplicate guard refuses.
    pub duplicates: Duplicates,
    /// `[tools.shell]`.
    pub shell: ShellConfig,
    /// `[tools.env]`.
    pub env: EnvConfig,
}

impl Default for ToolsConfig {
    fn default() -> Self {
        Self {
            max_parallel: 10,
            duplicates: Duplicates::default(),
            shell: ShellConfig::default(),
            env: EnvConfig::default(),
        }
    }
}

/// What the duplicate guard refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Duplicates {
    /// A call that succeeded before, unless something may have changed since.
    #[default]
    Unchanged,
    /// A call that succeeded before in the turn.
    Turn,
}

/// `[tools.env]`: the environment of tools, beside what the session says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EnvConfig {
    /// Variables that are handed on although they look like secrets.
    pub keep: Vec<String>,
    /// Variables that are set.
    pub set: BTreeMap<String, String>,
}

/// `[tools.shell]`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ShellConfig {
    /// The longest run of a command that names none.
    #[serde(with = "form::duration")]
    #[schemars(with = "form::DurationText")]
    pub timeout: Duration,
    /// Between SIGTERM and SIGKILL.
    #[serde(with = "form::duration")]
    #[schemars(with = "form::DurationText")]
    pub kill_grace: Duration,
    /// How far commands are confined.
    pub sandbox: Sandbox,
    /// Whether confined commands may use the network.
    pub network: bool,
    /// More directories that confined commands may write in.
    pub writable: Vec<PathBuf>,
    /// What confined commands may read beside the usual.
    pub read: ShellRead,
}

impl Default for ShellConfig {
    fn default() -> Self {
        Self {
            timeout: Duration::from_mins(2),
            kill_grace: Duration::from_secs(2),
            sandbox: Sandbox::default(),
            network: false,
            writable: Vec::new(),
            read: ShellRead::default(),
        }
    }
}

/// How far commands are confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sandbox {
    /// They write in the workspace only.
    #[default]
    WorkspaceWrite,
    /// They write nothing.
    ReadOnly,
    /// Not at all.
    Off,
}

/// What confined commands may read beside the usual: `"all"`, or more directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShellRead {
    /// Everything but the daemon's own directories.
    All,
    /// These too.
    Also(Vec<PathBuf>),
}

impl Default for ShellRead {
    fn default() -> Self {
        Self::Also(Vec::new())
    }
}

/// `[[hooks]]`: a command at a point of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HookConfig {
    /// When it runs.
    pub event: HookEvent,
    /// The tool it is for; absent: every one.
    #[serde(default)]
    pub matcher: Option<String>,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The longest run.
    #[serde(default = "hook_timeout", with = "form::duration")]
    #[schemars(with = "form::DurationText")]
    pub timeout: Duration,
}

fn hook_timeout() -> Duration {
    Duration::from_secs(10)
}

/// When a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "the words say it")]
pub enum HookEvent {
    PreToolUse,
    PostToolUse,
    UserInput,
    TurnStart,
    Stop,
}

/// `[mcp.X]`: an MCP server, by its command or its address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpConfig {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Its address, instead of a command.
    pub url: Option<String>,
    /// Headers of every request to `url`.
    pub headers: BTreeMap<String, String>,
    /// Variables of the command's environment.
    pub env: BTreeMap<String, String>,
    /// The longest wait for an answer.
    #[serde(with = "form::duration")]
    #[schemars(with = "form::DurationText")]
    pub timeout: Duration,
}

impl Default for McpConfig {
    fn default() -> Self {
        Self {
            command: Vec::new(),
            url: None,
            headers: BTreeMap::new(),
            env: BTreeMap::new(),
            timeout: Duration::from_mins(1),
        }
    }
}
