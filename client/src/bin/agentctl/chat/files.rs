//! Files for completion: those of the directory, and those of the folder that is being named.
//!
//! The walk is as ignore files leave it, and is kept for a moment, since a key comes after the
//! other. What is too much for it, or ignored, is found by naming its folder.
//!
//! Invariants: at most one search at a time; nothing of it runs on the interface's thread.
//!
//! Receives a part of a name; hands back names that hold it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use ignore::WalkBuilder;

use super::state::{Event, matching};

/// Files of a walk: it may take a moment, and their names a few megabytes.
const MAX_FILES: usize = 100_000;
/// Names of one folder.
const MAX_NAMES: usize = 20_000;
/// How long a walk is good for.
const FRESH: Duration = Duration::from_secs(2);

/// The files of a directory, as far as they were walked through.
#[derive(Debug, Clone, Default)]
pub(super) struct Files(Arc<Mutex<Option<Walked>>>);

#[derive(Debug)]
struct Walked {
    dir: PathBuf,
    at: Instant,
    names: Vec<String>,
}

impl Files {
    /// Names that hold `part`, the best first.
    pub(super) async fn find(self, dir: PathBuf, part: String) -> Event {
        let search = tokio::task::spawn_blocking(move || {
            let names = self.search(&dir, &part);
            Event::Files { part, names }
        });
        search.await.unwrap_or_else(|_| Event::Files { part: String::new(), names: Vec::new() })
    }

    fn search(&self, dir: &Path, part: &str) -> Vec<String> {
        let mut walked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = |walked: &Walked| walked.dir == dir && walked.at.elapsed() < FRESH;
        if !walked.as_ref().is_some_and(fresh) {
            let names = walk(dir, MAX_FILES);
            *walked = Some(Walked { dir: dir.to_owned(), at: Instant::now(), names });
        }
        let beside = beside(dir, part);
        let names = walked.iter().flat_map(|walked| &walked.names).chain(&beside);
        matching(names.map(String::as_str), part)
    }
}

/// The files of a directory, as ignore files leave them.
fn walk(dir: &Path, max: usize) -> Vec<String> {
    let files = WalkBuilder::new(dir).build().flatten();
    let files = files.filter(|entry| entry.file_type().is_some_and(|kind| kind.is_file()));
    let names = files.filter_map(|entry| {
        let name = entry.path().strip_prefix(dir).ok()?;
        Some(name.to_str()?.to_owned())
    });
    names.take(max).collect()
}

/// What is in the folder that a name leads to so far; folders end with a slash, and hidden ones
/// have to be asked for.
fn beside(dir: &Path, part: &str) -> Vec<String> {
    let (folder, start) = part.rfind('/').map_or(("", part), |at| part.split_at(at + 1));
    let entries = std::fs::read_dir(dir.join(folder)).into_iter().flatten().flatten();
    let names = entries.take(MAX_NAMES).filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let is_asked_for = start.starts_with('.') || !name.starts_with('.');
        let slash = if entry.path().is_dir() { "/" } else { "" };
        is_asked_for.then(|| format!("{folder}{name}{slash}"))
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(names: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        dir
    }

    async fn found(files: &Files, dir: &Path, part: &str) -> Vec<String> {
        match files.clone().find(dir.to_owned(), part.to_owned()).await {
            Event::Files { part: sought, names } if sought == part => names,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn names_are_found_by_parts_and_folders_by_their_path() {
        let dir = tree(&["a.rs", "src/main.rs", "src/.hidden", ".git/x", "out/made.rs"]);
        std::fs::write(dir.path().join(".ignore"), "out/\n").unwrap();
        let files = Files::default();
        for (part, names) in [
            ("ma", vec!["src/main.rs"]),
            ("a", vec!["a.rs", "src/main.rs"]),
            ("sr", vec!["src/", "src/main.rs"]),
            ("src/.", vec!["src/.hidden"]),
            // Left out of the walk, and found by its name.
            ("out/", vec!["out/made.rs"]),
            ("absent/", vec![]),
        ] {
            assert_eq!(found(&files, dir.path(), part).await, names, "{part}");
        }
        let absolute = format!("{}/src/ma", dir.path().display());
        assert_eq!(found(&files, dir.path(), &absolute).await, [format!("{absolute}in.rs")]);
    }

    #[tokio::test]
    async fn what_is_new_is_found_and_so_is_what_a_walk_does_not_reach() {
        let dir = tree(&["a/1.rs", "a/2.rs", "a/3.rs"]);
        assert_eq!(walk(dir.path(), 2).len(), 2);
        let files = Files::default();
        assert_eq!(found(&files, dir.path(), "new").await, Vec::<String>::new());
        std::fs::write(dir.path().join("new.rs"), "").unwrap();
        assert_eq!(found(&files, dir.path(), "new").await, ["new.rs"]);
        std::fs::write(dir.path().join("a/new.rs"), "").unwrap();
        assert_eq!(found(&files, dir.path(), "a/n").await, ["a/new.rs"]);
    }
}
