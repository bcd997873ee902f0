//! What every command starts from: the options that all share, and the way to the daemon.
//!
//! Receives the command line's common part; hands connected clients to commands.

use std::path::{Path, PathBuf};

use agentd_client::protocol::daemon::{NoParams, Role, ShutdownMode, ShutdownParams};
use agentd_client::protocol::method::{DaemonShutdown, GetDaemonStatus};
use agentd_client::{Client, Options, Start};
use anyhow::{Context as _, Result};

/// The name under which this program calls the daemon.
pub(crate) const CLIENT: &str = "agentctl";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The common part of a command line.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) socket: Option<PathBuf>,
    pub(crate) start: Start,
    pub(crate) json: bool,
}

impl Context {
    /// A client that may do everything.
    pub(crate) async fn client(&self) -> Result<Client> {
        self.connect(self.start, Role::Controller).await
    }

    /// A client that only watches.
    pub(crate) async fn observer(&self) -> Result<Client> {
        self.connect(self.start, Role::Observer).await
    }

    /// A client of a daemon that runs already.
    pub(crate) async fn running(&self) -> Result<Client> {
        Ok(Client::connect(self.options(Start::Never, Role::Controller)).await?)
    }

    async fn connect(&self, start: Start, role: Role) -> Result<Client> {
        let client = Client::connect(self.options(start, role)).await?;
        let version = client.server().await?.server.version;
        if !is_older(&version, VERSION) {
            return Ok(client);
        }
        if role == Role::Controller && start == Start::IfAbsent && is_quiet(&client).await? {
            eprintln!("agentctl: the daemon is of version {version}: starting {VERSION} instead");
            let params = ShutdownParams { mode: ShutdownMode::Drain };
            client.call::<DaemonShutdown>(params).await?;
            client.gone().await?;
            return Ok(Client::connect(self.options(start, role)).await?);
        }
        eprintln!(
            "agentctl: the daemon is of version {version}, older than this, {VERSION}: \
             `agentctl restart` starts this one when its turns have ended"
        );
        Ok(client)
    }

    fn options(&self, start: Start, role: Role) -> Options {
        let socket = self.socket.clone();
        Options { socket, start, role, ..Options::new(CLIENT, VERSION) }
    }
}

async fn is_quiet(client: &Client) -> Result<bool> {
    Ok(client.call::<GetDaemonStatus>(NoParams {}).await?.turns_running == 0)
}

/// Whether `theirs` is a lower version; versions that cannot be read are not.
fn is_older(theirs: &str, ours: &str) -> bool {
    let read = |version: &str| -> Option<Vec<u64>> {
        let numbers = version.split(['-', '+']).next()?.split('.');
        numbers.map(|number| number.parse().ok()).collect()
    };
    matches!((read(theirs), read(ours)), (Some(theirs), Some(ours)) if theirs < ours)
}

/// The directory that a session works in: `given`, or the present one; absolute.
pub(crate) fn directory(given: Option<&Path>) -> Result<String> {
    let path = std::fs::canonicalize(given.unwrap_or(Path::new("."))).with_context(|| {
        given.map_or("cannot work in the present directory: is it gone?".to_owned(), |path| {
            format!("cannot work in {}", path.display())
        })
    })?;
    path.into_os_string()
        .into_string()
        .map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
}

/// A file as the daemon, which works elsewhere, finds it.
pub(crate) fn absolute(file: &Path) -> Result<String> {
    let path =
        std::path::absolute(file).with_context(|| format!("cannot name {}", file.display()))?;
    path.into_os_string()
        .into_string()
        .map_err(|path| anyhow::anyhow!("{} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        for (theirs, ours, older) in [
            ("0.1.0", "0.1.0", false),
            ("0.9.0", "0.10.0", true),
            ("1.0.0", "0.10.0", false),
            ("0.1.0-rc.1", "0.1.1", true),
            ("", "0.1.0", false),
            ("of the future", "0.1.0", false),
        ] {
            assert_eq!(is_older(theirs, ours), older, "{theirs} {ours}");
        }
    }
}
