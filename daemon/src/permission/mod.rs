//! What may run: modes and rules decide, prompts ask.
//!
//! [`Policy::judge`] is a pure function of a mode, the pooled rules and what a call would touch.
//! An [`ApprovedCall`] can be made only in this module, and `tools` runs nothing else: *judged
//! before run* is a matter of types.
//!
//! Nothing here looks at the world: paths come resolved, and time is not asked for.
//!
//! Receives subjects from `session`; hands verdicts and approved calls back to it.

mod command;
mod policy;
mod rule;
mod suggest;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

use agentd_protocol::id::{CallId, ProcessId};
use agentd_protocol::permission::{Risk, Suggestion};
use serde_json::Value;

pub use policy::Policy;
pub use suggest::may_remember;

/// What a call would do to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathAccess {
    /// Read it or list it.
    Read,
    /// Create, change or delete it.
    Write,
}

/// One thing that a call would touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A path, resolved: links followed, `..` gone, the parent of a missing file resolved.
    Path {
        /// The resolved path.
        path: PathBuf,
        /// What would be done to it.
        access: PathAccess,
        /// It is inside the workspace or one of the session's roots.
        inside: bool,
        /// It asks even inside: a hook folder, a shell profile, a key …
        guarded: bool,
    },
    /// A command line for the shell.
    Command(String),
    /// A host on the network.
    Host(String),
    /// A command that the session runs in the background; that it may run was judged before.
    Process(ProcessId),
}

/// A call to be judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// The call.
    pub call_id: CallId,
    /// The tool's name.
    pub tool: String,
    /// The arguments it would run with.
    pub arguments: Value,
    /// What it may do at worst.
    pub risk: Risk,
    /// What it would touch.
    pub targets: Vec<Target>,
    /// The directory that relative patterns of rules start from, with links resolved as those of
    /// the targets are.
    pub cwd: PathBuf,
}

/// What the policy says about a call.
#[derive(Debug)]
pub enum Verdict {
    /// Run it.
    Allow(ApprovedCall),
    /// Ask a person.
    Ask {
        /// Why it is not simply allowed, for people.
        reason: String,
        /// Rules that an answer may carry.
        suggestions: Vec<Suggestion>,
    },
    /// Refuse it.
    Deny {
        /// The rule or mode that refuses it, for the model and for people.
        reason: String,
    },
}

/// A call that may run: proof of a judgement or of a person's word.
///
/// Nobody else can make one, so a tool cannot be run without:
///
/// ```compile_fail,E0451
/// use agentd::permission::ApprovedCall;
/// # fn forge(call_id: agentd_protocol::id::CallId) -> ApprovedCall {
/// ApprovedCall {
///     call_id,
///     tool: "shell".to_owned(),
///     arguments: serde_json::json!({ "command": "true" }),
///     targets: Vec::new(),
/// }
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct ApprovedCall {
    call_id: CallId,
    tool: String,
    arguments: Value,
    targets: Vec<Target>,
}

impl ApprovedCall {
    /// The call.
    pub fn call_id(&self) -> &CallId {
        &self.call_id
    }

    /// The tool's name.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The arguments that were judged.
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// What was judged: a tool touches nothing else.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }
}
