//! Starting the daemon when nobody answers, once, however many clients want it.
//!
//! Clients that come at the same time queue for a lock beside the socket; the first one starts
//! `agentd`, the others find it answering. Told that it was started by a client, the daemon makes
//! a session of its own, so that neither Ctrl-C nor the end of a terminal reaches it, and logs into
//! its state directory; what it says before that is kept beside the socket.
//!
//! Invariants: directories and files are used only if they are our own, no link is followed,
//! nothing is overwritten; a daemon that dies is told with what it said.
//!
//! Receives the socket's path; hands back a connection to the daemon, or why there is none.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, Mode, OFlags};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::endpoint;
use crate::error::Error;

/// How long a daemon may take to answer: it may have a database to repair.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often it is looked for.
const INTERVAL: Duration = Duration::from_millis(15);
/// How much of what it said is shown when it dies.
const SHOWN_BYTES: usize = 4 * 1024;

/// Starts the daemon, unless somebody else just did, and connects.
pub(crate) async fn start(socket: &Path, program: Option<&Path>) -> Result<UnixStream, Error> {
    let until = Instant::now() + PATIENCE;
    let dir = socket.parent().unwrap_or(Path::new("/"));
    private_dir(dir)?;
    let lock = open_own(&with_suffix(socket, ".start"))?;
    loop {
        if let Some(stream) = endpoint::connect(socket).await? {
            return Ok(stream);
        }
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => break,
            Err(_) if Instant::now() < until => tokio::time::sleep(INTERVAL).await,
            Err(_) => return Err(silent(socket, "another client is starting it")),
        }
    }
    // The one before us may have started it between our look and our lock.
    if let Some(stream) = endpoint::connect(socket).await? {
        return Ok(stream);
    }
    let mut log = open_own(&with_suffix(socket, ".log"))?;
    log.set_len(0).map_err(|cause| not_safe(socket, &cause))?;
    let program = program.map_or_else(default_program, Path::to_path_buf);
    let mut child = spawn(&program, socket, &log)?;
    wait_for(socket, &mut child, &mut log, until).await
}

async fn wait_for(
    socket: &Path,
    child: &mut Child,
    log: &mut File,
    until: Instant,
) -> Result<UnixStream, Error> {
    loop {
        if let Some(stream) = endpoint::connect(socket).await? {
            return Ok(stream);
        }
        // One that ends well found another daemon that serves: that one is waited for.
        if let Ok(Some(status)) = child.try_wait()
            && !status.success()
        {
            return Err(Error::Died { status, stderr: end_of(log) });
        }
        if Instant::now() >= until {
            return Err(silent(socket, &end_of(log)));
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

fn spawn(program: &Path, socket: &Path, log: &File) -> Result<Child, Error> {
    let failed = |cause| Error::Spawn { program: program.to_path_buf(), cause: Arc::new(cause) };
    Command::new(program)
        .arg("--socket")
        .arg(socket)
        // It leaves the session of this terminal by itself, and logs into its state directory.
        .arg("--autostart")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log.try_clone().map_err(failed)?)
        .spawn()
        .map_err(failed)
}

/// `agentd` beside the running program, else on PATH.
fn default_program() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("agentd"));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("agentd"))
}

/// Makes the socket's directory if it is not there; one that is there is not changed.
fn private_dir(dir: &Path) -> Result<(), Error> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|cause| not_safe(dir, &cause))?;
    let metadata = std::fs::metadata(dir).map_err(|cause| not_safe(dir, &cause))?;
    let own = rustix::process::geteuid().as_raw();
    if metadata.uid() == own {
        return Ok(());
    }
    let cause = format!("it belongs to user {}, not to user {own}", metadata.uid());
    Err(Error::Unsafe { path: dir.to_path_buf(), cause })
}

