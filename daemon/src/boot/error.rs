//! Why the daemon did not start, said so that a person can mend it.
//!
//! Receives failures of starting; hands `main` a text and an exit code.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::config::ConfigError;
use crate::session;
use crate::store;

/// The exit code of a configuration error, as in `sysexits.h`.
const EX_CONFIG: u8 = 78;

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong.
    #[error("the configuration is wrong")]
    Config(#[from] ConfigError),
    /// Nothing says where the state is kept.
    #[error(
        "there is no home directory to keep the state in: set HOME or XDG_STATE_HOME, or name a \
         directory with --state-dir"
    )]
    NoStateDir,
    /// Another daemon has the state directory and does not answer.
    #[error(
        "{state_dir} is in use by another daemon ({holder}), which does not answer at {}: {why}; \
         talk to that one (--socket), end its process, or take another --state-dir",
        socket.display()
    )]
    InUse {
        /// The directory.
        state_dir: String,
        /// What it says about itself.
        holder: String,
        /// Where we asked.
        socket: PathBuf,
        /// What came of it.
        why: String,
    },
    /// The socket's path is taken, or it would not be private there.
    #[error("cannot listen at {}: {why}", path.display())]
    Socket {
        /// The path.
        path: PathBuf,
        /// What is there and what to do.
        why: String,
    },
    /// What a service manager handed over is no socket we can use.
    #[error("the socket of LISTEN_FDS cannot be used, it must be a Unix stream socket")]
    Inherited(#[source] io::Error),
    /// The system refused.
    #[error("cannot {operation} {}", path.display())]
    Io {
        /// What was being done.
        operation: &'static str,
        /// With what.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The store did not open.
    #[error("the state cannot be used")]
    Store(#[source] store::Error),
    /// What a former daemon left cannot be taken up.
    #[error("sessions of the last run cannot be taken up")]
    Recovery(#[source] session::Error),
    /// The runtime did not start.
    #[error("cannot start threads")]
    Runtime(#[source] io::Error),
    /// Signals cannot be received.
    #[error("cannot receive signals")]
    Signals(#[source] io::Error),
    /// The log's level is none.
    #[error("`{0}` is no log level: use error, warn, info, debug or trace")]
    LogLevel(String),
}

impl Error {
    pub(super) fn io(operation: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::Io { operation, path: path.to_owned(), source: source.into() }
    }

    pub(super) fn socket(path: &Path, why: impl Into<String>) -> Self {
        Self::Socket { path: path.to_owned(), why: why.into() }
    }

    /// What the process ends with.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Config(_) | Self::LogLevel(_) => ExitCode::from(EX_CONFIG),
            _ => ExitCode::FAILURE,
        }
    }

    /// The whole story in one line.
    pub fn story(&self) -> String {
        let mut story = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(deeper) = cause {
            story = format!("{story}: {deeper}");
            cause = deeper.source();
        }
        story
    }
}
