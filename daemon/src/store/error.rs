//! Why the store refused or failed, and how SQLite's words become ours.
//!
//! A refusal (lease, head, key) is an answer the caller acts on; [`Error::Failed`] is for people:
//! it names the operation, the cause in words and the file. Queries only know the cause; the
//! operation and the file are filled in where both are known ([`Error::during`]).
//!
//! Receives errors of SQLite and the file system; hands them to `journal` and `session`.

use std::path::Path;

use agentd_protocol::id::SessionId;
use agentd_protocol::session::Lease;
use rusqlite::ErrorCode;

/// Why the store refused or failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// No such session.
    #[error("no session {0}")]
    SessionNotFound(SessionId),
    /// Another live process has the lease.
    #[error("the session is run by process {} on {}", .0.pid, .0.host)]
    LeaseHeld(Lease),
    /// The epoch is no longer in force: somebody took the lease.
    #[error("the lease was taken")]
    LeaseLost,
    /// Somebody else wrote first.
    #[error("the session's head is {actual}, not the expected {expected}")]
    HeadMoved {
        /// What the writer believed.
        expected: u64,
        /// What is there.
        actual: u64,
    },
    /// The key was used for other parameters.
    #[error("the key {0:?} was used with other parameters")]
    KeyConflict(String),
    /// A parameter that only the store can read is wrong.
    #[error("{field}: {message}")]
    InvalidParams {
        /// The parameter.
        field: &'static str,
        /// What is wrong with it.
        message: String,
    },
    /// The events do not fit the record; nothing of the append was written.
    #[error("the record would not fit together: {0}")]
    Inconsistent(String),
    /// Another daemon has the state directory.
    #[error("{path} is in use by another daemon ({holder})")]
    InUse {
        /// What it says about itself.
        holder: String,
        /// The directory.
        path: String,
    },
    /// SQLite or the file system failed.
    #[error("{operation}: {cause} ({path})")]
    Failed {
        /// What was being done.
        operation: String,
        /// The cause in words: disk full, busy, corrupt, newer schema …
        cause: String,
        /// The file.
        path: String,
    },
}

impl Error {
    /// A failure of this operation on this file.
    #[expect(clippy::needless_pass_by_value, reason = "callers hand their errors over")]
    pub(super) fn failed(operation: impl Into<String>, cause: impl ToString, path: &Path) -> Self {
        Self::Failed {
            operation: operation.into(),
            cause: cause.to_string(),
            path: path.display().to_string(),
        }
    }

    /// Names the operation and the file where a query could not.
    #[must_use]
    pub(super) fn during(self, operation: &str, path: &Path) -> Self {
        match self {
            Self::Failed { operation: unnamed, cause, .. } if unnamed.is_empty() => {
                Self::failed(operation, cause, path)
            }
            other => other,
        }
    }

    /// A row that cannot be what we wrote.
    pub(super) fn unreadable(what: impl std::fmt::Display) -> Self {
        Self::Failed { operation: String::new(), cause: what.to_string(), path: String::new() }
    }
}

impl From<rusqlite::Error> for Error {
    fn from(error: rusqlite::Error) -> Self {
        if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) {
            return Self::Inconsistent(error.to_string());
        }
        Self::Failed { operation: String::new(), cause: cause(&error), path: String::new() }
    }
}

/// SQLite's error in words a person can act on.
pub(super) fn cause(error: &rusqlite::Error) -> String {
    let words = match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => "the disk is full",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "busy: another process holds the database"
        }
        Some(ErrorCode::DatabaseCorrupt) => "the database is damaged",
        Some(ErrorCode::NotADatabase) => "the file is not a database",
        Some(ErrorCode::ReadOnly) => "the database or its directory is read-only",
        Some(ErrorCode::CannotOpen) => "the file cannot be opened",
        Some(ErrorCode::PermissionDenied) => "permission denied",
        Some(ErrorCode::TooBig) => "a value is too large",
        // Without the statement.
        _ => match error {
            rusqlite::Error::SqlInputError { msg, .. } => return msg.clone(),
            _ => return error.to_string(),
        },
    };
    words.to_owned()
}

/// Whether another process was in the way.
pub(super) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Whether the file's content is the trouble.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
}
