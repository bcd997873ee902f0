//! What this machine has: the socket, the state directory and its holder, what confines commands.
//!
//! Receives paths; hands checks to `doctor`.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use agentd_client::socket_location;

use super::Check;
use crate::context::Context;
use crate::place;

/// The lock's name in the state directory; its holder writes into it who it is.
const LOCK: &str = "agentd.lock";

pub(super) fn socket(context: &Context) -> Check {
    let location = socket_location(context.socket.as_deref());
    let shown = location.path.display().to_string();
    if let Some(ignored) = location.ignored_runtime_dir {
        let ignored = ignored.display();
        return Check::note("socket", format!("{shown}, since {ignored} is not this user's own"));
    }
    Check::well("socket", shown)
}

/// The state directory and, if one is at work there, the daemon that has it.
pub(super) fn state_dir() -> Check {
    let name = "state";
    let path = match place::state_dir() {
        Ok(path) => path,
        Err(error) => return Check::wrong(name, format!("{error:#}")),
    };
    let shown = path.display();
    let Ok(meta) = path.metadata() else {
        return Check::note(name, format!("{shown} is not there yet: the daemon makes it"));
    };
    if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o077 != 0 {
        let what = "others can read it: make it yours alone (chmod 700)";
        return Check::wrong(name, format!("{shown}: {what}"));
    }
    match std::fs::read_to_string(path.join(LOCK)) {
        Ok(holder) if is_alive(&holder) => {
            Check::well(name, format!("{shown}, held by {}", holder.trim()))
        }
        _ => Check::well(name, shown.to_string()),
    }
}

/// Whether the process that wrote `process PID, …` is still there: a lock's file outlives it.
fn is_alive(holder: &str) -> bool {
    let pid = holder.trim().strip_prefix("process ").and_then(|rest| rest.split(',').next());
    let pid = pid.and_then(|pid| pid.parse().ok()).and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

pub(super) fn landlock() -> Check {
    let modules = std::fs::read_to_string("/sys/kernel/security/lsm");
    match modules {
        Ok(modules) if modules.split(',').any(|module| module.trim() == "landlock") => {
            Check::well("landlock", "the kernel has it")
        }
        Ok(_) => Check::note("landlock", "the kernel does not have it: `auto` asks for commands"),
        Err(_) => Check::note("landlock", "unknown: /sys/kernel/security cannot be read here"),
    }
}

pub(super) fn namespaces() -> Check {
    let number =
        |path: &str| -> Option<u64> { std::fs::read_to_string(path).ok()?.trim().parse().ok() };
    let refused = "refused here: protected files are watched instead of shielded";
    let off = number("/proc/sys/user/max_user_namespaces") == Some(0)
        || number("/proc/sys/kernel/unprivileged_userns_clone") == Some(0);
    let confined = number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1);
    if off || confined || !Path::new("/proc/self/ns/user").exists() {
        return Check::note("namespaces", refused);
    }
    Check::well("namespaces", "users may make their own")
}

pub(super) fn seccomp() -> Check {
    if Path::new("/proc/sys/kernel/seccomp/actions_avail").exists() {
        return Check::well("seccomp", "the kernel has it");
    }
    Check::note("seccomp", "not found: commands are not kept from the network")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_ended_is_not_told() {
        let own = std::process::id();
        assert!(is_alive(&format!("process {own}, socket /run/a.sock\n")));
        let mut child = std::process::Command::new("true").spawn().expect("it starts");
        child.wait().expect("it ends");
        assert!(!is_alive(&format!("process {}, socket /run/a.sock\n", child.id())));
        assert!(!is_alive("") && !is_alive("starting"));
    }
}
