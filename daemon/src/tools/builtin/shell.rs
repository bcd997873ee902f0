//! `shell`: runs a command line to its end.
//!
//! The command belongs to a launcher, so a time-out, a cancel or the daemon's death ends all that it
//! started. What it leaves running in the background when its shell exits goes on, held here by the
//! pipe that is its life, until the daemon ends or the session has too many of them.
//!
//! Output is collected on a thread of its own: it is cut and kept on disk there, and handed on live
//! as far as a person would read it.
//!
//! Receives calls through `builtin`; hands back the exit code and the output.

use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentd_protocol::id::{CallId, SessionId};
use agentd_protocol::item::ToolStatus;
use agentd_protocol::permission::Risk;
use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{approved_path, parse, spec};
use crate::launcher::{Cause, Order, Report};
use crate::permission::{ApprovedCall, PathAccess, Target};
use crate::tools::output::{Decoder, Output, Shown};
use crate::tools::process::{Launchers, News, Process, Stream};
use crate::tools::{
    OutputChunk, Prepared, Run, Tool, ToolContext, ToolOutput, ToolSpec, environment, path,
};

/// Pieces between the launcher and the collecting thread, 64 KiB at most each; when they are full
/// the command waits.
const PIECES: usize = 16;

/// Bytes that are handed on live of one call; all of it is in the result.
const MAX_LIVE_BYTES: usize = 256 * 1024;

/// What a launcher may take longer than its own bounds before it is given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Commands with something left in the background that one session may have; the oldest ends.
const MAX_LEFT_BEHIND: usize = 16;

#[derive(Deserialize)]
struct Arguments {
    command: String,
    cwd: Option<String>,
    timeout_ms: Option<u64>,
}

pub(super) struct Shell {
    spec: ToolSpec,
    launchers: Launchers,
    left_behind: Mutex<Vec<(SessionId, Process)>>,
}

impl Shell {
    pub(super) fn new(launchers: Launchers) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "command": { "type": "string", "minLength": 1, "description": "The command line, for bash." },
                "cwd": { "type": "string", "description": "The directory it runs in; the working directory if absent." },
                "timeout_ms": { "type": "integer", "minimum": 1, "maximum": 3_600_000, "description": "The longest it may run, in milliseconds." },
                "description": { "type": "string", "description": "What it is for, in a few words." }
            },
            "required": ["command"],
            "additionalProperties": false
        });
        let description = "Run a command line and return its exit code and output. Nobody can \
            answer questions it asks: its standard input is empty, and editors and pagers do \
            nothing.";
        let spec = spec("shell", description, Risk::Execute, schema);
        Self { spec, launchers, left_behind: Mutex::new(Vec::new()) }
    }

    async fn shell(&self, call: &ApprovedCall, run: Run) -> Result<ToolOutput, String> {
        let arguments: Arguments = parse(call.arguments())?;
        let config = &run.context.config;
        let timeout = arguments.timeout_ms.map_or(config.shell.timeout, Duration::from_millis);
        let order = Order {
            call_id: call.call_id().to_string(),
            command: approved_command(call)?.to_owned(),
            cwd: approved_path(call, PathAccess::Read)?.to_owned(),
            env: environment::of_process(&run.context.env, config),
            timeout_ms: millis(timeout),
            grace_ms: millis(config.shell.kill_grace),
        };
        let mut process = self.launchers.start(&order).await.map_err(|error| error.to_string())?;
        let collector = Collector::new(&run, call.call_id());
        let (pieces, received) = mpsc::channel(PIECES);
        let collecting = tokio::task::spawn_blocking(move || collector.collect(received));
        let bounds = Bounds { timeout, grace: config.shell.kill_grace };
        let end = watch(&mut process, &run.cancel, pieces, bounds).await;
        let shown = collecting
            .await
            .map_err(|_| "collecting the output broke off; this is a fault of agentd".to_owned())?;
        let end = end?;
        if end.left > 0 && end.cause == Some(Cause::Exit) {
            self.keep(&run.context.session_id, process);
        }
        Ok(end.output(shown, timeout))
    }

    fn left(&self) -> MutexGuard<'_, Vec<(SessionId, Process)>> {
        self.left_behind.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds what a command left in the background.
    fn keep(&self, session_id: &SessionId, process: Process) {
        let mut left = self.left();
        left.retain_mut(|(_, process)| !process.is_gone());
        left.push((session_id.clone(), process));
        let of_session = |(id, _): &(SessionId, Process)| id == session_id;
        if left.iter().filter(|entry| of_session(entry)).count() > MAX_LEFT_BEHIND
            && let Some(oldest) = left.iter().position(of_session)
        {
            left.remove(oldest);
        }
    }
}

