//! `user_input`: input for the model.
//!
//! Receives input with its delivery; plans a turn, a steering, or a place in the queue.

use agentd_protocol::event::{AbortReason, EventBody};
use agentd_protocol::id::TurnId;
use agentd_protocol::item::{Content, Origin, Part};
use agentd_protocol::submission::{Delivery, Disposition, SubmitParams};

use super::{Accepted, Desk};
use crate::session::Error;
use crate::turn::Input;

/// How many inputs may wait; more is surely a mistake, and `overloaded` says so.
const MAX_QUEUE: usize = 256;

/// How many characters of the first input name a session.
const TITLE_CHARS: usize = 60;

pub(super) fn plan(
    desk: &mut Desk<'_>,
    content: Content,
    delivery: Delivery,
    expected: Option<&TurnId>,
) -> Accepted {
    check(&content)?;
    if desk.services.is_draining() {
        return Err(Error::ShuttingDown);
    }
    if matches!(delivery, Delivery::Steer | Delivery::Replace) {
        desk.expect_turn(expected)?;
    }
    let Some(turn) = &desk.state.turn else {
        if delivery == Delivery::Steer {
            return Err(Error::NoActiveTurn);
        }
        return start(desk, content);
    };
    // A compaction has no next iteration that could take an input.
    let stopping = turn.machine.is_stopping() || turn.machine.compacts();
    match delivery {
        Delivery::Reject => Err(Error::TurnActive(turn.machine.turn_id().clone())),
        Delivery::Steer if stopping => Err(Error::NoActiveTurn),
        Delivery::Auto | Delivery::Steer if !stopping => Ok(steer(desk, content)),
        Delivery::Auto | Delivery::Steer | Delivery::Queue => queue(desk, stopping),
        Delivery::Replace => replace(desk, stopping),
    }
}

fn check(content: &Content) -> Result<(), Error> {
    let invalid = |message: &str| Error::InvalidParams {
        field: "submission.op.content".to_owned(),
        message: message.to_owned(),
    };
    if content.is_blank() {
        return Err(invalid("the input is empty: send some text"));
    }
    if let Content::Parts(parts) = content
        && parts.iter().any(|part| matches!(part, Part::Image { data: None, .. }))
    {
        return Err(invalid("an image needs its bytes in `data`: paths are not read"));
    }
    Ok(())
}

fn start(desk: &mut Desk<'_>, content: Content) -> Accepted {
    // Refused before anything is planned.
    let params = desk.submitted.params.clone();
    desk.state.model(desk.services, params.limits)?;
    let turn_id = desk.moment.turn_id();
    desk.accept(Disposition::Started, Some(&turn_id));
    name_session(desk, &content);
    let opening = (content.into_parts(), Origin::User);
    desk.state.begin(desk.plan, desk.services, &turn_id, params, opening, desk.moment)?;
    Ok((Disposition::Started, Some(turn_id)))
}

/// A session without a title is named after its first input.
fn name_session(desk: &mut Desk<'_>, content: &Content) {
    let session = &desk.state.session;
    if session.item_count > 0 || !session.title.is_empty() {
        return;
    }
    let title = content.preview(TITLE_CHARS);
    if !title.is_empty() {
        let mut session = Box::new(session.clone());
        session.title = title;
        desk.plan.event(EventBody::SessionUpdated { session, changed: vec!["title".to_owned()] });
    }
}

fn steer(desk: &mut Desk<'_>, content: Content) -> (Disposition, Option<TurnId>) {
    let turn_id = desk.state.active_turn().cloned();
    desk.accept(Disposition::Steered, turn_id.as_ref());
    let params = desk.submitted.params.clone();
    let submission_id = params.submission.id.clone();
    if let Some(turn) = &mut desk.state.turn {
        turn.steered.insert(submission_id.clone(), params);
    }
    desk.tell_turn(Input::Steered { submission_id, content: content.into_parts() });
    (Disposition::Steered, turn_id)
}

/// The turn of an input that will have to wait, if it may.
fn may_wait(desk: &mut Desk<'_>) -> Result<(TurnId, SubmitParams), Error> {
    if desk.state.queue.len() >= MAX_QUEUE {
        return Err(Error::Overloaded { retry_after_ms: 1_000 });
    }
    let params = desk.submitted.params.clone();
    desk.state.model(desk.services, params.limits)?;
    Ok((desk.moment.turn_id(), params))
}

fn queue(desk: &mut Desk<'_>, stopping: bool) -> Accepted {
    let (turn_id, params) = may_wait(desk)?;
    desk.accept(Disposition::Queued, Some(&turn_id));
    desk.state.enqueue(desk.plan, turn_id.clone(), params, false);
    if stopping {
        // It came after the word that holds the queue.
        desk.state.hold_next = Some(false);
    }
    Ok((Disposition::Queued, Some(turn_id)))
}

fn replace(desk: &mut Desk<'_>, stopping: bool) -> Accepted {
    let (turn_id, params) = may_wait(desk)?;
    desk.accept(Disposition::Replaced, Some(&turn_id));
    let submission_id = params.submission.id.clone();
    let earlier = desk.state.turn.as_mut().and_then(|t| t.replaced_by.replace(submission_id));
    if let Some(earlier) = earlier {
        // Who replaces last is meant.
        desk.state.drop_waiting(desk.plan, &earlier, "replaced");
    }
    // What was steered into the turn stays behind what replaces it.
    desk.state.queue_leftovers(desk.plan, desk.moment);
    desk.state.enqueue(desk.plan, turn_id.clone(), params, true);
    desk.state.hold_next = stopping.then_some(false);
    let by = Some(desk.submitted.caller.by());
    desk.tell_turn(Input::Cancel { reason: AbortReason::Replaced, by });
    Ok((Disposition::Replaced, Some(turn_id)))
}
