//! Sessions: actors that own their state, and the registry that finds them.
//!
//! Receives submissions from `rpc`; hands records to `journal`, requests to `provider`, calls to
//! `tools`.

pub mod registry;

mod actor;
mod background;
mod command;
mod copy;
mod create;
mod digest;
mod document;
mod former;
mod input;
mod lease;
mod overtaken;
mod perform;
mod plan;
mod recovery;
mod rollback;
mod services;
mod state;
mod submit;
mod timers;
mod unload;
mod update;
mod watchers;
mod work;

#[cfg(test)]
mod tests;

pub use self::registry::{Counts, Registry, Watch};
pub use self::services::Services;

use agentd_protocol::daemon::ClientInfo;
use agentd_protocol::id::{ItemId, PromptId, RuleId, SessionId, SubmissionId, TurnId};
use agentd_protocol::permission::{By, Resolution};
use agentd_protocol::session::{Lease, SessionState};
use agentd_protocol::time::Time;
use tokio_util::sync::CancellationToken;

use crate::provider::SelectError;
use crate::store;

pub use crate::store::Error as StoreError;

/// What sessions can do that no method of its own stands for, by its name among the capabilities.
pub const CAPABILITIES: &[&str] = &["compact", "probe", "rollback"];

/// Who sent something.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The client program.
    pub client: ClientInfo,
    /// Its connection, unique while the daemon runs.
    pub connection: u64,
    /// Cancelled when both directions of the connection are closed.
    pub gone: CancellationToken,
}

impl Caller {
    /// As a resolution names it.
    pub fn by(&self) -> By {
        By { client: self.client.clone(), connection: self.connection }
    }
}

/// Why a session refused.
#[derive(Debug, Clone, thiserror::Error)]
#[allow(missing_docs, reason = "named as in the protocol's table of errors")]
pub enum Error {
    #[error("no session {0}")]
    SessionNotFound(SessionId),
    #[error("no item {0}")]
    ItemNotFound(ItemId),
    #[error("no prompt {0}")]
    PromptNotFound(PromptId),
    #[error("no rule {0}")]
    RuleNotFound(RuleId),
    #[error("turn {0} is running")]
    TurnActive(TurnId),
    #[error("the session is run by process {} on {}", .0.pid, .0.host)]
    LeaseHeld(Lease),
    #[error("no model is configured")]
    NoProvider { known_models: Vec<String> },
    #[error("no model {model}")]
    UnknownModel { model: String, known_models: Vec<String> },
    #[error("the prompt was resolved")]
    PromptResolved { decision: Resolution, by: Option<By>, at: Time },
    #[error("the session's last event is {head}")]
    CursorAhead { head: u64 },
    #[error("too much is waiting")]
    Overloaded { retry_after_ms: u64 },
    #[error("submission {0} was sent before with other parameters")]
    SubmissionConflict(SubmissionId),
    #[error("another turn is running")]
    TurnMismatch { active: Option<TurnId> },
    #[error("no turn is running")]
    NoActiveTurn,
    #[error("the daemon is stopping")]
    ShuttingDown,
    #[error(transparent)]
    Store(store::Error),
    #[error("{message}")]
    InvalidState { state: SessionState, message: String },
    #[error("{message}")]
    InvalidParams { field: String, message: String },
    #[error("{capability} is not supported")]
    Unsupported { capability: &'static str },
    #[error("{0}")]
    Internal(String),
}

impl Error {
    fn from_select(error: SelectError) -> Self {
        match error {
            SelectError::UnknownModel { model, known } => {
                Self::UnknownModel { model, known_models: known }
            }
            SelectError::Misconfigured { .. } => {
                Self::InvalidParams { field: "model".to_owned(), message: error.to_string() }
            }
        }
    }

    fn from_store(error: store::Error) -> Self {
        match error {
            store::Error::LeaseHeld(lease) => Self::LeaseHeld(lease),
            store::Error::SessionNotFound(session_id) => Self::SessionNotFound(session_id),
            // Nothing was accepted; the same again finds the session as it is now.
            store::Error::HeadMoved { .. } => Self::Overloaded { retry_after_ms: 50 },
            error => Self::Store(error),
        }
    }
}