impl Tool for Shell {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(&self, arguments: &Value, context: &ToolContext) -> Result<Prepared, String> {
        let Arguments { command, cwd, .. } = parse(arguments)?;
        // Named even if it is the session's own: a directory that is gone is told before the call.
        path::directory(context).map_err(|error| error.to_string())?;
        let cwd = path::resolve(cwd.as_deref().unwrap_or("."), context)
            .map_err(|error| error.to_string())?;
        Ok(Prepared {
            summary: super::summary(&format!("run {}", command.trim())),
            risk: Risk::Execute,
            parallel: false,
            polls: false,
            targets: vec![Target::Command(command), cwd.target(PathAccess::Read)],
        })
    }

    fn preview(&self, arguments: &Value, context: &ToolContext) -> Option<String> {
        let Arguments { command, cwd, .. } = parse(arguments).ok()?;
        let cwd = path::resolve(cwd.as_deref().unwrap_or("."), context).ok()?;
        Some(format!("$ {command}\n(in {})", cwd.path.display()))
    }

    fn run<'a>(&'a self, call: &'a ApprovedCall, run: Run) -> BoxFuture<'a, ToolOutput> {
        self.shell(call, run).map(|done| done.unwrap_or_else(ToolOutput::error)).boxed()
    }

    fn end_session(&self, session_id: &SessionId) {
        self.left().retain(|(id, _)| id != session_id);
    }
}

fn approved_command(call: &ApprovedCall) -> Result<&str, String> {
    call.targets()
        .iter()
        .find_map(|target| match target {
            Target::Command(line) => Some(line.as_str()),
            _ => None,
        })
        .ok_or_else(|| "the call was approved for no command".to_owned())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[derive(Clone, Copy)]
struct Bounds {
    timeout: Duration,
    grace: Duration,
}

/// How a command ended; without a cause it is not known to have ended.
struct End {
    cause: Option<Cause>,
    code: Option<i32>,
    signal: Option<i32>,
    left: usize,
}

/// Hands output on until the report.
async fn watch(
    process: &mut Process,
    cancel: &CancellationToken,
    pieces: mpsc::Sender<(Stream, Bytes)>,
    bounds: Bounds,
) -> Result<End, String> {
    // The launcher keeps these bounds itself; this is for one that does not.
    let ending = bounds.grace + PATIENCE;
    let mut give_up = pin!(tokio::time::sleep(bounds.timeout + ending));
    let mut cancelled = false;
    loop {
        tokio::select! {
            news = process.next() => match news.map_err(|error| error.to_string())? {
                News::Output(stream, bytes) => {
                    // The thread takes all pieces until the channel closes.
                    let _ = pieces.send((stream, bytes)).await;
                }
                News::Report(Report::Failed { reason }) => return Err(reason),
                News::Report(Report::Ended { cause, code, signal, left }) => {
                    return Ok(End { cause: Some(cause), code, signal, left });
                }
            },
            () = cancel.cancelled(), if !cancelled => {
                cancelled = true;
                process.cancel();
                give_up.as_mut().reset(tokio::time::Instant::now() + ending);
            }
            () = &mut give_up => {
                process.cancel();
                return Ok(End { cause: None, code: None, signal: None, left: 0 });
            }
        }
    }
}

impl End {
    fn output(&self, shown: Shown, timeout: Duration) -> ToolOutput {
        let (status, how) = match (self.cause, self.code, self.signal) {
            (Some(Cause::Exit), Some(0), _) => (ToolStatus::Ok, "exit code 0".to_owned()),
            (Some(Cause::Exit), Some(code), _) => (ToolStatus::Error, format!("exit code {code}")),
            (Some(Cause::Exit), None, signal) => {
                let signal =
                    signal.map_or("a signal".to_owned(), |signal| format!("signal {signal}"));
                (ToolStatus::Error, format!("killed by {signal}"))
            }
            (Some(Cause::Timeout), ..) => (
                ToolStatus::Error,
                format!(
                    "Tool failed: it did not end within {} ms and was ended; ask for more with \
                     timeout_ms, or run it in smaller steps",
                    millis(timeout)
                ),
            ),
            (Some(Cause::Cancel), ..) => {
                (ToolStatus::Interrupted, "interrupted; the command was ended".to_owned())
            }
            (None, ..) => (
                ToolStatus::Interrupted,
                "interrupted; whether the command has ended is not confirmed".to_owned(),
            ),
        };
        let text = if shown.text.is_empty() { "[no output]" } else { shown.text.as_str() };
        let mut text = format!("{how}\n{text}");
        if self.left > 0 {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&self.left_note());
        }
        let mut output = ToolOutput::of(status, text);
        output.full_output = shown.full;
        output
    }

    fn left_note(&self) -> String {
        let (count, are) = match self.left {
            1 => ("1 process".to_owned(), "is"),
            many => (format!("{many} processes"), "are"),
        };
        match self.cause {
            Some(Cause::Exit) => format!(
                "[{count} of this command {are} still running in the background; no more output is \
                 taken from there]"
            ),
            _ => format!("[{count} of this command {are} still there after SIGKILL]"),
        }
    }
}

