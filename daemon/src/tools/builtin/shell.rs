//! `shell`: runs a command line, to its end or in the background.
//!
//! The command belongs to a launcher, so a time-out, a cancel or the daemon's death ends all that it
//! started. One that is to run in the background is watched for a moment, so that the model sees
//! at once what fails at once; after that it is the session's, and outlives its call. What a
//! command in the foreground leaves running when its shell exits goes on too, and is held by the
//! same table.
//!
//! Receives calls through `builtin`; hands back the exit code and the output.

use std::time::Duration;

use agentd_protocol::item::ToolStatus;
use agentd_protocol::permission::Risk;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{approved_path, parse, spec};
use crate::launcher::{Cause, Order};
use crate::permission::{ApprovedCall, PathAccess, Target};
use crate::tools::background::Background;
use crate::tools::command::{Bounds, Command, End};
use crate::tools::live;
use crate::tools::output::Shown;
use crate::tools::{Prepared, Run, Tool, ToolContext, ToolOutput, ToolSpec, environment, path};

/// How long a command that is to run in the background is waited for: what cannot be found or
/// started ends within it.
const FIRST_LOOK: Duration = Duration::from_millis(500);

#[derive(Deserialize)]
struct Arguments {
    command: String,
    cwd: Option<String>,
    timeout_ms: Option<u64>,
    background: Option<bool>,
}

pub(super) struct Shell {
    spec: ToolSpec,
    background: Background,
}

impl Shell {
    pub(super) fn new(background: Background) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "command": { "type": "string", "minLength": 1, "description": "The command line, for bash." },
                "cwd": { "type": "string", "description": "The directory it runs in; the working directory if absent." },
                "timeout_ms": { "type": "integer", "minimum": 1, "maximum": 3_600_000, "description": "The longest it may run, in milliseconds. In the background there is no bound if absent." },
                "background": { "type": "boolean", "description": "Let it run on beside the conversation and return at once, for servers, watchers and long builds. shell_output shows what it writes, shell_kill ends it." },
                "description": { "type": "string", "description": "What it is for, in a few words." }
            },
            "required": ["command"],
            "additionalProperties": false
        });
        let description = "Run a command line and return its exit code and output. Nobody can \
            answer questions it asks: its standard input is empty, and editors and pagers do \
            nothing.";
        Self { spec: spec("shell", description, Risk::Execute, schema), background }
    }

    async fn shell(&self, call: &ApprovedCall, run: Run) -> Result<ToolOutput, String> {
        let arguments: Arguments = parse(call.arguments())?;
        let (config, context) = (&run.context.config, &run.context);
        let in_background = arguments.background == Some(true);
        if in_background {
            self.background.check_room(&context.session_id)?;
        }
        let otherwise = (!in_background).then_some(config.shell.timeout);
        let timeout = arguments.timeout_ms.map(Duration::from_millis).or(otherwise);
        let order = Order {
            call_id: call.call_id().to_string(),
            command: approved_command(call)?.to_owned(),
            cwd: approved_path(call, PathAccess::Read)?.to_owned(),
            env: environment::of_process(&context.env, config),
            timeout_ms: timeout.map(millis),
            grace_ms: millis(config.shell.kill_grace),
        };
        let bounds = Bounds { timeout, grace: config.shell.kill_grace };
        let started = self.background.start(&order, &context.outputs_dir, bounds).await;
        let command = started.map_err(|error| error.to_string())?;
        let at_most = in_background.then_some(FIRST_LOOK);
        match live::attend(&command, call.call_id(), &run, at_most).await {
            None => self.runs_on(call, &run, &order.command, command).await,
            Some(end) => {
                let shown = command.look().await?;
                let end = end?;
                let note = self.left(call, &run, &order.command, command, end);
                Ok(output(end, shown, timeout, note))
            }
        }
    }

    async fn runs_on(
        &self,
        call: &ApprovedCall,
        run: &Run,
        line: &str,
        command: Command,
    ) -> Result<ToolOutput, String> {
        let Shown { text, full } = command.look().await?;
        let session_id = &run.context.session_id;
        let process = self.background.hold(session_id, (call.call_id(), line), command, false);
        let text = if text.is_empty() { "[no output so far]" } else { text.as_str() };
        let mut output = ToolOutput::ok(with_note(
            format!("running in the background as {}\n{text}", process.process_id),
            "[shell_output shows what it writes from here on, shell_kill ends it; you will be told \
             when it exits]",
        ));
        output.full_output = full;
        output.background = Some(process);
        Ok(output)
    }

    /// Holds what a command left running; what is to be said of it.
    fn left(
        &self,
        call: &ApprovedCall,
        run: &Run,
        line: &str,
        command: Command,
        end: End,
    ) -> Option<String> {
        let (count, are, were) = match end.left {
            0 => return None,
            1 => ("1 process".to_owned(), "is", "was"),
            many => (format!("{many} processes"), "are", "were"),
        };
        if end.cause != Some(Cause::Exit) {
            return Some(format!("[{count} of this command {are} still there after SIGKILL]"));
        }
        let session_id = &run.context.session_id;
        if let Err(full) = self.background.check_room(session_id) {
            return Some(format!(
                "[{count} of this command {were} still running and {were} ended: {full}]"
            ));
        }
        let held = self.background.hold(session_id, (call.call_id(), line), command, true);
        Some(format!(
            "[{count} of this command {are} still running in the background as {}; no more output \
             is taken from there, and shell_kill ends it]",
            held.process_id
        ))
    }
}

