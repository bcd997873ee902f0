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
        let running = self.state.turn.as_ref().map(|turn| &turn.params);
        let waiting = self.state.queue.iter().map(|queued| &queued.params);
        let missed: Vec<_> = running
            .into_iter()
            .chain(waiting)
            .filter(|params| params.on_disconnect == OnDisconnect::Interrupt)
            .map(|params| params.submission.id.clone())
            .filter(|submission_id| !self.attached.contains_key(submission_id))
            .collect();
        for submission_id in missed {
            self.look_for_submitter(submission_id, None);
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
        let runs = self
            .state
            .turn
            .as_ref()
            .is_some_and(|turn| turn.machine.submission_id() == submission_id);
        if runs {
            let input = turn::Input::Cancel { reason: AbortReason::Disconnected, by: None };
            return self.tell_turn(input, plan, moment);
        }
        let place = self.state.queue.iter().position(|q| q.params.submission.id == *submission_id);
        if let Some(place) = place {
            self.state.drop_queued(plan, place, "disconnected");
        }
    }
}
