//! `shutdown`: stop the daemon and wait until it is gone.
//!
//! Receives whether to wait for turns; hands back when nobody answers any more.

use agentd_client::protocol::daemon::{ShutdownMode, ShutdownParams, ShutdownResult};
use agentd_client::protocol::method::DaemonShutdown;
use anyhow::Result;

use crate::context::Context;
use crate::render;

pub(super) async fn shutdown(context: &Context, now: bool) -> Result<()> {
    let result = stop(context, now).await?;
    if context.json { render::json(&result) } else { render::line("stopped") }
}

/// Stops the daemon that runs.
pub(super) async fn stop(context: &Context, now: bool) -> Result<ShutdownResult> {
    let client = context.running().await?;
    let mode = if now { ShutdownMode::Now } else { ShutdownMode::Drain };
    let result = client.call::<DaemonShutdown>(ShutdownParams { mode }).await?;
    if result.turns_running > 0 && !context.json {
        let turns = result.turns_running;
        eprintln!("turns that run or wait: {turns}; they get time to end, --now gives them none");
    }
    client.gone().await?;
    Ok(result)
}
