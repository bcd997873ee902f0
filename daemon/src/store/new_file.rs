//! Files for people that get their name when they are whole.
//!
//! Invariants: nothing that is there is overwritten; what has the name is whole and on the disk, also
//! when the daemon is killed; one that failed is not left behind; only its user can read it.
//!
//! Receives paths from `backup.rs` and from a session's documents; hands them a file to fill.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// A file without its name yet. Dropped, it is gone.
#[derive(Debug)]
pub struct NewFile {
    file: NamedTempFile,
    target: PathBuf,
}

impl NewFile {
    /// Begins the file `target`; [`ErrorKind::AlreadyExists`] where something is.
    pub fn begin(target: &Path) -> Result<Self> {
        if target.symlink_metadata().is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let directory = directory_of(target)?;
        let file = tempfile::Builder::new().prefix(".agentd-new-").tempfile_in(directory)?;
        Ok(Self { file, target: target.to_owned() })
    }

    /// Where it is until it is whole.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// To be filled.
    pub fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Gives the file its name, on the disk too; its size in bytes. [`ErrorKind::AlreadyExists`]
    /// where something is meanwhile.
    pub fn finish(self) -> Result<u64> {
        self.file.as_file().sync_all()?;
        let file = self.file.persist_noclobber(&self.target).map_err(|refused| refused.error)?;
        File::open(directory_of(&self.target)?)?.sync_all()?;
        Ok(file.metadata()?.len())
    }
}

fn directory_of(target: &Path) -> Result<&Path> {
    target.parent().ok_or_else(|| Error::other("it is no file's path"))
}
