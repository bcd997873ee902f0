//! A command behind a launcher, as the daemon sees it.
//!
//! The pipe to the launcher is the command's life: whoever drops a [`Process`] ends everything the
//! command started. That holds for a cancel, for a task that is aborted, and for the daemon's own
//! death.
//!
//! Receives orders from `background`; hands `command` output and the end.

use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Buf, Bytes};
use futures_util::StreamExt;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};

use crate::launcher::{self, Order, Report};

/// Why a command could not be run to its end.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// The launcher could not be started, or did not take the order.
    #[error("start the launcher {path}: {cause}")]
    Start {
        path: String,
        #[source]
        cause: io::Error,
    },
    /// The launcher ended without a report.
    #[error("the launcher ended without a word; what the command did is unknown")]
    Broken,
}

/// Starts launchers, and keeps one ready: what it takes to start a process of agentd's size then
/// passes while the command before runs.
#[derive(Debug)]
pub(super) struct Launchers {
    program: PathBuf,
    /// The daemon's mark.
    daemon: String,
    ready: Mutex<Option<Process>>,
}

impl Launchers {
    pub(super) fn new(program: PathBuf, daemon: &str) -> Self {
        Self { program, daemon: daemon.to_owned(), ready: Mutex::new(None) }
    }

    /// Runs a command.
    pub(super) async fn start(&self, order: &Order) -> Result<Process, Error> {
        let failed = |cause| self.failed(cause);
        let json = serde_json::to_vec(order).map_err(|error| failed(error.into()))?;
        let length = u32::try_from(json.len()).map_err(|_| failed(io::ErrorKind::Other.into()))?;
        let message = [&length.to_be_bytes(), &json[..]].concat();
        let mut ready = self.ready().take().and_then(Process::if_alive);
        if let Some(process) = &mut ready
            && process.order(&message).await.is_err()
        {
            // It was ended meanwhile: without the whole order it ran nothing.
            ready = None;
        }
        let process = if let Some(process) = ready {
            process
        } else {
            let mut process = self.launch().map_err(failed)?;
            process.order(&message).await.map_err(failed)?;
            process
        };
        match self.launch() {
            Ok(next) => *self.ready() = Some(next),
            // The next command tries again, and says what is wrong.
            Err(error) => tracing::debug!(%error, "no launcher is ready for the next command"),
        }
        Ok(process)
    }

    fn launch(&self) -> io::Result<Process> {
        let mut launcher = Command::new(&self.program)
            .arg(launcher::FLAG)
            .arg(&self.daemon)
            .env_clear()
            .env(launcher::DAEMON_ID, &self.daemon)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (Some(life), Some(stdout)) = (launcher.stdin.take(), launcher.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let frames = FramedRead::new(stdout, LengthDelimitedCodec::new());
        Ok(Process { launcher, life: Some(life), frames })
    }

    fn ready(&self) -> MutexGuard<'_, Option<Process>> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, cause: io::Error) -> Error {
        Error::Start { path: self.program.display().to_string(), cause }
    }
}

/// A running command, or a launcher that waits for one. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Process {
    launcher: Child,
    /// Nothing once it was closed to end the command.
    life: Option<ChildStdin>,
    frames: FramedRead<ChildStdout, LengthDelimitedCodec>,
}

/// Which stream wrote something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Stdout,
    Stderr,
}

/// News of a command.
#[derive(Debug)]
pub(super) enum News {
    Output(Stream, Bytes),
    Report(Report),
}

impl Process {
    fn if_alive(mut self) -> Option<Self> {
        (!self.is_gone()).then_some(self)
    }

    async fn order(&mut self, message: &[u8]) -> io::Result<()> {
        match &mut self.life {
            Some(life) => life.write_all(message).await,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// What comes next. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<News, Error> {
        let Some(Ok(mut frame)) = self.frames.next().await else { return Err(Error::Broken) };
        if frame.is_empty() {
            return Err(Error::Broken);
        }
        match frame.get_u8() {
            launcher::STDOUT => Ok(News::Output(Stream::Stdout, frame.freeze())),
            launcher::STDERR => Ok(News::Output(Stream::Stderr, frame.freeze())),
            _ => serde_json::from_slice(&frame).map(News::Report).map_err(|_| Error::Broken),
        }
    }

    /// Asks for the end of everything; a report follows.
    pub(super) fn cancel(&mut self) {
        self.life = None;
    }

    /// Waits until the launcher, and so everything it started, is gone. Cancel-safe.
    pub(super) async fn gone(&mut self) {
        // Whoever cannot be waited for is no child any more.
        let _ = self.launcher.wait().await;
    }

    /// Whether the launcher, and so everything it started, is gone.
    pub(super) fn is_gone(&mut self) -> bool {
        !matches!(self.launcher.try_wait(), Ok(None))
    }
}
