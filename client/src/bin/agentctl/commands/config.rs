//! `config`: the effective configuration with where each value came from, and reading it again.
//!
//! Receives an action; hands back keys and values.

use agentd_client::Client;
use agentd_client::protocol::daemon::{DaemonConfig, NoParams, OnDisk};
use agentd_client::protocol::method::{DaemonReload, GetDaemonConfig};
use anyhow::Result;

use crate::args::ConfigAction;
use crate::context::Context;
use crate::render;
use crate::terminal::harmless;

pub(super) async fn config(context: &Context, action: Option<ConfigAction>) -> Result<()> {
    let client = context.client().await?;
    if let Some(ConfigAction::Reload) = action {
        let reloaded = client.call::<DaemonReload>(NoParams {}).await?;
        return match (context.json, reloaded.changed.as_slice()) {
            (true, _) => render::json(&reloaded),
            (false, []) => render::line("nothing changed"),
            (false, changed) => render::line(&format!("changed: {}", folded(changed).join(", "))),
        };
    }
    let config = client.call::<GetDaemonConfig>(NoParams {}).await?;
    if context.json {
        return render::json(&config);
    }
    if let Some(text) = not_in_force(&config) {
        eprintln!("agentctl: {}", harmless(&text));
    }
    let rows =
        config.values.into_iter().map(|entry| [entry.key, entry.value.to_string(), entry.origin]);
    render::table(["key", "value", "from"], rows.collect(), "no values")
}

/// What the files say and the daemon does not follow; a daemon that cannot tell says nothing.
pub(super) fn not_in_force(config: &DaemonConfig) -> Option<String> {
    Some(match config.on_disk.as_ref()? {
        OnDisk::Broken(why) => format!("the configuration on disk cannot be used: {why}"),
        OnDisk::Changed(keys) => {
            let keys = folded(keys).join(", ");
            format!("changed on disk and not in force: {keys}; `agentctl config reload` reads it")
        }
    })
}

/// Says it, before something is done with another configuration than the user may think.
pub(super) async fn warn(client: &Client) {
    let config = client.call::<GetDaemonConfig>(NoParams {}).await;
    if let Some(text) = config.ok().as_ref().and_then(not_in_force) {
        eprintln!("agentctl: {}", harmless(&text));
    }
}

/// Keys of a provider that changed at once, as when it is new, are told as one.
const FEW: usize = 3;

/// The changed keys; a provider with more than a few of them goes by its name alone.
fn folded(changed: &[String]) -> Vec<&str> {
    let folds = changed.chunk_by(|a, b| provider(a).is_some() && provider(a) == provider(b));
    folds
        .flat_map(|keys| match provider(&keys[0]) {
            Some(provider) if keys.len() > FEW => vec![provider],
            _ => keys.iter().map(String::as_str).collect(),
        })
        .collect()
}

/// `providers.NAME` of a key that begins so.
fn provider(key: &str) -> Option<&str> {
    let rest = key.strip_prefix("providers.")?;
    let (name, _) = rest.split_once('.')?;
    Some(&key[.."providers.".len() + name.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_provider_is_one_word() {
        let keys = |keys: &[&str]| keys.iter().map(ToString::to_string).collect::<Vec<_>>();
        let changed = keys(&[
            "model",
            "providers.a.base_url",
            "providers.b.base_url",
            "providers.b.max_retries",
            "providers.b.proxy",
            "providers.b.wire",
            "tools.max_parallel",
        ]);
        let told = ["model", "providers.a.base_url", "providers.b", "tools.max_parallel"];
        assert_eq!(folded(&changed), told);
        assert!(folded(&[]).is_empty());
    }
}
