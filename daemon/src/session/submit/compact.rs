//! `compact`: make the model's view of the conversation shorter, now.
//!
//! Receives the wish; plans a turn that does nothing else.

use agentd_protocol::submission::Disposition;

use super::{Accepted, Desk};
use crate::session::Error;

pub(super) fn plan(desk: &mut Desk<'_>) -> Accepted {
    if let Some(turn_id) = desk.state.active_turn() {
        return Err(Error::TurnActive(turn_id.clone()));
    }
    if desk.services.is_draining() {
        return Err(Error::ShuttingDown);
    }
    if desk.state.session.item_count == 0 {
        return Err(Error::InvalidState {
            state: desk.state.state(),
            message: "there is nothing to compact: the session has no conversation yet".to_owned(),
        });
    }
    let params = desk.submitted.params.clone();
    desk.state.model(desk.services, params.limits)?;
    let turn_id = desk.moment.turn_id();
    desk.accept(Disposition::Started, Some(&turn_id));
    desk.state.begin_compaction(desk.plan, desk.services, &turn_id, params, desk.moment)?;
    Ok((Disposition::Started, Some(turn_id)))
}
