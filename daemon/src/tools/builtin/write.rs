//! `write`: makes a file, or replaces one whole.
//!
//! What is replaced must have been read in this session and be as it was then: a model must not
//! overwrite what it never saw, nor what somebody else saved meanwhile. The content is stored byte
//! for byte; only a BOM that the file had stays.
//!
//! Receives calls through `builtin`; hands back what changed.

use std::borrow::Cow;
use std::path::Path;

use agentd_protocol::event::ChangeKind;
use agentd_protocol::permission::Risk;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{approved_path, on_a_thread, parse, spec};
use crate::permission::{ApprovedCall, PathAccess};
use crate::tools::file::{self, BOM, Content};
use crate::tools::{FileSeen, Prepared, Run, Tool, ToolContext, ToolOutput, ToolSpec, diff, path};

#[derive(Deserialize)]
struct Arguments {
    path: String,
    content: String,
}

pub(super) struct Write(ToolSpec);

impl Write {
    pub(super) fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "The file: absolute, or relative to the working directory. Missing directories are made." },
                "content": { "type": "string", "description": "All of its content, exactly." }
            },
            "required": ["path", "content"],
            "additionalProperties": false
        });
        let description = "Write a whole file. One that exists must have been read in this \
            session; to change a part of it, use edit.";
        Self(spec("write", description, Risk::Write, schema))
    }
}

impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn prepare(&self, arguments: &Value, context: &ToolContext) -> Result<Prepared, String> {
        let Arguments { path, content } = parse(arguments)?;
        let resolved = path::resolve(&path, context).map_err(|error| error.to_string())?;
        let shown = resolved.shown();
        Ok(Prepared {
            summary: super::summary(&format!("write {shown} ({} bytes)", content.len())),
            risk: Risk::Write,
            parallel: false,
            polls: false,
            targets: vec![resolved.target(PathAccess::Write)],
        })
    }

    fn preview(&self, arguments: &Value, context: &ToolContext) -> Option<String> {
        let Arguments { path, content } = parse(arguments).ok()?;
        let resolved = path::resolve(&path, context).ok()?;
        let old = match file::read_whole(&resolved.path) {
            Ok(old) => old,
            Err(error) => return Some(format!("this would fail: {error}")),
        };
        let new = bytes_to_write(&content, old.as_ref());
        let shown = resolved.shown();
        let change = diff::change(shown, old.as_ref().map(|old| old.bytes.as_slice()), &new);
        change.diff.or_else(|| Some(format!("{} bytes, too many to show", new.len())))
    }

    fn refusal(&self, arguments: &Value, context: &ToolContext) -> Option<String> {
        let Arguments { path, .. } = parse(arguments).ok()?;
        let resolved = path::resolve(&path, context).ok()?;
        old(&resolved.path, context).err()
    }

    fn run<'a>(&'a self, call: &'a ApprovedCall, run: Run) -> BoxFuture<'a, ToolOutput> {
        on_a_thread(call, run, write)
    }
}

fn write(call: &ApprovedCall, run: &Run) -> Result<ToolOutput, String> {
    let Arguments { content, .. } = parse(call.arguments())?;
    let path = approved_path(call, PathAccess::Write)?;
    let shown = path::shown(path, &run.context);
    let old = old(path, &run.context)?;
    let new = bytes_to_write(&content, old.as_ref());
    run.keep(call, path, old.as_ref(), Some(&new))?;
    let written = match &old {
        Some(old) => file::replace(path, old, &new),
        None => file::create(path, &new),
    }
    .map_err(|error| error.to_string())?;
    let change = diff::change(shown, old.as_ref().map(|old| old.bytes.as_slice()), &new);
    let done = if change.kind == ChangeKind::Created { "created" } else { "replaced" };
    let mut text = format!("{done} {} ({} bytes)", change.path, new.len());
    text.push_str(&links_note(written.other_links));
    let mut result = ToolOutput::ok(text);
    result.seen = vec![FileSeen { path: path.to_owned(), sha256: written.sha256 }];
    result.changes = vec![change];
    Ok(result)
}

/// What is there, if anything is, which this session has seen as it is.
fn old(path: &Path, context: &ToolContext) -> Result<Option<Content>, String> {
    let old = file::read_whole(path).map_err(|error| error.to_string())?;
    let Some(content) = &old else { return Ok(None) };
    let shown = path::shown(path, context);
    match context.files.get(path) {
        None => Err(format!("{shown} exists and was not read in this session; read it first")),
        Some(seen) if seen != content.sha256 => {
            Err(format!("{shown} has changed since it was read; read it again"))
        }
        Some(_) => Ok(old),
    }
}

fn bytes_to_write<'a>(content: &'a str, old: Option<&Content>) -> Cow<'a, [u8]> {
    let content = content.as_bytes();
    if old.is_some_and(Content::has_bom) && !content.starts_with(BOM) {
        return Cow::Owned([BOM, content].concat());
    }
    Cow::Borrowed(content)
}

/// What is to be said about a file that had other names.
pub(super) fn links_note(other_links: u64) -> String {
    match other_links {
        0 => String::new(),
        1 => "\n[the file had another hard link, which keeps the old content]".to_owned(),
        many => format!("\n[the file had {many} other hard links, which keep the old content]"),
    }
}
