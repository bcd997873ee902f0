//! Performing a plan: commit, then answer, then act.
//!
//! One function per action, in the file of its kind. What a plan records is one transaction; if
//! it fails, nothing of the plan happens and the session is read again from the store.
//!
//! Receives plans from the actor; hands appends to the journal, requests to the provider, calls
//! to the tools.

mod context;
mod model;
mod permission;
mod submitter;
mod tool;

use self::model::Wish;
pub(super) use self::submitter::Attached;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::daemon::DaemonEvent;
use agentd_protocol::event::{Event, EventBody};
use agentd_protocol::id::SessionId;
use futures_util::FutureExt;

use super::actor::Actor;
use super::plan::{Chore, Plan};
use super::recovery::{Why, system_item};
use super::timers::Timer;
use super::work::Work;
use crate::store::{self, Append, Appended, LeaseUse, Store};
use crate::tools::ToolContext;
use crate::turn::Action;

/// Between two tries to write a store that failed.
const MEND: Duration = Duration::from_secs(1);

impl Actor {
    pub(super) async fn perform(&mut self, mut plan: Plan) {
        match plan.chore.take() {
            Some(Chore::Mend) => return self.mend().await,
            Some(Chore::Delete(reply)) => return self.delete(reply).await,
            Some(Chore::TakeOver(reply)) => return self.take_over(reply).await,
            Some(Chore::Retire) => return self.unload().await,
            Some(Chore::Renewed(result)) => self.renewed(result).await,
            Some(Chore::Committed(Ok(appended))) => self.committed(&appended, false, false),
            Some(Chore::Committed(Err(error))) => return self.commit_failed(error).await,
            None => {}
        }
        if plan.is_written() {
            if let Err(error) = self.commit(&mut plan).await {
                let error = with_holder(&self.services.store, &self.session_id, error).await;
                if let Some(answer) = plan.answer {
                    self.overtaken.failed(answer, &error);
                }
                return self.commit_failed(error).await;
            }
            self.follow_settings().await;
        } else if let Some(answer) = plan.answer {
            answer.give();
        }
        for action in plan.actions {
            self.act(action).await;
        }
        self.propose().await;
    }

    /// Writes what the observer made of a turn that completed. It comes after the turn's end and
    /// after what followed it has begun, and its failure is nobody's.
    async fn propose(&mut self) {
        let Some((turn_id, candidates)) = self.candidates.take() else { return };
        let mut plan = Plan::new(self.services.clock.now());
        for candidate in candidates {
            plan.turn_event(&turn_id, candidate);
        }
        if let Err(error) = self.commit(&mut plan).await {
            self.commit_failed(error).await;
        }
    }

    /// One transaction. Whoever waits is told when it is committed. What nothing depends on is
    /// not waited for, so that a store that is slow does not hold up a stream.
    pub(super) async fn commit(&mut self, plan: &mut Plan) -> Result<(), store::Error> {
        if let Some(earlier) = self.committing.take() {
            let appended = earlier.await?;
            self.committed(&appended, false, false);
        }
        plan.number(self.state.session.head_seq);
        let (precaution, ends_turn) = (plan.is_precaution(), plan.ends_turn());
        let append = Append {
            session_id: self.session_id.clone(),
            expected_head: self.state.session.head_seq,
            lease: match self.state.epoch {
                Some(epoch) => LeaseUse::Held { epoch },
                None => LeaseUse::Take { by_force: plan.by_force },
            },
            release: self.state.is_at_rest(&self.services),
            events: std::mem::take(&mut plan.events),
            rows: std::mem::take(&mut plan.rows),
        };
        let release = append.release;
        if precaution {
            let journal = self.services.journal.clone();
            self.committing = Some(async move { journal.append(append).await }.boxed());
            return Ok(());
        }
        let appended = self.services.journal.append(append).await?;
        self.committed(&appended, release, ends_turn);
        if let Some(answer) = plan.answer.take() {
            answer.give();
        }
        Ok(())
    }

    pub(super) fn committed(&mut self, appended: &Appended, released: bool, ends_turn: bool) {
        if ends_turn {
            self.work_over();
        }
        self.state.commit(&appended.events);
        if ends_turn {
            self.end_unrecorded();
        }
        for event in &appended.events {
            self.note(event);
        }
        let state = &self.state;
        self.attached.retain(|submission_id, _| state.awaits(submission_id));
        self.state.session.head_seq = appended.head;
        // Whoever held it before, it was ours.
        self.state.session.lease = None;
        if released {
            self.state.epoch = None;
            self.timers.clear(Timer::Renew);
        } else {
            let first = self.state.epoch.replace(appended.epoch).is_none();
            if first {
                self.lease_renewed();
            }
        }
    }

