//! `doctor`: what is wrong, with what, and what to do; and model servers on this machine.
//!
//! Each check is a line: well, worth knowing, or wrong. Only what is wrong makes the exit code 1.
//!
//! Receives nothing; hands back checks.

mod servers;
mod system;

use agentd_client::Client;
use agentd_client::protocol::daemon::{DaemonConfig, ModelListParams, NoParams, OnDisk};
use agentd_client::protocol::method::{DaemonCheck, GetDaemonConfig, GetDaemonStatus, ModelList};
use anyhow::Result;
use serde::Serialize;
use serde_json::json;

use self::servers::Found;
use super::config;
use crate::context::Context;
use crate::failure::Exit;
use crate::render;
use crate::terminal::{Palette, Style, harmless};

/// How it stands with something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Well,
    Note,
    Wrong,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    message: String,
}

impl Check {
    fn well(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Well, message: message.into() }
    }

    fn note(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Note, message: message.into() }
    }

    fn wrong(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Wrong, message: message.into() }
    }
}

pub(super) async fn doctor(context: &Context) -> Result<Exit> {
    let mut checks = vec![system::socket(context)];
    let mut configured = Vec::new();
    match context.client().await {
        Ok(client) => {
            checks.extend(daemon(&client).await);
            let config = client.call::<GetDaemonConfig>(NoParams {}).await;
            checks.push(configuration(config.as_ref()));
            configured = config.map(addresses).unwrap_or_default();
        }
        Err(error) => checks.push(Check::wrong("daemon", format!("{error:#}"))),
    }
    checks.extend([system::state_dir(), system::landlock(), system::namespaces()]);
    checks.push(system::seccomp());
    let found = servers::look().await;
    report(context, &checks, &found, &configured)?;
    let is_wrong = checks.iter().any(|check| check.verdict == Verdict::Wrong);
    Ok(if is_wrong { Exit::Failed } else { Exit::Completed })
}

/// What the daemon says of itself.
async fn daemon(client: &Client) -> Vec<Check> {
    let mut checks = Vec::new();
    match client.call::<GetDaemonStatus>(NoParams {}).await {
        Ok(status) => {
            let (version, pid) = (&status.version, status.pid);
            checks.push(Check::well("daemon", format!("version {version}, process {pid}")));
        }
        Err(error) => checks.push(Check::wrong("daemon", error.to_string())),
    }
    checks.push(match client.call::<DaemonCheck>(NoParams {}).await {
        Ok(result) if result.damage.is_empty() => Check::well("database", "nothing is damaged"),
        Ok(result) => {
            let damage = result.damage.join("; ");
            let what = "`agentctl restart` sets it aside and recovers what can be read";
            Check::wrong("database", format!("damaged ({damage}): {what}"))
        }
        Err(error) => Check::wrong("database", error.to_string()),
    });
    checks.extend(providers(client).await);
    checks
}

/// Whether each configured provider answers.
async fn providers(client: &Client) -> Vec<Check> {
    let listed = client.call::<ModelList>(ModelListParams { probe: true }).await;
    let listed = match listed {
        Ok(listed) => listed,
        Err(error) => return vec![Check::wrong("providers", error.to_string())],
    };
    let mut checks: Vec<Check> = listed
        .failures
        .iter()
        .map(|failure| Check::wrong("provider", failure.message.clone()))
        .collect();
    checks.push(match &listed.default {
        Some(model) => Check::well("model", format!("{model} is the default")),
        None => Check::note(
            "model",
            "none is configured: set `model`, or give --model with each run (demo/demo needs \
             nothing)",
        ),
    });
    checks
}

/// Whether what the files say is what the daemon does.
fn configuration(config: Result<&DaemonConfig, &agentd_client::Error>) -> Check {
    const NAME: &str = "config";
    match config {
        Ok(config) => match (&config.on_disk, config::not_in_force(config)) {
            (Some(OnDisk::Broken(_)), Some(text)) => Check::wrong(NAME, text),
            (_, Some(text)) => Check::note(NAME, text),
            (_, None) => Check::well(NAME, "what is on disk is in force"),
        },
        Err(error) => Check::wrong(NAME, error.to_string()),
    }
}

/// The addresses that are configured, so that nobody is told to configure them again.
fn addresses(config: DaemonConfig) -> Vec<String> {
    let is_address = |key: &str| key.starts_with("providers.") && key.ends_with(".base_url");
    let addresses = config.values.into_iter().filter(|value| is_address(&value.key));
    addresses.filter_map(|value| value.value.as_str().map(str::to_owned)).collect()
}

fn report(
    context: &Context,
    checks: &[Check],
    found: &[Found],
    configured: &[String],
) -> Result<()> {
    let new: Vec<_> = found.iter().filter(|found| !found.is_among(configured)).collect();
    if context.json {
        let servers: Vec<_> = found.iter().map(Found::json).collect();
        return render::json(&json!({ "checks": checks, "servers": servers }));
    }
    let palette = Palette::of(&std::io::stdout());
    for check in checks {
        let (sign, style) = match check.verdict {
            Verdict::Well => ("ok", Style::Green),
            Verdict::Note => ("--", Style::Yellow),
            Verdict::Wrong => ("!!", Style::Red),
        };
        let (sign, message) = (palette.paint(style, sign), harmless(&check.message));
        render::line(&format!("{sign}  {:10}  {message}", check.name))?;
    }
    for found in new {
        let at = format!("{} answers at {}", found.what(), found.base_url());
        render::line(&format!("\n{at}; to use it, in ~/.config/agentd/config.toml:"))?;
        render::line(&harmless(&found.lines()))?;
    }
    Ok(())
}
