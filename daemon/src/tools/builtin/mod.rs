//! The tools that agentd brings along, one file each.
//!
//! Each is a schema, what a call of it would be, and a function that runs one. Those that only
//! touch files run on a thread of their own, since the file system may block.
//!
//! Receives calls through `registry`; hands outputs back.

mod edit;
pub(super) mod glob;
pub(super) mod grep;
mod list;
mod read;
mod shell;
mod shell_kill;
mod shell_output;
mod write;

use std::path::Path;
use std::sync::Arc;

use agentd_protocol::item::ToolStatus;
use agentd_protocol::permission::Risk;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::background::Background;
use super::output::Output;
use super::path::Resolved;
use super::{Prepared, Run, Tool, ToolContext, ToolOutput, ToolSpec};
use crate::permission::{ApprovedCall, PathAccess, Target};

/// Characters of a summary.
const MAX_SUMMARY_CHARS: usize = 200;

/// All of them, in the order in which models see them.
pub(super) fn all(background: &Background) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(read::Read::new()),
        Arc::new(write::Write::new()),
        Arc::new(edit::Edit::new()),
        Arc::new(list::List::new()),
        Arc::new(glob::Glob::new()),
        Arc::new(grep::Grep::new()),
        Arc::new(shell::Shell::new(background.clone())),
        Arc::new(shell_output::ShellOutput::new(background.clone())),
        Arc::new(shell_kill::ShellKill::new(background.clone())),
    ]
}

fn spec(name: &str, description: &str, risk: Risk, input_schema: Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        input_schema,
        risk,
        origin: "builtin".to_owned(),
    }
}

/// The arguments as the tool's own type; the schema was checked before.
fn parse<T: DeserializeOwned>(arguments: &Value) -> Result<T, String> {
    serde_json::from_value(arguments.clone()).map_err(|error| format!("the arguments: {error}"))
}

/// One line, not too long.
fn summary(text: &str) -> String {
    let mut lines = text.trim().lines();
    let line = lines.next().unwrap_or_default();
    let cut = lines.next().is_some() || line.chars().count() > MAX_SUMMARY_CHARS;
    if !cut {
        return line.to_owned();
    }
    line.chars().take(MAX_SUMMARY_CHARS - 1).chain(['…']).collect()
}

/// What a call is that reads below one path and may run beside others.
fn reading(what: &str, resolved: &Resolved) -> Prepared {
    Prepared {
        summary: summary(what),
        risk: Risk::Read,
        parallel: true,
        polls: false,
        targets: vec![resolved.target(PathAccess::Read)],
    }
}

/// The one path that the call may touch: what was judged, not what the arguments lead to by now.
fn approved_path(call: &ApprovedCall, wanted: PathAccess) -> Result<&Path, String> {
    call.targets()
        .iter()
        .find_map(|target| match target {
            Target::Path { path, access, .. } if *access == wanted => Some(path.as_path()),
            _ => None,
        })
        .ok_or_else(|| "the call was approved for no path".to_owned())
}

/// What a search found, in lines, with what is to be said about it.
fn found(context: &ToolContext, mut text: String, notes: &[String]) -> ToolOutput {
    for note in notes {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.extend(["[", note, "]\n"]);
    }
    let shown = Output::of(&context.outputs_dir, &text);
    let mut output = ToolOutput::ok(shown.text);
    output.full_output = shown.full;
    output
}

/// What is said when the turn ended before the work was done.
fn interrupted() -> ToolOutput {
    ToolOutput::of(ToolStatus::Interrupted, "interrupted")
}

/// Runs file work where it may block. Work that takes long looks at `run.cancel`.
fn on_a_thread<'a>(
    call: &ApprovedCall,
    run: Run,
    work: fn(&ApprovedCall, &Run) -> Result<ToolOutput, String>,
) -> BoxFuture<'a, ToolOutput> {
    let call = call.clone();
    async move {
        match tokio::task::spawn_blocking(move || work(&call, &run)).await {
            Ok(Ok(output)) => output,
            Ok(Err(reason)) => ToolOutput::error(reason),
            Err(_) => ToolOutput::error("the tool broke off; this is a fault of agentd"),
        }
    }
    .boxed()
}
