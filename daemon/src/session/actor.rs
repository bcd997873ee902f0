//! A session's actor: one task that owns all of the session's state.
//!
//! It is three calls: [`Actor::next_input`], the only place that waits for several things;
//! [`Actor::step`], which decides and waits for nothing; [`Actor::perform`], which commits, then
//! answers, then acts. So what one session is told is done in the order told, and nobody sees
//! what is not committed.
//!
//! Receives commands from its mailbox; hands appends to the journal and work to `perform`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::daemon::ShutdownMode;
use agentd_protocol::event::{AbortReason, EventBody};
use agentd_protocol::id::{PromptId, SessionId, SubmissionId, TurnId};
use agentd_protocol::submission::Op;
use futures_util::future::BoxFuture;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use super::Error;
use super::command::{Command, Submitted};
use super::digest;
use super::input::{Done, Input, Known};
use super::overtaken::Overtaken;
use super::perform::Attached;
use super::plan::{Answer, Chore, Plan};
use super::registry::Retire;
use super::rollback::RolledBack;
use super::services::Services;
use super::state::{self, State};
use super::submit::{self, Desk};
use super::timers::{Timer, Timers};
use super::work::Work;
use crate::conversation::Window;
use crate::knowledge::Observer;
use crate::store::{self, Appended, PromptRecord, PromptResolution};
use crate::tools::ToolContext;
use crate::turn;

/// How long a session stays loaded with nothing to do.
const IDLE: Duration = Duration::from_mins(1);

/// How long text may stream before a commit holds it.
const CHECKPOINT: Duration = Duration::from_millis(100);

/// A session's actor.
pub(super) struct Actor {
    pub(super) services: Arc<Services>,
    pub(super) session_id: SessionId,
    pub(super) mailbox: mpsc::Receiver<Command>,
    pub(super) retire: Retire,
    pub(super) state: State,
    pub(super) work: Work,
    pub(super) timers: Timers,
    /// The conversation as the model sees it; read when a turn needs it first.
    pub(super) window: Option<Window>,
    pub(super) context: Arc<ToolContext>,
    /// What the running turn may teach, and what the last one did.
    pub(super) observer: Observer,
    pub(super) candidates: Option<(TurnId, Vec<EventBody>)>,
    /// Why the store cannot be written.
    pub(super) broken: Option<store::Error>,
    /// The transaction that is not waited for: at most one, and none goes ahead of it.
    pub(super) committing: Option<BoxFuture<'static, Result<Appended, store::Error>>>,
    /// What another daemon may write ahead of.
    pub(super) overtaken: Overtaken,
    /// The lease's renewal, not waited for either.
    pub(super) renewing: Option<BoxFuture<'static, Result<(), store::Error>>>,
    /// The lease holds until then, in boot time.
    pub(super) lease_until_ms: u64,
    /// Who sent what the turn and the queue go back to, as far as it is known.
    pub(super) attached: HashMap<SubmissionId, Attached>,
    /// One task for each of them whose end matters.
    pub(super) submitters: JoinSet<Done>,
    pub(super) draining: watch::Receiver<Option<ShutdownMode>>,
    /// It is over.
    pub(super) done: bool,
}

impl Actor {
    /// Works until the session is idle, deleted, or the daemon stops.
    pub(super) async fn run(mut self) {
        while !self.done {
            self.set_timers();
            let input = self.next_input().await;
            let mut plan = Plan::new(self.services.clock.now());
            self.step(input, &mut plan);
            self.perform(plan).await;
        }
    }

    fn set_timers(&mut self) {
        let unsaved = self.state.turn.as_ref().is_some_and(|turn| turn.machine.has_unsaved());
        if unsaved && self.committing.is_none() {
            self.timers.set_once(Timer::Checkpoint, CHECKPOINT);
        } else {
            self.timers.clear(Timer::Checkpoint);
        }
        let idle = self.state.turn.is_none() && self.broken.is_none() && self.attached.is_empty();
        if self.services.is_draining() && self.can_stop() {
            self.timers.set(Timer::Idle, Duration::ZERO);
        } else if idle {
            self.timers.set_once(Timer::Idle, IDLE);
        } else {
            self.timers.clear(Timer::Idle);
        }
    }

