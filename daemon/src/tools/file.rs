//! Files, opened so that nothing can be swapped under a judgement, and replaced at one stroke.
//!
//! The paths here were resolved and judged: they have no links. They are opened with
//! `RESOLVE_NO_SYMLINKS` (which, without links and `..`, can leave no directory either), or
//! component by component where the system lacks it, so a link that appeared since is refused. What
//! is no ordinary file is refused before it is opened: opening a FIFO blocks, and reading a device
//! may do anything.
//!
//! A file is replaced by a new one that takes its name: a reader or a crash sees the old content or
//! the new, never a mix. Mode and owner are kept. A file with several hard links gets a name of
//! its own by that: the other names keep the old content, and [`Written`] says so. A link is not
//! replaced but what it leads to, since its path was resolved.
//!
//! Receives resolved paths from the tools; hands them contents and hashes.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};

/// The largest file that is read whole, to be edited or replaced.
pub const MAX_WHOLE_BYTES: u64 = 16 * 1024 * 1024;

/// The three bytes that mark UTF-8.
pub const BOM: &[u8] = b"\xEF\xBB\xBF";

#[cfg(target_os = "linux")]
const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY);
#[cfg(not(target_os = "linux"))]
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// Why a file could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not there.
    #[error("{0} does not exist")]
    NotFound(String),
    /// It is a directory.
    #[error("{0} is a directory")]
    Directory(String),
    /// It is a FIFO, a socket or a device.
    #[error("{path} is {kind}, no ordinary file")]
    NotOrdinary {
        /// The path.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// A link took its place after it was judged.
    #[error("{0} changed into a link meanwhile; try again")]
    Swapped(String),
    /// Something is there that was not when it was looked at.
    #[error("{0} was created by somebody else meanwhile; read it first")]
    Appeared(String),
    /// It is too large for what was asked.
    #[error("{path} has {bytes} bytes, more than the {MAX_WHOLE_BYTES} that can be changed")]
    TooLarge {
        /// The path.
        path: String,
        /// Its size.
        bytes: u64,
    },
    /// The system refused.
    #[error("{operation} {path}: {cause}")]
    Failed {
        /// What was done.
        operation: &'static str,
        /// With what.
        path: String,
        /// Why not.
        #[source]
        cause: io::Error,
    },
}

/// An ordinary file, open for reading.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: File,
    /// Its size when it was opened.
    pub bytes: u64,
    stat: Stat,
}

/// A file's whole content, and what a replacement keeps of it.
#[derive(Debug)]
pub struct Content {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// SHA-256, hex.
    pub sha256: String,
    stat: Stat,
}

impl Content {
    /// Whether it starts with a BOM.
    pub fn has_bom(&self) -> bool {
        self.bytes.starts_with(BOM)
    }
}

/// What a write did.
#[derive(Debug, PartialEq, Eq)]
pub struct Written {
    /// SHA-256 of what is there now, hex.
    pub sha256: String,
    /// Other hard links, which keep the old content.
    pub other_links: u64,
}

/// SHA-256, hex.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// A digest in hex.
pub fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::with_capacity(digest.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes every write");
        text
    })
}

/// Opens an ordinary file for reading.
pub fn open(path: &Path) -> Result<Opened, Error> {
    let (directory, name) = parent(path)?;
    let looked = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| failed("read", path, errno))?;
    ordinary(path, &looked)?;
    // A FIFO that took its place since does not block, and is refused below.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::openat(&directory, name, flags | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| failed("read", path, errno))?;
    let stat = rustix::fs::fstat(&file).map_err(|errno| failed("read", path, errno))?;
    ordinary(path, &stat)?;
    let bytes = u64::try_from(stat.st_size).unwrap_or_default();
    Ok(Opened { file: file.into(), bytes, stat })
}

