//! `compact`: make room in the model's window.
//!
//! Receives a session; hands back the turn that writes the summary.

use agentd_client::protocol::method::SessionSubmit;
use agentd_client::protocol::submission::Op;
use anyhow::Result;

use super::submission;
use crate::args::Target;
use crate::context::Context;
use crate::render;
use crate::target;

pub(super) async fn compact(context: &Context, args: Target) -> Result<()> {
    let client = context.client().await?;
    let session = target::session(&client, args.session.as_deref()).await?;
    let params = submission(session.session_id, Op::Compact {});
    let result = client.call::<SessionSubmit>(params).await?;
    match (context.json, &result.turn_id) {
        (false, Some(turn_id)) => render::line(&format!("{turn_id} compacts")),
        _ => render::json(&result),
    }
}