    /// Whether an orderly stop need not wait for this session: nothing runs. A turn that waits
    /// for people is suspended, not ended.
    pub(super) fn can_stop(&self) -> bool {
        self.state.turn.as_ref().is_none_or(|turn| turn.machine.is_waiting())
    }

    /// The next input: whoever has something, so that a flood of one kind holds up no other.
    /// Cancel-safe up to the look-up of a submission.
    async fn next_input(&mut self) -> Input {
        if let Some(command) = self.overtaken.take() {
            return self.admit(command).await;
        }
        tokio::select! {
            Some(command) = self.mailbox.recv() => self.admit(command).await,
            timer = self.timers.next() => Input::Due(timer),
            Some(Ok(done)) = self.submitters.join_next() => Input::Done(done),
            result = over(&mut self.committing) => Input::Committed(result),
            result = over(&mut self.renewing) => Input::Renewed(result),
            input = self.work.next() => input,
            exit = self.services.tools.background().exited(&self.session_id, &self.state.processes),
                if !self.state.processes.is_empty() => Input::Exited(exit),
            mode = stop_mode(&mut self.draining) => Input::Drain(mode),
        }
    }

    /// What a command is, with all that the store knows of it.
    async fn admit(&mut self, command: Command) -> Input {
        if self.services.store.is_shared() {
            self.overtaken.may(&command);
            if self.state.epoch.is_none() {
                self.catch_up().await;
            }
        }
        match command {
            Command::Submit(submitted) => self.look_up(submitted).await,
            command => Input::Command(command),
        }
    }

    /// What the store knows of a submission's id.
    async fn look_up(&mut self, submitted: Box<Submitted>) -> Input {
        let digest = digest::of(&submitted.params);
        let id = &submitted.params.submission.id;
        let known = match self.services.store.submission(&self.session_id, id).await {
            Err(error) => Known::Failed(error),
            Ok(Some((same, result))) if same == digest => Known::Same(result),
            Ok(Some(_)) => Known::Other,
            Ok(None) => match &submitted.params.submission.op {
                Op::PermissionReply(reply) => self.look_up_prompt(&reply.prompt_id).await,
                Op::Rollback { .. } if self.may_roll_back() => {
                    Known::RolledBack(self.roll_back(&submitted.params.submission.op).await)
                }
                _ => Known::New,
            },
        };
        Input::Submit { submitted, digest, known }
    }

    async fn look_up_prompt(&mut self, prompt_id: &PromptId) -> Known {
        if self.state.session.prompts.iter().any(|prompt| prompt.prompt_id == *prompt_id) {
            return Known::New;
        }
        match self.services.store.prompt(prompt_id).await {
            Ok(Some(PromptRecord { prompt, resolved: Some(resolved) }))
                if prompt.session_id == self.session_id =>
            {
                let PromptResolution { decision, by, at } = resolved;
                Known::Resolved { decision, by, at }
            }
            Ok(_) => Known::New,
            Err(error) => Known::Failed(error),
        }
    }

    /// Decides what follows from an input.
    fn step(&mut self, input: Input, plan: &mut Plan) {
        if let Some(error) = self.broken.clone() {
            return self.step_broken(input, &error, plan);
        }
        let mut moment = state::moment(&self.services);
        match input {
            Input::Submit { submitted, digest, known } => {
                self.submit(*submitted, digest, known, plan, &mut moment);
            }
            Input::Command(command) => self.command(command, plan),
            Input::Model(news) => self.model_news(news, plan, &mut moment),
            Input::Output(chunk) => self.tool_output(chunk),
            Input::Exited(exit) => self.process_exited(exit, plan, &mut moment),
            Input::Done(done) => self.task_done(done, plan, &mut moment),
            Input::Committed(result) => plan.chore = Some(Chore::Committed(result)),
            Input::Renewed(result) => plan.chore = Some(Chore::Renewed(result)),
            Input::Due(timer) => self.due(timer, plan, &mut moment),
            Input::Drain(mode) => self.drain(mode, plan, &mut moment),
        }
        self.state.settle(plan, &self.services, &mut moment);
    }

