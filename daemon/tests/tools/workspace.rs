//! A workspace with tools, for one test.
//!
//! Receives calls as a model would write them; hands back what the model would read.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentd::config::ToolsConfig;
use agentd::permission::{ApprovedCall, Policy, Subject, Target, Verdict};
use agentd::tools::former::{Change, Keeper};
use agentd::tools::{
    FilesSeen, OutputChunk, Prepared, Run, Tool, ToolContext, ToolOutput, Tools, path,
};
use agentd_protocol::id::{CallId, SessionId};
use agentd_protocol::item::{Part, ToolStatus};
use agentd_protocol::permission::{PermissionMode, Resolution};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The daemon that the launchers are of.
const DAEMON: &str = "dmn_tools";

/// Pieces of live output that a test may look at; more are left out.
const LIVE: usize = 64;

pub(crate) struct Workspace {
    pub(crate) tools: Tools,
    pub(crate) context: Arc<ToolContext>,
    pub(crate) mode: PermissionMode,
    temporary: tempfile::TempDir,
}

/// Keeps nothing, and sees to it that it is asked before a file changes; may refuse.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) refuses: bool,
}

impl Keeper for Kept {
    fn keep(&self, change: Change<'_>) -> Result<(), String> {
        let Change { by, path, former, left } = change;
        assert!(by.starts_with("call_") && left.is_some(), "{by}");
        let former = former.map(|(bytes, _)| bytes);
        assert_eq!(std::fs::read(path).ok().as_deref(), former, "the file is as it was");
        if self.refuses { Err("the disk is full".to_owned()) } else { Ok(()) }
    }
}

pub(crate) struct Prepare {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) prepared: Prepared,
    pub(crate) subject: Subject,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        let temporary = tempfile::tempdir().expect("a temporary directory");
        let cwd = temporary.path().join("ws");
        std::fs::create_dir(&cwd).expect("an empty directory takes another");
        let context = ToolContext {
            session_id: SessionId::from("ses_1"),
            cwd,
            roots: Vec::new(),
            env: Arc::new(
                [("PATH", std::env::var("PATH").expect("the tests have a PATH"))]
                    .map(|(name, value)| (name.to_owned(), value))
                    .into(),
            ),
            outputs_dir: temporary.path().join("state/outputs/ses_1"),
            files: Arc::new(FilesSeen::default()),
            keeper: Arc::new(Kept::default()),
            config: Arc::new(ToolsConfig::default()),
        };
        Self {
            tools: Tools::builtin(env!("CARGO_BIN_EXE_agentd").into(), DAEMON),
            context: Arc::new(context),
            mode: PermissionMode::Full,
            temporary,
        }
    }

    /// Tools of another daemon, which no other test shares.
    pub(crate) fn of_daemon(mut self, id: &str) -> Self {
        self.tools = Tools::builtin(env!("CARGO_BIN_EXE_agentd").into(), id);
        self
    }

    /// Changes what the tools work with.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut ToolContext)) -> Self {
        let mut context = ToolContext::clone(&self.context);
        change(&mut context);
        self.context = Arc::new(context);
        self
    }

    /// The directory that holds the workspace: outside for the tools.
    pub(crate) fn outside(&self) -> &Path {
        self.temporary.path()
    }

    /// A path in the workspace.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.context.cwd.join(name)
    }

    pub(crate) fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.at(name);
        std::fs::create_dir_all(path.parent().expect("a file is in a directory"))
            .and_then(|()| std::fs::write(path, content))
            .expect("the workspace can be written");
    }

    pub(crate) fn get(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.at(name)).expect("the file is there")
    }

    pub(crate) fn prepare(&self, tool: &str, arguments: &Value) -> Result<Prepare, String> {
        let (tool, prepared) = self.tools.prepare(tool, arguments, &self.context)?;
        let subject = Subject {
            // Processes are found by it, those of other tests in this process too.
            call_id: CallId::from_unique(uuid::Uuid::now_v7().simple()),
            tool: tool.spec().name.clone(),
            arguments: arguments.clone(),
            risk: prepared.risk,
            targets: prepared.targets.clone(),
            cwd: path::directory(&self.context).expect("the workspace is there"),
        };
        Ok(Prepare { tool, prepared, subject })
    }

    /// What the mode says of the call.
    pub(crate) fn judge(&self, tool: &str, arguments: &Value) -> Verdict {
        let policy = Policy { mode: self.mode, rules: Vec::new() };
        policy.judge(&self.prepare(tool, arguments).expect("the call is one").subject)
    }

    /// Approves as a person would.
    pub(crate) fn approve(&self, prepare: &Prepare) -> ApprovedCall {
        Policy { mode: self.mode, rules: Vec::new() }
            .grant(&prepare.subject, Resolution::Allow)
            .expect("nothing denies it")
    }

    pub(crate) fn start(&self, cancel: &CancellationToken) -> (Run, mpsc::Receiver<OutputChunk>) {
        let (output, live) = mpsc::channel(LIVE);
        (Run { context: Arc::clone(&self.context), cancel: cancel.clone(), output }, live)
    }

    /// Runs a call and notes what it saw, as a session does.
    pub(crate) async fn call(&self, tool: &str, arguments: &Value) -> ToolOutput {
        let prepare = match self.prepare(tool, arguments) {
            Ok(prepare) => prepare,
            Err(reason) => return ToolOutput::of(ToolStatus::Invalid, reason),
        };
        let approved = self.approve(&prepare);
        let (run, _live) = self.start(&CancellationToken::new());
        let output = prepare.tool.run(&approved, run).await;
        for seen in &output.seen {
            self.context.files.note(seen);
        }
        output
    }
}

/// The text that the model reads.
pub(crate) fn text(output: &ToolOutput) -> &str {
    match output.content.first() {
        Some(Part::Text { text }) => text,
        other => panic!("a result starts with text, not {other:?}"),
    }
}

#[track_caller]
pub(crate) fn ok(output: &ToolOutput) -> &str {
    assert_eq!(output.status, ToolStatus::Ok, "{}", text(output));
    text(output)
}

#[track_caller]
pub(crate) fn error(output: &ToolOutput) -> &str {
    assert_eq!(output.status, ToolStatus::Error, "{}", text(output));
    text(output)
}

/// Whether the call's only path is inside.
pub(crate) fn is_inside(prepare: &Prepare) -> bool {
    match prepare.prepared.targets.as_slice() {
        [Target::Path { inside, .. }] => *inside,
        other => panic!("one path, not {other:?}"),
    }
}
