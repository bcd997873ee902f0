//! `resume`: go on from what the record holds, without new input.
//!
//! Receives the wish; plans a turn that goes on with an interrupted one, or lets a held queue go.

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
    if desk.state.draining.is_some() {
        return Err(Error::ShuttingDown);
    }
    let ended = match &desk.state.last_end {
        Some(EventBody::TurnAborted { reason, .. }) => Some(*reason),
        Some(EventBody::TurnFailed { .. } | EventBody::TurnExhausted { .. }) => None,
        _ => {
            return Err(Error::InvalidState {
                state: desk.state.state(),
                message: "there is nothing to resume: the last turn completed, or there was none"
                    .to_owned(),
            });
        }
    };
    desk.may_start()?;
    let turn_id = desk.moment.turn_id();
    desk.accept(Disposition::Started, Some(&turn_id));
    let params = desk.submitted.params.clone();
    let opening = (vec![Part::text(resume_note(ended))], Origin::Agentd);
    desk.state.begin(desk.plan, desk.services, &turn_id, params, opening, desk.moment)?;
    Ok((Disposition::Started, Some(turn_id)))
}