    /// What is known of the session may not be what the store has, until the store is mended: no
    /// turn runs, and nothing is planned.
    fn step_broken(&mut self, input: Input, error: &store::Error, plan: &mut Plan) {
        match input {
            Input::Submit { submitted, digest, known } => {
                let mut moment = state::moment(&self.services);
                self.submit(*submitted, digest, known, plan, &mut moment);
            }
            Input::Command(Command::Delete { reply }) => plan.chore = Some(Chore::Delete(reply)),
            Input::Command(command) => command.refuse(error),
            Input::Due(Timer::Mend) => plan.chore = Some(Chore::Mend),
            Input::Due(Timer::Renew) => self.start_renewal(),
            Input::Renewed(result) => plan.chore = Some(Chore::Renewed(result)),
            Input::Due(Timer::Idle) => plan.chore = Some(Chore::Retire),
            Input::Done(Done::Gone { submission_id, connection }) => {
                self.look_for_submitter(submission_id, connection);
            }
            Input::Model(_)
            | Input::Output(_)
            | Input::Exited(_)
            | Input::Done(_)
            | Input::Committed(_)
            | Input::Due(_)
            | Input::Drain(_) => {}
        }
    }

    fn submit(
        &mut self,
        submitted: Submitted,
        digest: String,
        known: Known,
        plan: &mut Plan,
        moment: &mut turn::Moment,
    ) {
        let refusal = match known {
            Known::New => match (&self.broken, self.rival()) {
                (Some(error), _) => Error::Store(error.clone()),
                (None, Some(lease)) => Error::LeaseHeld(lease.clone()),
                (None, None) => return self.submit_new(submitted, digest, None, plan, moment),
            },
            Known::RolledBack(Ok(done)) => {
                return self.submit_new(submitted, digest, Some(done), plan, moment);
            }
            Known::RolledBack(Err(error)) => error,
            Known::Same(mut result) => {
                self.attach(&submitted);
                result.replayed = true;
                plan.answer = Some(Answer::Submitted { reply: submitted.reply, result });
                return;
            }
            Known::Other => Error::SubmissionConflict(submitted.params.submission.id.clone()),
            Known::Resolved { decision, by, at } => Error::PromptResolved { decision, by, at },
            Known::Failed(error) => Error::Store(error),
        };
        plan.answer = Some(Answer::Refused { reply: submitted.reply, error: refusal });
    }

    fn submit_new(
        &mut self,
        submitted: Submitted,
        digest: String,
        rolled_back: Option<RolledBack>,
        plan: &mut Plan,
        moment: &mut turn::Moment,
    ) {
        if let Some(answer) = rolled_back.as_ref().and_then(|done| done.only_said(&submitted)) {
            plan.answer = Some(Answer::Submitted { reply: submitted.reply, result: answer });
            return;
        }
        let rollback = rolled_back.as_ref().map(|done| done.report.clone());
        let mut desk = Desk {
            state: &mut self.state,
            services: &self.services,
            submitted: &submitted,
            moment,
            plan,
        };
        let planned = match rolled_back {
            Some(done) => Ok(submit::rollback(&mut desk, done)),
            None => submit::plan(&mut desk),
        };
        match planned {
            Ok((disposition, turn_id)) => {
                self.attach(&submitted);
                plan.answer_submitted(submitted, digest, (disposition, turn_id, rollback));
            }
            Err(error) => {
                // A refusal writes nothing.
                *plan = Plan::new(plan.now);
                plan.answer = Some(Answer::Refused { reply: submitted.reply, error });
            }
        }
    }

