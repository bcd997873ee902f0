//! A tool that does what tools must not do. The demo model calls it as `shell`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use agentd_protocol::permission::Risk;
use agentd_protocol::session::Session;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::house::House;
use crate::clock::Clock;
use crate::permission::ApprovedCall;
use crate::tools::{Prepared, Run, Tool, ToolContext, ToolOutput, ToolSpec, Tools};

/// The tool, as a test holds it.
pub(super) struct Stubborn {
    spec: ToolSpec,
    /// The actor that asks what it is panics.
    pub(super) panics: AtomicBool,
    /// Lets a call end that ignores its cancel.
    pub(super) release: Notify,
    /// A thread that a call blocks goes on when this is dropped.
    blocked: std::sync::Mutex<std::sync::mpsc::Receiver<()>>,
}

/// A house with it, and what keeps blocked threads blocked.
pub(super) fn house() -> (House, Arc<Stubborn>, std::sync::mpsc::Sender<()>) {
    let (free, blocked) = std::sync::mpsc::channel();
    let spec = ToolSpec {
        name: "shell".to_owned(),
        description: String::new(),
        input_schema: json!({ "type": "object" }),
        risk: Risk::Write,
        origin: "builtin".to_owned(),
    };
    let stubborn = Arc::new(Stubborn {
        spec,
        panics: AtomicBool::new(false),
        release: Notify::new(),
        blocked: std::sync::Mutex::new(blocked),
    });
    let tools = Tools::of(vec![Arc::clone(&stubborn) as Arc<dyn Tool>]);
    (House::with(Clock::system(), tools), stubborn, free)
}

/// A session that runs it unasked.
pub(super) async fn session(house: &House) -> Session {
    house.session(json!({ "permission_mode": "full" })).await
}

impl Tool for Stubborn {
    fn spec(&self) -> &ToolSpec {
        assert!(!self.panics.load(Ordering::SeqCst), "a fault that a test asked for");
        &self.spec
    }

    fn prepare(&self, _: &Value, _: &ToolContext) -> Result<Prepared, String> {
        Ok(Prepared {
            summary: "something".to_owned(),
            risk: Risk::Write,
            parallel: false,
            polls: false,
            targets: Vec::new(),
        })
    }

    fn run<'a>(&'a self, call: &'a ApprovedCall, run: Run) -> BoxFuture<'a, ToolOutput> {
        let command = call.arguments()["command"].as_str().unwrap_or_default().to_owned();
        async move {
            match command.as_str() {
                "hang" => self.release.notified().await,
                "block" => {
                    let blocked = self.blocked.lock().expect("one thread at a time");
                    // An error says that the test is over.
                    let _ = blocked.recv();
                }
                _ => {}
            }
            ToolOutput::ok(run.context.cwd.to_string_lossy())
        }
        .boxed()
    }
}
