//! A log file that stays small while the daemon runs, and is there again when it was deleted.
//!
//! Two files, the current one and the one before, each at most half of the limit. The size is
//! looked at with every write, not at the start, since the daemon lives long.
//!
//! Invariants: both together never hold more than the limit, but for one line; files are 0600 and
//! never opened through a link.
//!
//! Receives lines from `telemetry`; hands them to the disk.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file's name in the state directory.
pub const NAME: &str = "agentd.log";

/// A log file.
#[derive(Debug)]
pub struct LogFile {
    path: PathBuf,
    /// Bytes of each of the two.
    half: u64,
    file: File,
    written: u64,
}

impl LogFile {
    /// Opens `path` to append to it; it and its predecessor keep to `max_bytes`.
    pub fn open(path: &Path, max_bytes: u64) -> io::Result<Self> {
        let (file, written) = append_to(path)?;
        Ok(Self { path: path.to_owned(), half: max_bytes / 2, file, written })
    }

    fn predecessor(&self) -> PathBuf {
        self.path.with_extension("log.1")
    }

    fn reopen(&mut self) -> io::Result<()> {
        (self.file, self.written) = append_to(&self.path)?;
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.file.metadata()?.nlink() == 0 {
            self.reopen()?;
        }
        if self.written > 0 && self.written + line.len() as u64 > self.half {
            std::fs::rename(&self.path, self.predecessor())?;
            self.reopen()?;
        }
        self.file.write_all(line)?;
        self.written += line.len() as u64;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn append_to(path: &Path) -> io::Result<(File, u64)> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits();
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(i32::try_from(no_follow).unwrap_or_default())
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok((file, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(directory: &Path) -> u64 {
        let entries = directory.read_dir().unwrap();
        entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    }

    #[test]
    fn e28_it_stays_within_its_limit_while_it_is_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        let mut log = LogFile::open(&path, 1_000).unwrap();
        for n in 0..1_000 {
            writeln!(log, "line {n:04}").unwrap();
            assert!(sizes(directory.path()) <= 1_000);
        }
        drop(log);
        let mut log = LogFile::open(&path, 1_000).unwrap();
        writeln!(log, "after a restart").unwrap();
        assert!(sizes(directory.path()) <= 1_000);
        let text = std::fs::read_to_string(log.predecessor()).unwrap()
            + &std::fs::read_to_string(&path).unwrap();
        assert!(text.ends_with("line 0999\nafter a restart\n"), "{text}");
    }

    #[test]
    fn e28_a_deleted_file_is_there_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(NAME);
        let mut log = LogFile::open(&path, 1_000).unwrap();
        writeln!(log, "one").unwrap();
        std::fs::remove_file(&path).unwrap();
        writeln!(log, "two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "two\n");
    }

    #[test]
    fn e36_no_link_is_followed() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("precious");
        std::fs::write(&target, "kept").unwrap();
        let path = directory.path().join(NAME);
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(LogFile::open(&path, 1_000).is_err());
        assert_eq!(std::fs::read_to_string(&target).unwrap(), "kept");
    }
}
