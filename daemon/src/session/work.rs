//! What a running turn has going on: the model's stream, tasks, live output.
//!
//! It is thrown away as a whole when the turn ends: dropping the stream closes its connection,
//! dropping the set aborts its tasks, and the launcher kills what they started.
//!
//! Receives what `perform` starts; hands the actor what comes of it.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use agentd_protocol::id::CallId;
use agentd_protocol::item::ToolStatus;
use agentd_protocol::permission::Risk;
use bytes::Bytes;
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use super::input::{Done, Input};
use crate::conversation::Budget;
use crate::permission::{ApprovedCall, Subject};
use crate::provider::{Carriage, ModelError, ModelEvent, ModelStream};
use crate::tools::{OutputChunk, Prepared, Tool};
use crate::turn::{INTERRUPTED_AFTER_START, Judgement, Outcome};

/// Pieces of live output that may wait for the actor: some for each call that runs. While it is
/// full, tools keep the end of what they have.
const OUTPUT: usize = 64;

/// What a model reads of a tool that panicked.
const FAULT: &str = "the tool ran into a fault of its own";

/// A call as its tool understood it.
#[derive(Clone)]
pub(super) struct PreparedCall {
    pub(super) tool: Arc<dyn Tool>,
    pub(super) prepared: Prepared,
    pub(super) subject: Subject,
}

impl std::fmt::Debug for PreparedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PreparedCall").field("subject", &self.subject).finish_non_exhaustive()
    }
}

/// The work in hand.
pub(super) struct Work {
    pub(super) model: Option<ModelStream>,
    /// The attempt that `model` is, from 1.
    pub(super) attempt: u32,
    /// How the next attempt is carried.
    pub(super) carriage: Carriage,
    /// What of the provider was told.
    pub(super) warned: BTreeSet<&'static str>,
    /// What the last answer's request was measured against, and its size in tokens.
    pub(super) asked: Option<(Budget, u64)>,
    pub(super) tasks: JoinSet<Done>,
    running: HashMap<Id, Running>,
    pub(super) cancel: CancellationToken,
    pub(super) output: mpsc::Sender<OutputChunk>,
    chunks: mpsc::Receiver<OutputChunk>,
    pub(super) prepared: HashMap<CallId, PreparedCall>,
    pub(super) approved: HashMap<CallId, ApprovedCall>,
    /// The tools as the provider wants them, under its key; the same for a whole turn.
    pub(super) tools: Option<(String, Bytes)>,
    /// What needed no task, to be told next.
    pub(super) ready: VecDeque<Done>,
}

struct Running {
    call_id: CallId,
    kind: Kind,
    abort: AbortHandle,
}

/// What a task does for its call.
#[derive(Debug)]
enum Kind {
    Prepare,
    Ask,
    Run { process: bool, cancel: CancellationToken },
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work").field("tasks", &self.tasks.len()).finish_non_exhaustive()
    }
}

impl Work {
    pub(super) fn new() -> Self {
        let (output, chunks) = mpsc::channel(OUTPUT);
        Self {
            model: None,
            attempt: 0,
            asked: None,
            carriage: Carriage::default(),
            warned: BTreeSet::new(),
            tasks: JoinSet::new(),
            running: HashMap::new(),
            cancel: CancellationToken::new(),
            output,
            chunks,
            prepared: HashMap::new(),
            approved: HashMap::new(),
            tools: None,
            ready: VecDeque::new(),
        }
    }

    /// Asks the tool about a call, off the async threads.
    pub(super) fn prepare(
        &mut self,
        call_id: CallId,
        task: impl FnOnce() -> Done + Send + 'static,
    ) {
        let abort = self.tasks.spawn_blocking(task);
        self.note(call_id, Kind::Prepare, abort);
    }

    /// Makes a prompt for a call, off the async threads.
    pub(super) fn ask(&mut self, call_id: CallId, task: impl FnOnce() -> Done + Send + 'static) {
        let abort = self.tasks.spawn_blocking(task);
        self.note(call_id, Kind::Ask, abort);
    }

