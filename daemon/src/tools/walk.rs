//! The walk that all tools which look below a directory share.
//!
//! Hidden files belong to it; what version control ignores, and its own folders, do not. Links are
//! never followed, so nothing outside is reached and nothing cycles.
//!
//! Receives a resolved directory from the tools; hands them a walker.

use std::path::Path;

use ignore::WalkBuilder;

/// The folders of version control itself.
const STORES: &[&str] = &[".git", ".hg", ".svn", ".jj", ".bzr"];

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
