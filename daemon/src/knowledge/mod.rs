//! What a model is told before a session's first input, and what may be learned from its turns.
//!
//! The system item is written once and then frozen: later changes on disk change new sessions
//! only, so that a session behaves the same all along and the prefix of its requests stays byte
//! for byte what provider caches have seen. What a completed turn taught is proposed as candidates
//! and used by nobody before a person accepted it.
//!
//! Receives a session's directory and events; hands the text of the system item and candidates to
//! `session`.

mod instructions;
mod memory;
mod observer;
mod workflow;

use std::path::Path;

use agentd_protocol::time::Time;

pub use observer::Observer;

/// The base prompt: who speaks, and how to work.
const BASE: &str = "You are a coding agent that works in a user's directory through tools, run by \
agentd.

- Do what the user asks, completely; say plainly what you could not do.
- Read before you change. Keep changes small and in the style of what is there.
- Use the file tools for files and the shell for programs. Paths are relative to the working \
directory or absolute.
- A call may be denied by the user; then find another way or ask.
- Check your work where you can (build, tests), and end with a short account of what you did.";

/// The text of the system item. Reads files; not for async threads.
pub fn system_text(cwd: &Path, now: Time) -> String {
    let mut text = BASE.to_owned();
    for found in instructions::find(cwd) {
        text.push_str("\n\n# Instructions of this repository (");
        text.push_str(&found.path.display().to_string());
        text.push_str(")\n\n");
        text.push_str(found.text.trim());
    }
    text.push_str("\n\n# Environment\n\n");
    text.push_str(&environment(cwd, now));
    text
}

fn environment(cwd: &Path, now: Time) -> String {
    let date = now.to_string();
    let date = date.split('T').next().unwrap_or_default();
    let mut lines = vec![
        format!("- Platform: {} {}", std::env::consts::OS, std::env::consts::ARCH),
        format!("- Working directory: {}", cwd.display()),
        format!("- Date: {date}"),
    ];
    if let Some(root) = instructions::repository_root(cwd) {
        lines.push(format!("- Repository: {}", root.display()));
        if let Some(branch) = instructions::branch(&root) {
            lines.push(format!("- Branch: {branch}"));
        }
    }
    lines.join("\n")
}
