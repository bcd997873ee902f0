//! The end of what a dead daemon's calls started.
//!
//! Their launchers end it by themselves, within the grace that they were given; a call is over only
//! when that is done, or whoever takes its turn up would work beside it. What lost its launcher as
//! well is found by its mark and killed.
//!
//! Receives a dead daemon's id and its calls from `session`; hands back when nothing of them is left.

use std::time::Duration;

use agentd_protocol::id::CallId;

use crate::clock::Clock;
use crate::launcher::{self, Mark};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// What launchers get beyond the grace: their own SIGKILL, and the reaping.
const MARGIN: Duration = Duration::from_secs(2);

/// How long the killed may take to be gone.
const KILLED: Duration = Duration::from_secs(2);

/// Waits until no process of these calls is left, and no launcher of the daemon that had them,
/// and kills those that are there after `grace` and a little more. False: somebody survived even
/// that.
pub async fn end_orphans(
    calls: &[CallId],
    daemon: Option<&str>,
    grace: Duration,
    clock: &Clock,
) -> bool {
    if calls.is_empty() {
        return true;
    }
    let marks: Vec<Mark> =
        calls.iter().map(Mark::of_call).chain(daemon.map(Mark::of_daemon)).collect();
    let look = |marks: Vec<Mark>, kill: bool| async move {
        let looked = tokio::task::spawn_blocking(move || {
            if kill { launcher::kill_survivors(&marks) } else { launcher::survivors(&marks) }
        });
        // A look that panicked saw nobody.
        looked.await.unwrap_or_default()
    };
    let started_ms = clock.boot_ms();
    let waited = || Duration::from_millis(clock.boot_ms().saturating_sub(started_ms));
    while look(marks.clone(), waited() > grace + MARGIN).await > 0 {
        if waited() > grace + MARGIN + KILLED {
            return false;
        }
        clock.sleep(PAUSE).await;
    }
    true
}
