//! `shell_kill`: ends a background command with all that it started.
//!
//! The command was allowed when it was started, so ending it asks nobody.
//!
//! Receives calls through `builtin`; hands back how it ended, and what it still wrote.

use agentd_protocol::id::ProcessId;
use agentd_protocol::permission::Risk;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;

use super::shell_output::{Arguments, schema, told};
use super::{interrupted, parse, spec};
use crate::permission::{ApprovedCall, Target};
use crate::tools::background::Background;
use crate::tools::{Prepared, Run, Tool, ToolContext, ToolOutput, ToolSpec};

pub(super) struct ShellKill {
    spec: ToolSpec,
    background: Background,
}

impl ShellKill {
    pub(super) fn new(background: Background) -> Self {
        let description = "End a background command and everything that it started.";
        Self { spec: spec("shell_kill", description, Risk::Execute, schema()), background }
    }

    async fn kill(&self, call: &ApprovedCall, run: Run) -> Result<ToolOutput, String> {
        let Arguments { process_id } = parse(call.arguments())?;
        let held = self.background.find(&run.context.session_id, &process_id)?;
        held.command.cancel();
        let gone = tokio::select! {
            gone = held.command.gone() => gone,
            () = run.cancel.cancelled() => return Ok(interrupted()),
        };
        if !gone {
            return Err(format!("{process_id} was told to end; that it has is not confirmed"));
        }
        told(&held).await
    }
}

impl Tool for ShellKill {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn prepare(&self, arguments: &Value, _: &ToolContext) -> Result<Prepared, String> {
        let Arguments { process_id } = parse(arguments)?;
        Ok(Prepared {
            summary: super::summary(&format!("end {process_id}")),
            risk: Risk::Execute,
            parallel: false,
            polls: true,
            targets: vec![Target::Process(ProcessId::from(process_id))],
        })
    }

    fn run<'a>(&'a self, call: &'a ApprovedCall, run: Run) -> BoxFuture<'a, ToolOutput> {
        self.kill(call, run).map(|done| done.unwrap_or_else(ToolOutput::error)).boxed()
    }
}
