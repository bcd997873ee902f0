//! Errors on the wire: a code, a message for a person, and data a program can act on.
//!
//! `data.kind` names the error; everything a client needs to act on it stands beside the kind.
//! The code follows from the kind, so the two can never disagree. Codes from -32001 on are
//! agentd's own, the others are those of JSON-RPC 2.0.
//!
//! Receives what went wrong from the daemon's one edge (`rpc/error.rs`); hands it to clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::daemon::{ProtocolRange, Role};
use crate::id::{ItemId, PromptId, RuleId, SessionId, SubmissionId, TurnId};
use crate::permission::{By, Resolution};
use crate::session::SessionState;
use crate::time::Time;

/// A JSON-RPC error object.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
pub struct RpcError {
    /// The code that belongs to `data.kind`.
    pub code: i32,
    /// What was wrong, with what, and what to do.
    pub message: String,
    /// The kind and what belongs to it.
    pub data: ErrorData,
}

impl RpcError {
    /// The error of this kind with this message.
    pub fn new(data: ErrorData, message: impl Into<String>) -> Self {
        Self { code: data.code(), message: message.into(), data }
    }
}

/// What went wrong, for programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs, reason = "the fields are named in the protocol's table of errors")]
pub enum ErrorData {
    /// The bytes are no JSON.
    ParseError,
    /// The JSON is no request.
    InvalidRequest,
    /// No such method.
    MethodNotFound {
        method: String,
        /// The nearest known method, if one is near.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        nearest: Option<String>,
    },
    /// A parameter is unknown, missing or wrong.
    InvalidParams {
        /// The path of the parameter, where one can be named.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        field: Option<String>,
    },
    /// A fault of the daemon's own.
    Internal,
    /// No session has this id.
    SessionNotFound { session_id: SessionId },
    /// The session has no item of this id.
    ItemNotFound { item_id: ItemId },
    /// No prompt has this id.
    PromptNotFound { prompt_id: PromptId },
    /// No remembered rule has this id.
    RuleNotFound { rule_id: RuleId },
    /// A turn runs, and the request needs the session idle or asked to be refused.
    TurnActive { turn_id: TurnId },
    /// Another process runs the session.
    LeaseHeld { owner: String, pid: u32, host: String, expires_in_ms: u64 },
    /// No model is configured.
    NoProvider { known_models: Vec<String> },
    /// The model is not configured.
    UnknownModel { model: String, known_models: Vec<String> },
    /// The prompt was answered before.
    PromptResolved {
        decision: Resolution,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<By>,
        at: Time,
    },
    /// `since` is past the last event.
    CursorAhead { head_seq: u64 },
    /// A bounded queue is full; nothing was accepted.
    Overloaded { retry_after_ms: u64 },
    /// The submission's id was used with other parameters.
    SubmissionConflict { submission_id: SubmissionId },
    /// Another turn runs than the one the client expected.
    TurnMismatch {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        active_turn_id: Option<TurnId>,
    },
    /// There is no turn to steer.
    NoActiveTurn,
    /// The daemon is stopping; nothing new is begun.
    ShuttingDown,
    /// The store failed.
    Store {
        /// What was being done.
        operation: String,
        /// The cause in words: disk full, busy, corrupt, newer schema …
        cause: String,
        /// The file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    },
    /// The connection may not do this.
    Forbidden {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        role: Option<Role>,
    },
    /// No common version; this is the range the daemon speaks.
    UnsupportedProtocol(ProtocolRange),
    /// The session's state does not allow it.
    InvalidState { state: SessionState },
    /// The configuration cannot be read; the old one stays in force.
    InvalidConfig {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        line: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// This daemon does not have it (yet), or not on this system.
    Unsupported { capability: String },
}

/// Every kind with its code.
pub const KINDS: &[(&str, i32)] = &[
    ("parse_error", -32700),
    ("invalid_request", -32600),
    ("method_not_found", -32601),
    ("invalid_params", -32602),
    ("internal", -32603),
    ("session_not_found", -32001),
    ("item_not_found", -32001),
    ("prompt_not_found", -32001),
    ("rule_not_found", -32001),
    ("turn_active", -32002),
    ("lease_held", -32003),
    ("no_provider", -32004),
    ("unknown_model", -32004),
    ("prompt_resolved", -32005),
    ("cursor_ahead", -32006),
    ("overloaded", -32007),
    ("submission_conflict", -32008),
    ("turn_mismatch", -32008),
    ("no_active_turn", -32008),
    ("shutting_down", -32009),
    ("store", -32010),
    ("forbidden", -32011),
    ("unsupported_protocol", -32012),
    ("invalid_state", -32013),
    ("invalid_config", -32014),
    ("unsupported", -32015),
];

impl ErrorData {
    /// The JSON-RPC code of this kind.
    pub fn code(&self) -> i32 {
        match self {
            Self::ParseError => -32700,
            Self::InvalidRequest => -32600,
            Self::MethodNotFound { .. } => -32601,
            Self::InvalidParams { .. } => -32602,
            Self::Internal => -32603,
            Self::SessionNotFound { .. }
            | Self::ItemNotFound { .. }
            | Self::PromptNotFound { .. }
            | Self::RuleNotFound { .. } => -32001,
            Self::TurnActive { .. } => -32002,
            Self::LeaseHeld { .. } => -32003,
            Self::NoProvider { .. } | Self::UnknownModel { .. } => -32004,
            Self::PromptResolved { .. } => -32005,
            Self::CursorAhead { .. } => -32006,
            Self::Overloaded { .. } => -32007,
            Self::SubmissionConflict { .. } | Self::TurnMismatch { .. } | Self::NoActiveTurn => {
                -32008
            }
            Self::ShuttingDown => -32009,
            Self::Store { .. } => -32010,
            Self::Forbidden { .. } => -32011,
            Self::UnsupportedProtocol(_) => -32012,
            Self::InvalidState { .. } => -32013,
            Self::InvalidConfig { .. } => -32014,
            Self::Unsupported { .. } => -32015,
        }
    }
}
