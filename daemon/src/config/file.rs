//! Reads small files that a person named: whole, or not at all.
//!
//! What a path names is looked at before it is opened, and again after: a FIFO or a device would
//! block the daemon or hand it somebody else's data.
//!
//! Receives paths of configuration and key files; hands their bytes to `load` and `key`.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags};

/// Why there is nothing to read.
#[derive(Debug)]
pub(super) enum Unreadable {
    /// The path names something else.
    NotAFile(&'static str),
    /// It is longer than the limit.
    TooLong,
    /// The system refused.
    Io(io::Error),
}

impl From<io::Error> for Unreadable {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The content of the regular file at `path`, links followed, if it has at most `limit_bytes`.
pub(super) fn read_regular(path: &Path, limit_bytes: u64) -> Result<Vec<u8>, Unreadable> {
    refuse_others(&std::fs::metadata(path)?)?;
    // Without NONBLOCK a FIFO that took the file's place just now would block here.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).map_err(io::Error::from)?);
    refuse_others(&file.metadata()?)?;
    let mut content = Vec::new();
    file.take(limit_bytes + 1).read_to_end(&mut content)?;
    match u64::try_from(content.len()) {
        Ok(length) if length <= limit_bytes => Ok(content),
        _ => Err(Unreadable::TooLong),
    }
}

fn refuse_others(metadata: &std::fs::Metadata) -> Result<(), Unreadable> {
    let kind = metadata.file_type();
    let found = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    Err(Unreadable::NotAFile(found))
}
