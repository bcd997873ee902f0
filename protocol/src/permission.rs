//! Modes, rules, prompts and their answers.
//!
//! A prompt is durable: it survives restarts, goes to all who watch the session, and the first
//! answer wins. All rules that match a call are pooled: deny beats ask beats allow.
//!
//! Receives decisions from clients; hands prompts and resolutions to them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::daemon::ClientInfo;
use crate::id::{CallId, PromptId, RuleId, SessionId, SubmissionId, TurnId};
use crate::time::Time;

/// What happens to a call that no rule decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PermissionMode {
    /// Read only; a ceiling that no rule lifts.
    Plan,
    /// Reads in the workspace are allowed, all else asks.
    #[default]
    Ask,
    /// Reads and writes in the workspace are allowed, all else asks.
    AutoEdit,
    /// As `auto-edit`, and commands run without asking, confined by the sandbox.
    Auto,
    /// Everything is allowed.
    Full,
}

/// What a call may do at worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Risk {
    /// Changes nothing.
    Read,
    /// Changes files.
    Write,
    /// Runs a program.
    Execute,
    /// Talks to another machine.
    Network,
}

/// What a rule says about the calls it matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Run it.
    Allow,
    /// Ask a person.
    Ask,
    /// Refuse it.
    Deny,
}

/// A rule: which calls, and what about them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The tool's name; `*` for every tool.
    pub tool: String,
    /// A pattern of the tool's own kind: a command for `shell`, a path glob for files, a host for
    /// the network. Absent: every call of the tool.
    #[serde(default, rename = "match", skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// What to do.
    pub action: Action,
}

/// How far an answer reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// This call.
    #[default]
    Once,
    /// Calls that the rule matches, as long as the session lives.
    Session,
    /// Calls that the rule matches, in every session of this directory.
    Project,
    /// Calls that the rule matches, everywhere.
    Always,
}

/// Where a rule in force comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RuleOrigin {
    /// Built in.
    Builtin,
    /// The user's configuration.
    User,
    /// A trusted project's configuration.
    Project,
    /// An answer that was remembered.
    Remembered,
    /// The session's own.
    Session,
}

/// A rule in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleInForce {
    /// Its id; only remembered rules can be forgotten by it.
    pub rule_id: RuleId,
    /// The rule itself.
    #[serde(flatten)]
    pub rule: Rule,
    /// How far it reaches.
    pub scope: Scope,
    /// Where it comes from.
    pub origin: RuleOrigin,
}

/// A person's answer to a permission prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Run the call.
    Allow,
    /// Refuse it.
    Deny,
}

/// How a prompt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resolution {
    /// Allowed by a person.
    Allow,
    /// Denied, by a person or because nobody could be asked.
    Deny,
    /// The turn ended before an answer.
    Cancelled,
    /// Nobody answered within `permission.timeout`.
    Expired,
}

impl From<Decision> for Resolution {
    fn from(decision: Decision) -> Self {
        match decision {
            Decision::Allow => Self::Allow,
            Decision::Deny => Self::Deny,
        }
    }
}

/// Who answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct By {
    /// The client program.
    pub client: ClientInfo,
    /// The number of its connection, unique while the daemon runs.
    pub connection: u64,
}

/// A rule that an answer may carry, made from the call itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Suggestion {
    /// How far it would reach.
    pub scope: Scope,
    /// The rule, never wider than the call it came from allows.
    pub rule: Rule,
}

/// A call that waits for a person's word.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prompt {
    /// Its id, random.
    pub prompt_id: PromptId,
    /// The session.
    pub session_id: SessionId,
    /// The turn.
    pub turn_id: TurnId,
    /// The call that waits.
    pub call_id: CallId,
    /// The tool's name.
    pub tool: String,
    /// One line for a person.
    pub summary: String,
    /// What the call may do at worst.
    pub risk: Risk,
    /// The exact arguments.
    pub arguments: Value,
    /// What would happen: the diff of an edit, the command line of a shell call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// Rules that an answer may carry; empty where none would be safe.
    pub suggestions: Vec<Suggestion>,
    /// When it was asked.
    pub requested_at: Time,
    /// When it is denied by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
}

/// The words of an answer, shared by `permission/reply` and the op `permission_reply`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionReply {
    /// The prompt.
    pub prompt_id: PromptId,
    /// Run the call or refuse it.
    pub decision: Decision,
    /// How far the answer reaches.
    #[serde(default)]
    pub scope: Scope,
    /// The rule to remember: one of the suggestions, or narrower. Needed when `scope` is not
    /// `once` and there is more than one suggestion of that scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// A word for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// With a denial: end the turn as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupt: bool,
}

/// Parameters of `permission/reply`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionReplyParams {
    /// The client's id for this answer; the same id again is replayed. Absent: judged by the
    /// prompt alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<SubmissionId>,
    /// The prompt.
    pub prompt_id: PromptId,
    /// Run the call or refuse it.
    pub decision: Decision,
    /// How far the answer reaches.
    #[serde(default)]
    pub scope: Scope,
    /// The rule to remember.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Rule>,
    /// A word for the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// With a denial: end the turn as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupt: bool,
}

/// The one outcome of an answer that counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplyOutcome {
    /// It was the first.
    Accepted,
}

/// Result of `permission/reply`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionReplyResult {
    /// The answer counted.
    pub outcome: ReplyOutcome,
    /// The same id answered before; nothing changed now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replayed: bool,
}

/// Parameters of `permission/list`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionListParams {
    /// Only this session's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}

/// Result of `permission/list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionListResult {
    /// The open prompts, oldest first.
    pub prompts: Vec<Prompt>,
}

/// Parameters of `permission/rules`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionRulesParams {
    /// The rules in force for this session; absent: those that hold everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
}

/// Result of `permission/rules`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionRulesResult {
    /// The rules in force.
    pub rules: Vec<RuleInForce>,
}

/// Parameters of `permission/forget`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PermissionForgetParams {
    /// The remembered rule.
    pub rule_id: RuleId,
}

/// Result of `permission/forget`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PermissionForgetResult {
    /// Whether it was there.
    pub forgotten: bool,
}
