//! Submitters that ask for their turn to end when they are gone.
//!
//! Gone means: both directions of the connection closed for 5 s without the same submission sent
//! again on another connection.
//!
//! Receives submissions with `on_disconnect: "interrupt"`; hands the machine the end of their turn.

use std::time::Duration;

use agentd_protocol::event::AbortReason;
use agentd_protocol::id::SubmissionId;
use agentd_protocol::submission::OnDisconnect;

use crate::session::actor::Actor;
use crate::session::command::Submitted;
use crate::session::input::Done;
use crate::session::plan::Plan;
use crate::turn::{self, Moment};

/// How long a submitter may be away.
const AWAY: Duration = Duration::from_secs(5);

impl Actor {
    pub(in crate::session) fn watch_submitter(&mut self, submitted: &Submitted) {
        if submitted.params.on_disconnect != OnDisconnect::Interrupt {
            return;
        }
        let submission_id = submitted.params.submission.id.clone();
        let connection = submitted.caller.connection;
        self.attached.insert(submission_id.clone(), connection);
        let (gone, clock) = (submitted.caller.gone.clone(), self.services.clock.clone());
        self.submitters.spawn(async move {
            gone.cancelled().await;
            clock.sleep(AWAY).await;
            Done::Gone { submission_id, connection }
        });
    }

    pub(in crate::session) fn submitter_gone(
        &mut self,
        submission_id: &SubmissionId,
        connection: u64,
        plan: &mut Plan,
        moment: &mut Moment,
    ) {
        if self.attached.get(submission_id) != Some(&connection) {
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
