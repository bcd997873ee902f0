//! An actor's timers: at most one of each kind, the earliest first.
//!
//! A timer is set and cleared with nearly every input, and each wait that the runtime does not know
//! yet may wake a thread that sleeps till the former earliest. So one wait is kept as long as it
//! ends no later than the earliest timer; one that ends too early is begun again.
//!
//! Receives deadlines from the actor; hands it the kind that is due.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

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
pub(super) struct Timers {
    clock: Clock,
    due: BTreeMap<Timer, u64>,
    /// The wait that is kept, and its end.
    wait: Option<(u64, BoxFuture<'static, ()>)>,
}

impl fmt::Debug for Timers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timers").field("due", &self.due).finish_non_exhaustive()
    }
}

impl Timers {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, due: BTreeMap::new(), wait: None }
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
        loop {
            let left = due.saturating_sub(self.clock.boot_ms());
            if left == 0 {
                self.due.remove(&timer);
                return timer;
            }
            let kept = self.wait.take().filter(|(until, _)| *until <= due);
            let (_, wait) = self.wait.insert(kept.unwrap_or_else(|| {
                let clock = self.clock.clone();
                let wait = async move { clock.sleep(Duration::from_millis(left)).await };
                (due, wait.boxed())
            }));
            wait.await;
            self.wait = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_that_is_kept_makes_no_timer_early_and_none_late() {
        let clock = Clock::manual();
        let mut timers = Timers::new(clock.clone());
        let ms = Duration::from_millis;
        timers.set(Timer::Checkpoint, ms(100));
        assert!(timers.next().now_or_never().is_none());
        // The wait of 100 ms goes on for what is due later, and gives way to what is due before.
        timers.clear(Timer::Checkpoint);
        timers.set(Timer::Renew, ms(300));
        assert!(timers.next().now_or_never().is_none());
        clock.advance(ms(150));
        assert!(timers.next().now_or_never().is_none());
        timers.set(Timer::Checkpoint, ms(100));
        assert!(timers.next().now_or_never().is_none());
        clock.advance(ms(99));
        assert!(timers.next().now_or_never().is_none());
        clock.advance(ms(1));
        assert_eq!(timers.next().now_or_never(), Some(Timer::Checkpoint));
        clock.advance(ms(50));
        assert_eq!(timers.next().now_or_never(), Some(Timer::Renew));
        assert!(timers.next().now_or_never().is_none());
    }
}