    /// Runs a call.
    pub(super) fn run(
        &mut self,
        call_id: CallId,
        risk: Risk,
        cancel: CancellationToken,
        task: impl Future<Output = Done> + Send + 'static,
    ) {
        let abort = self.tasks.spawn(task);
        self.note(call_id, Kind::Run { process: risk == Risk::Execute, cancel }, abort);
    }

    fn note(&mut self, call_id: CallId, kind: Kind, abort: AbortHandle) {
        self.running.insert(abort.id(), Running { call_id, kind, abort });
    }

    /// Aborts the calls that run, and gives them up: a task that blocks its thread does not end,
    /// and what comes of it is not listened to.
    pub(super) fn abort(&mut self, processes_too: bool) -> Vec<CallId> {
        let aborted = self.running.extract_if(|_, running| match running.kind {
            Kind::Run { process, .. } => processes_too || !process,
            Kind::Prepare | Kind::Ask => false,
        });
        aborted
            .map(|(_, running)| {
                running.abort.abort();
                running.call_id
            })
            .collect()
    }

    /// Stops what is done for these calls, and listens to none of it: their answer was taken back.
    pub(super) fn discard(&mut self, calls: &[CallId]) {
        for (_, running) in self.running.extract_if(|_, running| calls.contains(&running.call_id)) {
            if let Kind::Run { cancel, .. } = running.kind {
                cancel.cancel();
            }
            running.abort.abort();
        }
        for call_id in calls {
            self.prepared.remove(call_id);
            self.approved.remove(call_id);
        }
    }

    /// The next news of the work in hand. Waits for ever when there is none. Cancel-safe.
    pub(super) async fn next(&mut self) -> Input {
        if let Some(done) = self.ready.pop_front() {
            return Input::Done(done);
        }
        loop {
            tokio::select! {
                biased;
                Some(chunk) = self.chunks.recv() => {
                    // What comes after its call's end would be shown as a call that runs.
                    if self.running.values().any(|running| running.call_id == chunk.call_id) {
                        return Input::Output(chunk);
                    }
                }
                Some(done) = self.tasks.join_next_with_id() => {
                    if let Some(done) = Self::done(&mut self.running, done) {
                        return Input::Done(done);
                    }
                }
                news = next_of(&mut self.model) => return Input::Model(news),
            }
        }
    }

    fn done(
        running: &mut HashMap<Id, Running>,
        done: Result<(Id, Done), JoinError>,
    ) -> Option<Done> {
        match done {
            Ok((id, done)) => {
                running.remove(&id)?;
                Some(done)
            }
            Err(error) => {
                let Running { call_id, kind, .. } = running.remove(&error.id())?;
                if error.is_panic() {
                    tracing::error!(%call_id, ?kind, "a tool panicked");
                }
                Some(failed(call_id, &kind, error.is_panic()))
            }
        }
    }
}

/// What a task that did not end by itself came to.
fn failed(call_id: CallId, kind: &Kind, panicked: bool) -> Done {
    match kind {
        Kind::Prepare => Done::Prepared { call_id, prepared: Err(FAULT.to_owned()) },
        Kind::Ask => Done::Judged { call_id, judgement: Judgement::Deny(FAULT.to_owned()) },
        Kind::Run { .. } if panicked => {
            let text = format!("Tool failed: {FAULT}");
            Done::Ran { call_id, outcome: Outcome::not_run(ToolStatus::Error, text) }
        }
        Kind::Run { .. } => {
            let outcome = Outcome::not_run(ToolStatus::Interrupted, INTERRUPTED_AFTER_START);
            Done::Ran { call_id, outcome }
        }
    }
}

async fn next_of(model: &mut Option<ModelStream>) -> Option<Result<ModelEvent, ModelError>> {
    match model {
        Some(stream) => stream.next().await,
        None => std::future::pending().await,
    }
}
