//! The one place where errors of the daemon's parts become errors on the wire.
//!
//! Here each gets the sentence a person reads: what was wrong, with what, and what to do. No
//! secret, no Rust type and no debug print leaves through it.
//!
//! Receives errors from `session` and what is behind it; hands the protocol's errors to
//! `handlers`.

use agentd_protocol::error::{ErrorData, RpcError};
use agentd_protocol::permission::Resolution;
use agentd_protocol::session::Lease;

use crate::config::ConfigError;
use crate::rpc::params::invalid;
use crate::session::Error;
use crate::session::StoreError;

/// The error of a request that a session refused.
pub fn of_session(error: Error) -> RpcError {
    match error {
        Error::SessionNotFound(session_id) => session_not_found(session_id),
        Error::ItemNotFound(item_id) => {
            let message =
                format!("there is no item {item_id} in this session: `session/items` lists them");
            RpcError::new(ErrorData::ItemNotFound { item_id }, message)
        }
        Error::PromptNotFound(prompt_id) => {
            let message =
                format!("there is no prompt {prompt_id}: `permission/list` lists the open ones");
            RpcError::new(ErrorData::PromptNotFound { prompt_id }, message)
        }
        Error::RuleNotFound(rule_id) => {
            let message =
                format!("there is no remembered rule {rule_id}: `permission/rules` lists them");
            RpcError::new(ErrorData::RuleNotFound { rule_id }, message)
        }
        Error::TurnActive(turn_id) => {
            let message = format!("turn {turn_id} is running: wait for its end, or interrupt it");
            RpcError::new(ErrorData::TurnActive { turn_id }, message)
        }
        Error::LeaseHeld(lease) => lease_held(lease),
        Error::NoProvider { known_models } => no_provider(known_models),
        Error::UnknownModel { model, known_models } => unknown_model(model, known_models),
        Error::PromptResolved { decision, by, at } => {
            let who = by.as_ref().map_or_else(String::new, |by| format!(" by {}", by.client.name));
            let message =
                format!("the prompt is closed: it was {}{who} at {at}", in_words(decision));
            RpcError::new(ErrorData::PromptResolved { decision, by, at }, message)
        }
        Error::CursorAhead { head } => RpcError::new(
            ErrorData::CursorAhead { head_seq: head },
            format!("the session's last event has the number {head}: subscribe again from there"),
        ),
        Error::Overloaded { retry_after_ms } => RpcError::new(
            ErrorData::Overloaded { retry_after_ms },
            format!(
                "too much is waiting and nothing was accepted: try again in {retry_after_ms} ms"
            ),
        ),
        Error::SubmissionConflict(submission_id) => {
            let message = format!(
                "the submission {submission_id} was sent before with other parameters: use a new id \
                 for something new"
            );
            RpcError::new(ErrorData::SubmissionConflict { submission_id }, message)
        }
        Error::TurnMismatch { active } => {
            let message = match &active {
                Some(turn) => format!("turn {turn} is running, not the expected one"),
                None => "no turn is running, so not the expected one either".to_owned(),
            };
            RpcError::new(ErrorData::TurnMismatch { active_turn_id: active }, message)
        }
        Error::NoActiveTurn => RpcError::new(
            ErrorData::NoActiveTurn,
            "no turn is running that could be steered: send the input with `delivery` `auto`",
        ),
        Error::ShuttingDown => shutting_down(),
        Error::Store(error) => of_store(error),
        Error::InvalidState { state, message } => {
            RpcError::new(ErrorData::InvalidState { state }, message)
        }
        Error::InvalidParams { field, message } => invalid(Some(field), message),
        Error::Unsupported { capability } => unsupported(capability),
        Error::Internal(message) => internal(&message),
    }
}

/// The error of a configuration that was refused.
pub fn of_config(error: &ConfigError) -> RpcError {
    let mut message = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(deeper) = cause {
        message = format!("{message}: {deeper}");
        cause = deeper.source();
    }
    RpcError::new(
        ErrorData::InvalidConfig {
            file: error.file().map(|file| file.display().to_string()),
            line: error.line(),
            key: error.key().map(str::to_owned),
        },
        format!("{message}; the former configuration stays in force"),
    )
}

