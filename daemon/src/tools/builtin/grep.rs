//! `grep`: lines that match a regular expression, by ripgrep's own crates.
//!
//! Files are searched as streams: their size costs time and no memory, and a binary one is left at
//! its first NUL. What version control ignores is left out, and files with secrets unless one of
//! them was named itself.
//!
//! Receives calls through `builtin`; hands back matches by file and line.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use agentd_protocol::permission::Risk;
use futures_util::future::BoxFuture;
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};
use ignore::overrides::OverrideBuilder;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{approved_path, found, on_a_thread, parse, spec};
use crate::permission::{ApprovedCall, PathAccess};
use crate::tools::walk::{self, Stop, Stopped};
use crate::tools::{
    Prepared, Run, Tool, ToolContext, ToolOutput, ToolSpec, file, guarded, output, path,
};

/// Matches shown unless asked otherwise.
const MAX_MATCHES: u64 = 200;

/// Bytes shown, with room for notes below [`output::MAX_BYTES`].
const MAX_SHOWN_BYTES: usize = output::MAX_BYTES - 2_048;

/// Bytes shown of one line.
const MAX_LINE_BYTES: usize = 500;

/// Memory for one line; a file with a longer one is left out.
const MAX_HEAP_BYTES: usize = 16 * 1024 * 1024;

#[derive(Deserialize)]
pub(in crate::tools) struct Arguments {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    context: Option<usize>,
    max: Option<u64>,
    #[serde(default)]
    mode: Option<Mode>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Lines,
    Files,
    Count,
}

pub(super) struct Grep(ToolSpec);

impl Grep {
    pub(super) fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "pattern": { "type": "string", "minLength": 1, "description": "A regular expression as Rust's regex crate knows it, matched line by line; (?i) at its start ignores case." },
                "path": { "type": "string", "description": "The directory or file to search; the working directory if absent." },
                "glob": { "type": "string", "description": "Only files whose path matches, such as *.rs or src/**; with ! before it, only others." },
                "context": { "type": "integer", "minimum": 0, "maximum": 20, "description": "Lines to show before and after each match." },
                "max": { "type": "integer", "minimum": 1, "maximum": 5_000, "description": "Matches to show at most (files, in the other modes); 200 if absent." },
                "mode": { "type": "string", "enum": ["lines", "files", "count"], "description": "Show matching lines (the default), only the files, or their numbers of matching lines." }
            },
            "required": ["pattern"],
            "additionalProperties": false
        });
        let description = "Search the contents of files for a regular expression. Binary files \
            and files that version control ignores are left out.";
        Self(spec("grep", description, Risk::Read, schema))
    }
}

impl Tool for Grep {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn prepare(&self, arguments: &Value, context: &ToolContext) -> Result<Prepared, String> {
        let Arguments { pattern, path, .. } = parse(arguments)?;
        matcher(&pattern)?;
        let resolved = path::resolve(path.as_deref().unwrap_or("."), context)
            .map_err(|error| error.to_string())?;
        let shown = resolved.shown();
        Ok(super::reading(&format!("search {shown} for {pattern}"), &resolved))
    }

    fn run<'a>(&'a self, call: &'a ApprovedCall, run: Run) -> BoxFuture<'a, ToolOutput> {
        on_a_thread(call, run, grep)
    }
}

fn grep(call: &ApprovedCall, run: &Run) -> Result<ToolOutput, String> {
    let arguments: Arguments = parse(call.arguments())?;
    let base = approved_path(call, PathAccess::Read)?;
    let shown = path::shown(base, &run.context);
    let mut search = Search::new(&arguments, base, &shown, Stop::new(&run.cancel))?;
    search.below(base, arguments.glob.as_deref())?;
    Ok(match search.finish() {
        Some((text, notes)) => found(&run.context, text, &notes),
        None => super::interrupted(),
    })
}

fn matcher(pattern: &str) -> Result<RegexMatcher, String> {
    RegexMatcherBuilder::new()
        .multi_line(true)
        .crlf(true)
        .build(pattern)
        .map_err(|error| format!("the pattern is no regular expression for lines: {error}"))
}

/// One search, and what it found so far.
pub(in crate::tools) struct Search<'a> {
    matcher: RegexMatcher,
    searcher: Searcher,
    mode: Mode,
    max: u64,
    base: &'a Path,
    /// What comes before a path below the base when it is shown.
    prefix: PathBuf,
    stop: Stop,
    text: String,
    /// Matches, or files in the other modes.
    shown: u64,
    full: bool,
    stopped: Option<Stopped>,
    binary: usize,
    secret: usize,
    unreadable: usize,
}

impl<'a> Search<'a> {
    pub(in crate::tools) fn new(
        arguments: &Arguments,
        base: &'a Path,
        shown: &str,
        stop: Stop,
    ) -> Result<Self, String> {
        let context = arguments.context.unwrap_or(0);
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .line_number(true)
            .before_context(context)
            .after_context(context)
            .binary_detection(BinaryDetection::quit(0))
            .heap_limit(Some(MAX_HEAP_BYTES))
            .build();
        Ok(Self {
            matcher: matcher(&arguments.pattern)?,
            searcher,
            mode: arguments.mode.unwrap_or_default(),
            max: arguments.max.unwrap_or(MAX_MATCHES),
            base,
            prefix: if shown == "." { PathBuf::new() } else { shown.into() },
            stop,
            text: String::new(),
            shown: 0,
            full: false,
            stopped: None,
            binary: 0,
            secret: 0,
            unreadable: 0,
        })
    }

