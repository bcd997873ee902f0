//! A command that runs: its output as it is collected, and how it ends.
//!
//! One task takes what the launcher says, for as long as there is somebody who has the [`Command`];
//! dropping it ends everything the command started. The output is cut and kept on disk off the
//! async threads, a batch at a time; while one is in work and [`PIECES`] more have come, the
//! launcher waits, and with it the command. So memory is bounded, and a command that runs for days
//! and says nothing holds no thread.
//!
//! Receives a process behind a launcher from `background`; hands its output and its end to the
//! tools.

use std::fmt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::live::Tail;
use super::output::{Decoder, Output, Shown};
use super::process::{News, Process, Stream};
use crate::launcher::{Cause, Report};

/// Pieces that wait while others are collected, 64 KiB at most each.
const PIECES: usize = 16;

/// What a launcher may take longer than its own bounds before it is given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is said when a task of ours panicked.
pub(super) const FAULT: &str =
    "following the command broke off, and it was ended; this is a fault of agentd";

/// How long a command may run, and what it gets between SIGTERM and SIGKILL.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) timeout: Option<Duration>,
    pub(super) grace: Duration,
}

/// How a command ended; without a cause it is not known to have ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) cause: Option<Cause>,
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
    /// Processes that it left running.
    pub(super) left: usize,
}

/// What is known of a command.
#[derive(Debug, Clone, Default)]
pub(super) struct Status {
    /// Bytes that it wrote so far.
    pub(super) bytes: u64,
    /// How it ended, or why that cannot be known.
    pub(super) end: Option<Result<End, String>>,
    /// Nothing of it is left, or it was given up.
    pub(super) gone: bool,
}

/// A command that runs or has run. Dropping it ends all that it started.
pub(super) struct Command {
    shared: Arc<Shared>,
    status: watch::Receiver<Status>,
    grace: Duration,
    _following: AbortOnDropHandle<()>,
}

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Command").field("status", &*self.status.borrow()).finish_non_exhaustive()
    }
}

/// What the task that follows the command and those who look share.
struct Shared {
    collected: Mutex<Collected>,
    /// Apart from the rest, which may be held while it is written to disk.
    live: Mutex<Tail>,
    /// Bytes of the output up to the last look.
    looked_at: AtomicU64,
    cancel: CancellationToken,
}

impl Command {
    /// Follows a process. Whenever a command of `ended` ends, those who wait there are told.
    pub(super) fn follow(
        process: Process,
        outputs_dir: &Path,
        bounds: Bounds,
        ended: Arc<Notify>,
    ) -> Self {
        let shared = Arc::new(Shared {
            collected: Mutex::new(Collected::new(outputs_dir)),
            live: Mutex::default(),
            looked_at: AtomicU64::new(0),
            cancel: CancellationToken::new(),
        });
        let (sender, status) = watch::channel(Status::default());
        let follower =
            Follower { process, shared: Arc::clone(&shared), status: sender, bounds, ended };
        let following = AbortOnDropHandle::new(tokio::spawn(follower.run()));
        Self { shared, status, grace: bounds.grace, _following: following }
    }

    /// What is known of it now.
    pub(super) fn status(&self) -> Status {
        self.status.borrow().clone()
    }

    /// To wait for news of it.
    pub(super) fn watch(&self) -> watch::Receiver<Status> {
        self.status.clone()
    }

    /// Ends all that it started; its end follows.
    pub(super) fn cancel(&self) {
        self.shared.cancel.cancel();
    }

    /// Waits until nothing of it is left. False: it is not known to be gone.
    pub(super) async fn gone(&self) -> bool {
        let mut status = self.watch();
        let gone = status.wait_for(|status| status.gone);
        let waited = tokio::time::timeout(self.grace + 2 * PATIENCE, gone).await;
        let confirmed =
            |status: &Status| !matches!(&status.end, Some(Ok(end)) if end.cause.is_none());
        waited.is_ok_and(|status| status.is_ok_and(|status| confirmed(&status)))
    }

    /// Output for those who watch, and how many bytes were before it.
    pub(super) fn live(&self) -> Option<(u64, String)> {
        lock(&self.shared.live).take()
    }

    /// Its output since the last look.
    pub(super) async fn look(&self) -> Result<Shown, String> {
        let shared = Arc::clone(&self.shared);
        let looked = tokio::task::spawn_blocking(move || {
            let mut collected = lock(&shared.collected);
            shared.looked_at.store(collected.bytes, Ordering::Release);
            collected.take()
        });
        looked.await.map_err(|_| FAULT.to_owned())
    }

    /// How much it had written at the last look, in bytes.
    pub(super) fn looked_at(&self) -> u64 {
        self.shared.looked_at.load(Ordering::Acquire)
    }
}

/// The task's own.
struct Follower {
    process: Process,
    shared: Arc<Shared>,
    status: watch::Sender<Status>,
    bounds: Bounds,
    ended: Arc<Notify>,
}

impl Follower {
    async fn run(mut self) {
        let end = self.until_end().await;
        let stays = matches!(&end, Ok(End { cause: Some(Cause::Exit), left: 1.., .. }));
        self.status.send_modify(|status| {
            status.end = Some(end);
            status.gone = !stays;
        });
        self.ended.notify_waiters();
        if stays {
            self.until_gone().await;
            self.status.send_modify(|status| status.gone = true);
        }
    }

