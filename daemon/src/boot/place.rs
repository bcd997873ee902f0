//! Where the daemon keeps its state and where it listens.
//!
//! Receives flags and the environment; hands paths to `boot`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use agentd_protocol::socket::{self, Environment, Location};

use crate::boot::error::Error;

/// The state directory: as it was named, else the user's own.
pub fn state_dir(
    named: Option<PathBuf>,
    variable: impl Fn(&str) -> Option<OsString>,
    home: Option<&Path>,
) -> Result<PathBuf, Error> {
    if let Some(named) = named.filter(|path| !path.as_os_str().is_empty()) {
        return std::path::absolute(&named).map_err(|e| Error::io("find", &named, e));
    }
    // The standard says that a relative one is to be ignored.
    let xdg = variable("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(base) = xdg {
        return Ok(base.join("agentd"));
    }
    let below_home =
        if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/state" };
    home.map(|home| home.join(below_home).join("agentd")).ok_or(Error::NoStateDir)
}

/// The socket's place for this process.
pub fn socket(named: Option<&Path>) -> Result<Location, Error> {
    let current_dir = std::env::current_dir();
    let current_dir = match named {
        Some(path) if path.is_relative() => {
            current_dir.map_err(|e| Error::io("find the directory of", path, e))?
        }
        _ => current_dir.unwrap_or_else(|_| PathBuf::from("/")),
    };
    let uid = rustix::process::geteuid().as_raw();
    let variable = std::env::var_os("AGENTD_SOCKET");
    let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let environment = Environment {
        option: named,
        variable: variable.as_deref(),
        runtime_dir: runtime_dir.as_deref(),
        temp_dir: &std::env::temp_dir(),
        current_dir: &current_dir,
        uid,
    };
    Ok(socket::locate(&environment, |dir| {
        dir.metadata().is_ok_and(|metadata| socket::is_own_directory(&metadata, uid))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(named: Option<&str>, xdg: Option<&str>, home: Option<&str>) -> Option<String> {
        let variable = |name: &str| {
            assert_eq!(name, "XDG_STATE_HOME");
            xdg.map(OsString::from)
        };
        let found = state_dir(named.map(PathBuf::from), variable, home.map(Path::new));
        found.ok().map(|path| path.display().to_string())
    }

    #[test]
    fn e33_without_a_home_the_state_needs_another_place() {
        let below = if cfg!(target_os = "macos") {
            "/home/u/Library/Application Support/agentd"
        } else {
            "/home/u/.local/state/agentd"
        };
        assert_eq!(of(Some("/s"), Some("/x"), Some("/home/u")).as_deref(), Some("/s"));
        assert_eq!(of(None, Some("/x"), Some("/home/u")).as_deref(), Some("/x/agentd"));
        assert_eq!(of(None, Some("x"), Some("/home/u")).as_deref(), Some(below));
        assert_eq!(of(Some(""), None, Some("/home/u")).as_deref(), Some(below));
        assert_eq!(of(None, Some("/x"), None).as_deref(), Some("/x/agentd"));
        assert_eq!(of(None, None, None), None);
    }
}
