//! Who is at the other end: only the daemon's own user, and none of its own tools.
//!
//! The kernel says whose process connected; the file mode of the socket is the first wall, this is
//! the second. A tool that a model runs belongs to the same user, so a process that descends from
//! one is refused as well: it must not answer its own prompt. A process that is gone cannot be
//! traced and is refused too.
//!
//! Invariant: *only the owner connects*.
//!
//! Receives sockets from `listener`; hands back whether to serve them.

use std::io;

use tokio::net::UnixStream;

/// Whether a process, with its parent, is where a tool starts.
pub type IsTool = dyn Fn(u32, u32) -> bool + Send + Sync;

/// A process at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its user.
    pub uid: u32,
    /// Its number, where the system tells it and it is one of this process's namespace.
    pub pid: Option<u32>,
}

/// Why a connection is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Another user's.
    #[error("this daemon serves user {owner} only, and you are user {uid}")]
    OtherUser {
        /// Who connected.
        uid: u32,
        /// Who may.
        owner: u32,
    },
    /// A tool's.
    #[error("process {pid} was started by a tool of this daemon, and tools may not use it")]
    Tool {
        /// The process.
        pid: u32,
    },
    /// Nobody's any more.
    #[error("process {pid} ended before it could be checked")]
    Gone {
        /// The process.
        pid: u32,
    },
}

/// How often a line of descent is read again after a process in it ended.
const ATTEMPTS: usize = 8;
/// The longest line of descent: more is a loop made by numbers that were given anew.
const MAX_GENERATIONS: usize = 1_024;

impl Peer {
    /// Who is at the other end of `stream`.
    pub fn of(stream: &UnixStream) -> io::Result<Self> {
        let credentials = stream.peer_cred()?;
        let pid = credentials.pid().and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid != 0);
        Ok(Self { uid: credentials.uid(), pid })
    }

    /// Whether it may be served. `parent` tells a process's parent.
    pub fn check(
        self,
        owner: u32,
        is_tool: &IsTool,
        parent: impl Fn(u32) -> Option<u32>,
    ) -> Result<(), Refusal> {
        if self.uid != owner {
            return Err(Refusal::OtherUser { uid: self.uid, owner });
        }
        let Some(pid) = self.pid else { return Ok(()) };
        let mut unseen = None;
        for _ in 0..ATTEMPTS {
            match descends_from_tool(pid, is_tool, &parent) {
                Descent::Tool => return Err(Refusal::Tool { pid }),
                Descent::Other => return Ok(()),
                Descent::Broken { at } if at == pid => break,
                // Its child names it again, so it lives, but may not be seen: another user's.
                // Tools are ours.
                Descent::Broken { at } if unseen == Some(at) => return Ok(()),
                Descent::Broken { at } => unseen = Some(at),
            }
        }
        Err(Refusal::Gone { pid })
    }
}

enum Descent {
    Tool,
    Other,
    Broken { at: u32 },
}

fn descends_from_tool(pid: u32, is_tool: &IsTool, parent: &impl Fn(u32) -> Option<u32>) -> Descent {
    let mut pid = pid;
    for _ in 0..MAX_GENERATIONS {
        let Some(above) = parent(pid) else { return Descent::Broken { at: pid } };
        if is_tool(pid, above) {
            return Descent::Tool;
        }
        if above <= 1 {
            return Descent::Other;
        }
        pid = above;
    }
    Descent::Broken { at: pid }
}

/// The parent of a process.
#[cfg(target_os = "linux")]
pub fn parent_of(pid: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok()
}

/// The parent of a process; where there is no `/proc`, lines of descent end at once.
#[cfg(not(target_os = "linux"))]
pub fn parent_of(_pid: u32) -> Option<u32> {
    Some(0)
}

#[cfg(test)]
mod tests;