    /// What this daemon keeps beside the store follows each committed event.
    fn note(&mut self, event: &Event) {
        let candidates = self.observer.see(event);
        if let Some(turn_id) = event.turn_id.as_ref().filter(|_| !candidates.is_empty()) {
            self.candidates = Some((turn_id.clone(), candidates));
        }
        if let Some(window) = &mut self.window {
            if let Some(item) = event.body.item() {
                window.push(Arc::new(item.clone()));
            } else if let EventBody::ToolStarted { call_id, .. } = &event.body {
                window.call_started(call_id.clone());
            } else if let EventBody::MessageReset { discarded, .. } = &event.body {
                window.calls_discarded(discarded);
            }
        }
        match &event.body {
            EventBody::PermissionRequested { prompt } => {
                let prompt_id = prompt.prompt_id.clone();
                self.services.open_prompts.add(prompt_id, self.session_id.clone());
            }
            EventBody::PermissionResolved(resolved) => {
                self.services.open_prompts.remove(&resolved.prompt_id);
                if resolved.rule.is_some() {
                    self.services.rules_changed();
                }
            }
            EventBody::SessionState { state, .. } => {
                let session_id = self.session_id.clone();
                self.services.tell(DaemonEvent::SessionState { session_id, state: *state });
            }
            EventBody::SessionUpdated { .. } => {
                let session = Box::new(self.state.session.clone());
                self.services.tell(DaemonEvent::SessionChanged { session });
            }
            _ => {}
        }
    }

    /// Tools work where the session does, and as the configuration says now.
    async fn follow_settings(&mut self) {
        let session = &self.state.session;
        let cwd = Path::new(&session.cwd);
        let moved = self.context.cwd != cwd;
        let config = Arc::clone(&self.services.config.current().tools);
        if !moved && Arc::ptr_eq(&self.context.config, &config) {
            return;
        }
        if moved && session.item_count == 0 {
            self.state.system = system_item(&self.services, &session.cwd).await;
        }
        let cwd = PathBuf::from(&self.state.session.cwd);
        self.context = Arc::new(ToolContext { cwd, config, ..(*self.context).clone() });
    }

    /// Throws the work of a turn away.
    pub(super) fn work_over(&mut self) {
        self.work.cancel.cancel();
        self.work = Work::new();
        for timer in [Timer::Retry, Timer::StopTasks, Timer::StopProcesses, Timer::Expire] {
            self.timers.clear(timer);
        }
    }

    async fn act(&mut self, action: Action) {
        match action {
            Action::Request { attempt, fit, .. } => {
                self.request(attempt, Wish::Answer { fit }).await;
            }
            Action::Summarize { attempt, narrowed } => {
                self.request(attempt, Wish::Summary { narrowed }).await;
            }
            Action::StopRequest => self.work.model = None,
            Action::Progress(progress) => {
                self.services.journal.progress(&self.session_id, progress);
            }
            Action::Prepare { call_id } => self.prepare(call_id),
            Action::Judge { call_id, early } => {
                self.refresh_rules().await;
                self.judge(call_id, early);
            }
            Action::Run { call_id } => self.run_call(call_id).await,
            Action::Discard { calls } => self.work.discard(&calls),
            Action::StopTools => self.stop_tools(),
            Action::WaitRetry { delay_ms } => {
                self.work.model = None;
                self.timers.set(Timer::Retry, Duration::from_millis(delay_ms));
            }
        }
    }

    /// A transaction failed: nothing of its plan happened.
    pub(super) async fn commit_failed(&mut self, error: store::Error) {
        tracing::warn!(session = %self.session_id, %error, "a session's transaction failed");
        match error {
            store::Error::LeaseLost | store::Error::LeaseHeld(_) => self.lose_lease().await,
            // Somebody else had the session meanwhile: start from what is there now.
            store::Error::HeadMoved { .. } => {
                self.stop_working();
                self.follow().await;
            }
            store::Error::SessionNotFound(_) => {
                self.stop_working();
                self.leave(&error);
            }
            error => {
                self.stop_working();
                self.services.journal.store_failed(&self.session_id, &error.to_string());
                self.broken = Some(error);
                self.timers.set(Timer::Mend, MEND);
            }
        }
    }

    /// Another process has the session: work ends, nothing is written, watchers follow the log.
    pub(super) async fn lose_lease(&mut self) {
        self.stop_working();
        let session = self.services.store.session(&self.session_id).await.ok();
        let holder = session.and_then(|session| session.lease);
        self.services.journal.detached(&self.session_id, holder);
        self.follow().await;
    }

    fn stop_working(&mut self) {
        self.work_over();
        self.committing = None;
        self.renewing = None;
        if self.state.epoch.is_some() {
            // The renewal that was on its way is given up.
            self.timers.set_once(Timer::Renew, Duration::ZERO);
        }
        self.state.turn = None;
        self.window = None;
    }

    /// Tries the store again; the turn that failed with it gets its terminal event.
    pub(super) async fn mend(&mut self) {
        let Some(cause) = self.broken.take() else { return };
        if let Err(error) = Box::pin(self.take_up(Why::StoreFailed(cause))).await {
            self.broken = Some(error);
            self.timers.set(Timer::Mend, MEND);
        }
    }
}

/// A lease that was lost is held by somebody, if not given back meanwhile.
async fn with_holder(store: &Store, session_id: &SessionId, error: store::Error) -> store::Error {
    if !matches!(error, store::Error::LeaseLost) {
        return error;
    }
    let session = store.session(session_id).await.ok();
    session.and_then(|session| session.lease).map_or(error, store::Error::LeaseHeld)
}
