//! `rm`: delete sessions with all they hold.
//!
//! All names are looked up before the first session goes, so that a mistake deletes nothing.
//!
//! Receives sessions, each by its name; hands back that they are gone.

use agentd_client::protocol::method::SessionDelete;
use agentd_client::protocol::session::SessionParams;
use anyhow::Result;

use crate::args::Rm;
use crate::context::Context;
use crate::render;
use crate::target;
use crate::terminal::harmless;

pub(super) async fn rm(context: &Context, args: Rm) -> Result<()> {
    let client = context.client().await?;
    let mut sessions = Vec::new();
    for name in &args.sessions {
        sessions.push(target::session(&client, Some(name)).await?);
    }
    sessions.dedup_by(|a, b| a.session_id == b.session_id);
    for session in &sessions {
        let session_id = session.session_id.clone();
        client.call::<SessionDelete>(SessionParams { session_id }).await?;
        if !context.json {
            let title = harmless(&session.title);
            render::line(&format!("deleted: {}  {title}", session.session_id))?;
        }
    }
    if context.json {
        let ids: Vec<_> = sessions.iter().map(|session| &session.session_id).collect();
        return render::json(&ids);
    }
    Ok(())
}
