//! From the path that a model writes to the one file that it means.
//!
//! Links are followed here, once, and `..` is resolved as the system would, so that a path is
//! judged by where it leads. A name that is there with its letters composed otherwise (some systems
//! write `é` as two characters) is that one. A path whose end does not exist yet is resolved as far as it does.
//! What comes out has no links left: `file` opens it so that one that appears later is refused.
//!
//! Receives paths from the tools; hands them targets for the judgement, and names to show.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::{ToolContext, composed, guarded};
use crate::permission::{PathAccess, Target};

/// Links in one path, as the system's own limit.
const MAX_LINKS: usize = 40;

/// Trees that look like files and are none: reading them may block, act, or tell secrets.
const NO_FILES: &[&str] = &["/proc", "/sys"];

/// Why a path means nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is empty, or cannot be a path.
    #[error("{0:?} is no path")]
    NoPath(String),
    /// The session's directory is gone, and the path is relative to it.
    #[error(
        "the session's directory {0} does not exist (any more); make it again, or use an absolute path"
    )]
    NoDirectory(String),
    /// A directory on the way does not exist.
    #[error("{0} does not exist, so there is nothing above or below it")]
    Missing(String),
    /// Too many links.
    #[error("{0} leads through more than {MAX_LINKS} links")]
    Links(String),
    /// The path is in a tree of pseudo-files.
    #[error("{0} is no ordinary file; use the shell for what the system shows there")]
    NoFile(String),
    /// The system refused to look.
    #[error("{path}: {cause}")]
    Failed {
        /// What was looked at.
        path: String,
        /// Why not.
        #[source]
        cause: io::Error,
    },
}

/// A path without links or `..`, and where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved {
    /// The path.
    pub path: PathBuf,
    /// It exists.
    pub exists: bool,
    /// The session's directory, resolved; absent where it is gone.
    cwd: Option<PathBuf>,
    /// In the working directory or a root.
    inside: bool,
    /// Elsewhere, among this session's kept outputs, which it may read.
    output: bool,
}

impl Resolved {
    /// The path as it is shown: relative to the session's directory where it is inside.
    pub fn shown(&self) -> String {
        shown_from(self.cwd.as_deref(), &self.path)
    }

    /// What a call that does this to the path is judged by.
    pub fn target(&self, access: PathAccess) -> Target {
        Target::Path {
            path: self.path.clone(),
            access,
            inside: self.inside || (self.output && access == PathAccess::Read),
            guarded: guarded::is_guarded(&self.path, access),
        }
    }
}

/// Resolves a path: relative to the session's directory, or absolute.
pub fn resolve(asked: &str, context: &ToolContext) -> Result<Resolved, Error> {
    if asked.is_empty() || asked.contains('\0') {
        return Err(Error::NoPath(asked.to_owned()));
    }
    let asked = Path::new(asked);
    // Once for all that is said of the path: a look at a directory is a call to the system for each
    // of its names.
    let cwd = directory(context);
    let (start, cwd) = match cwd {
        _ if asked.is_absolute() => (PathBuf::from("/"), cwd.ok()),
        Ok(cwd) => (cwd.clone(), Some(cwd)),
        Err(error) => return Err(error),
    };
    let (path, exists) = follow(start, asked)?;
    if NO_FILES.iter().any(|tree| path.starts_with(tree)) {
        return Err(Error::NoFile(path.display().to_string()));
    }
    let is_in = |root: &PathBuf| root.canonicalize().is_ok_and(|root| path.starts_with(root));
    let inside =
        cwd.as_ref().is_some_and(|cwd| path.starts_with(cwd)) || context.roots.iter().any(is_in);
    let output = !inside && is_in(&context.outputs_dir);
    Ok(Resolved { path, exists, cwd, inside, output })
}

/// The session's directory, resolved.
pub fn directory(context: &ToolContext) -> Result<PathBuf, Error> {
    context.cwd.canonicalize().map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            Error::NoDirectory(context.cwd.display().to_string())
        }
        _ => Error::Failed { path: context.cwd.display().to_string(), cause },
    })
}

/// A resolved path as it is shown: relative to the session's directory where it is inside.
pub fn shown(path: &Path, context: &ToolContext) -> String {
    shown_from(context.cwd.canonicalize().ok().as_deref(), path)
}

fn shown_from(cwd: Option<&Path>, path: &Path) -> String {
    let relative = cwd.and_then(|cwd| {
        let rest = path.strip_prefix(cwd).ok()?;
        Some(if rest.as_os_str().is_empty() { Path::new(".") } else { rest }.display().to_string())
    });
    relative.unwrap_or_else(|| path.display().to_string())
}

/// Walks `asked` from `start`, a path without links. The flag says that all of it exists.
fn follow(start: PathBuf, asked: &Path) -> Result<(PathBuf, bool), Error> {
    let mut path = start;
    let mut exists = true;
    let mut links = 0;
    let mut rest: VecDeque<OsString> = parts(asked);
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            if !exists {
                return Err(Error::Missing(path.display().to_string()));
            }
            path.pop();
            continue;
        }
        path.push(&part);
        if !exists {
            continue;
        }
        match path.symlink_metadata() {
            Ok(found) if found.is_symlink() => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Error::Links(asked.display().to_string()));
                }
                let leads_to = path.read_link().map_err(|cause| failed(&path, cause))?;
                path.pop();
                if leads_to.is_absolute() {
                    path = PathBuf::from("/");
                }
                let mut parts = parts(&leads_to);
                parts.append(&mut rest);
                rest = parts;
            }
            Ok(found) if !found.is_dir() && !rest.is_empty() => {
                return Err(failed(&path, io::ErrorKind::NotADirectory.into()));
            }
            Ok(_) => {}
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                match equal_name(&path, &part) {
                    Some(name) => {
                        // As it is written there; it is looked at once more.
                        path.pop();
                        rest.push_front(name);
                    }
                    None => exists = false,
                }
            }
            Err(cause) => return Err(failed(&path, cause)),
        }
    }
    Ok((path, exists))
}

/// The name in the same directory that is this one but for how its letters are composed.
fn equal_name(path: &Path, name: &OsStr) -> Option<OsString> {
    let wanted = name.to_str().filter(|name| !name.is_ascii()).map(composed::composed)?;
    let entries = path.parent()?.read_dir().ok()?;
    let mut names = entries.filter_map(|entry| Some(entry.ok()?.file_name()));
    names.find(|other| {
        other != name && other.to_str().is_some_and(|other| composed::composed(other) == wanted)
    })
}

/// The names of a path, `..` among them; its root, if it has one, is not.
fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        })
        .collect()
}

fn failed(path: &Path, cause: io::Error) -> Error {
    Error::Failed { path: path.display().to_string(), cause }
}
