//! Background commands, as the session's record has them.
//!
//! A command runs in the table of `tools`; that it runs and how it ended stands in the record. The
//! session stays loaded and keeps its lease while one runs, so that its end is recorded when it
//! comes, and the model hears of it in its next iteration, whenever that is.
//!
//! Invariants: what the record says to be running is in the table, or its end is recorded before
//! anything else is admitted; what the record does not know does not outlive its turn.
//!
//! Receives ends from `tools`; plans events, and tells the running turn.

use agentd_protocol::event::EventBody;
use agentd_protocol::process::ProcessExit;

use super::actor::Actor;
use super::plan::Plan;
use super::state;
use crate::turn::{self, Moment};

impl Actor {
    /// A command ended.
    pub(super) fn process_exited(
        &mut self,
        exit: ProcessExit,
        plan: &mut Plan,
        moment: &mut Moment,
    ) {
        let place = self.state.processes.iter().position(|p| p.process_id == exit.process_id);
        let Some(place) = place else { return };
        self.state.processes.remove(place);
        self.state.exited.push(exit.clone());
        plan.event(EventBody::ProcessExited(exit.clone()));
        self.tell_turn(turn::Input::Exited(exit), plan, moment);
    }

    /// Brings table and record together; the ends of what the record has and the table has not.
    pub(super) fn lost_processes(&self) -> Vec<ProcessExit> {
        self.services.tools.background().reconcile(&self.session_id, &self.state.processes)
    }

    pub(super) fn processes_lost(
        &mut self,
        lost: Vec<ProcessExit>,
        plan: &mut Plan,
        moment: &mut Moment,
    ) {
        for exit in lost {
            self.process_exited(exit, plan, moment);
        }
    }

    /// A turn that ended has recorded what it started, but for what came of calls that nobody
    /// listened to any more.
    pub(super) fn end_unrecorded(&self) {
        // What the record has was put into the table before, and stays there.
        let _ = self.lost_processes();
    }

    /// The daemon stops, and background commands with it.
    pub(super) async fn end_processes(&mut self) {
        let exits = self.services.tools.background().end(&self.session_id).await;
        let mut moment = state::moment(&self.services);
        let mut plan = Plan::new(moment.now);
        self.processes_lost(exits, &mut plan, &mut moment);
        if self.broken.is_some() || !plan.is_written() {
            return;
        }
        if let Err(error) = self.commit(&mut plan).await {
            tracing::warn!(session = %self.session_id, %error, "ends of commands are not recorded");
        }
    }
}
