//! `status`: what the daemon is doing. It is not started for that.
//!
//! Receives nothing; hands back fields.

use agentd_client::protocol::daemon::NoParams;
use agentd_client::protocol::method::GetDaemonStatus;
use anyhow::Result;

use crate::context::Context;
use crate::render;

pub(super) async fn status(context: &Context) -> Result<()> {
    let client = context.running().await?;
    let status = client.call::<GetDaemonStatus>(NoParams {}).await?;
    if context.json {
        return render::json(&status);
    }
    let sessions: Vec<_> =
        status.sessions.iter().map(|(state, count)| format!("{count} {state}")).collect();
    let draining = if status.draining { "yes, when its turns have ended" } else { "" };
    render::fields(&[
        ("version", status.version),
        ("process", status.pid.to_string()),
        ("up", render::duration(status.uptime_ms)),
        ("sessions", sessions.join(", ")),
        ("turns running", status.turns_running.to_string()),
        ("connections", status.connections.to_string()),
        ("store", render::size(status.store_bytes)),
        ("memory", status.memory_bytes.map(render::size).unwrap_or_default()),
        ("socket", status.socket),
        ("state", status.state_dir),
        ("stopping", draining.to_owned()),
    ])
}
