//! A command behind a launcher, as the daemon sees it.
//!
//! The pipe to the launcher is the command's life: whoever drops a [`Process`] ends everything the
//! command started. That holds for a cancel, for a task that is aborted, and for the daemon's own
//! death.
//!
//! Receives orders from `shell`; hands it output and the end.

use std::io;
use std::path::Path;
use std::process::Stdio;

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

/// A running command. Dropping it ends it.
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
    pub(super) async fn start(program: &Path, order: &Order) -> Result<Self, Error> {
        let failed = |cause| Error::Start { path: program.display().to_string(), cause };
        let mut launcher = Command::new(program)
            .arg(launcher::FLAG)
            .arg(&order.call_id)
            .env_clear()
            .env(launcher::CALL_ID, &order.call_id)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let (Some(mut life), Some(stdout)) = (launcher.stdin.take(), launcher.stdout.take()) else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        let order = serde_json::to_vec(order).map_err(|error| failed(error.into()))?;
        let length = u32::try_from(order.len()).map_err(|_| failed(io::ErrorKind::Other.into()))?;
        life.write_all(&length.to_be_bytes()).await.map_err(failed)?;
        life.write_all(&order).await.map_err(failed)?;
        let frames = FramedRead::new(stdout, LengthDelimitedCodec::new());
        Ok(Self { launcher, life: Some(life), frames })
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

    /// Whether the launcher, and so everything it started, is gone.
    pub(super) fn is_gone(&mut self) -> bool {
        !matches!(self.launcher.try_wait(), Ok(None))
    }
}