    /// Takes what the command says until its end is reported, and collects it.
    async fn until_end(&mut self) -> Result<End, String> {
        let mut pieces = Vec::new();
        let mut collecting = None;
        let end = self.hear(&mut pieces, &mut collecting).await;
        if collecting.is_some() {
            self.collected(over(&mut collecting).await)?;
        }
        let shared = Arc::clone(&self.shared);
        let last = tokio::task::spawn_blocking(move || {
            let mut collected = lock(&shared.collected);
            collected.add(pieces, &shared.live);
            collected.add_rest(&shared.live)
        });
        self.collected(last.await.map_err(|_| FAULT.to_owned()))?;
        end
    }

    async fn hear(
        &mut self,
        pieces: &mut Vec<(Stream, Bytes)>,
        collecting: &mut Option<JoinHandle<u64>>,
    ) -> Result<End, String> {
        // The launcher keeps these bounds itself; this is for one that does not.
        let ending = self.bounds.grace + PATIENCE;
        let longest = self.bounds.timeout.map_or(Duration::MAX, |timeout| timeout + ending);
        let mut give_up = pin!(tokio::time::sleep(longest));
        let mut cancelled = false;
        loop {
            tokio::select! {
                news = self.process.next(), if pieces.len() < PIECES => {
                    match news.map_err(|error| error.to_string())? {
                        News::Output(stream, bytes) => pieces.push((stream, bytes)),
                        News::Report(Report::Failed { reason }) => return Err(reason),
                        News::Report(Report::Ended { cause, code, signal, left }) => {
                            return Ok(End { cause: Some(cause), code, signal, left });
                        }
                    }
                }
                bytes = over(collecting) => self.collected(bytes)?,
                () = self.shared.cancel.cancelled(), if !cancelled => {
                    cancelled = true;
                    self.process.cancel();
                    give_up.as_mut().reset(tokio::time::Instant::now() + ending);
                }
                () = &mut give_up => {
                    self.process.cancel();
                    return Ok(End { cause: None, code: None, signal: None, left: 0 });
                }
            }
            if collecting.is_none() && !pieces.is_empty() {
                let (shared, batch) = (Arc::clone(&self.shared), std::mem::take(pieces));
                *collecting = Some(tokio::task::spawn_blocking(move || {
                    lock(&shared.collected).add(batch, &shared.live)
                }));
            }
        }
    }

    fn collected(&self, bytes: Result<u64, String>) -> Result<(), String> {
        let bytes = bytes?;
        self.status.send_modify(|status| status.bytes = bytes);
        Ok(())
    }

    /// Waits until what the command left behind is gone too.
    async fn until_gone(&mut self) {
        tokio::select! {
            () = self.process.gone() => return,
            () = self.shared.cancel.cancelled() => self.process.cancel(),
        }
        // One that does not end by itself loses its hold on us, and nobody waits for it.
        let _ = tokio::time::timeout(self.bounds.grace + PATIENCE, self.process.gone()).await;
    }
}

/// What a batch came to; waits for ever where none is in work.
async fn over(collecting: &mut Option<JoinHandle<u64>>) -> Result<u64, String> {
    let Some(job) = collecting else { return std::future::pending().await };
    let bytes = job.await;
    *collecting = None;
    bytes.map_err(|_| FAULT.to_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two streams as one text, marked where the stream changes.
struct Collected {
    directory: PathBuf,
    /// Since the last look.
    output: Output,
    stream: Stream,
    decoders: [Decoder; 2],
    /// Of the whole text.
    bytes: u64,
}

impl Collected {
    fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            output: Output::new(directory),
            stream: Stream::Stdout,
            decoders: [Decoder::default(), Decoder::default()],
            bytes: 0,
        }
    }

    /// Adds pieces; how long the whole text is now.
    fn add(&mut self, pieces: Vec<(Stream, Bytes)>, live: &Mutex<Tail>) -> u64 {
        for (stream, bytes) in pieces {
            let text = self.decoders[stream as usize].decode(&bytes);
            self.push(stream, &text, live);
        }
        self.bytes
    }

    /// Adds characters that were cut short, when nothing more comes.
    fn add_rest(&mut self, live: &Mutex<Tail>) -> u64 {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let text = self.decoders[stream as usize].finish();
            self.push(stream, text, live);
        }
        self.bytes
    }

    fn push(&mut self, stream: Stream, text: &str, live: &Mutex<Tail>) {
        if text.is_empty() {
            return;
        }
        let mark = if stream == self.stream { "" } else { self.mark(stream) };
        self.stream = stream;
        for text in [mark, text] {
            self.output.push(text);
            self.bytes += text.len() as u64;
            lock(live).push(text);
        }
    }

    fn mark(&self, stream: Stream) -> &'static str {
        match (stream, self.output.at_line_start()) {
            (Stream::Stdout, true) => "[stdout]\n",
            (Stream::Stdout, false) => "\n[stdout]\n",
            (Stream::Stderr, true) => "[stderr]\n",
            (Stream::Stderr, false) => "\n[stderr]\n",
        }
    }

    /// What came since the last look; the next one starts afresh.
    fn take(&mut self) -> Shown {
        self.stream = Stream::Stdout;
        std::mem::replace(&mut self.output, Output::new(&self.directory)).finish()
    }
}