/// Opens or makes a file of our own, whatever stands there now.
fn open_own(path: &Path) -> Result<File, Error> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR);
    let file = File::from(opened.map_err(|cause| not_safe(path, &cause.into()))?);
    let metadata = file.metadata().map_err(|cause| not_safe(path, &cause))?;
    if metadata.is_file() && metadata.uid() == rustix::process::geteuid().as_raw() {
        return Ok(file);
    }
    let cause = "it is not a file of this user".to_owned();
    Err(Error::Unsafe { path: path.to_path_buf(), cause })
}

fn with_suffix(socket: &Path, suffix: &str) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(suffix);
    path.into()
}

fn not_safe(path: &Path, cause: &std::io::Error) -> Error {
    Error::Unsafe { path: path.to_path_buf(), cause: cause.to_string() }
}

fn silent(socket: &Path, stderr: &str) -> Error {
    Error::Silent {
        path: socket.to_path_buf(),
        seconds: PATIENCE.as_secs(),
        stderr: stderr.to_owned(),
    }
}

/// The end of what the daemon wrote.
fn end_of(log: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = log.seek(SeekFrom::Start(0)).and_then(|_| log.read_to_end(&mut bytes));
    if let Err(cause) = read {
        return format!("(its log cannot be read: {cause})");
    }
    let from = bytes.len().saturating_sub(SHOWN_BYTES);
    String::from_utf8_lossy(&bytes[from..]).into_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use tempfile::TempDir;
    use tokio::net::UnixListener;

    use super::*;

    /// A program of these shell lines; `$2` is the socket.
    fn script(dir: &TempDir, lines: &str) -> PathBuf {
        let path = dir.path().join("program");
        std::fs::write(&path, format!("#!/bin/sh\n{lines}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        path
    }

    #[tokio::test]
    async fn e2_one_of_many_starts_it_and_all_reach_it() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("run/s");
        let program = script(&dir, "echo started >> \"$2.starts\"");
        let starts = with_suffix(&socket, ".starts");
        let clients = (0..20).map(|_| start(&socket, Some(&program)));
        let daemon = async {
            while !starts.exists() {
                tokio::task::yield_now().await;
            }
            UnixListener::bind(&socket).unwrap()
        };
        let (_listener, streams) =
            tokio::join!(daemon, futures_util::future::try_join_all(clients));
        assert_eq!(streams.unwrap().len(), 20);
        assert_eq!(std::fs::read_to_string(starts).unwrap(), "started\n");
        let dir = std::fs::metadata(socket.parent().unwrap()).unwrap();
        assert_eq!(dir.permissions().mode() & 0o777, 0o700);
    }

    #[tokio::test]
    async fn one_that_dies_is_told_with_what_it_said() {
        let dir = tempfile::tempdir().unwrap();
        let program = script(&dir, "echo 'config.toml:3: unknown key' >&2; exit 78");
        let error = start(&dir.path().join("s"), Some(&program)).await.unwrap_err();
        assert!(matches!(error, Error::Died { .. }));
        let text = error.to_string();
        assert!(text.contains("78") && text.contains("config.toml:3: unknown key"), "{text}");
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("absent");
        let error = start(&dir.path().join("s"), Some(&program)).await.unwrap_err();
        assert!(error.to_string().contains("absent"), "{error}");
    }

    #[tokio::test]
    async fn e36_no_link_is_followed_and_nothing_overwritten() {
        for suffix in [".start", ".log"] {
            let dir = tempfile::tempdir().unwrap();
            let socket = dir.path().join("s");
            let precious = dir.path().join("precious");
            std::fs::write(&precious, "kept").unwrap();
            std::os::unix::fs::symlink(&precious, with_suffix(&socket, suffix)).unwrap();
            let error = start(&socket, Some(Path::new("/bin/false"))).await.unwrap_err();
            assert!(matches!(error, Error::Unsafe { .. }), "{error}");
            assert_eq!(std::fs::read_to_string(&precious).unwrap(), "kept");
        }
    }
}
