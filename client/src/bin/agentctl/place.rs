//! Where this user's state and configuration are, as the daemon finds them.
//!
//! Receives the environment; hands paths to `logs`, `login` and `doctor`.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

/// The state directory that a daemon started here would use.
pub(crate) fn state_dir() -> Result<PathBuf> {
    if let Some(named) = variable("AGENTD_STATE_DIR") {
        return Ok(std::path::absolute(named)?);
    }
    let below_home =
        if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/state" };
    Ok(base("XDG_STATE_HOME", below_home)?.join("agentd"))
}

/// The folder of this user's configuration.
pub(crate) fn config_dir() -> Result<PathBuf> {
    Ok(base("XDG_CONFIG_HOME", ".config")?.join("agentd"))
}

fn base(name: &str, below_home: &str) -> Result<PathBuf> {
    // The standard says that a relative one is to be ignored.
    if let Some(base) = variable(name).filter(|base| base.is_absolute()) {
        return Ok(base);
    }
    let dirs = directories::BaseDirs::new().context("no home directory: set HOME")?;
    Ok(dirs.home_dir().join(below_home))
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}
