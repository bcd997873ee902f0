//! Finding the processes of calls by their mark.
//!
//! A launcher ends everything when its daemon dies, and stays until that is done. It was started
//! before anybody knew its call, so it bears its daemon's mark; what it runs bears the call's. The
//! two tell the next daemon whether all of it is gone, and how to end what lost its launcher too.
//!
//! Receives the marks of a dead daemon and its calls from `session`; hands it what is left of them.

use agentd_protocol::id::CallId;
use rustix::process::{Pid, Signal};

use super::{CALL_ID, DAEMON_ID};

/// A variable in the environment of processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark(Vec<u8>);

impl Mark {
    /// What a call runs.
    pub fn of_call(call: &CallId) -> Self {
        Self(format!("{CALL_ID}={call}").into_bytes())
    }

    /// The launchers of a daemon.
    pub fn of_daemon(id: &str) -> Self {
        Self(format!("{DAEMON_ID}={id}").into_bytes())
    }
}

/// How many processes with one of these marks are left. Nothing is found where the system shows
/// no environments.
pub fn survivors(marks: &[Mark]) -> usize {
    marked(marks).len()
}

/// Kills what is left with these marks, and says how many that were. For those who did not end by
/// themselves within their grace.
pub fn kill_survivors(marks: &[Mark]) -> usize {
    let left = marked(marks);
    for pid in &left {
        // Whoever is gone meanwhile needs no signal.
        let _ = rustix::process::kill_process(*pid, Signal::KILL);
    }
    left.len()
}

fn marked(marks: &[Mark]) -> Vec<Pid> {
    let has_mark = |pid: i32| {
        // A zombie's is empty, and another user's cannot be read.
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment
            .split(|byte| *byte == 0)
            .any(|variable| marks.iter().any(|mark| mark.0 == variable))
    };
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| has_mark(*pid))
        .filter_map(Pid::from_raw)
        .collect()
}
