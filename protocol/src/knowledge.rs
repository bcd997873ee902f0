//! Skills, memories and MCP servers: what a daemon knows beyond its configuration.
//!
//! Receives a person's word on candidates; hands out lists.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{MemoryId, SkillId};

/// Whether something is in use or waits for a person's word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum KnowledgeStatus {
    /// Waits.
    Candidate,
    /// In use by new sessions.
    Accepted,
}

/// A skill.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Skill {
    /// Its id.
    pub skill_id: SkillId,
    /// Its name.
    pub name: String,
    /// When to use it.
    pub description: String,
    /// Whether it is in use.
    pub status: KnowledgeStatus,
    /// The steps of a candidate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Value>,
}

/// Result of `skill/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SkillListResult {
    /// Skills and candidates.
    pub skills: Vec<Skill>,
}

/// Parameters of `skill/accept` and `skill/reject`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SkillParams {
    /// The candidate.
    pub skill_id: SkillId,
}

/// A memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Memory {
    /// Its id.
    pub memory_id: MemoryId,
    /// What to remember.
    pub text: String,
    /// Whether it is in use.
    pub status: KnowledgeStatus,
}

/// Result of `memory/list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryListResult {
    /// Memories and candidates.
    pub memories: Vec<Memory>,
}

/// Parameters of `memory/add`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryAddParams {
    /// What to remember.
    pub text: String,
}

/// Parameters of `memory/accept`, `memory/reject` and `memory/delete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MemoryParams {
    /// The memory.
    pub memory_id: MemoryId,
}

/// Result of methods that only do something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Done {}

/// An MCP server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpServer {
    /// Its name in the configuration.
    pub name: String,
    /// `starting`, `ready`, `failed` or `stopped`.
    pub state: String,
    /// Its tools.
    pub tools: Vec<String>,
    /// Its last error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// Result of `mcp/list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct McpListResult {
    /// The servers.
    pub servers: Vec<McpServer>,
}

/// Parameters of `mcp/restart`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct McpRestartParams {
    /// The server.
    pub name: String,
}
