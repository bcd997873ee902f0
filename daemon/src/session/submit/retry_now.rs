//! `retry_now`: end a retry's wait.
//!
//! Receives the wish; plans the next attempt. Without a wait it changes nothing.

use agentd_protocol::id::TurnId;
use agentd_protocol::submission::Disposition;

use super::Desk;
use crate::turn::Input;

pub(super) fn plan(desk: &mut Desk<'_>) -> (Disposition, Option<TurnId>) {
    let turn_id = desk.state.active_turn().cloned();
    desk.accept(Disposition::Applied, turn_id.as_ref());
    desk.tell_turn(Input::RetryDue);
    (Disposition::Applied, turn_id)
}
