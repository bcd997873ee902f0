//! Submissions: the only way to change a session, one file per op.
//!
//! An op checks, then plans: what it refuses writes nothing and leaves the submission's id free;
//! what it accepts is committed before it is answered.
//!
//! Receives submissions from the mailbox; hands plans to the actor.

mod compact;
mod configure;
mod dequeue;
mod interrupt;
mod permission_reply;
mod resume;
mod retry_now;
mod rollback;
mod user_input;

use agentd_protocol::id::TurnId;
use agentd_protocol::submission::{Disposition, Op};

use super::Error;
use super::command::Submitted;
use super::plan::Plan;
use super::services::Services;
use super::state::State;
use crate::turn::Moment;

pub(super) use self::rollback::plan as rollback;

/// What an op works with.
pub(super) struct Desk<'a> {
    pub(super) state: &'a mut State,
    pub(super) services: &'a Services,
    pub(super) submitted: &'a Submitted,
    pub(super) moment: &'a mut Moment,
    pub(super) plan: &'a mut Plan,
}

/// What an op came to.
pub(super) type Accepted = Result<(Disposition, Option<TurnId>), Error>;

/// Plans a submission that was not seen before.
pub(super) fn plan(desk: &mut Desk<'_>) -> Accepted {
    match desk.submitted.params.submission.op.clone() {
        Op::UserInput { content, delivery, expected_turn_id } => {
            user_input::plan(desk, content, delivery, expected_turn_id.as_ref())
        }
        Op::Interrupt { drop_queue, expected_turn_id } => {
            interrupt::plan(desk, drop_queue, expected_turn_id.as_ref())
        }
        Op::Resume {} => resume::plan(desk),
        Op::PermissionReply(reply) => permission_reply::plan(desk, reply),
        Op::Dequeue { submission_id } => dequeue::plan(desk, &submission_id),
        Op::RetryNow {} => Ok(retry_now::plan(desk)),
        Op::Configure { model, model_options, permission_mode, limits } => {
            configure::plan(desk, model, model_options, permission_mode, limits)
        }
        Op::Compact {} => compact::plan(desk),
        Op::QuestionReply { .. } => Err(Error::Unsupported { capability: "questions" }),
        // With no turn running it was looked up, and comes as [`rollback`].
        Op::Rollback { .. } => Err(match desk.state.active_turn() {
            Some(turn_id) => Error::TurnActive(turn_id.clone()),
            None => Error::Internal("a rollback was not looked up".to_owned()),
        }),
    }
}

impl Desk<'_> {
    /// Puts the acceptance first, so that every consequence comes after it.
    fn accept(&mut self, disposition: Disposition, turn_id: Option<&TurnId>) {
        self.plan.accept(self.submitted, disposition, turn_id);
    }

    /// Refuses if another turn runs than the one the client saw.
    fn expect_turn(&self, expected: Option<&TurnId>) -> Result<(), Error> {
        let active = self.state.active_turn();
        match expected {
            Some(expected) if active != Some(expected) => {
                Err(Error::TurnMismatch { active: active.cloned() })
            }
            _ => Ok(()),
        }
    }

    /// Tells the running turn something and plans what follows.
    fn tell_turn(&mut self, input: crate::turn::Input) {
        if let Some(turn) = &mut self.state.turn {
            let step = turn.machine.step(input, self.moment);
            let turn_id = turn.machine.turn_id().clone();
            self.plan.step(&turn_id, step);
        }
    }
}
