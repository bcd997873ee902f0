//! Calls: prepared, judged, run, stopped.
//!
//! Receives the machine's wishes for a call; hands the tool an approved call and the machine its
//! outcome.

use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::id::CallId;
use agentd_protocol::item::{Call, ToolStatus};
use agentd_protocol::permission::{Resolution, Risk};
use agentd_protocol::progress::Progress;

use crate::clock::Clock;
use crate::permission::{ApprovedCall, Policy, Subject, Verdict};
use crate::session::actor::Actor;
use crate::session::input::Done;
use crate::session::plan::Plan;
use crate::session::timers::Timer;
use crate::session::work::PreparedCall;
use crate::tools::{OutputChunk, Run, ToolContext, ToolOutput, Tools, path};
use crate::turn::{self, INTERRUPTED_AFTER_START, Judgement, Moment, Outcome, Traits};

/// What a cancelled tool without a process gets to end by itself.
const TASK_GRACE: Duration = Duration::from_millis(100);

/// What a cancelled tool with a process gets beyond the grace its processes get: the time to
/// reap them and say so.
const PROCESS_MARGIN: Duration = Duration::from_millis(1_500);

/// The result of a call that was not run since nobody knows whether the session is still ours.
const NO_LEASE: &str = "Tool failed: it was not run, since the session's lease could not be \
                        renewed. Try again.";

impl Actor {
    /// Asks the tool what a call is.
    pub(super) fn prepare(&mut self, call_id: CallId) {
        let Some(call) = self.call(&call_id) else { return };
        let (tools, context) = (self.services.tools.clone(), Arc::clone(&self.context));
        self.work.prepare(call_id.clone(), move || {
            let prepared = prepare(&tools, &context, &call);
            Done::Prepared { call_id, prepared }
        });
    }

    fn call(&self, call_id: &CallId) -> Option<Call> {
        self.state.turn.as_ref()?.machine.call(call_id).cloned()
    }

    /// The tool has said what a call is.
    pub(in crate::session) fn call_prepared(
        &mut self,
        call_id: CallId,
        prepared: Result<PreparedCall, String>,
        plan: &mut Plan,
        moment: &mut Moment,
    ) {
        let traits = prepared.map(|call| {
            let traits = Traits {
                summary: call.prepared.summary.clone(),
                risk: call.prepared.risk,
                parallel: call.prepared.parallel,
                polls: call.prepared.polls,
            };
            self.work.prepared.insert(call_id.clone(), call);
            traits
        });
        self.tell_turn(turn::Input::Prepared { call_id, traits }, plan, moment);
    }

    /// Asks the policy about a call whose turn has come. What it needs no person for is told the
    /// machine at once, by way of the task set.
    pub(super) fn judge(&mut self, call_id: CallId, early: bool) {
        let Some(call) = self.work.prepared.get(&call_id).cloned() else {
            let reason = "the call was not understood".to_owned();
            return self.judged_now(call_id, Judgement::Deny(reason));
        };
        match self.policy().judge(&call.subject) {
            Verdict::Allow(approved) => {
                self.work.approved.insert(call_id.clone(), approved);
                self.judged_now(call_id, Judgement::Allow);
            }
            Verdict::Deny { reason } => self.judged_now(call_id, Judgement::Deny(reason)),
            Verdict::Ask { .. } if early => self.judged_now(call_id, Judgement::Later),
            Verdict::Ask { reason, suggestions } => self.prompt(call, &reason, suggestions),
        }
    }

    fn judged_now(&mut self, call_id: CallId, judgement: Judgement) {
        self.work.ready.push_back(Done::Judged { call_id, judgement });
    }

    /// Runs a call whose start is recorded.
    pub(super) async fn run_call(&mut self, call_id: CallId) {
        if self.services.clock.boot_ms() > self.lease_until_ms {
            // Whoever took the lease meanwhile may be running the session.
            self.renew_lease().await;
            if self.state.epoch.is_none() {
                return;
            }
            if self.services.clock.boot_ms() > self.lease_until_ms {
                let outcome = Outcome::not_run(ToolStatus::Error, NO_LEASE);
                return self.work.ready.push_back(Done::Ran { call_id, outcome });
            }
        }
        let Some(call) = self.call(&call_id) else { return };
        let prepared = self.work.prepared.get(&call_id).cloned();
        let approved = self.work.approved.remove(&call_id);
        let risk = prepared.as_ref().map_or(Risk::Execute, |call| call.prepared.risk);
        let cancel = self.work.cancel.child_token();
        let task = RunTask {
            call,
            prepared,
            approved,
            policy: self.policy(),
            tools: self.services.tools.clone(),
            clock: self.services.clock.clone(),
            run: Run {
                context: Arc::clone(&self.context),
                cancel: cancel.clone(),
                output: self.work.output.clone(),
            },
        };
        self.work.run(call_id, risk, cancel, task.run());
    }

