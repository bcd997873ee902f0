//! `backup`: a copy of the database, while the daemon works.
//!
//! Receives the name of a new file; hands back its size.

use agentd_client::protocol::daemon::BackupParams;
use agentd_client::protocol::method::DaemonBackup;
use anyhow::Result;

use crate::args::Backup;
use crate::context::{Context, absolute};
use crate::render;

pub(super) async fn backup(context: &Context, args: Backup) -> Result<()> {
    let path = absolute(&args.file)?;
    let client = context.client().await?;
    let made = client.call::<DaemonBackup>(BackupParams { path }).await?;
    if context.json {
        return render::json(&made);
    }
    render::line(&format!("{} ({})", made.path, render::size(made.bytes)))
}
