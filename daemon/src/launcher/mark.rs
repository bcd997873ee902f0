//! Finding the processes of calls by their mark.
//!
//! A launcher ends everything when its daemon dies, and stays until that is done; the mark in its
//! environment, which all below it inherit, tells the next daemon whether it is. It is also how
//! to end what lost its launcher too.
//!
//! Receives the ids of calls whose daemon is dead from `session`; hands it what is left of them.

use agentd_protocol::id::CallId;
use rustix::process::{Pid, Signal};

use super::CALL_ID;

/// How many processes of these calls are left. Nothing is found where the system shows no
/// environments.
pub fn survivors(calls: &[CallId]) -> usize {
    marked(calls).len()
}

/// Kills what is left of these calls, and says how many that were. For those who did not end by
/// themselves within their grace.
pub fn kill_survivors(calls: &[CallId]) -> usize {
    let left = marked(calls);
    for pid in &left {
        // Whoever is gone meanwhile needs no signal.
        let _ = rustix::process::kill_process(*pid, Signal::KILL);
    }
    left.len()
}

fn marked(calls: &[CallId]) -> Vec<Pid> {
    let marks: Vec<Vec<u8>> =
        calls.iter().map(|call| format!("{CALL_ID}={call}").into_bytes()).collect();
    let has_mark = |pid: i32| {
        // A zombie's is empty, and another user's cannot be read.
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| marks.iter().any(|m| m == variable))
    };
    std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| has_mark(*pid))
        .filter_map(Pid::from_raw)
        .collect()
}
