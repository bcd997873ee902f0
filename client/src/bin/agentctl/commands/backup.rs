//! `backup`: a copy of the database, while the daemon works.
//!
//! Receives the name of a new file; hands back its size.

use std::path::absolute;

use agentd_client::protocol::daemon::BackupParams;
use agentd_client::protocol::method::DaemonBackup;
use anyhow::{Context as _, Result, anyhow};

use crate::args::Backup;
use crate::context::Context;
use crate::render;

pub(super) async fn backup(context: &Context, args: Backup) -> Result<()> {
    let path = absolute(&args.file).context("cannot name the file")?;
    let path = path.into_os_string().into_string();
    let path = path.map_err(|path| anyhow!("{} is not UTF-8", path.display()))?;
    let client = context.client().await?;
    let made = client.call::<DaemonBackup>(BackupParams { path }).await?;
    if context.json {
        return render::json(&made);
    }
    render::line(&format!("{} ({})", made.path, render::size(made.bytes)))
}
