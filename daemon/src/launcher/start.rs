//! Starting the command's shell.
//!
//! The launcher becomes a session leader without a terminal, so that nothing below it can open
//! one, and a subreaper. The shell gets a process group of its own, so that a signal to it does not
//! hit the launcher, and nothing to read.
//!
//! Receives an order from `main`; hands the running shell to `relay`.

use std::collections::BTreeMap;
use std::io::{self, PipeReader};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Pid;

use super::{CALL_ID, Order, family};

/// Why a command could not be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    #[error("the directory {0} does not exist (any more); make it again or name another")]
    NoDirectory(String),
    #[error("enter the directory {0}: {1}")]
    Directory(String, #[source] io::Error),
    #[error("there is neither bash nor sh on this machine")]
    NoShell,
    #[error("start {0}: {1}")]
    Shell(String, #[source] io::Error),
    #[error("prepare to start a process: {0}")]
    Prepare(#[source] io::Error),
    #[error("the daemon does not want it any more")]
    GivenUp,
}

/// A running shell.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) shell: Pid,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
    /// As [`family::watch`] makes it.
    pub(super) family: PipeReader,
}

pub(super) fn start(order: &Order) -> Result<Started, Error> {
    rustix::process::setsid().map_err(|errno| Error::Prepare(errno.into()))?;
    #[cfg(target_os = "linux")]
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|errno| Error::Prepare(errno.into()))?;
    enter(&order.cwd)?;
    if is_given_up() {
        return Err(Error::GivenUp);
    }
    let shell = shell(&order.env).ok_or(Error::NoShell)?;
    let mut command = Command::new(&shell);
    command
        .arg("-c")
        .arg(&order.command)
        .env_clear()
        .envs(&order.env)
        .env("PWD", &order.cwd)
        .env(CALL_ID, &order.call_id)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let child =
        command.spawn().map_err(|cause| Error::Shell(shell.display().to_string(), cause))?;
    // The launcher itself keeps no directory busy.
    let _ = std::env::set_current_dir("/");
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (Some(shell), Some(stdout), Some(stderr)) = (pid, child.stdout, child.stderr) else {
        return Err(Error::Prepare(io::ErrorKind::Other.into()));
    };
    let family = family::watch(shell).map_err(Error::Prepare)?;
    Ok(Started { shell, stdout: stdout.into(), stderr: stderr.into(), family })
}

/// Whether the daemon's end of the pipe is closed.
fn is_given_up() -> bool {
    let stdin = io::stdin();
    let mut polled = [PollFd::new(&stdin, PollFlags::empty())];
    // An error says nothing about the daemon.
    rustix::event::poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Enters the directory first, so that a missing one is not taken for a missing shell.
fn enter(directory: &Path) -> Result<(), Error> {
    std::env::set_current_dir(directory).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => Error::NoDirectory(directory.display().to_string()),
        _ => Error::Directory(directory.display().to_string(), cause),
    })
}

/// The session's bash, else its sh.
fn shell(env: &BTreeMap<String, String>) -> Option<PathBuf> {
    let path = env.get("PATH").map(String::as_str).unwrap_or_default();
    let directories: Vec<PathBuf> = std::env::split_paths(path)
        .filter(|directory| directory.is_absolute())
        .chain(["/bin".into(), "/usr/bin".into()])
        .collect();
    ["bash", "sh"].iter().find_map(|name| {
        directories.iter().map(|directory| directory.join(name)).find(|shell| shell.is_file())
    })
}
