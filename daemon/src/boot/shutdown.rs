//! Why the daemon stops, and how it stops in order.
//!
//! ```text
//! signal, daemon/shutdown, or nothing to do for idle_exit
//!    -> no new connections, the socket's name is gone, the service manager is told
//!    -> no new turns; those that run end, or are aborted when their time is up (a second signal
//!       says that it is up now); connections are served meanwhile, for replies and interrupts
//!    -> connections get what is committed, and end
//! ```
//!
//! Receives signals and requests; hands the order of the end to `boot`.

use std::future::pending;
use std::io;
use std::time::Duration;

use agentd_protocol::daemon::ShutdownMode;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::session::registry::Registry;

/// The signals that concern the daemon.
#[derive(Debug)]
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    /// Takes the signals over. To be called inside the runtime.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            // A terminal that closes does not end the daemon. It is handled rather than ignored,
            // since an ignored signal would be so in the tools too.
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// The next request to stop.
    pub async fn stop(&mut self) {
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return,
                _ = self.interrupt.recv() => return,
                _ = self.hang_up.recv() => tracing::debug!("a hang-up is no reason to stop"),
            }
        }
    }
}

/// Waits for a reason to stop; tells how.
pub async fn reason(
    signals: &mut Signals,
    requested: &mut watch::Receiver<Option<ShutdownMode>>,
    idle: impl Future<Output = ()>,
) -> ShutdownMode {
    tokio::select! {
        () = signals.stop() => {
            tracing::info!("stopping: a signal came");
            ShutdownMode::Drain
        }
        mode = request(requested) => {
            tracing::info!(?mode, "stopping: a client asked for it");
            mode
        }
        () = idle => {
            tracing::info!("stopping: there was nothing to do");
            ShutdownMode::Drain
        }
    }
}

async fn request(requested: &mut watch::Receiver<Option<ShutdownMode>>) -> ShutdownMode {
    match requested.wait_for(Option::is_some).await.map(|mode| *mode) {
        Ok(Some(mode)) => mode,
        // Nobody is left who could ask.
        Ok(None) | Err(_) => pending().await,
    }
}

/// Ends when nobody was connected for `idle_exit` and neither a turn nor a background command runs;
/// never without one.
pub async fn idle(
    idle_exit: Option<Duration>,
    mut connections: watch::Receiver<usize>,
    registry: &Registry,
) {
    let Some(idle_exit) = idle_exit else { return pending().await };
    loop {
        if connections.wait_for(|count| *count == 0).await.is_err() {
            return pending().await;
        }
        tokio::select! {
            _ = connections.changed() => continue,
            () = tokio::time::sleep(idle_exit) => {}
        }
        match registry.counts().await {
            Ok(counts) if counts.turns_running == 0 && !registry.has_background() => return,
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "it is not known whether turns run"),
        }
    }
}

/// Ends every turn. A signal or a request for `now` while it waits aborts those that still run.
pub async fn drain(
    mode: ShutdownMode,
    registry: &Registry,
    signals: &mut Signals,
    requested: &mut watch::Receiver<Option<ShutdownMode>>,
) {
    // A client's request has begun it already.
    if requested.borrow().is_none() {
        registry.start_draining(mode);
    }
    let mut done = std::pin::pin!(registry.shutdown());
    if mode == ShutdownMode::Drain {
        tokio::select! {
            () = &mut done => return,
            () = signals.stop() => {
                registry.start_draining(ShutdownMode::Now);
            }
            _ = requested.wait_for(|mode| *mode == Some(ShutdownMode::Now)) => {}
        }
        tracing::info!("aborting the turns that still run");
    }
    done.await;
}
