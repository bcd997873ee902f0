//! `send`: input for a session that nobody here watches.
//!
//! Receives a session and text; hands back what becomes of it.

use agentd_client::protocol::item::Content;
use agentd_client::protocol::method::SessionSubmit;
use agentd_client::protocol::submission::{Delivery, Disposition, Op};
use anyhow::Result;

use super::submission;
use crate::args::Send;
use crate::context::Context;
use crate::render;
use crate::target;
use crate::text;

pub(super) async fn send(context: &Context, args: Send) -> Result<()> {
    let content = Content::Text(text::input(&args.text, "agentctl send SESSION 'TEXT'")?);
    let client = context.client().await?;
    let session = target::session(&client, Some(&args.session)).await?;
    let delivery = match (args.queue, args.steer, args.replace) {
        (true, _, _) => Delivery::Queue,
        (_, true, _) => Delivery::Steer,
        (_, _, true) => Delivery::Replace,
        _ => Delivery::Auto,
    };
    let op = Op::UserInput { content, delivery, expected_turn_id: None };
    let result = client.call::<SessionSubmit>(submission(session.session_id, op)).await?;
    if context.json {
        return render::json(&result);
    }
    render::line(match result.disposition {
        Disposition::Started => "started",
        Disposition::Steered => "steered into the running turn",
        Disposition::Queued => "queued",
        Disposition::Replaced => "the running turn ends for it",
        Disposition::Applied => "applied",
    })
}