/// Reads a file whole; `None` if there is none.
pub fn read_whole(path: &Path) -> Result<Option<Content>, Error> {
    let opened = match open(path) {
        Ok(opened) => opened,
        Err(Error::NotFound(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let too_large = |bytes| Error::TooLarge { path: path.display().to_string(), bytes };
    if opened.bytes > MAX_WHOLE_BYTES {
        return Err(too_large(opened.bytes));
    }
    let mut bytes = Vec::new();
    // One more than it may have, so that a file that grew meanwhile is noticed.
    let mut reader = opened.file.take(MAX_WHOLE_BYTES + 1);
    reader.read_to_end(&mut bytes).map_err(|cause| io_failed("read", path, cause))?;
    if bytes.len() as u64 > MAX_WHOLE_BYTES {
        return Err(too_large(bytes.len() as u64));
    }
    let sha256 = sha256(&bytes);
    Ok(Some(Content { bytes, sha256, stat: opened.stat }))
}

/// Writes a file that is not there yet, and the directories that it needs. The mode is the
/// umask's.
pub fn create(path: &Path, bytes: &[u8]) -> Result<Written, Error> {
    let (directory, name) = make_parent(path)?;
    let temporary = Temporary::write(&directory, path, name, bytes, None)?;
    temporary.take_name(name, true)?;
    Ok(Written { sha256: sha256(bytes), other_links: 0 })
}

/// Replaces a file that was read.
pub fn replace(path: &Path, old: &Content, bytes: &[u8]) -> Result<Written, Error> {
    let (directory, name) = parent(path)?;
    let temporary = Temporary::write(&directory, path, name, bytes, Some(&old.stat))?;
    temporary.take_name(name, false)?;
    #[allow(clippy::useless_conversion, reason = "the field's type differs between systems")]
    let links = u64::from(old.stat.st_nlink);
    Ok(Written { sha256: sha256(bytes), other_links: links.saturating_sub(1) })
}

/// Removes a file; the directories that were made for it stay.
pub fn remove(path: &Path) -> Result<(), Error> {
    let (directory, name) = parent(path)?;
    rustix::fs::unlinkat(&directory, name, AtFlags::empty())
        .map_err(|errno| failed("remove", path, errno))
}

/// A new file beside the one whose name it will take; removed unless it does.
struct Temporary<'a> {
    directory: &'a OwnedFd,
    path: &'a Path,
    name: PathBuf,
    kept: bool,
}

impl<'a> Temporary<'a> {
    fn write(
        directory: &'a OwnedFd,
        path: &'a Path,
        name: &OsStr,
        bytes: &[u8],
        like: Option<&Stat>,
    ) -> Result<Self, Error> {
        // Cut, so that the longest names stay possible.
        let start: String = name.to_string_lossy().chars().take(32).collect();
        let unique = fastrand::u64(..);
        let temporary = PathBuf::from(format!(".{start}.{unique:016x}.tmp"));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        // A replacement may hold what its mode will hide, so it starts closed.
        let mode =
            if like.is_some() { Mode::from_raw_mode(0o600) } else { Mode::from_raw_mode(0o666) };
        let file = rustix::fs::openat(directory, &temporary, flags | OFlags::CLOEXEC, mode)
            .map_err(|errno| failed("write", path, errno))?;
        let this = Self { directory, path, name: temporary, kept: false };
        let mut file = File::from(file);
        file.write_all(bytes).map_err(|cause| io_failed("write", path, cause))?;
        if let Some(stat) = like {
            keep(&file, stat).map_err(|errno| failed("write", path, errno))?;
        }
        file.sync_data().map_err(|cause| io_failed("write", path, cause))?;
        Ok(this)
    }

    fn take_name(mut self, name: &OsStr, is_new: bool) -> Result<(), Error> {
        let renamed = if is_new {
            rename_new(self.directory, &self.name, name)
        } else {
            rustix::fs::renameat(self.directory, &self.name, self.directory, name)
        };
        match renamed {
            Ok(()) => self.kept = true,
            Err(Errno::EXIST) => return Err(Error::Appeared(self.path.display().to_string())),
            Err(errno) => return Err(failed("write", self.path, errno)),
        }
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.kept {
            // Nothing more can be done about one that stays.
            let _ = rustix::fs::unlinkat(self.directory, &self.name, AtFlags::empty());
        }
    }
}

/// Gives a new file the old one's owner and mode: the owner first, since that clears mode bits, and
/// only as far as the system lets us.
fn keep(file: &File, stat: &Stat) -> Result<(), Errno> {
    let now = rustix::fs::fstat(file)?;
    if (now.st_uid, now.st_gid) != (stat.st_uid, stat.st_gid) {
        let owner = rustix::process::Uid::from_raw(stat.st_uid);
        let group = rustix::process::Gid::from_raw(stat.st_gid);
        if rustix::fs::fchown(file, Some(owner), Some(group)).is_err() {
            let _ = rustix::fs::fchown(file, None, Some(group));
        }
    }
    rustix::fs::fchmod(file, Mode::from_raw_mode(stat.st_mode & 0o7777))
}

/// Renames without replacing; a file system that cannot promise that links and unlinks instead.
fn rename_new(directory: &OwnedFd, from: &Path, to: &OsStr) -> Result<(), Errno> {
    let flags = rustix::fs::RenameFlags::NOREPLACE;
    match rustix::fs::renameat_with(directory, from, directory, to, flags) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::linkat(directory, from, directory, to, AtFlags::empty())?;
            rustix::fs::unlinkat(directory, from, AtFlags::empty())
        }
        done => done,
    }
}

