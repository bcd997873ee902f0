//! Where the socket is: one rule for both sides, without I/O.
//!
//! `--socket`, else `AGENTD_SOCKET`, else `agentd/agentd.sock` in the user's runtime directory,
//! else `agentd-<uid>/agentd.sock` in the temporary directory. A path over the system's limit is
//! replaced by a short one made of its hash, under `/tmp` whatever `TMPDIR` is, so that two
//! processes with different environments find the same one.
//!
//! Receives the environment from the daemon's boot and from the client; hands them a path.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The longest path of a Unix socket in bytes, its closing zero left out.
pub const MAX_PATH_BYTES: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// What the rule looks at. Empty values count as absent.
#[derive(Debug, Clone, Copy)]
pub struct Environment<'a> {
    /// `--socket`.
    pub option: Option<&'a Path>,
    /// `AGENTD_SOCKET`.
    pub variable: Option<&'a OsStr>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<&'a Path>,
    /// The temporary directory, from `std::env::temp_dir`.
    pub temp_dir: &'a Path,
    /// The working directory, against which a relative path is read.
    pub current_dir: &'a Path,
    /// The effective uid.
    pub uid: u32,
}

/// Which rule named the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// `--socket`: its directory may be somebody's own and is never changed.
    Option,
    /// `AGENTD_SOCKET`: likewise.
    Variable,
    /// The runtime directory.
    RuntimeDir,
    /// The temporary directory.
    TempDir,
}

/// Where the socket is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The path to bind or to connect to, absolute.
    pub path: PathBuf,
    /// Which rule named it.
    pub origin: Origin,
    /// The path that was too long, where `path` stands for it. Its directory is then
    /// `/tmp/agentd-<uid>`, as for [`Origin::TempDir`].
    pub shortened_from: Option<PathBuf>,
    /// The runtime directory that was passed over, worth a warning.
    pub ignored_runtime_dir: Option<PathBuf>,
}

/// Finds the socket. `usable` tells whether a runtime directory exists and is the user's own:
/// [`is_own_directory`] of its metadata.
pub fn locate(environment: &Environment<'_>, usable: impl FnOnce(&Path) -> bool) -> Location {
    let Environment { option, variable, runtime_dir, temp_dir, current_dir, uid } = *environment;
    let variable = variable.filter(|value| !value.is_empty()).map(Path::new);
    let option = option.filter(|path| !path.as_os_str().is_empty());
    let runtime_dir = runtime_dir.filter(|path| !path.as_os_str().is_empty());
    let mut ignored_runtime_dir = None;
    let (path, origin) = if let Some(path) = option {
        (current_dir.join(path), Origin::Option)
    } else if let Some(path) = variable {
        (current_dir.join(path), Origin::Variable)
    } else {
        match runtime_dir {
            Some(dir) if dir.is_absolute() && usable(dir) => {
                (dir.join("agentd/agentd.sock"), Origin::RuntimeDir)
            }
            unusable => {
                ignored_runtime_dir = unusable.map(Path::to_path_buf);
                (temp_dir.join(private_name(uid)).join("agentd.sock"), Origin::TempDir)
            }
        }
    };
    let (path, shortened_from) = if path.as_os_str().len() > MAX_PATH_BYTES {
        (shortened(&path, uid), Some(path))
    } else {
        (path, None)
    };
    Location { path, origin, shortened_from, ignored_runtime_dir }
}

/// Whether this is a directory, owned by `uid`, that others cannot write to.
pub fn is_own_directory(metadata: &Metadata, uid: u32) -> bool {
    metadata.is_dir() && metadata.uid() == uid && metadata.mode() & 0o022 == 0
}

fn private_name(uid: u32) -> String {
    format!("agentd-{uid}")
}

fn shortened(path: &Path, uid: u32) -> PathBuf {
    let digest = Sha256::digest(path.as_os_str().as_bytes());
    let mut name = String::with_capacity(32);
    for byte in &digest[..12] {
        write!(name, "{byte:02x}").expect("writing to a string cannot fail");
    }
    Path::new("/tmp").join(private_name(uid)).join(name + ".sock")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment<'a>() -> Environment<'a> {
        Environment {
            option: None,
            variable: None,
            runtime_dir: Some(Path::new("/run/user/7")),
            temp_dir: Path::new("/var/tmp"),
            current_dir: Path::new("/home/u"),
            uid: 7,
        }
    }

    fn path(environment: Environment<'_>, usable: bool) -> (String, Origin) {
        let found = locate(&environment, |_| usable);
        assert_eq!(found.shortened_from, None);
        (found.path.display().to_string(), found.origin)
    }

    #[test]
    fn the_order_of_the_rules() {
        let all = Environment {
            option: Some(Path::new("/a/s")),
            variable: Some(OsStr::new("/b/s")),
            ..environment()
        };
        assert_eq!(path(all, true), ("/a/s".into(), Origin::Option));
        let empty = Environment { option: Some(Path::new("")), ..all };
        assert_eq!(path(empty, true), ("/b/s".into(), Origin::Variable));
        let relative = Environment { option: Some(Path::new("x/s")), ..all };
        assert_eq!(path(relative, true), ("/home/u/x/s".into(), Origin::Option));
        let unset = Environment { variable: Some(OsStr::new("")), ..environment() };
        assert_eq!(
            path(unset, true),
            ("/run/user/7/agentd/agentd.sock".into(), Origin::RuntimeDir)
        );
        let temporary = ("/var/tmp/agentd-7/agentd.sock".to_owned(), Origin::TempDir);
        assert_eq!(path(environment(), false), temporary);
        let none = Environment { runtime_dir: None, ..environment() };
        assert_eq!(path(none, true), temporary);
        let relative = Environment { runtime_dir: Some(Path::new("run")), ..environment() };
        assert_eq!(path(relative, true), temporary);
    }

    #[test]
    fn a_runtime_directory_that_is_passed_over_is_told() {
        let found = locate(&environment(), |_| false);
        assert_eq!(found.ignored_runtime_dir, Some(PathBuf::from("/run/user/7")));
        let found = locate(&Environment { runtime_dir: None, ..environment() }, |_| false);
        assert_eq!(found.ignored_runtime_dir, None);
    }

    #[test]
    fn a_path_over_the_limit_is_shortened_alike_for_all() {
        for (bytes, short) in [(-1, false), (0, false), (1, true), (200, true)] {
            // A name of two-byte characters: bytes count, not characters.
            let length = MAX_PATH_BYTES.checked_add_signed(bytes).unwrap();
            let pad = if length % 2 == 0 { "x" } else { "" };
            let long = format!("/{}{pad}", "é".repeat((length - 1) / 2));
            assert_eq!(long.len(), length);
            let option = Environment { option: Some(Path::new(&long)), ..environment() };
            let found = locate(&option, |_| true);
            assert_eq!(found.shortened_from.is_some(), short, "{length} bytes");
            assert!(found.path.as_os_str().len() <= MAX_PATH_BYTES);
            let other = Environment {
                variable: Some(OsStr::new(&long)),
                temp_dir: Path::new("/elsewhere"),
                ..environment()
            };
            assert_eq!(locate(&other, |_| true).path, found.path);
            assert_eq!(found.path.starts_with("/tmp/agentd-7"), short);
        }
        let two = ["a", "b"].map(|name| {
            let long = format!("/{}/{name}", "d".repeat(200));
            locate(&Environment { option: Some(Path::new(&long)), ..environment() }, |_| true).path
        });
        assert_ne!(two[0], two[1]);
    }
}
