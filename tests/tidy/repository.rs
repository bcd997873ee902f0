//! The tree that the rules are about, and what may stand at its top.
//!
//! Receives the folder of this package; hands sources to the other rules.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;

/// A file of the repository.
pub(crate) struct Source {
    /// Its path from the repository's root, with `/`.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
}

impl Source {
    /// Whether all of it is test code.
    pub(crate) fn is_test(&self) -> bool {
        self.path.starts_with("tests/")
            || self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
            || self.path.ends_with("_tests.rs")
    }

    /// Its text without a test module at its end.
    pub(crate) fn body(&self) -> &str {
        let end = self.text.find("#[cfg(test)]\nmod tests {").unwrap_or(self.text.len());
        &self.text[..end]
    }

    /// The lines of its body that are code, with their numbers.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.body()
            .lines()
            .enumerate()
            .map(|(index, line)| (index + 1, line.split("//").next().unwrap_or_default()))
    }
}

/// The repository's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this package lies in it").to_owned()
}

/// Every file with this ending that git would take, below the folders that hold sources.
pub(crate) fn sources(extension: &str) -> Vec<Source> {
    let root = root();
    let mut walk = WalkBuilder::new(root.join("protocol"));
    for folder in ["daemon", "client", "tests", "packaging"] {
        walk.add(root.join(folder));
    }
    let mut sources: Vec<Source> = walk
        .build()
        .map(|entry| entry.expect("the repository can be read").into_path())
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .map(|path| Source {
            text: std::fs::read_to_string(&path).expect("sources are UTF-8"),
            path: relative(&path, &root),
        })
        .collect();
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    sources
}

fn relative(path: &Path, root: &Path) -> String {
    let inside = path.strip_prefix(root).expect("the walk starts in the root");
    inside.to_str().expect("paths are UTF-8").to_owned()
}

/// Fails with all complaints at once.
#[track_caller]
pub(crate) fn complain(rule: &str, complaints: &[String]) {
    assert!(complaints.is_empty(), "{rule}\n  {}", complaints.join("\n  "));
}

#[test]
fn the_top_level_is_what_the_architecture_says() {
    let allowed: BTreeSet<&str> = [
        "Cargo.toml",
        "Cargo.lock",
        "protocol",
        "daemon",
        "client",
        "tests",
        "packaging",
        "README.md",
        ".ci",
        ".config",
        ".gitignore",
        ".rustfmt.toml",
        ".clippy.toml",
        ".cargo",
        ".git",
    ]
    .into();
    let root = root();
    let extra: Vec<String> = WalkBuilder::new(&root)
        .hidden(false)
        .max_depth(Some(1))
        .build()
        .map(|entry| entry.expect("the root can be read").into_path())
        .filter(|path| *path != root)
        .map(|path| relative(&path, &root))
        .filter(|name| !allowed.contains(name.as_str()))
        .collect();
    complain("put it where it belongs; the top level is closed", &extra);
}
