//! `rename`: another title for a session.
//!
//! Receives a session and a title; hands back that it is so.

use agentd_client::protocol::method::SessionUpdate;
use agentd_client::protocol::session::UpdateParams;
use anyhow::Result;

use crate::args::Rename;
use crate::context::Context;
use crate::render;
use crate::target;
use crate::terminal::harmless;

pub(super) async fn rename(context: &Context, args: Rename) -> Result<()> {
    let client = context.client().await?;
    let session = target::session(&client, Some(&args.session)).await?;
    let params = UpdateParams {
        session_id: session.session_id,
        title: Some(args.title.join(" ")),
        archived: None,
        labels: None,
        cwd: None,
    };
    let session = client.call::<SessionUpdate>(params).await?;
    if context.json {
        return render::json(&session);
    }
    render::line(&format!("{}  {}", session.session_id, harmless(&session.title)))
}
