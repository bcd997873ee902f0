//! `list`: the tree below a directory.
//!
//! What version control ignores is left out, its own folder too; links are shown and not followed,
//! so nothing cycles and nothing outside shows up.
//!
//! Receives calls through `builtin`; hands back the tree.

use std::path::Path;

use agentd_protocol::permission::Risk;
use futures_util::future::BoxFuture;
use ignore::DirEntry;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{approved_path, found, on_a_thread, parse, spec};
use crate::permission::{ApprovedCall, PathAccess};
use crate::tools::{Prepared, Run, Tool, ToolContext, ToolOutput, ToolSpec, path, walk};

/// Levels shown unless asked otherwise.
const DEPTH: usize = 3;

/// Entries shown.
const MAX_ENTRIES: usize = 1_000;

#[derive(Deserialize)]
struct Arguments {
    path: Option<String>,
    depth: Option<usize>,
}

pub(super) struct List(ToolSpec);

impl List {
    pub(super) fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "The directory; the working directory if absent." },
                "depth": { "type": "integer", "minimum": 1, "maximum": 20, "description": "Levels to show; 3 if absent." }
            },
            "additionalProperties": false
        });
        let description = "Show the tree below a directory. Files that version control ignores \
            are left out.";
        Self(spec("list", description, Risk::Read, schema))
    }
}

impl Tool for List {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn prepare(&self, arguments: &Value, context: &ToolContext) -> Result<Prepared, String> {
        let Arguments { path, .. } = parse(arguments)?;
        let resolved = path::resolve(path.as_deref().unwrap_or("."), context)
            .map_err(|error| error.to_string())?;
        let shown = resolved.shown();
        Ok(super::reading(&format!("list {shown}"), &resolved))
    }

    fn run<'a>(&'a self, call: &'a ApprovedCall, run: Run) -> BoxFuture<'a, ToolOutput> {
        on_a_thread(call, run, list)
    }
}

fn list(call: &ApprovedCall, run: &Run) -> Result<ToolOutput, String> {
    let Arguments { depth, .. } = parse(call.arguments())?;
    let path = approved_path(call, PathAccess::Read)?;
    let mut builder = walk::below(path)?;
    builder.max_depth(Some(depth.unwrap_or(DEPTH))).sort_by_file_name(Ord::cmp);
    let stop = walk::Stop::new(&run.cancel);
    let mut tree = format!("{}/\n", path.display());
    let mut notes = Vec::new();
    let mut entries = 0;
    let mut unreadable = 0;
    for entry in builder.build() {
        match stop.now() {
            None => {}
            Some(walk::Stopped::Cancelled) => return Ok(super::interrupted()),
            Some(walk::Stopped::Late) => {
                notes.push(walk::late_note());
                break;
            }
        }
        match entry {
            Ok(entry) if entry.depth() == 0 => {}
            Ok(_) if entries == MAX_ENTRIES => {
                notes.push(format!("only the first {MAX_ENTRIES} entries; list a directory below"));
                break;
            }
            Ok(entry) => {
                entries += 1;
                tree.push_str(&line(&entry));
            }
            Err(_) => unreadable += 1,
        }
    }
    if entries == 0 {
        notes.push("nothing in it, or all of it is ignored".to_owned());
    }
    if unreadable > 0 {
        notes.push(format!("{unreadable} directories could not be read"));
    }
    Ok(found(&run.context, tree, &notes))
}

fn line(entry: &DirEntry) -> String {
    let indent = "  ".repeat(entry.depth());
    let name = entry.file_name().to_string_lossy();
    let kind = entry.file_type();
    if kind.is_some_and(|kind| kind.is_symlink()) {
        let leads_to = std::fs::read_link(entry.path()).unwrap_or_default();
        return format!("{indent}{name} -> {}\n", leads_to.display());
    }
    let end = if is_directory(entry.path(), kind) { "/" } else { "" };
    format!("{indent}{name}{end}\n")
}

fn is_directory(path: &Path, kind: Option<std::fs::FileType>) -> bool {
    kind.map_or_else(|| path.is_dir(), |kind| kind.is_dir())
}
