//! Background commands: what runs beside a session's turns, and how it ended.
//!
//! A command that a model started in the background lives on over turns, until it ends, is ended,
//! or its daemon is. Its two events tell of it; the session lists those that run.
//!
//! Receives facts from the daemon's table of processes; hands them to events and to [`Session`].
//!
//! [`Session`]: crate::session::Session

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{CallId, ProcessId};

/// A background command that runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Process {
    /// Its id, unique in the session.
    pub process_id: ProcessId,
    /// The call that started it.
    pub call_id: CallId,
    /// The command line.
    pub command: String,
}

/// The end of a background command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessExit {
    /// Its id.
    pub process_id: ProcessId,
    /// The call that started it.
    pub call_id: CallId,
    /// The command line.
    pub command: String,
    /// Its exit code; absent where it has none or nobody knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit: Option<i32>,
    /// The signal that ended it, where one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Why it ended; absent where it did by itself.
    #[serde(default, skip_serializing_if = "ProcessEnd::is_own")]
    pub reason: ProcessEnd,
}

/// Why a background command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProcessEnd {
    /// By itself.
    #[default]
    Exited,
    /// The model had it ended.
    Killed,
    /// Its time was up.
    TimedOut,
    /// Its daemon stopped, and it with it.
    Stopped,
    /// Its daemon lost hold of it, and how it ended is not known.
    Lost,
}

impl ProcessEnd {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
    fn is_own(&self) -> bool {
        *self == Self::Exited
    }
}

impl ProcessExit {
    /// How it ended, as the end of a sentence whose subject is the command: `exited with code 1`.
    pub fn how(&self) -> String {
        match (self.reason, self.exit, self.signal) {
            (ProcessEnd::Exited, Some(code), _) => format!("exited with code {code}"),
            (ProcessEnd::Exited, None, Some(signal)) => format!("was killed by signal {signal}"),
            (ProcessEnd::Exited, None, None) => "exited; its exit code is not known".to_owned(),
            (ProcessEnd::Killed, ..) => "was ended".to_owned(),
            (ProcessEnd::TimedOut, ..) => "was ended, since its time was up".to_owned(),
            (ProcessEnd::Stopped, ..) => {
                "was ended, since agentd was stopped or restarted".to_owned()
            }
            (ProcessEnd::Lost, ..) => "is gone, and how it ended is not known".to_owned(),
        }
    }
}
