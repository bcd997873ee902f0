//! The walk that all tools which look below a directory share.
//!
//! Hidden files belong to it; what version control ignores, and its own folders, do not. Links are
//! never followed, so nothing outside is reached and nothing cycles.
//!
//! Receives a resolved directory from the tools; hands them a walker.

use std::path::Path;
use std::time::{Duration, Instant};

use ignore::WalkBuilder;
use tokio_util::sync::CancellationToken;

/// The folders of version control itself.
const STORES: &[&str] = &[".git", ".hg", ".svn", ".jj", ".bzr"];

/// The longest that one search may take; what it found by then is shown.
const TIME: Duration = Duration::from_secs(20);

/// When a walk stops early.
#[derive(Debug, Clone)]
pub struct Stop {
    cancel: CancellationToken,
    until: Instant,
}

/// Why a walk stopped early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// The turn ended.
    Cancelled,
    /// It took too long.
    Late,
}

impl Stop {
    /// When the turn ends, or the time for one search is over.
    pub fn new(cancel: &CancellationToken) -> Self {
        Self::at(cancel, Instant::now() + TIME)
    }

    /// The same with a time of one's own.
    pub fn at(cancel: &CancellationToken, until: Instant) -> Self {
        Self { cancel: cancel.clone(), until }
    }

    /// Whether it is time to stop.
    pub fn now(&self) -> Option<Stopped> {
        if self.cancel.is_cancelled() {
            return Some(Stopped::Cancelled);
        }
        (Instant::now() >= self.until).then_some(Stopped::Late)
    }
}

/// What is said of a search that took too long.
pub fn late_note() -> String {
    format!("stopped after {} s, this is not all; search in fewer directories", TIME.as_secs())
}

/// A walker below `directory`. `Err` says why there is none, for the model.
pub fn below(directory: &Path) -> Result<WalkBuilder, String> {
    let found = directory.symlink_metadata().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("{} does not exist", directory.display()),
        _ => format!("{}: {error}", directory.display()),
    })?;
    if !found.is_dir() {
        return Err(format!("{} is no directory", directory.display()));
    }
    let mut builder = WalkBuilder::new(directory);
    builder.hidden(false).require_git(false).follow_links(false).filter_entry(|entry| {
        entry.depth() == 0 || !STORES.iter().any(|store| entry.file_name() == *store)
    });
    Ok(builder)
}