impl Tool for Shell {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(&self, arguments: &Value, context: &ToolContext) -> Result<Prepared, String> {
        let Arguments { command, cwd, background, .. } = parse(arguments)?;
        let background = background == Some(true);
        // Named even if it is the session's own: a directory that is gone is told before the call.
        path::directory(context).map_err(|error| error.to_string())?;
        let cwd = path::resolve(cwd.as_deref().unwrap_or("."), context)
            .map_err(|error| error.to_string())?;
        let how = if background { "run in the background:" } else { "run" };
        Ok(Prepared {
            summary: super::summary(&format!("{how} {}", command.trim())),
            risk: Risk::Execute,
            parallel: false,
            // One that was started before may have exited since.
            polls: background,
            targets: vec![Target::Command(command), cwd.target(PathAccess::Read)],
        })
    }

    fn preview(&self, arguments: &Value, context: &ToolContext) -> Option<String> {
        let Arguments { command, cwd, background, .. } = parse(arguments).ok()?;
        let cwd = path::resolve(cwd.as_deref().unwrap_or("."), context).ok()?;
        let how = if background == Some(true) { ", in the background" } else { "" };
        Some(format!("$ {command}\n(in {}{how})", cwd.path.display()))
    }

    fn run<'a>(&'a self, call: &'a ApprovedCall, run: Run) -> BoxFuture<'a, ToolOutput> {
        self.shell(call, run).map(|done| done.unwrap_or_else(ToolOutput::error)).boxed()
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

fn output(end: End, shown: Shown, timeout: Option<Duration>, note: Option<String>) -> ToolOutput {
    let (status, how) = match (end.cause, end.code, end.signal) {
        (Some(Cause::Exit), Some(0), _) => (ToolStatus::Ok, "exit code 0".to_owned()),
        (Some(Cause::Exit), Some(code), _) => (ToolStatus::Error, format!("exit code {code}")),
        (Some(Cause::Exit), None, signal) => {
            let signal = signal.map_or("a signal".to_owned(), |signal| format!("signal {signal}"));
            (ToolStatus::Error, format!("killed by {signal}"))
        }
        (Some(Cause::Timeout), ..) => (
            ToolStatus::Error,
            format!(
                "Tool failed: it did not end within {} ms and was ended; ask for more with \
                 timeout_ms, or run it in smaller steps or in the background",
                millis(timeout.unwrap_or_default())
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
    let text = format!("{how}\n{text}");
    let text = match note {
        Some(note) => with_note(text, &note),
        None => text,
    };
    let mut output = ToolOutput::of(status, text);
    output.full_output = shown.full;
    output
}

/// A text with a line of our own at its end.
pub(super) fn with_note(mut text: String, note: &str) -> String {
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(note);
    text
}
