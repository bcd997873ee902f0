//! What a handler may know of the connection it answers.
//!
//! Receives the handshake; hands callers, roles and the outbound queue to `handlers` and
//! `dispatch`.

use std::sync::OnceLock;

use agentd_protocol::daemon::{ClientInfo, Role};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::rpc::outbound::Outbound;
use crate::rpc::subscriptions::Subscriptions;
use crate::session::Caller;

/// A connection.
#[derive(Debug)]
pub struct Context {
    /// Its number, unique while the daemon runs.
    pub connection: u64,
    /// What leaves it.
    pub outbound: Outbound,
    /// What it watches.
    pub subscriptions: Subscriptions,
    /// Its calls; the connection waits for them at its end.
    pub calls: TaskTracker,
    /// The tasks that pass on what it watches; likewise.
    pub forwarders: TaskTracker,
    /// Cancelled when calls have waited long enough.
    pub abandon: CancellationToken,
    /// Cancelled when both directions are closed.
    pub gone: CancellationToken,
    identity: OnceLock<(ClientInfo, Role)>,
}

impl Context {
    /// A connection whose client has not said who it is.
    pub fn new(connection: u64, outbound: Outbound, gone: CancellationToken) -> Self {
        Self {
            connection,
            outbound,
            subscriptions: Subscriptions::default(),
            calls: TaskTracker::new(),
            forwarders: TaskTracker::new(),
            abandon: CancellationToken::new(),
            gone,
            identity: OnceLock::new(),
        }
    }

    /// Notes who the client is; false if it was said before.
    pub fn identify(&self, client: ClientInfo, role: Role) -> bool {
        self.identity.set((client, role)).is_ok()
    }

    /// What the connection may do.
    pub fn role(&self) -> Role {
        self.identity.get().map_or_else(Role::default, |(_, role)| *role)
    }

    /// Who calls.
    pub fn caller(&self) -> Caller {
        Caller {
            client: self.identity.get().map(|(client, _)| client.clone()).unwrap_or_default(),
            connection: self.connection,
            gone: self.gone.clone(),
        }
    }
}
