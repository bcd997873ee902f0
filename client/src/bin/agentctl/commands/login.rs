//! `login`: store a provider's key where the daemon finds it, whoever started it.
//!
//! Invariants: the key is never shown and never an argument, which others could see; its file is
//! the user's alone from the moment it is made, and takes its name whole.
//!
//! Receives a provider's name and, unseen, its key; hands the file to the daemon's configuration.

use std::io::{IsTerminal, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use agentd_client::protocol::daemon::NoParams;
use agentd_client::protocol::method::DaemonReload;
use anyhow::{Context as _, Result, bail};

use crate::args::Login;
use crate::context::Context;
use crate::failure::Misuse;
use crate::place::config_dir;
use crate::render;

/// The longest key: some are tokens of a few KiB.
const MAX_BYTES: u64 = 64 * 1024;

pub(super) async fn login(context: &Context, args: Login) -> Result<()> {
    let name = &args.provider;
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(fits) {
        let text =
            format!("{name:?} is no provider's name: as in [providers.NAME], without a slash");
        return Err(Misuse(text).into());
    }
    let path = config_dir()?.join("credentials").join(format!("{name}.key"));
    if args.forget {
        std::fs::remove_file(&path).with_context(|| format!("no key of {name} is stored"))?;
        reload(context).await?;
        return said(context, &path, "forgotten");
    }
    let key = read_key(name)?;
    store(&path, &key).with_context(|| format!("cannot store {}", path.display()))?;
    reload(context).await?;
    said(context, &path, "stored")
}

fn said(context: &Context, path: &Path, done: &str) -> Result<()> {
    if context.json {
        return render::json(&serde_json::json!({ "file": path, "done": done }));
    }
    render::line(&format!("{done}: {}", path.display()))
}

/// From the terminal without showing it, or from a pipe.
fn read_key(name: &str) -> Result<String> {
    let text = if std::io::stdin().is_terminal() {
        rpassword::prompt_password(format!("key of {name} (not shown): "))
            .context("cannot read from the terminal")?
    } else {
        let mut text = String::new();
        let read = std::io::stdin().lock().take(MAX_BYTES).read_to_string(&mut text);
        read.context("cannot read standard input")?;
        text
    };
    let key = text.trim();
    if key.is_empty() {
        return Err(Misuse("no key was given".to_owned()).into());
    }
    if key.contains(char::is_whitespace) || key.contains(char::is_control) {
        bail!("that is no key: it has white space in it");
    }
    Ok(key.to_owned())
}

fn store(path: &Path, key: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let temporary = PathBuf::from(format!("{}.{}", path.display(), std::process::id()));
    let written = write_new(&temporary, key).and_then(|()| std::fs::rename(&temporary, path));
    if written.is_err() {
        // The failure before it is what is told.
        let _ = std::fs::remove_file(&temporary);
    }
    Ok(written?)
}

fn write_new(path: &Path, key: &str) -> std::io::Result<()> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    file.write_all(key.as_bytes())?;
    file.write_all(b"\n")?;
    file.sync_all()
}

/// A daemon that runs takes the change in; without one there is nothing to do.
async fn reload(context: &Context) -> Result<()> {
    if let Ok(client) = context.running().await {
        client.call::<DaemonReload>(NoParams {}).await?;
    }
    Ok(())
}
