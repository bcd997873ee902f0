//! Tells a service manager how far the daemon is. Without one, nothing happens.
//!
//! Receives the stages from `boot`; hands them to systemd's socket.

use sd_notify::NotifyState;

/// Connections are accepted.
pub fn ready() {
    send(&[NotifyState::Ready]);
}

/// No new work is taken.
pub fn stopping() {
    send(&[NotifyState::Stopping]);
}

fn send(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(false, state) {
        tracing::warn!(%error, "the service manager could not be told");
    }
}
