//! `resume`: go on from what the record holds, without new input.
//!
//! Receives the wish; plans a turn that goes on with an interrupted one, or, where there is none,
//! lets a held queue go.

use agentd_protocol::event::EventBody;
use agentd_protocol::item::{Origin, Part};
use agentd_protocol::submission::Disposition;

use super::{Accepted, Desk};
use crate::session::Error;
use crate::turn::resume_note;

pub(super) fn plan(desk: &mut Desk<'_>) -> Accepted {
    if let Some(turn_id) = desk.state.active_turn() {
        return Err(Error::TurnActive(turn_id.clone()));
    }
    if desk.services.is_draining() {
        return Err(Error::ShuttingDown);
    }
    let ended = match &desk.state.last_work_end {
        Some(EventBody::TurnAborted { reason, .. }) => Some(*reason),
        Some(EventBody::TurnFailed { .. } | EventBody::TurnExhausted { .. }) => None,
        _ if desk.state.now().1 => return let_queue_go(desk),
        _ => {
            return Err(Error::InvalidState {
                state: desk.state.state(),
                message: "there is nothing to resume: the last turn completed, or there was none"
                    .to_owned(),
            });
        }
    };
    let params = desk.submitted.params.clone();
    desk.state.model(desk.services, params.limits)?;
    let turn_id = desk.moment.turn_id();
    desk.accept(Disposition::Started, Some(&turn_id));
    let opening = (vec![Part::text(resume_note(ended))], Origin::Agentd);
    desk.state.begin(desk.plan, desk.services, &turn_id, params, opening, desk.moment)?;
    Ok((Disposition::Started, Some(turn_id)))
}

/// The queue was held though there is nothing to go on with: its first input could not start.
fn let_queue_go(desk: &mut Desk<'_>) -> Accepted {
    let next = desk.state.queue.front().map(|next| (next.turn_id.clone(), next.params.limits));
    let (turn_id, limits) = next.unzip();
    desk.state.model(desk.services, limits.flatten())?;
    desk.accept(Disposition::Applied, turn_id.as_ref());
    desk.state.held = false;
    desk.state.start_next(desk.plan, desk.services, desk.moment);
    Ok((Disposition::Applied, turn_id))
}