    /// Searches a file, or all files below a directory.
    pub(in crate::tools) fn below(
        &mut self,
        base: &Path,
        glob: Option<&str>,
    ) -> Result<(), String> {
        if !base.is_dir() {
            let opened = file::open(base).map_err(|error| error.to_string())?;
            self.file(base, opened.file);
            return Ok(());
        }
        let mut builder = walk::below(base)?;
        if let Some(glob) = glob {
            let mut only = OverrideBuilder::new(base);
            let only = only.add(glob).and_then(|only| only.build());
            builder.overrides(only.map_err(|error| format!("the glob: {error}"))?);
        }
        builder.sort_by_file_name(Ord::cmp);
        for entry in builder.build() {
            self.stopped = self.stopped.or_else(|| self.stop.now());
            if self.stopped.is_some() || self.full {
                break;
            }
            let Ok(entry) = entry else {
                self.unreadable += 1;
                continue;
            };
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            if guarded::is_guarded(entry.path(), PathAccess::Read) {
                self.secret += 1;
                continue;
            }
            match file::open(entry.path()) {
                Ok(opened) => self.file(entry.path(), opened.file),
                Err(_) => self.unreadable += 1,
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path, file: File) {
        let mut matches = Matches {
            mode: self.mode,
            room: self.max - self.shown,
            room_bytes: MAX_SHOWN_BYTES.saturating_sub(self.text.len()),
            text: String::new(),
            count: 0,
            binary: false,
            full: false,
        };
        let reader = Stoppable { file, stop: self.stop.clone() };
        let searched = self.searcher.search_reader(&self.matcher, reader, &mut matches);
        if searched.is_err() {
            self.stopped = self.stop.now();
            if self.stopped.is_none() {
                self.unreadable += 1;
            }
        }
        self.binary += usize::from(matches.binary);
        self.full |= matches.full;
        if matches.count == 0 {
            return;
        }
        let path = match path.strip_prefix(self.base) {
            Ok(below) if below.as_os_str().is_empty() => self.prefix.clone(),
            Ok(below) => self.prefix.join(below),
            Err(_) => path.to_owned(),
        };
        let path = path.display().to_string();
        match self.mode {
            Mode::Lines => {
                let between = if self.text.is_empty() { "" } else { "\n" };
                self.text.extend([between, &path, "\n", &matches.text]);
                self.shown += matches.count;
            }
            Mode::Files => self.text.extend([&path, "\n"]),
            Mode::Count => self.text.extend([&path, ": ", &matches.count.to_string(), "\n"]),
        }
        if self.mode != Mode::Lines {
            self.shown += 1;
        }
        self.full |= self.shown >= self.max || self.text.len() >= MAX_SHOWN_BYTES;
    }

    /// What was found and what is to be said about it; nothing if it was cancelled.
    pub(in crate::tools) fn finish(self) -> Option<(String, Vec<String>)> {
        let mut notes = Vec::new();
        match self.stopped {
            Some(Stopped::Cancelled) => return None,
            Some(Stopped::Late) => notes.push(walk::late_note()),
            None if self.full => {
                let what = if self.mode == Mode::Lines { "matches" } else { "files" };
                let shown = self.shown;
                notes.push(format!(
                    "the first {shown} {what}; there may be more: narrow the search"
                ));
            }
            None if self.text.is_empty() => notes.push("nothing matches".to_owned()),
            None => {}
        }
        let left_out = [
            (self.binary, "binary", "left out"),
            (self.secret, "secret", "left out"),
            (self.unreadable, "more", "could not be read"),
        ];
        notes.extend(left_out.iter().filter(|(count, ..)| *count > 0).map(
            |(count, kind, done)| match count {
                1 => format!("1 {kind} file {done}"),
                many => format!("{many} {kind} files {done}"),
            },
        ));
        Some((self.text, notes))
    }
}

/// A file that ends with an error when it is time to stop.
struct Stoppable {
    file: File,
    stop: Stop,
}

impl Read for Stoppable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.stop.now() {
            // Not `Interrupted`, which readers take for a reason to try again.
            Some(_) => Err(io::ErrorKind::TimedOut.into()),
            None => self.file.read(buffer),
        }
    }
}

/// What one file has.
struct Matches {
    mode: Mode,
    /// Matches that may still be shown, and bytes.
    room: u64,
    room_bytes: usize,
    text: String,
    count: u64,
    binary: bool,
    full: bool,
}

impl Matches {
    fn line(&mut self, number: Option<u64>, mark: char, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = String::from_utf8_lossy(line);
        let end = line.floor_char_boundary(MAX_LINE_BYTES.min(line.len()));
        let cut = if end < line.len() { " …" } else { "" };
        let number = number.unwrap_or_default();
        let line = format!("{number}{mark}{}{cut}\n", &line[..end]);
        self.text.push_str(&line);
    }
}

impl Sink for Matches {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        self.count += 1;
        match self.mode {
            Mode::Files => return Ok(false),
            Mode::Count => return Ok(true),
            Mode::Lines => {}
        }
        self.line(found.line_number(), ':', found.bytes());
        self.full = self.count >= self.room || self.text.len() >= self.room_bytes;
        Ok(!self.full)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> io::Result<bool> {
        if self.mode == Mode::Lines {
            self.line(context.line_number(), '-', context.bytes());
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> io::Result<bool> {
        if self.mode == Mode::Lines {
            self.text.push_str("--\n");
        }
        Ok(true)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.binary = finish.binary_byte_offset().is_some();
        Ok(())
    }
}