/// The directory of a path, open, and the name in it.
fn parent(path: &Path) -> Result<(OwnedFd, &OsStr), Error> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::Directory(path.display().to_string()));
    };
    let directory = open_directory(directory).map_err(|errno| failed("open", path, errno))?;
    Ok((directory, name))
}

/// The same, making the directories that are missing.
fn make_parent(path: &Path) -> Result<(OwnedFd, &OsStr), Error> {
    let (Some(wanted), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Error::Directory(path.display().to_string()));
    };
    let mut there = wanted;
    let mut missing = Vec::new();
    let mut directory = loop {
        match open_directory(there) {
            Ok(directory) => break directory,
            Err(Errno::NOENT) => {
                let (Some(above), Some(name)) = (there.parent(), there.file_name()) else {
                    return Err(failed("open", path, Errno::NOENT));
                };
                missing.push(name);
                there = above;
            }
            Err(errno) => return Err(failed("open", path, errno)),
        }
    };
    for name in missing.into_iter().rev() {
        match rustix::fs::mkdirat(&directory, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed("make the directory of", path, errno)),
        }
        directory = open_below(&directory, name).map_err(|errno| failed("open", path, errno))?;
    }
    Ok((directory, name))
}

/// Opens a directory by an absolute path in which no component is a link.
pub(super) fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{CWD, ResolveFlags, openat2};
        let links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match openat2(CWD, path, DIRECTORY | OFlags::CLOEXEC, Mode::empty(), links) {
            // An old kernel, or a container that does not know the call.
            Err(Errno::NOSYS | Errno::PERM) => {}
            opened => return opened,
        }
    }
    walk(path)
}

pub(super) fn walk(path: &Path) -> Result<OwnedFd, Errno> {
    let root = rustix::fs::open("/", DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    path.components()
        .skip(1)
        .try_fold(root, |directory, component| open_below(&directory, component.as_os_str()))
}

fn open_below(directory: &impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty())
}

fn ordinary(path: &Path, stat: &Stat) -> Result<(), Error> {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => return Err(Error::Directory(path.display().to_string())),
        FileType::Symlink => return Err(Error::Swapped(path.display().to_string())),
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Unknown => "something else",
    };
    Err(Error::NotOrdinary { path: path.display().to_string(), kind })
}

fn failed(operation: &'static str, path: &Path, errno: Errno) -> Error {
    io_failed(operation, path, errno.into())
}

fn io_failed(operation: &'static str, path: &Path, cause: io::Error) -> Error {
    let path = path.display().to_string();
    match Errno::from_io_error(&cause) {
        Some(Errno::NOENT) => Error::NotFound(path),
        Some(Errno::LOOP) => Error::Swapped(path),
        Some(Errno::ISDIR) => Error::Directory(path),
        _ => Error::Failed { operation, path, cause },
    }
}
