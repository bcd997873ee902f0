//! The daemon's socket: private from its creation, and never at the cost of what is there.
//!
//! The mode is given to the socket before it has a name, so that there is no moment at which
//! others could connect. A socket is removed only when connecting to it is refused, with the
//! directory locked against other starts; everything else at the path is left alone and said.
//!
//! Invariants: directory of the user's own and closed to others (or named by the user, and such
//! that no other can put a socket in place of ours); mode 0600 from creation; an inherited socket
//! is never unlinked, and ours only while it is still ours.
//!
//! Receives a place from `place`; hands a listening socket to `boot`.

use std::fs::{DirBuilder, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agentd_protocol::socket::{Location, Origin};
use rustix::fs::{FlockOperation, Mode, fchmod, flock};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};

use crate::boot::error::Error;
use crate::boot::probe::{Found, ask};

/// Connections that wait to be accepted: a burst of clients that start together.
const BACKLOG: i32 = 1_024;
/// How long whoever listens at the path already is given to say who it is.
const PATIENCE: Duration = Duration::from_secs(2);

/// A listening socket.
#[derive(Debug)]
pub struct Socket {
    /// Where it is.
    pub path: PathBuf,
    /// Set for one that we made, as long as its name is there.
    made: Option<Made>,
}

/// What a name of ours stood for. It is kept open, since the system gives the number of an inode
/// that is gone to the next one.
#[derive(Debug)]
struct Made {
    identity: Identity,
    _open: UnixListener,
}

/// Device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity(u64, u64);

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Self(metadata.dev(), metadata.ino())
    }
}

impl Socket {
    /// The socket that a service manager listens at for us.
    pub fn inherited(listener: &UnixListener) -> Self {
        let address = listener.local_addr().ok();
        let path = address.and_then(|address| address.as_pathname().map(Path::to_owned));
        Self { path: path.unwrap_or_default(), made: None }
    }

    /// Makes the socket.
    pub fn bind(location: &Location, uid: u32) -> Result<(Self, UnixListener), Error> {
        let path = &location.path;
        let directory = path.parent().ok_or_else(|| Error::socket(path, "it has no directory"))?;
        let is_named = location.shortened_from.is_none()
            && matches!(location.origin, Origin::Option | Origin::Variable);
        if is_named {
            check_named(directory, uid)?;
        } else {
            make_own(directory, uid)?;
        }
        let lock = File::open(directory).map_err(|e| Error::io("open", directory, e))?;
        // Two that start together must not remove each other's socket as stale.
        flock(&lock, FlockOperation::LockExclusive).map_err(|e| Error::io("lock", directory, e))?;
        let listener = match bind_at(path) {
            Err(Errno::ADDRINUSE) => {
                remove_stale(path, uid)?;
                bind_at(path)
            }
            other => other,
        }
        .map_err(|e| Error::io("listen at", path, e))?;
        let metadata = path.symlink_metadata().map_err(|e| Error::io("look at", path, e))?;
        let open = listener.try_clone().map_err(|e| Error::io("listen at", path, e))?;
        let made = Made { identity: Identity::of(&metadata), _open: open };
        let socket = Self { path: path.clone(), made: Some(made) };
        if metadata.permissions().mode() & 0o077 != 0 {
            return Err(Error::socket(path, "the system does not keep it private there"));
        }
        Ok((socket, listener))
    }

    /// Takes the name away, so that nobody finds it any more.
    pub fn unlink(&mut self) {
        let Some(made) = self.made.take() else { return };
        let now = self.path.symlink_metadata();
        let still_ours = now.is_ok_and(|now| Identity::of(&now) == made.identity);
        if still_ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the socket was not removed");
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.unlink();
    }
}

/// A directory that only we use: `agentd` in the runtime directory, or `agentd-<uid>`.
fn make_own(directory: &Path, uid: u32) -> Result<(), Error> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(Error::io("make the directory", directory, error)),
    }
    let found = directory.symlink_metadata().map_err(|e| Error::io("look at", directory, e))?;
    if !found.is_dir() {
        let why = format!("it is {}, and ours must be a directory", kind(&found));
        return Err(Error::socket(directory, why));
    }
    if found.uid() != uid {
        let why = format!(
            "the directory belongs to user {}: remove it, or name another place with --socket",
            found.uid()
        );
        return Err(Error::socket(directory, why));
    }
    if found.mode() & 0o777 == 0o700 {
        return Ok(());
    }
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))
        .map_err(|e| Error::io("make private", directory, e))
}

/// A directory that the user named. It is not changed, unless it is ours to make.
fn check_named(directory: &Path, uid: u32) -> Result<(), Error> {
    let found = match directory.metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(directory)
                .map_err(|e| Error::io("make the directory", directory, e));
        }
        Err(error) => return Err(Error::io("look at", directory, error)),
    };
    if !found.is_dir() {
        return Err(Error::socket(directory, format!("it is {}", kind(&found))));
    }
    let refuse = |why: &str| {
        let why = format!("{why}: name a directory of your own with --socket");
        Err(Error::socket(directory, why))
    };
    if found.uid() != uid && found.uid() != 0 {
        return refuse("the directory belongs to another user, who could replace the socket");
    }
    let is_sticky = found.mode() & 0o1000 != 0;
    if found.mode() & 0o022 != 0 && !is_sticky {
        return refuse("others can write to the directory and could replace the socket");
    }
    if !cfg!(target_os = "linux") && found.mode() & 0o077 != 0 {
        return refuse("others can reach the directory, and the socket would be open at first");
    }
    Ok(())
}

fn bind_at(path: &Path) -> rustix::io::Result<UnixListener> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    if cfg!(target_os = "linux") {
        // The name is made with the mode that the socket has by then.
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    }
    bind(&socket, &SocketAddrUnix::new(path)?)?;
    if !cfg!(target_os = "linux") {
        // The directory is closed to others, so nobody was in time.
        rustix::fs::chmod(path, Mode::RUSR | Mode::WUSR)?;
    }
    listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// Removes what is at the path if it is a socket of ours that nobody listens at.
fn remove_stale(path: &Path, uid: u32) -> Result<(), Error> {
    let found = path.symlink_metadata().map_err(|e| Error::io("look at", path, e))?;
    if !found.file_type().is_socket() {
        let why = format!("there is {} already: move it away, or use --socket", kind(&found));
        return Err(Error::socket(path, why));
    }
    if found.uid() != uid {
        let why = format!("there is a socket of user {} already: use --socket", found.uid());
        return Err(Error::socket(path, why));
    }
    let why = match ask(path, PATIENCE) {
        Found::Nothing => return Ok(()),
        Found::Stale => {
            tracing::info!(path = %path.display(), "removing the socket of a daemon that is gone");
            return std::fs::remove_file(path).map_err(|e| Error::io("remove", path, e));
        }
        Found::Daemon(daemon) => format!(
            "the daemon of process {} listens there, with the state directory {}: stop it, or use \
             another --socket",
            daemon.pid, daemon.state_dir
        ),
        Found::Unknown(why) => {
            format!("somebody listens there already ({why}): stop it, or use another --socket")
        }
    };
    Err(Error::socket(path, why))
}

fn kind(metadata: &Metadata) -> &'static str {
    let file_type = metadata.file_type();
    if file_type.is_symlink() {
        "a symbolic link"
    } else if file_type.is_dir() {
        "a directory"
    } else if file_type.is_file() {
        "a file"
    } else if file_type.is_socket() {
        "a socket"
    } else {
        "a device or a pipe"
    }
}

#[cfg(test)]
mod tests;
