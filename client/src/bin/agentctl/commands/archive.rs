//! `archive`: put a session away, or bring it back.
//!
//! Receives a session; hands back that it is so.

use agentd_client::protocol::method::SessionUpdate;
use agentd_client::protocol::session::UpdateParams;
use anyhow::Result;

use crate::args::Archive;
use crate::context::Context;
use crate::render;
use crate::target;
use crate::terminal::harmless;

pub(super) async fn archive(context: &Context, args: Archive) -> Result<()> {
    let client = context.client().await?;
    let session = target::session(&client, args.session.as_deref()).await?;
    let params = UpdateParams {
        session_id: session.session_id,
        title: None,
        archived: Some(!args.undo),
        labels: None,
        cwd: None,
    };
    let session = client.call::<SessionUpdate>(params).await?;
    if context.json {
        return render::json(&session);
    }
    let done = if session.archived { "put away" } else { "brought back" };
    render::line(&format!("{done}: {}  {}", session.session_id, harmless(&session.title)))
}
