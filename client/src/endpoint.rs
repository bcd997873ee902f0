//! The way to the socket: where it is, and whether the one who listens can be trusted.
//!
//! Invariants: nothing is sent before the peer's uid was found to be our own.
//!
//! Receives the environment; hands out connected streams.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentd_protocol::socket::{self, Environment, Location};
use tokio::net::UnixStream;

use crate::error::Error;

/// Where the socket is for this process; `option` is `--socket`.
pub fn socket_location(option: Option<&Path>) -> Location {
    let uid = rustix::process::geteuid().as_raw();
    let variable = std::env::var_os("AGENTD_SOCKET");
    let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let environment = Environment {
        option,
        variable: variable.as_deref(),
        runtime_dir: runtime_dir.as_deref(),
        temp_dir: &std::env::temp_dir(),
        current_dir: &std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
        uid,
    };
    socket::locate(&environment, |dir| {
        std::fs::metadata(dir).is_ok_and(|metadata| socket::is_own_directory(&metadata, uid))
    })
}

/// Connects; `None` where nobody listens.
pub(crate) async fn connect(path: &Path) -> Result<Option<UnixStream>, Error> {
    let failed = |cause| Error::Connect { path: path.to_path_buf(), cause: Arc::new(cause) };
    let stream = match UnixStream::connect(path).await {
        Ok(stream) => stream,
        Err(error) if is_nobody(error.kind()) => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let peer = stream.peer_cred().map_err(failed)?.uid();
    trusted(path, peer, rustix::process::geteuid().as_raw())?;
    Ok(Some(stream))
}

fn is_nobody(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}

fn trusted(path: &Path, uid: u32, own: u32) -> Result<(), Error> {
    if uid == own {
        return Ok(());
    }
    Err(Error::ForeignServer { path: path.to_path_buf(), uid, own })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e36_a_server_of_another_user_is_not_trusted() {
        let path = Path::new("/tmp/agentd-7/agentd.sock");
        assert!(trusted(path, 7, 7).is_ok());
        for (uid, own) in [(0, 7), (7, 0), (8, 7)] {
            let error = trusted(path, uid, own).unwrap_err();
            assert!(matches!(error, Error::ForeignServer { .. }));
            assert!(error.to_string().contains(&format!("user {uid}")), "{error}");
        }
    }

    /// The part of another user in the test below, which runs this program as one.
    #[test]
    fn another_user() {
        let Some(path) = std::env::var_os("E36_SOCKET") else { return };
        let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        let (mut stream, _) = listener.accept().unwrap();
        let mut sent = Vec::new();
        std::io::Read::read_to_end(&mut stream, &mut sent).unwrap();
        assert!(sent.is_empty(), "the client trusted us");
    }

    #[tokio::test]
    async fn e36_nothing_is_sent_to_a_server_of_another_user() {
        use std::os::unix::fs::PermissionsExt;
        use std::os::unix::process::CommandExt;
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can be two users");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let path = dir.path().join("s");
        let mut server = std::process::Command::new("/proc/self/exe")
            .args(["--exact", "endpoint::tests::another_user"])
            .env("E36_SOCKET", &path)
            .uid(65_534)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let error = loop {
            match connect(&path).await {
                Ok(None) => tokio::task::yield_now().await,
                Ok(Some(_)) => panic!("the server was trusted"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::ForeignServer { uid: 65_534, .. }), "{error}");
        assert!(server.wait().unwrap().success());
    }

    #[tokio::test]
    async fn nobody_and_something_else_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        assert!(connect(&dir.path().join("absent")).await.unwrap().is_none());
        let stale = dir.path().join("stale");
        drop(tokio::net::UnixListener::bind(&stale).unwrap());
        assert!(connect(&stale).await.unwrap().is_none());
        let below_a_file = stale.join("s");
        let error = connect(&below_a_file).await.unwrap_err();
        assert!(matches!(error, Error::Connect { .. }), "{error}");
    }
}
