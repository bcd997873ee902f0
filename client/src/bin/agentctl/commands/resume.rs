//! `resume`: go on from what the record holds.
//!
//! Receives a session; hands back the turn that goes on.

use agentd_client::protocol::method::SessionSubmit;
use agentd_client::protocol::submission::Op;
use anyhow::Result;

use super::submission;
use crate::args::Target;
use crate::context::Context;
use crate::render;
use crate::target;

pub(super) async fn resume(context: &Context, args: Target) -> Result<()> {
    let client = context.client().await?;
    let session = target::session(&client, args.session.as_deref()).await?;
    let params = submission(session.session_id, Op::Resume {});
    let result = client.call::<SessionSubmit>(params).await?;
    match (context.json, &result.turn_id) {
        (true, _) => render::json(&result),
        (false, Some(turn_id)) => render::line(&format!("{turn_id} goes on")),
        (false, None) => render::line("the queue goes on"),
    }
}
