//! Tools: what a model can do.
//!
//! A tool says what a call would touch ([`Tool::prepare`]), shows what would happen
//! ([`Tool::preview`]) and runs an approved call ([`Tool::run`]). It never decides whether it may
//! run, never writes to the record, and never fails a turn: what goes wrong is a result that the
//! model can read.
//!
//! Receives approved calls from `session`; hands back outputs, and live output on the way.

mod background;
mod builtin;
mod command;
mod composed;
mod diff;
pub mod environment;
mod file;
pub mod former;
mod guarded;
mod live;
mod matching;
mod orphans;
mod output;
pub mod path;
mod process;
mod registry;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use agentd_protocol::event::Change;
use agentd_protocol::id::{CallId, SessionId};
use agentd_protocol::item::{FullOutput, Part, ToolStatus};
use agentd_protocol::permission::Risk;
use agentd_protocol::process::Process;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::config::ToolsConfig;
use crate::permission::{ApprovedCall, Target};

pub use background::Background;
pub use orphans::end_orphans;
pub use registry::Tools;

/// What a model is told about a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON Schema of its arguments, an object schema.
    pub input_schema: Value,
    /// What it may do at worst.
    pub risk: Risk,
    /// `builtin`, or the MCP server's name.
    pub origin: String,
}

/// A call, understood but not judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Prepared {
    /// One line for a person, at most 200 characters.
    pub summary: String,
    /// What these arguments may do at worst.
    pub risk: Risk,
    /// Safe to run beside other safe reads.
    pub parallel: bool,
    /// Polls: the duplicate guard leaves it alone.
    pub polls: bool,
    /// What it would touch.
    pub targets: Vec<Target>,
}

/// Where a session works: what every tool may know about it.
#[derive(Debug, Clone)]
pub struct ToolContext {
    /// The session.
    pub session_id: SessionId,
    /// The working directory, absolute, as the client gave it.
    pub cwd: PathBuf,
    /// More directories, absolute.
    pub roots: Vec<PathBuf>,
    /// The environment of processes, scrubbed.
    pub env: Arc<BTreeMap<String, String>>,
    /// Where whole outputs are kept: `<state>/outputs/<session>`.
    pub outputs_dir: PathBuf,
    /// What this session has seen of files.
    pub files: Arc<FilesSeen>,
    /// Keeps what files were before they are changed.
    pub keeper: Arc<dyn former::Keeper>,
    /// Limits and settings.
    pub config: Arc<ToolsConfig>,
}

/// The content hashes of files as this session last read or wrote them.
#[derive(Debug, Default)]
pub struct FilesSeen(std::sync::Mutex<BTreeMap<PathBuf, String>>);

impl FilesSeen {
    /// What a restart finds in the store.
    pub fn new(seen: impl IntoIterator<Item = FileSeen>) -> Self {
        Self(std::sync::Mutex::new(seen.into_iter().map(|s| (s.path, s.sha256)).collect()))
    }

    /// The hash of `path` as this session last saw it.
    pub fn get(&self, path: &std::path::Path) -> Option<String> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get(path).cloned()
    }

    /// Notes what was seen.
    pub fn note(&self, seen: &FileSeen) {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .insert(seen.path.clone(), seen.sha256.clone());
    }
}

/// A file as a tool saw it or left it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSeen {
    /// The resolved path.
    pub path: PathBuf,
    /// SHA-256 of its whole content, hex.
    pub sha256: String,
}

/// A piece of live output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// The call.
    pub call_id: CallId,
    /// Bytes of the call's output before it; more than were handed on where some was left out.
    pub offset: u64,
    /// UTF-8; bytes that are none were replaced.
    pub chunk: String,
}

/// What a running call gets besides its arguments.
#[derive(Debug)]
pub struct Run {
    /// Where the session works.
    pub context: Arc<ToolContext>,
    /// Cancelled when the turn ends; the tool then has 100 ms, a process tool its grace.
    pub cancel: CancellationToken,
    /// Live output; a full channel may be skipped, it is never needed for correctness.
    pub output: mpsc::Sender<OutputChunk>,
}

impl Run {
    /// Keeps what a file was, before the call makes `new` of it (`None`: removes it). An error is a
    /// reason not to.
    pub(crate) fn keep(
        &self,
        call: &ApprovedCall,
        path: &std::path::Path,
        old: Option<&file::Content>,
        new: Option<&[u8]>,
    ) -> Result<(), String> {
        let left = new.map(file::sha256);
        self.context.keeper.keep(former::Change {
            by: call.call_id().as_str(),
            path,
            former: old.map(|old| (old.bytes.as_slice(), old.sha256.as_str())),
            left: left.as_deref(),
        })
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolOutput {
    /// `ok`, `error` or `interrupted`.
    pub status: ToolStatus,
    /// What the model reads, already cut to the limits.
    pub content: Vec<Part>,
    /// Where all of it is, if it was cut.
    pub full_output: Option<FullOutput>,
    /// Files that were changed.
    pub changes: Vec<Change>,
    /// Files that were read or written, as they are now.
    pub seen: Vec<FileSeen>,
    /// The command that it started in the background, which runs on.
    pub background: Option<Process>,
}

impl ToolOutput {
    /// A success with this text.
    pub fn ok(text: impl Into<String>) -> Self {
        Self::of(ToolStatus::Ok, text)
    }

    /// A failure that the model reads as `Tool failed: <reason>`.
    pub fn error(reason: impl std::fmt::Display) -> Self {
        Self::of(ToolStatus::Error, format!("Tool failed: {reason}"))
    }

    /// An output with this status and text.
    pub fn of(status: ToolStatus, text: impl Into<String>) -> Self {
        Self {
            status,
            content: vec![Part::text(text)],
            full_output: None,
            changes: Vec::new(),
            seen: Vec::new(),
            background: None,
        }
    }
}

/// A tool.
pub trait Tool: Send + Sync + 'static {
    /// What a model is told about it.
    fn spec(&self) -> &ToolSpec;

    /// What a call would be, for arguments that fit the schema. May resolve paths; reads no
    /// content. `Err` is a text for the model.
    fn prepare(&self, arguments: &Value, context: &ToolContext) -> Result<Prepared, String>;

    /// What would happen, for a person: a diff, a command line. May read files.
    fn preview(&self, _arguments: &Value, _context: &ToolContext) -> Option<String> {
        None
    }

    /// Why a call would fail whatever a person said, so that nobody is asked for nothing; a text for
    /// the model. May read files, and tells nothing of them that the model has not read.
    fn refusal(&self, _arguments: &Value, _context: &ToolContext) -> Option<String> {
        None
    }

    /// Runs an approved call to its end. Never panics on what it finds in the world.
    fn run<'a>(&'a self, call: &'a ApprovedCall, run: Run) -> BoxFuture<'a, ToolOutput>;
}
