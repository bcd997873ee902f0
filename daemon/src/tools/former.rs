//! What a file was before a tool changes it, and giving it back.
//!
//! A tool hands the former content on before it writes, and does not write if it cannot be kept:
//! what happened before a crash can be taken back as well. A file is given back only if it is as
//! the last call left it; one that somebody else changed since is theirs.
//!
//! Receives contents from the file tools; hands them to whoever keeps them, and files their former
//! contents back.

use std::path::Path;

use super::file::{self, Content};

/// A change that is about to happen.
#[derive(Debug)]
pub struct Change<'a> {
    /// Who makes it: a call's id, or a rollback's.
    pub by: &'a str,
    /// The resolved path.
    pub path: &'a Path,
    /// The content and its SHA-256; `None`: there is no file.
    pub former: Option<(&'a [u8], &'a str)>,
    /// SHA-256 of what will be there; `None`: the file is removed.
    pub left: Option<&'a str>,
}

/// Keeps former contents. Called on threads that may block.
pub trait Keeper: std::fmt::Debug + Send + Sync {
    /// Keeps one. `Err` says why it cannot be, and the change must not happen.
    fn keep(&self, change: Change<'_>) -> Result<(), String>;
}

/// A file to be given back.
#[derive(Debug)]
pub struct Given<'a> {
    /// The resolved path.
    pub path: &'a Path,
    /// What it was, and its SHA-256; `None`: it was not there.
    pub former: Option<(&'a [u8], &'a str)>,
    /// What it may be now, by SHA-256, `None` for no file; anything else is somebody else's.
    pub expected: [Option<&'a str>; 2],
}

/// What became of it.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is as it was, or would be.
    Restored,
    /// Somebody changed it since; it was left alone.
    Conflict,
    /// It cannot be read or written, for this reason.
    Failed(String),
}

/// Gives a file back, after its present content was kept for `by`. With `dry_run` nothing is
/// written. Blocks.
pub fn give_back(given: &Given<'_>, by: &str, keeper: &dyn Keeper, dry_run: bool) -> Outcome {
    let now = match file::read_whole(given.path) {
        Ok(now) => now,
        Err(error) => return Outcome::Failed(error.to_string()),
    };
    let is = now.as_ref().map(|now| now.sha256.as_str());
    let wanted = given.former.map(|(_, sha256)| sha256);
    if is == wanted {
        return Outcome::Restored;
    }
    if !given.expected.contains(&is) {
        return Outcome::Conflict;
    }
    if dry_run {
        return Outcome::Restored;
    }
    let former = now.as_ref().map(|now| (now.bytes.as_slice(), now.sha256.as_str()));
    let change = Change { by, path: given.path, former, left: wanted };
    let done = keeper.keep(change).and_then(|()| write(given, now.as_ref()));
    done.map_or_else(Outcome::Failed, |()| Outcome::Restored)
}

fn write(given: &Given<'_>, now: Option<&Content>) -> Result<(), String> {
    let written = match (given.former, now) {
        (Some((bytes, _)), Some(now)) => file::replace(given.path, now, bytes).map(drop),
        (Some((bytes, _)), None) => file::create(given.path, bytes).map(drop),
        (None, _) => file::remove(given.path),
    };
    written.map_err(|error| error.to_string())
}
