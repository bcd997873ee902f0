//! The session's lease, as its actor keeps it.
//!
//! It is taken with the first write and given back with the one that leaves the session at rest;
//! between them it is renewed every third of its life. No row is loss; an error or a delay is
//! tried again.
//!
//! Receives timers; hands the store renewals.

use std::time::Duration;

use agentd_protocol::session::Lease;
use futures_util::FutureExt;

use super::actor::Actor;
use super::timers::Timer;
use crate::store::Error;

/// The shortest wait between two renewals.
const SHORTEST: Duration = Duration::from_millis(100);

impl Actor {
    /// The lease of another process, as of the last look.
    pub(super) fn rival(&self) -> Option<&Lease> {
        self.state.session.lease.as_ref().filter(|_| self.state.epoch.is_none())
    }

    fn lease_ttl(&self) -> Duration {
        self.services.config.current().daemon.lease_ttl
    }

    /// The lease was just taken or renewed.
    pub(super) fn lease_renewed(&mut self) {
        let ttl = self.lease_ttl();
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX);
        self.lease_until_ms = self.services.clock.boot_ms().saturating_add(ttl_ms);
        self.timers.set(Timer::Renew, (ttl / 3).max(SHORTEST));
    }

    /// Starts the lease's renewal: a store that is slow does not hold up a turn.
    pub(super) fn start_renewal(&mut self) {
        let (Some(epoch), None) = (self.state.epoch, &self.renewing) else { return };
        let (store, session_id) = (self.services.store.clone(), self.session_id.clone());
        let renewal = async move { store.renew_lease(&session_id, epoch).await };
        self.renewing = Some(renewal.boxed());
    }

    /// Renews the lease and waits for it.
    pub(super) async fn renew_lease(&mut self) {
        let Some(epoch) = self.state.epoch else { return };
        let result = self.services.store.renew_lease(&self.session_id, epoch).await;
        self.renewed(result).await;
    }

    /// A renewal is over; a lost lease ends all work.
    pub(super) async fn renewed(&mut self, result: Result<(), Error>) {
        if self.state.epoch.is_none() {
            // Given back meanwhile.
            return;
        }
        match result {
            Ok(()) => self.lease_renewed(),
            Err(Error::LeaseLost) => Box::pin(self.lose_lease()).await,
            Err(error) => {
                tracing::warn!(session = %self.session_id, %error, "the lease was not renewed");
                self.timers.set(Timer::Renew, SHORTEST);
            }
        }
    }
}
