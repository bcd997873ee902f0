//! `interrupt`: end the running turn.
//!
//! It concerns what was accepted before it: the running turn, an input that is replacing it, and
//! with `drop_queue` those that wait.
//!
//! Receives the wish; plans the turn's end.

use agentd_protocol::event::AbortReason;
use agentd_protocol::id::TurnId;
use agentd_protocol::submission::Disposition;

use super::{Accepted, Desk};
use crate::turn::Input;

pub(super) fn plan(desk: &mut Desk<'_>, drop_queue: bool, expected: Option<&TurnId>) -> Accepted {
    desk.expect_turn(expected)?;
    let turn_id = desk.state.active_turn().cloned();
    desk.accept(Disposition::Applied, turn_id.as_ref());
    if drop_queue {
        while !desk.state.queue.is_empty() {
            desk.state.drop_queued(desk.plan, 0, "interrupted");
        }
    }
    if desk.state.turn.as_ref().is_some_and(|turn| turn.machine.is_stopping()) {
        desk.state.hold_next = Some(true);
    }
    let by = Some(desk.submitted.caller.by());
    desk.tell_turn(Input::Cancel { reason: AbortReason::Interrupted, by });
    Ok((Disposition::Applied, turn_id))
}
