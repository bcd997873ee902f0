//! The state directory: private to the user, on a local disk, and ours alone.
//!
//! A lock file is held for life and never unlinked, since a lock on a file that has lost its name
//! guards nothing. Its content says who holds it, or `closed` after an orderly stop; anything else
//! found in it means that the last holder died.
//!
//! Invariants: the directory is 0700 and its files 0600; nothing is opened through a symbolic link.
//!
//! Receives the path and the options; hands the lock, and what the last stop was like, to
//! `database.rs`.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::error::Error;

const LOCK_FILE: &str = "agentd.lock";
const DATABASE_FILE: &str = "agentd.db";
const OUTPUTS: &str = "outputs";
/// The permissions of everybody but the user.
const OTHERS: u32 = 0o077;
/// What the lock file holds after an orderly stop.
const CLOSED: &str = "closed\n";

/// A state directory that this process holds.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    lock: File,
    /// Nobody else has it open.
    alone: bool,
    /// The last holder did not close it.
    died: bool,
}

impl Directory {
    /// Makes the directory if it is missing and takes its lock.
    pub(super) fn take(path: &Path, shared: bool) -> Result<Self, Error> {
        let failed = |cause: std::io::Error| Error::failed("open the state directory", cause, path);
        if path.symlink_metadata().is_err() {
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|cause| {
                Error::failed("make the state directory", writable(&cause), path)
            })?;
        }
        let path = path.canonicalize().map_err(failed)?;
        make_private(&path)?;
        refuse_network(&path)?;
        let lock_path = path.join(LOCK_FILE);
        let mut lock = open_private(&lock_path)
            .map_err(|cause| Error::failed("open the lock file", writable(&cause), &lock_path))?;
        let alone = acquire(&mut lock, &path, shared)?;
        let mut last = String::new();
        lock.read_to_string(&mut last).map_err(failed)?;
        let died = alone && !last.is_empty() && last != CLOSED;
        Ok(Self { path, lock, alone, died })
    }

    pub(super) fn database(&self) -> PathBuf {
        self.path.join(DATABASE_FILE)
    }

    pub(super) fn outputs(&self) -> PathBuf {
        self.path.join(OUTPUTS)
    }

    pub(super) fn is_alone(&self) -> bool {
        self.alone
    }

    pub(super) fn last_holder_died(&self) -> bool {
        self.died
    }

    /// Says who holds it, durably, and lets others in where it is shared.
    pub(super) fn settle(&mut self, shared: bool, holder: &str) -> Result<(), Error> {
        if self.alone {
            self.write(&format!("{holder}\n"))?;
        }
        if self.alone && shared {
            self.alone = false;
            self.lock
                .lock_shared()
                .map_err(|cause| Error::failed("share the lock file", cause, &self.path))?;
        }
        Ok(())
    }

    /// Marks an orderly stop, unless others still have it open.
    pub(super) fn close(mut self) -> Result<(), Error> {
        if !self.alone {
            self.alone = self.lock.try_lock().is_ok();
        }
        if self.alone { self.write(CLOSED) } else { Ok(()) }
    }

    fn write(&mut self, text: &str) -> Result<(), Error> {
        let failed = |cause| Error::failed("write the lock file", cause, &self.path);
        self.lock.set_len(0).map_err(failed)?;
        self.lock.rewind().map_err(failed)?;
        self.lock.write_all(text.as_bytes()).map_err(failed)?;
        self.lock.sync_all().map_err(failed)
    }
}

/// Opens a file of ours, which only the user may read; never through a link.
pub(super) fn open_private(path: &Path) -> std::io::Result<File> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(no_follow())
        .open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(std::io::Error::other("it belongs to another user"));
    }
    if meta.mode() & OTHERS != 0 {
        file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

fn no_follow() -> i32 {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    i32::try_from(flags.bits()).unwrap_or_default()
}

/// Takes the lock; whether nobody else has it.
fn acquire(lock: &mut File, path: &Path, shared: bool) -> Result<bool, Error> {
    if granted(lock.try_lock(), path)? {
        return Ok(true);
    }
    if shared && granted(lock.try_lock_shared(), path)? {
        return Ok(false);
    }
    Err(in_use(lock, path))
}

fn granted(outcome: Result<(), TryLockError>, path: &Path) -> Result<bool, Error> {
    match outcome {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(cause)) => {
            Err(Error::failed("lock the state directory", cause, path))
        }
    }
}

fn in_use(lock: &mut File, path: &Path) -> Error {
    let mut holder = String::new();
    // Who it is helps a person; that it is somebody is known without.
    let _ = lock.read_to_string(&mut holder);
    let holder = holder.trim();
    let holder = if holder.is_empty() { "starting" } else { holder };
    Error::InUse { holder: holder.to_owned(), path: path.display().to_string() }
}

/// A directory of the user's own that nobody else can read. One that holds other things than ours
/// is not changed.
fn make_private(path: &Path) -> Result<(), Error> {
    let failed = |cause: String| Error::failed("open the state directory", cause, path);
    let meta = path.metadata().map_err(|cause| failed(cause.to_string()))?;
    if !meta.is_dir() {
        return Err(failed("it is not a directory".to_owned()));
    }
    if meta.uid() != rustix::process::geteuid().as_raw() {
        return Err(failed("it belongs to another user; choose another --state-dir".to_owned()));
    }
    if meta.mode() & OTHERS == 0 {
        return Ok(());
    }
    let ours = path.join(LOCK_FILE).symlink_metadata().is_ok();
    let empty = path.read_dir().is_ok_and(|mut entries| entries.next().is_none());
    if !ours && !empty {
        return Err(failed(
            "other users can read it and it holds other files: choose another --state-dir, or \
             make it private with chmod 700"
                .to_owned(),
        ));
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
        .map_err(|cause| failed(cause.to_string()))
}

/// Says what a person can do about a directory that cannot be written.
fn writable(cause: &std::io::Error) -> String {
    match cause.kind() {
        std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied => {
            format!("{cause}: the state directory must be writable, choose one with --state-dir")
        }
        _ => cause.to_string(),
    }
}

/// SQLite's locks and shared memory do not work across machines.
#[cfg(target_os = "linux")]
fn refuse_network(path: &Path) -> Result<(), Error> {
    let failed = |cause: String| Error::failed("open the state directory", cause, path);
    let system = rustix::fs::statfs(path).map_err(|cause| failed(cause.to_string()))?;
    match network_name(system.f_type) {
        None => Ok(()),
        Some(name) => Err(failed(format!(
            "it is on a network file system ({name}), where the database could be damaged: \
             choose one on a local disk with --state-dir"
        ))),
    }
}

#[cfg(not(target_os = "linux"))]
fn refuse_network(_path: &Path) -> Result<(), Error> {
    Ok(())
}

/// The file systems of statfs(2) that reach across machines.
#[cfg(target_os = "linux")]
pub(super) fn network_name(magic: rustix::fs::FsWord) -> Option<&'static str> {
    Some(match magic {
        0x6969 => "NFS",
        0x517B | 0xFF53_4D42 | 0xFE53_4D42 => "SMB",
        0x0102_1997 => "9P",
        0x00C3_6400 => "Ceph",
        0x5346_414F | 0x6B41_4653 => "AFS",
        0x7375_7245 => "Coda",
        0x0116_1970 => "GFS2",
        0x7461_636F => "OCFS2",
        0x0BD0_0BD0 => "Lustre",
        _ => return None,
    })
}
