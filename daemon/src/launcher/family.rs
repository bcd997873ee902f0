//! All that a command started: noticing when it ends, and ending it.
//!
//! As a subreaper the launcher inherits every orphan below it, so its family is the tree of
//! processes under it, whatever sessions and groups they made. One thread reaps them all.
//!
//! Receives the shell from `start`; tells `relay` of its end and of the last one's.

use std::io::{self, PipeReader, PipeWriter, Write};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions, WaitStatus};

/// Bytes of an [`End`] in the pipe.
pub(super) const END_BYTES: usize = 8;

/// How the shell ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct End {
    pub(super) code: Option<i32>,
    pub(super) signal: Option<i32>,
}

impl End {
    fn of(status: WaitStatus) -> Self {
        Self { code: status.exit_status(), signal: status.terminating_signal() }
    }

    /// All ones stand for nothing: neither codes nor signals are negative.
    fn to_bytes(self) -> [u8; END_BYTES] {
        let half = |value: Option<i32>| value.map_or(u32::MAX, i32::cast_unsigned);
        (u64::from(half(self.code)) << 32 | u64::from(half(self.signal))).to_be_bytes()
    }

    pub(super) fn from_bytes(bytes: [u8; END_BYTES]) -> Self {
        let both = u64::from_be_bytes(bytes);
        let some = |value: u64| i32::try_from(value).ok();
        Self { code: some(both >> 32), signal: some(both & u64::from(u32::MAX)) }
    }
}

/// Reaps on a thread of its own. The pipe carries the shell's [`End`], and closes when nobody is
/// left. The thread ends with the family, or with the launcher.
pub(super) fn watch(shell: Pid) -> io::Result<PipeReader> {
    let (reader, writer) = io::pipe()?;
    std::thread::Builder::new().name("reaper".to_owned()).spawn(move || reap(shell, writer))?;
    Ok(reader)
}

fn reap(shell: Pid, mut writer: PipeWriter) {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == shell => {
                if writer.write_all(&End::of(status).to_bytes()).is_err() {
                    return;
                }
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // No children: whoever is left would be one, being an orphan or below one.
            Err(_) => return,
        }
    }
}

/// Sends a signal to everybody. `shell` is given while it is not reaped: its group is for systems
/// that show no tree of processes.
pub(super) fn signal(shell: Option<Pid>, signal: Signal) {
    if let Some(shell) = shell {
        // Whoever is gone already needs no signal.
        let _ = rustix::process::kill_process_group(shell, signal);
    }
    for pid in members() {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// How many are left. The system is not searched where there is no child: whoever is left would be
/// one, or below one.
pub(super) fn size() -> usize {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match rustix::process::waitid(WaitId::All, look) {
        Err(rustix::io::Errno::CHILD) => 0,
        _ => members().len(),
    }
}

/// Everybody below this process who is not a zombie.
#[cfg(target_os = "linux")]
fn members() -> Vec<Pid> {
    let processes: Vec<Process> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| Process::read(entry.ok()?.file_name().to_str()?.parse().ok()?))
        .collect();
    let mut above = vec![rustix::process::getpid().as_raw_nonzero().get()];
    let mut members = Vec::new();
    while let Some(parent) = above.pop() {
        for process in processes.iter().filter(|process| process.parent == parent) {
            above.push(process.pid);
            if !process.zombie {
                members.extend(Pid::from_raw(process.pid));
            }
        }
    }
    members
}

#[cfg(not(target_os = "linux"))]
fn members() -> Vec<Pid> {
    Vec::new()
}

#[cfg(target_os = "linux")]
struct Process {
    pid: i32,
    parent: i32,
    zombie: bool,
}

#[cfg(target_os = "linux")]
impl Process {
    fn read(pid: i32) -> Option<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name in parentheses may hold anything, parentheses too.
        let (_, rest) = stat.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        let zombie = matches!(fields.next()?, "Z" | "X");
        Some(Self { pid, parent: fields.next()?.parse().ok()?, zombie })
    }
}
