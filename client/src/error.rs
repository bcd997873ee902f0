//! What can go wrong for a client, told apart by what a caller can do about it.
//!
//! Receives failures of sockets, processes and daemons; hands them to callers.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;

use agentd_protocol::error::ErrorData;
use serde_json::Value;
use serde_json::value::RawValue;

/// Why something failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Nobody listens, and the options forbid to start a daemon.
    #[error("no daemon answers at {}: `agentd` starts one, and so do commands that need one", path.display())]
    NoDaemon {
        /// The socket.
        path: PathBuf,
    },
    /// The socket cannot be used.
    #[error("cannot connect to {}", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        cause: Arc<std::io::Error>,
    },
    /// Somebody else's program listens there: nothing was sent to it.
    #[error(
        "{} belongs to a program of user {uid}, not of user {own}: it is not trusted; \
         remove it or choose another path with --socket",
        path.display()
    )]
    ForeignServer {
        /// The socket.
        path: PathBuf,
        /// Whose it is.
        uid: u32,
        /// Who asks.
        own: u32,
    },
    /// A directory or file that the start needs is not safe to use.
    #[error("cannot start agentd: {}: {cause}", path.display())]
    Unsafe {
        /// The directory or file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// The daemon's program cannot be run.
    #[error("cannot run {}: is agentd installed?", program.display())]
    Spawn {
        /// The program.
        program: PathBuf,
        /// Why.
        #[source]
        cause: Arc<std::io::Error>,
    },
    /// The daemon was started and ended before it answered.
    #[error("agentd ended ({status}) before it answered{}", said(stderr))]
    Died {
        /// How it ended.
        status: ExitStatus,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// The daemon was started and does not answer.
    #[error("agentd does not answer at {} after {seconds} s{}", path.display(), said(stderr))]
    Silent {
        /// The socket.
        path: PathBuf,
        /// How long it was waited for.
        seconds: u64,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// The connection was lost before the answer came. Whether the request took effect is not
    /// known; a submission can be sent again with the same id.
    #[error("the connection to agentd was lost: {cause}")]
    Disconnected {
        /// In words.
        cause: String,
    },
    /// No answer came in time.
    #[error("agentd did not answer `{method}` in time")]
    Timeout {
        /// The method.
        method: &'static str,
    },
    /// The answer is not what the protocol says.
    #[error(
        "agentd answered `{method}` with something else than its result: it may be of another \
             version than this program"
    )]
    BadAnswer {
        /// The method.
        method: &'static str,
        /// What is wrong with it.
        #[source]
        cause: Arc<serde_json::Error>,
    },
    /// The daemon refused.
    #[error("{0}")]
    Refused(Box<Refusal>),
}

impl Error {
    /// What a refusal carries, if this is one and its kind is known.
    pub fn data(&self) -> Option<&ErrorData> {
        match self {
            Self::Refused(refusal) => refusal.data.as_ref(),
            _ => None,
        }
    }

    /// Whether the same again may work on a new connection.
    pub fn is_lost_connection(&self) -> bool {
        matches!(self, Self::Disconnected { .. })
    }
}

/// A JSON-RPC error of the daemon.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The code.
    pub code: i32,
    /// The message, for a person.
    pub message: String,
    /// The kind with what belongs to it; `None` for a kind that this client does not know.
    pub data: Option<ErrorData>,
    /// `data` as it came.
    pub raw: Option<Value>,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl Refusal {
    /// The refusal that an error object tells.
    pub(crate) fn new(code: i32, message: &str, data: Option<&RawValue>) -> Self {
        let raw: Option<Value> = data.and_then(|data| serde_json::from_str(data.get()).ok());
        let data = raw.clone().and_then(|data| serde_json::from_value(data).ok());
        Self { code, message: message.to_owned(), data, raw }
    }
}

fn said(stderr: &str) -> String {
    match stderr.trim_end() {
        "" => String::new(),
        text => format!("; it said:\n{text}"),
    }
}
