//! `restart`: let turns end, then start the daemon that is installed now.
//!
//! Receives whether to wait for turns; hands back the new daemon's version.

use agentd_client::Start;
use agentd_client::protocol::daemon::NoParams;
use agentd_client::protocol::method::GetDaemonStatus;
use anyhow::Result;

use super::shutdown;
use crate::context::Context;
use crate::failure::Misuse;
use crate::render;

pub(super) async fn restart(context: &Context, now: bool) -> Result<()> {
    if context.start == Start::Never {
        return Err(Misuse("--no-start and restart do not go together".to_owned()).into());
    }
    if context.running().await.is_ok() {
        shutdown::stop(context, now).await?;
    }
    let client = context.client().await?;
    let status = client.call::<GetDaemonStatus>(NoParams {}).await?;
    if context.json {
        return render::json(&status);
    }
    render::line(&format!("agentd {} runs as process {}", status.version, status.pid))
}
