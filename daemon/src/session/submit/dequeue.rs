//! `dequeue`: take a queued input out again.
//!
//! Receives the input's submission; plans its end.

use agentd_protocol::id::SubmissionId;
use agentd_protocol::submission::Disposition;

use super::{Accepted, Desk};
use crate::session::Error;

pub(super) fn plan(desk: &mut Desk<'_>, submission_id: &SubmissionId) -> Accepted {
    let Some(place) = desk.state.place_of(submission_id) else {
        return Err(Error::InvalidParams {
            field: "submission.op.submission_id".to_owned(),
            message: format!("no input {submission_id} is in the queue"),
        });
    };
    desk.accept(Disposition::Applied, None);
    desk.state.drop_queued(desk.plan, place, "dequeued");
    Ok((Disposition::Applied, None))
}
