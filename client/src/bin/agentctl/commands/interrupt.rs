//! `interrupt`: end the running turn.
//!
//! Receives a session; hands back which turn is being ended.

use agentd_client::protocol::method::SessionSubmit;
use agentd_client::protocol::submission::Op;
use anyhow::Result;

use super::submission;
use crate::args::Interrupt;
use crate::context::Context;
use crate::render;
use crate::target;

pub(super) async fn interrupt(context: &Context, args: Interrupt) -> Result<()> {
    let client = context.client().await?;
    let session = target::session(&client, args.session.as_deref()).await?;
    let op = Op::Interrupt { drop_queue: args.drop_queue, expected_turn_id: None };
    let result = client.call::<SessionSubmit>(submission(session.session_id, op)).await?;
    match (context.json, &result.turn_id) {
        (true, _) => render::json(&result),
        (false, Some(turn_id)) => render::line(&format!("interrupting {turn_id}")),
        (false, None) => render::line("no turn was running"),
    }
}
