//! A repository's instruction files: AGENTS.md, or CLAUDE.md where there is none.
//!
//! They are looked for from the working directory up to the repository's root; the outermost
//! comes first, so that the nearest has the last word. They are data of the repository, and are
//! marked as such.
//!
//! Receives a directory; hands texts to the system item.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The longest file that is taken whole; of a longer one the start is taken.
const MAX_BYTES: u64 = 64 * 1024;

/// In order of preference; the first that a directory has is taken.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// An instruction file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Instructions {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

/// The instruction files that hold for `cwd`, outermost first.
pub(super) fn find(cwd: &Path) -> Vec<Instructions> {
    let root = repository_root(cwd).unwrap_or_else(|| cwd.to_owned());
    let mut found: Vec<_> = cwd
        .ancestors()
        .take_while(|dir| dir.starts_with(&root))
        .filter_map(|dir| NAMES.iter().find_map(|name| read(dir.join(name))))
        .collect();
    found.reverse();
    found
}

fn read(path: PathBuf) -> Option<Instructions> {
    // A FIFO or a device of that name would block or never end.
    if !fs::metadata(&path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    fs::File::open(&path).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    (!text.trim().is_empty()).then_some(Instructions { path, text })
}

/// The directory that holds `.git`, from `cwd` upwards.
pub(super) fn repository_root(cwd: &Path) -> Option<PathBuf> {
    cwd.ancestors().find(|dir| dir.join(".git").exists()).map(Path::to_owned)
}

/// The branch that is checked out, where HEAD names one.
pub(super) fn branch(root: &Path) -> Option<String> {
    let head = fs::read_to_string(root.join(".git").join("HEAD")).ok()?;
    Some(head.trim().strip_prefix("ref: refs/heads/")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_file_comes_last_and_agents_md_wins() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let root = dir.path();
        let inner = root.join("a/b");
        fs::create_dir_all(&inner).expect("directories");
        fs::create_dir(root.join(".git")).expect("a repository");
        fs::write(root.join(".git/HEAD"), "ref: refs/heads/trunk\n").expect("a head");
        fs::write(root.join("CLAUDE.md"), "outer").expect("a file");
        fs::write(inner.join("CLAUDE.md"), "passed over").expect("a file");
        fs::write(inner.join("AGENTS.md"), "inner").expect("a file");
        let texts: Vec<_> = find(&inner).into_iter().map(|found| found.text).collect();
        assert_eq!(texts, ["outer", "inner"]);
        assert_eq!(branch(root).as_deref(), Some("trunk"));
        assert_eq!(repository_root(&inner).as_deref(), Some(root));
    }

    #[test]
    fn a_directory_outside_a_repository_is_its_own_root() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let inner = dir.path().join("a");
        fs::create_dir(&inner).expect("a directory");
        fs::write(dir.path().join("AGENTS.md"), "not mine").expect("a file");
        assert_eq!(find(&inner), []);
    }
}
