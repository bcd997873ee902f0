//! The daemon's clock: wall time for people, boot time for deadlines, and waiting.
//!
//! Boot time (`CLOCK_BOOTTIME`) goes on during a suspend and does not jump when somebody sets the
//! wall clock, so leases and budgets are kept in it. Everything that waits or measures takes a
//! [`Clock`], so that tests move a manual one and never sleep.
//!
//! Receives nothing; hands readings and waits to every module but the pure ones.

use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::time::Time;
use tokio::sync::watch;

/// A clock. Cheap to clone; clones of a manual clock move together.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System,
    Manual(Arc<watch::Sender<Duration>>),
}

/// Where a manual clock starts: 2026-01-01T00:00:00Z.
const MANUAL_EPOCH_MS: i64 = 1_767_225_600_000;

impl Clock {
    /// The machine's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands still until [`Clock::advance`] moves it.
    pub fn manual() -> Self {
        Self(Source::Manual(Arc::new(watch::Sender::new(Duration::from_secs(1_000)))))
    }

    /// Moves a manual clock; nothing happens to the machine's.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(now) = &self.0 {
            now.send_modify(|now| *now += by);
        }
    }

    /// Wall time.
    pub fn now(&self) -> Time {
        match &self.0 {
            Source::System => {
                let since_epoch = std::time::SystemTime::now()
                    .duration_since(std::time::UNIX_EPOCH)
                    .unwrap_or_default();
                Time::from_unix_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
            }
            Source::Manual(now) => {
                let millis = i64::try_from(now.borrow().as_millis()).unwrap_or(i64::MAX);
                Time::from_unix_millis(MANUAL_EPOCH_MS.saturating_add(millis))
            }
        }
    }

    /// Time since the machine started, suspends included, in milliseconds.
    pub fn boot_ms(&self) -> u64 {
        let since_boot = match &self.0 {
            Source::System => boot_time(),
            Source::Manual(now) => *now.borrow(),
        };
        u64::try_from(since_boot.as_millis()).unwrap_or(u64::MAX)
    }

    /// Waits. Dropping the future ends the wait.
    pub async fn sleep(&self, duration: Duration) {
        match &self.0 {
            Source::System => tokio::time::sleep(duration).await,
            Source::Manual(now) => {
                let mut now = now.subscribe();
                let until = *now.borrow() + duration;
                // The sender lives in `self`, so this only ends by reaching the time.
                let _ = now.wait_for(|now| *now >= until).await;
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}

#[cfg(not(target_os = "linux"))]
fn boot_time() -> Duration {
    // macOS: CLOCK_MONOTONIC goes on during sleep.
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or_default(),
        u32::try_from(time.tv_nsec).unwrap_or_default(),
    )
}
