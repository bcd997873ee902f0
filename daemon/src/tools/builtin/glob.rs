//! `glob`: paths below a directory by a pattern, newest first.
//!
//! Receives calls through `builtin`; hands back paths.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use agentd_protocol::permission::Risk;
use futures_util::future::BoxFuture;
use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{approved_path, found, on_a_thread, parse, spec};
use crate::permission::{ApprovedCall, PathAccess};
use crate::tools::walk::{self, Stop, Stopped};
use crate::tools::{Prepared, Run, Tool, ToolContext, ToolOutput, ToolSpec, path};

/// Paths shown.
const MAX_PATHS: usize = 1_000;

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
}

pub(super) struct Glob(ToolSpec);

impl Glob {
    pub(super) fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "pattern": { "type": "string", "minLength": 1, "description": "Such as **/*.rs or src/*.{c,h}; * stays within one directory." },
                "path": { "type": "string", "description": "The directory to search; the working directory if absent." }
            },
            "required": ["pattern"],
            "additionalProperties": false
        });
        let description = "Find files by a pattern of their path, newest first. Files that \
            version control ignores are left out.";
        Self(spec("glob", description, Risk::Read, schema))
    }
}

impl Tool for Glob {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn prepare(&self, arguments: &Value, context: &ToolContext) -> Result<Prepared, String> {
        let Arguments { pattern, path } = parse(arguments)?;
        matcher(&pattern)?;
        let resolved = path::resolve(path.as_deref().unwrap_or("."), context)
            .map_err(|error| error.to_string())?;
        let shown = resolved.shown();
        Ok(super::reading(&format!("find {pattern} in {shown}"), &resolved))
    }

    fn run<'a>(&'a self, call: &'a ApprovedCall, run: Run) -> BoxFuture<'a, ToolOutput> {
        on_a_thread(call, run, glob)
    }
}

fn glob(call: &ApprovedCall, run: &Run) -> Result<ToolOutput, String> {
    let Arguments { pattern, .. } = parse(call.arguments())?;
    let base = approved_path(call, PathAccess::Read)?;
    let (mut paths, stopped) = find(base, &matcher(&pattern)?, &Stop::new(&run.cancel))?;
    let mut notes = Vec::new();
    match stopped {
        Some(Stopped::Cancelled) => return Ok(super::interrupted()),
        Some(Stopped::Late) => notes.push(walk::late_note()),
        None => {}
    }
    if paths.is_empty() {
        let hint = if pattern.contains('/') { "" } else { "; **/ before it looks below as well" };
        notes.push(format!("no file matches{hint}"));
    }
    if paths.len() > MAX_PATHS {
        notes.push(format!("the newest {MAX_PATHS} of {}; narrow the pattern", paths.len()));
    }
    paths.sort_unstable_by(|(a_time, a), (b_time, b)| b_time.cmp(a_time).then_with(|| a.cmp(b)));
    let prefix = match path::shown(base, &run.context) {
        here if here == "." => PathBuf::new(),
        there => PathBuf::from(there),
    };
    let lines = paths.iter().take(MAX_PATHS);
    let lines: Vec<String> =
        lines.map(|(_, path)| prefix.join(path).display().to_string()).collect();
    Ok(found(&run.context, lines.join("\n"), &notes))
}

fn matcher(pattern: &str) -> Result<GlobMatcher, String> {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
        return Err("the pattern starts at the directory that `path` names; put the fixed part \
            of it there"
            .to_owned());
    }
    let glob = GlobBuilder::new(pattern).literal_separator(true).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| format!("the pattern: {error}"))
}

type Found = Vec<(SystemTime, PathBuf)>;

/// The files that match, with the time of their last change, and why the walk stopped early.
pub(in crate::tools) fn find(
    base: &Path,
    matcher: &GlobMatcher,
    stop: &Stop,
) -> Result<(Found, Option<Stopped>), String> {
    let mut paths = Vec::new();
    for entry in walk::below(base)?.build().filter_map(Result::ok) {
        if let Some(stopped) = stop.now() {
            return Ok((paths, Some(stopped)));
        }
        let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
        let Ok(path) = entry.path().strip_prefix(base) else { continue };
        if is_directory || !matcher.is_match(path) {
            continue;
        }
        let changed_at = entry.metadata().ok().and_then(|found| found.modified().ok());
        paths.push((changed_at.unwrap_or(SystemTime::UNIX_EPOCH), path.to_owned()));
    }
    Ok((paths, None))
}