/// The error of a store that failed, or of what it found.
fn of_store(error: StoreError) -> RpcError {
    match error {
        StoreError::SessionNotFound(session_id) => session_not_found(session_id),
        StoreError::LeaseHeld(lease) => lease_held(lease),
        // A key has no other place in the table of errors than beside its parameter.
        StoreError::KeyConflict(key) => invalid(
            Some("key".to_owned()),
            format!(
                "the key {key} was used before with other parameters: use a new key for something \
                 new"
            ),
        ),
        StoreError::LeaseLost | StoreError::HeadMoved { .. } => RpcError::new(
            ErrorData::Overloaded { retry_after_ms: RETRY_AFTER_MS },
            "another process wrote to the session at the same time and nothing was accepted: try \
             again",
        ),
        StoreError::InvalidParams { field, message } => invalid(Some(field.to_owned()), message),
        StoreError::Inconsistent(message) => internal(&message),
        StoreError::InUse { holder, path } => {
            let cause = format!("in use by another daemon ({holder})");
            let message = format!("the state directory is {cause}: {path}");
            let operation = "open the state directory".to_owned();
            RpcError::new(ErrorData::Store { operation, cause, path: Some(path) }, message)
        }
        StoreError::Failed { operation, cause, path } => {
            let message = format!(
                "the store could not {operation}: {cause} ({path}); nothing of it was done, and \
                 the same can be asked again once that is mended"
            );
            RpcError::new(ErrorData::Store { operation, cause, path: Some(path) }, message)
        }
    }
}

/// After this a session that another process wrote to has been read again.
const RETRY_AFTER_MS: u64 = 100;

fn session_not_found(session_id: agentd_protocol::id::SessionId) -> RpcError {
    let message = format!("there is no session {session_id}: `session/list` lists them");
    RpcError::new(ErrorData::SessionNotFound { session_id }, message)
}

fn lease_held(lease: Lease) -> RpcError {
    let Lease { owner, pid, host, expires_in_ms, .. } = lease;
    let message = format!(
        "the session is run by process {pid} on {host}: use that daemon, or try again when it has \
         ended"
    );
    RpcError::new(ErrorData::LeaseHeld { owner, pid, host, expires_in_ms }, message)
}

fn no_provider(known_models: Vec<String>) -> RpcError {
    let message = format!(
        "no model is configured: set `model` in the configuration or name one of {}",
        known_models.join(", ")
    );
    RpcError::new(ErrorData::NoProvider { known_models }, message)
}

fn unknown_model(model: String, known_models: Vec<String>) -> RpcError {
    let message = format!(
        "no model `{model}`: models are named provider/name, and known are {}; another needs its \
         provider in the configuration",
        known_models.join(", ")
    );
    RpcError::new(ErrorData::UnknownModel { model, known_models }, message)
}

/// The error of a request for new work while the daemon stops.
fn shutting_down() -> RpcError {
    RpcError::new(
        ErrorData::ShuttingDown,
        "the daemon is stopping and takes no new work: try again when it has been started anew",
    )
}

fn unsupported(capability: &str) -> RpcError {
    RpcError::new(
        ErrorData::Unsupported { capability: capability.to_owned() },
        format!("this daemon does not have `{capability}`: `initialize` lists what it has"),
    )
}

fn internal(message: &str) -> RpcError {
    tracing::error!(error = message, "a request failed by a fault of the daemon");
    RpcError::new(ErrorData::Internal, "a fault of the daemon: its log says more")
}

fn in_words(decision: Resolution) -> &'static str {
    match decision {
        Resolution::Allow => "allowed",
        Resolution::Deny => "denied",
        Resolution::Cancelled => "cancelled with its turn",
        Resolution::Expired => "denied because nobody answered in time",
    }
}

#[cfg(test)]
mod tests;
