//! `shell_output`: what a background command wrote since the last look, and whether it runs.
//!
//! A look at a command that runs and has written nothing waits a little for news, so that a model
//! that looks again and again does not do it for nothing.
//!
//! Receives calls through `builtin`; hands back the state and the output.

use std::time::Duration;

use agentd_protocol::permission::Risk;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{interrupted, parse, spec};
use crate::permission::ApprovedCall;
use crate::tools::background::{Background, Held};
use crate::tools::{Prepared, Run, Tool, ToolContext, ToolOutput, ToolSpec};

/// How long a look waits for news.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Deserialize)]
pub(super) struct Arguments {
    pub(super) process_id: String,
}

pub(super) struct ShellOutput {
    spec: ToolSpec,
    background: Background,
}

/// The arguments of the tools that concern one background command.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "process_id": { "type": "string", "minLength": 1, "description": "Its id, as shell told it." }
        },
        "required": ["process_id"],
        "additionalProperties": false
    })
}

impl ShellOutput {
    pub(super) fn new(background: Background) -> Self {
        let description = "Show what a background command has written since the last look, and \
            whether it still runs.";
        Self { spec: spec("shell_output", description, Risk::Read, schema()), background }
    }

    async fn look(&self, call: &ApprovedCall, run: Run) -> Result<ToolOutput, String> {
        let Arguments { process_id } = parse(call.arguments())?;
        let held = self.background.find(&run.context.session_id, &process_id)?;
        let mut status = held.command.watch();
        let looked_at = held.command.looked_at();
        let news = status.wait_for(|now| now.bytes > looked_at || now.end.is_some());
        tokio::select! {
            // A command whose task is gone has no news either.
            _ = tokio::time::timeout(PATIENCE, news) => {}
            () = run.cancel.cancelled() => return Ok(interrupted()),
        }
        told(&held).await
    }
}

impl Tool for ShellOutput {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(&self, arguments: &Value, _: &ToolContext) -> Result<Prepared, String> {
        let Arguments { process_id } = parse(arguments)?;
        Ok(Prepared {
            summary: super::summary(&format!("look at {process_id}")),
            risk: Risk::Read,
            // What it shows is not shown again, so it never runs before its answer is whole.
            parallel: false,
            polls: true,
            targets: Vec::new(),
        })
    }

    fn run<'a>(&'a self, call: &'a ApprovedCall, run: Run) -> BoxFuture<'a, ToolOutput> {
        self.look(call, run).map(|done| done.unwrap_or_else(ToolOutput::error)).boxed()
    }
}

/// How a command is, and what it wrote since the last look.
pub(super) async fn told(held: &Held) -> Result<ToolOutput, String> {
    // The state first: what it wrote before its end is then among the output.
    let state = state(held);
    let shown = held.command.look().await?;
    let text = if shown.text.is_empty() { "[no new output]" } else { shown.text.as_str() };
    let mut output = ToolOutput::ok(format!("{state}\n{text}"));
    output.full_output = shown.full;
    Ok(output)
}

/// `proc_1 is running`, `proc_1 exited with code 1`
fn state(held: &Held) -> String {
    let id = &held.process.process_id;
    let exit = held.exit().map(|exit| exit.how());
    match (exit, held.runs(), held.is_left) {
        (None, ..) => format!("{id} is running"),
        (Some(_), true, true) => {
            format!("{id} is running: what its command left behind; no output is taken from there")
        }
        (Some(_), false, true) => format!("{id} is gone"),
        (Some(how), true, false) => {
            format!("{id} {how}; what it left behind still runs, and shell_kill ends it")
        }
        (Some(how), false, false) => format!("{id} {how}"),
    }
}