    fn command(&mut self, command: Command, plan: &mut Plan) {
        match command {
            Command::Update { params, reply } => self.update(*params, reply, plan),
            Command::Delete { reply } => plan.chore = Some(Chore::Delete(reply)),
            // It was looked up and came as such.
            Command::Submit(_) => {}
            // Nobody may be waiting.
            Command::Recover { done } => drop(done.send(())),
            Command::TakeOver { reply } => plan.chore = Some(Chore::TakeOver(reply)),
        }
    }

    fn drain(&mut self, mode: ShutdownMode, plan: &mut Plan, moment: &mut turn::Moment) {
        let timeout = self.services.config.current().daemon.drain_timeout;
        match mode {
            ShutdownMode::Now => self.cancel(AbortReason::Shutdown, plan, moment),
            ShutdownMode::Drain => self.timers.set(Timer::Drain, timeout),
        }
    }

    /// Cancels the running turn, unless it waits for people while the daemon stops.
    fn cancel(&mut self, reason: AbortReason, plan: &mut Plan, moment: &mut turn::Moment) {
        if reason == AbortReason::Shutdown && self.can_stop() {
            return;
        }
        self.tell_turn(turn::Input::Cancel { reason, by: None }, plan, moment);
    }

    /// Tells the running turn something and plans what follows.
    pub(super) fn tell_turn(
        &mut self,
        input: turn::Input,
        plan: &mut Plan,
        moment: &mut turn::Moment,
    ) {
        if let Some(turn) = &mut self.state.turn {
            let step = turn.machine.step(input, moment);
            let turn_id = turn.machine.turn_id().clone();
            plan.step(&turn_id, step);
        }
    }

    fn task_done(&mut self, done: Done, plan: &mut Plan, moment: &mut turn::Moment) {
        match done {
            Done::Model(news) => self.tell_turn(turn::Input::Stream(news), plan, moment),
            Done::Prepared { call_id, prepared } => {
                self.call_prepared(call_id, prepared, plan, moment);
            }
            Done::Judged { call_id, judgement } => {
                self.tell_turn(turn::Input::Judged { call_id, judgement }, plan, moment);
            }
            Done::Asked { call_id, prompt } => self.ask(call_id, prompt, plan, moment),
            Done::Ran { call_id, outcome } => {
                let input = turn::Input::Finished { call_id, outcome };
                self.tell_turn(input, plan, moment);
            }
            Done::Gone { submission_id, connection } => {
                self.submitter_gone(&submission_id, connection, plan, moment);
            }
        }
    }

    fn due(&mut self, timer: Timer, plan: &mut Plan, moment: &mut turn::Moment) {
        match timer {
            Timer::Checkpoint => self.tell_turn(turn::Input::CheckpointDue, plan, moment),
            Timer::Retry => self.tell_turn(turn::Input::RetryDue, plan, moment),
            Timer::StopTasks => self.abort_calls(false, plan, moment),
            Timer::StopProcesses => self.abort_calls(true, plan, moment),
            Timer::Expire => self.expire_prompts(plan, moment),
            Timer::Drain => self.cancel(AbortReason::Shutdown, plan, moment),
            Timer::Renew => self.start_renewal(),
            Timer::Mend => plan.chore = Some(Chore::Mend),
            Timer::Idle => plan.chore = Some(Chore::Retire),
        }
    }
}

/// Waits until the daemon stops, or stops sooner than it said before.
async fn stop_mode(draining: &mut watch::Receiver<Option<ShutdownMode>>) -> ShutdownMode {
    loop {
        if draining.changed().await.is_err() {
            // The daemon is gone, and with it everybody who could wait.
            return std::future::pending().await;
        }
        if let Some(mode) = *draining.borrow_and_update() {
            return mode;
        }
    }
}

/// What a future that is not waited for came to; waits for ever where there is none.
async fn over<T>(future: &mut Option<BoxFuture<'static, T>>) -> T {
    let Some(running) = future else { return std::future::pending().await };
    let result = running.await;
    *future = None;
    result
}
