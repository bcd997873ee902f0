//! `config`: the effective configuration with where each value came from, and reading it again.
//!
//! Receives an action; hands back keys and values.

use agentd_client::protocol::daemon::NoParams;
use agentd_client::protocol::method::{DaemonReload, GetDaemonConfig};
use anyhow::Result;

use crate::args::ConfigAction;
use crate::context::Context;
use crate::render;

pub(super) async fn config(context: &Context, action: Option<ConfigAction>) -> Result<()> {
    let client = context.client().await?;
    if let Some(ConfigAction::Reload) = action {
        let reloaded = client.call::<DaemonReload>(NoParams {}).await?;
        return match (context.json, reloaded.changed.as_slice()) {
            (true, _) => render::json(&reloaded),
            (false, []) => render::line("nothing changed"),
            (false, changed) => render::line(&format!("changed: {}", changed.join(", "))),
        };
    }
    let config = client.call::<GetDaemonConfig>(NoParams {}).await?;
    if context.json {
        return render::json(&config);
    }
    let rows =
        config.values.into_iter().map(|entry| [entry.key, entry.value.to_string(), entry.origin]);
    render::table(["key", "value", "from"], rows.collect(), "no values")
}
