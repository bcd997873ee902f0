//! `edit`: puts one text in the place of another.
//!
//! The text must be there exactly once, or every place is meant. Only the bytes of the place
//! change: line endings, a BOM, a last line without its end, and bytes that are no UTF-8 stay as
//! they are. A file that changed since this session read it is refused.
//!
//! Receives calls through `builtin`; hands back the diff.

use std::path::Path;

use agentd_protocol::event::Change;
use agentd_protocol::permission::Risk;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::write::links_note;
use super::{approved_path, on_a_thread, parse, spec};
use crate::permission::{ApprovedCall, PathAccess};
use crate::tools::file::{self, BOM, Content};
use crate::tools::output::Output;
use crate::tools::{
    FileSeen, Prepared, Run, Tool, ToolContext, ToolOutput, ToolSpec, diff, matching, path,
};

/// Lines named or shown in a refusal.
const MAX_LINES: usize = 20;

/// Characters shown of each.
const MAX_LINE_CHARS: usize = 200;

#[derive(Deserialize)]
struct Arguments {
    path: String,
    old: String,
    new: String,
    #[serde(default)]
    replace_all: Option<bool>,
}

pub(super) struct Edit(ToolSpec);

impl Edit {
    pub(super) fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "The file: absolute, or relative to the working directory." },
                "old": { "type": "string", "minLength": 1, "description": "The text to replace, exactly as it is in the file, without line numbers; long enough to be there once." },
                "new": { "type": "string", "description": "The text to put in its place." },
                "replace_all": { "type": "boolean", "description": "Replace every place where it is." }
            },
            "required": ["path", "old", "new"],
            "additionalProperties": false
        });
        let description = "Replace a text in a file by another.";
        Self(spec("edit", description, Risk::Write, schema))
    }
}

impl Tool for Edit {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn prepare(&self, arguments: &Value, context: &ToolContext) -> Result<Prepared, String> {
        let Arguments { path, old, new, .. } = parse(arguments)?;
        if old == new {
            return Err("old and new are the same, there is nothing to change".to_owned());
        }
        let resolved = path::resolve(&path, context).map_err(|error| error.to_string())?;
        let shown = resolved.shown();
        Ok(Prepared {
            summary: super::summary(&format!("edit {shown}")),
            risk: Risk::Write,
            parallel: false,
            polls: false,
            targets: vec![resolved.target(PathAccess::Write)],
        })
    }

    fn preview(&self, arguments: &Value, context: &ToolContext) -> Option<String> {
        let arguments: Arguments = parse(arguments).ok()?;
        let resolved = path::resolve(&arguments.path, context).ok()?;
        let edited = current(&resolved.path, context)
            .and_then(|content| edited(&arguments, &resolved.path, content, context));
        match edited {
            Ok(edited) => edited.change.diff,
            Err(reason) => Some(format!("this would fail: {reason}")),
        }
    }

    fn refusal(&self, arguments: &Value, context: &ToolContext) -> Option<String> {
        let arguments: Arguments = parse(arguments).ok()?;
        let resolved = path::resolve(&arguments.path, context).ok()?;
        let content = match current(&resolved.path, context) {
            Ok(content) => content,
            Err(reason) => return Some(reason),
        };
        // What is in a file that was not read is not told, not even by what is not.
        context.files.get(&resolved.path)?;
        edited(&arguments, &resolved.path, content, context).err()
    }

    fn run<'a>(&'a self, call: &'a ApprovedCall, run: Run) -> BoxFuture<'a, ToolOutput> {
        on_a_thread(call, run, edit)
    }
}

struct Edited {
    old: Content,
    new: Vec<u8>,
    change: Change,
}

fn edit(call: &ApprovedCall, run: &Run) -> Result<ToolOutput, String> {
    let arguments: Arguments = parse(call.arguments())?;
    let path = approved_path(call, PathAccess::Write)?;
    let content = current(path, &run.context)?;
    let Edited { old, new, change } = edited(&arguments, path, content, &run.context)?;
    run.keep(call, path, Some(&old), Some(&new))?;
    let written = file::replace(path, &old, &new).map_err(|error| error.to_string())?;
    let diff = change.diff.as_deref().unwrap_or_default();
    let (added, removed) = (change.added, change.removed);
    let links = links_note(written.other_links);
    let text = format!("edited {} (+{added} -{removed}){links}\n{diff}", change.path);
    let shown = Output::of(&run.context.outputs_dir, &text);
    let mut result = ToolOutput::ok(shown.text);
    result.full_output = shown.full;
    result.seen = vec![FileSeen { path: path.to_owned(), sha256: written.sha256 }];
    result.changes = vec![change];
    Ok(result)
}

/// What the file is; refused if it is not as this session saw it.
fn current(path: &Path, context: &ToolContext) -> Result<Content, String> {
    let shown = path::shown(path, context);
    let content = file::read_whole(path).map_err(|error| error.to_string())?;
    let content = content.ok_or_else(|| format!("{shown} does not exist; use write to make it"))?;
    if context.files.get(path).is_some_and(|seen| seen != content.sha256) {
        return Err(format!("{shown} has changed since it was read; read it again"));
    }
    Ok(content)
}

/// What the file would be. `Err` is for the model: the text is not there, or too often.
fn edited(
    arguments: &Arguments,
    path: &Path,
    content: Content,
    context: &ToolContext,
) -> Result<Edited, String> {
    let shown = path::shown(path, context);
    let mark = if content.has_bom() { BOM.len() } else { 0 };
    let (bom, text) = content.bytes.split_at(mark);
    let old = arguments.old.strip_prefix('\u{FEFF}').unwrap_or(&arguments.old);
    let new = arguments.new.strip_prefix('\u{FEFF}').unwrap_or(&arguments.new);
    let places = matching::places(text, old);
    match places.as_slice() {
        [] => return Err(not_found(&shown, text, old)),
        [_] => {}
        _ if arguments.replace_all == Some(true) => {}
        several => {
            let lines = several.iter().map(|place| matching::line_of(text, place).to_string());
            let lines: Vec<String> = lines.take(MAX_LINES).collect();
            let more = if several.len() > MAX_LINES { " …" } else { "" };
            return Err(format!(
                "old is in {shown} {} times, on the lines {}{more}; give more of the text around \
                 it, or set replace_all",
                several.len(),
                lines.join(", ")
            ));
        }
    }
    let new = [bom, &matching::replaced(text, &places, new)].concat();
    if new == content.bytes {
        return Err("old and new differ in line endings only, which are kept".to_owned());
    }
    let change = diff::change(shown, Some(&content.bytes), &new);
    Ok(Edited { old: content, new, change })
}

fn not_found(shown: &str, text: &[u8], old: &str) -> String {
    let Some(near) = matching::nearest(text, old) else {
        return format!("old is not in {shown}, nor anything like it; read it again");
    };
    let how = if near.only_blanks { "only white space differs" } else { "the nearest is" };
    let lines: Vec<String> = near
        .lines
        .iter()
        .take(MAX_LINES)
        .zip(near.line..)
        .map(|(line, number)| {
            let line: String = line.chars().take(MAX_LINE_CHARS).collect();
            format!("{number:>6}\t{line}")
        })
        .collect();
    format!("old is not in {shown}; {how}, from line {}:\n{}", near.line, lines.join("\n"))
}