    /// Signals every running tool and sets its time.
    pub(super) fn stop_tools(&mut self) {
        self.work.cancel.cancel();
        let grace = self.services.config.current().tools.shell.kill_grace;
        self.timers.set(Timer::StopTasks, TASK_GRACE);
        self.timers.set(Timer::StopProcesses, grace + PROCESS_MARGIN);
    }

    /// Ends the calls that were cancelled and did not end by themselves: nobody waits for them any
    /// longer, also not where they cannot be stopped.
    pub(in crate::session) fn abort_calls(
        &mut self,
        processes_too: bool,
        plan: &mut Plan,
        moment: &mut Moment,
    ) {
        for call_id in self.work.abort(processes_too) {
            let outcome = Outcome::not_run(ToolStatus::Interrupted, INTERRUPTED_AFTER_START);
            self.tell_turn(turn::Input::Finished { call_id, outcome }, plan, moment);
        }
    }

    /// Live output goes to those who watch; that of a call that counts no longer goes nowhere.
    pub(in crate::session) fn tool_output(&mut self, chunk: OutputChunk) {
        if self.call(&chunk.call_id).is_none() {
            return;
        }
        let OutputChunk { call_id, offset, chunk } = chunk;
        let progress = Progress::ToolOutput { call_id, offset, chunk };
        self.services.journal.progress(&self.session_id, progress);
    }
}

fn prepare(tools: &Tools, context: &ToolContext, call: &Call) -> Result<PreparedCall, String> {
    let (tool, prepared) = tools.prepare(&call.name, &call.arguments, context)?;
    let subject = Subject {
        call_id: call.call_id.clone(),
        tool: call.name.clone(),
        arguments: call.arguments.clone(),
        risk: prepared.risk,
        targets: prepared.targets.clone(),
        // As the targets are resolved; a directory that is gone has none.
        cwd: path::directory(context).unwrap_or_else(|_| context.cwd.clone()),
    };
    Ok(PreparedCall { tool, prepared, subject })
}

/// A call on its way.
struct RunTask {
    call: Call,
    /// Absent where a restart took the turn up.
    prepared: Option<PreparedCall>,
    /// Absent where a person allowed it.
    approved: Option<ApprovedCall>,
    policy: Policy,
    tools: Tools,
    clock: Clock,
    run: Run,
}

impl RunTask {
    async fn run(self) -> Done {
        let started_ms = self.clock.boot_ms();
        let (call_id, clock) = (self.call.call_id.clone(), self.clock.clone());
        let mut outcome = self.outcome().await;
        outcome.duration_ms = clock.boot_ms().saturating_sub(started_ms);
        Done::Ran { call_id, outcome }
    }

    async fn outcome(self) -> Outcome {
        let Self { call, prepared, approved, policy, tools, run, .. } = self;
        let prepared = match prepared {
            Some(prepared) => Ok(prepared),
            None => prepare_again(tools, Arc::clone(&run.context), call).await,
        };
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(reason) => {
                return Outcome::not_run(ToolStatus::Invalid, format!("Tool failed: {reason}"));
            }
        };
        let granted = match approved {
            Some(approved) => Ok(approved),
            None => policy.grant(&prepared.subject, Resolution::Allow),
        };
        match granted {
            Ok(approved) => {
                let context = Arc::clone(&run.context);
                outcome(prepared.tool.run(&approved, run).await, &context)
            }
            Err(reason) => {
                Outcome::not_run(ToolStatus::Denied, format!("Permission denied: {reason}"))
            }
        }
    }
}

async fn prepare_again(
    tools: Tools,
    context: Arc<ToolContext>,
    call: Call,
) -> Result<PreparedCall, String> {
    tokio::task::spawn_blocking(move || prepare(&tools, &context, &call))
        .await
        .unwrap_or_else(|_| Err("the tool ran into a fault of its own".to_owned()))
}

fn outcome(output: ToolOutput, context: &ToolContext) -> Outcome {
    let ToolOutput { status, content, full_output, changes, seen, background } = output;
    let seen = seen
        .into_iter()
        .map(|seen| {
            context.files.note(&seen);
            (seen.path.to_string_lossy().into_owned(), seen.sha256)
        })
        .collect();
    Outcome { status, content, full_output, changes, seen, background, duration_ms: 0 }
}
