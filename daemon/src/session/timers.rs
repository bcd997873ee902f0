//! An actor's timers: at most one of each kind, the earliest first.
//!
//! Receives deadlines from the actor; hands it the kind that is due.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::Clock;

/// What may become due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// Text that streams has waited long enough for a commit.
    Checkpoint,
    /// The next attempt of a request.
    Retry,
    /// Cancelled tools that run no process have had their time.
    StopTasks,
    /// Cancelled tools that run processes have had theirs.
    StopProcesses,
    /// The lease wants renewal.
    Renew,
    /// The store may work again.
    Mend,
    /// The oldest prompt expires.
    Expire,
    /// The orderly stop waits no longer.
    Drain,
    /// Nothing has happened for a while.
    Idle,
}

/// The timers.
#[derive(Debug)]
pub(super) struct Timers {
    clock: Clock,
    due: BTreeMap<Timer, u64>,
}

impl Timers {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, due: BTreeMap::new() }
    }

    /// Sets a timer anew.
    pub(super) fn set(&mut self, timer: Timer, after: Duration) {
        let after = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        self.due.insert(timer, self.clock.boot_ms().saturating_add(after));
    }

    /// Sets a timer that is not set.
    pub(super) fn set_once(&mut self, timer: Timer, after: Duration) {
        if !self.due.contains_key(&timer) {
            self.set(timer, after);
        }
    }

    pub(super) fn clear(&mut self, timer: Timer) {
        self.due.remove(&timer);
    }

    /// The next timer, when it is due. Cancel-safe; waits for ever when none is set.
    pub(super) async fn next(&mut self) -> Timer {
        let Some((timer, due)) = self.due.iter().min_by_key(|(_, due)| **due) else {
            return std::future::pending().await;
        };
        let (timer, due) = (*timer, *due);
        let wait = due.saturating_sub(self.clock.boot_ms());
        if wait > 0 {
            self.clock.sleep(Duration::from_millis(wait)).await;
        }
        self.due.remove(&timer);
        timer
    }
}