/// Turns pieces of two streams into one text, marked where the stream changes.
struct Collector {
    call_id: CallId,
    live: mpsc::Sender<OutputChunk>,
    live_bytes: usize,
    output: Output,
    stream: Stream,
    decoders: [Decoder; 2],
}

impl Collector {
    fn new(run: &Run, call_id: &CallId) -> Self {
        Self {
            call_id: call_id.clone(),
            live: run.output.clone(),
            live_bytes: 0,
            output: Output::new(&run.context.outputs_dir),
            stream: Stream::Stdout,
            decoders: [Decoder::default(), Decoder::default()],
        }
    }

    fn collect(mut self, mut pieces: mpsc::Receiver<(Stream, Bytes)>) -> Shown {
        while let Some((stream, bytes)) = pieces.blocking_recv() {
            let text = self.decoders[stream as usize].decode(&bytes);
            self.add(stream, &text);
        }
        for stream in [Stream::Stdout, Stream::Stderr] {
            let text = self.decoders[stream as usize].finish();
            self.add(stream, text);
        }
        self.output.finish()
    }

    fn add(&mut self, stream: Stream, text: &str) {
        if text.is_empty() {
            return;
        }
        let mark = if stream == self.stream { "" } else { self.mark(stream) };
        self.stream = stream;
        self.push(mark);
        self.push(text);
    }

    fn mark(&self, stream: Stream) -> &'static str {
        match (stream, self.output.at_line_start()) {
            (Stream::Stdout, true) => "[stdout]\n",
            (Stream::Stdout, false) => "\n[stdout]\n",
            (Stream::Stderr, true) => "[stderr]\n",
            (Stream::Stderr, false) => "\n[stderr]\n",
        }
    }

    fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.output.push(text);
        let room = MAX_LIVE_BYTES - self.live_bytes;
        let live = &text[..text.floor_char_boundary(room.min(text.len()))];
        if live.is_empty() {
            return;
        }
        self.live_bytes += live.len();
        let chunk = OutputChunk { call_id: self.call_id.clone(), chunk: live.to_owned() };
        // Live output that nobody takes in time is left out; the result has it.
        let _ = self.live.try_send(chunk);
    }
}
