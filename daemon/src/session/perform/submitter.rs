//! Submitters: who sent what runs and what waits, and turns that end when they are gone.
//!
//! Gone means: both directions of the connection closed for 5 s without the same submission sent
//! again on another connection. A restart closes every connection.
//!
//! Receives accepted submissions; hands the machine the end of their turn.

use std::time::Duration;

use agentd_protocol::event::AbortReason;
use agentd_protocol::id::SubmissionId;
use agentd_protocol::submission::OnDisconnect;
use tokio::task::AbortHandle;

use crate::session::actor::Actor;
use crate::session::command::Submitted;
use crate::session::input::Done;
use crate::session::plan::Plan;
use crate::session::state::State;
use crate::turn::{self, Moment};

/// How long a submitter may be away.
const AWAY: Duration = Duration::from_secs(5);

/// Who sent a submission last.
#[derive(Debug)]
pub(in crate::session) struct Attached {
    /// The connection; absent where a restart lost it.
    pub(in crate::session) connection: Option<u64>,
    /// Waits for its end, where that matters.
    watch: Option<AbortHandle>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(watch) = &self.watch {
            watch.abort();
        }
    }
}

impl State {
    /// Whether the turn is this submission's: it started it, or was taken into it and asked to end
    /// it when its submitter is gone.
    pub(in crate::session) fn runs(&self, submission_id: &SubmissionId) -> bool {
        self.turn.as_ref().is_some_and(|turn| {
            turn.machine.submission_id() == submission_id || turn.joined.contains(submission_id)
        })
    }

    /// Every submission that a turn or a place goes back to, and that is nobody's when its
    /// submitter is gone.
    pub(in crate::session) fn on_submitters(&self) -> Vec<SubmissionId> {
        let turn = self.turn.iter();
        let joined = turn.clone().flat_map(|turn| turn.joined.iter().cloned());
        let params =
            turn.flat_map(|turn| std::iter::once(&turn.params).chain(turn.steered.values()));
        params
            .chain(self.queue.iter().map(|queued| &queued.params))
            .filter(|params| params.on_disconnect == OnDisconnect::Interrupt)
            .map(|params| params.submission.id.clone())
            .chain(joined)
            .collect()
    }
}

impl Actor {
    /// Notes who sent a submission, if a turn or the queue goes back to it.
    pub(in crate::session) fn attach(&mut self, submitted: &Submitted) {
        let submission_id = submitted.params.submission.id.clone();
        if !self.state.awaits(&submission_id) {
            return;
        }
        let connection = Some(submitted.caller.connection);
        let watch = (submitted.params.on_disconnect == OnDisconnect::Interrupt).then(|| {
            let (gone, clock) = (submitted.caller.gone.clone(), self.services.clock.clone());
            let submission_id = submission_id.clone();
            self.submitters.spawn(async move {
                gone.cancelled().await;
                clock.sleep(AWAY).await;
                Done::Gone { submission_id, connection }
            })
        });
        self.attached.insert(submission_id, Attached { connection, watch });
    }

    /// Gives the submitters that a restart lost their time to come back.
    pub(in crate::session) fn miss_submitters(&mut self) {
        for submission_id in self.state.on_submitters() {
            if !self.attached.contains_key(&submission_id) {
                self.look_for_submitter(submission_id, None);
            }
        }
    }

    /// Gives a submitter that is gone its time anew.
    pub(in crate::session) fn look_for_submitter(
        &mut self,
        submission_id: SubmissionId,
        connection: Option<u64>,
    ) {
        let (id, clock) = (submission_id.clone(), self.services.clock.clone());
        let watch = self.submitters.spawn(async move {
            clock.sleep(AWAY).await;
            Done::Gone { submission_id: id, connection }
        });
        self.attached.insert(submission_id, Attached { connection, watch: Some(watch) });
    }

    pub(in crate::session) fn submitter_gone(
        &mut self,
        submission_id: &SubmissionId,
        connection: Option<u64>,
        plan: &mut Plan,
        moment: &mut Moment,
    ) {
        let last = self.attached.get(submission_id).map(|attached| attached.connection);
        if last != Some(connection) {
            return;
        }
        self.attached.remove(submission_id);
        if self.state.runs(submission_id) {
            let input = turn::Input::Cancel { reason: AbortReason::Disconnected, by: None };
            return self.tell_turn(input, plan, moment);
        }
        self.state.drop_waiting(plan, submission_id, "disconnected");
    }
}
