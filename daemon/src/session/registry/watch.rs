//! Watching a session.
//!
//! Receives `session/subscribe`; hands the connection a subscription that its session knows of.

use std::sync::Arc;

use agentd_protocol::daemon::Role;
use agentd_protocol::id::SessionId;
use agentd_protocol::session::SubscribeParams;
use bytes::Bytes;

use super::Registry;
use crate::journal::{SubscribeError, Subscription};
use crate::session::services::Services;
use crate::session::{Caller, Error};

/// A subscription that its session knows of.
#[derive(Debug)]
pub struct Watch {
    subscription: Subscription,
    services: Arc<Services>,
    session_id: SessionId,
    connection: u64,
}

impl Watch {
    /// The next message: a whole JSON-RPC notification `session/event`, without framing. `None`
    /// when the session was deleted. Cancel-safe.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.subscription.next().await
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.services.watchers.remove(&self.session_id, self.connection);
    }
}

impl Registry {
    /// Watches a session. `role` says whether the watcher could answer prompts; it counts as
    /// watching until the [`Watch`] is dropped.
    pub async fn subscribe(
        &self,
        caller: &Caller,
        role: Role,
        params: SubscribeParams,
    ) -> Result<Watch, Error> {
        let SubscribeParams { session_id, since, progress } = params;
        let services = &self.0.services;
        let subscription =
            services.journal.subscribe(&session_id, since, progress.unwrap_or(true)).await;
        let subscription = subscription.map_err(|error| match error {
            SubscribeError::CursorAhead { head } => Error::CursorAhead { head },
            SubscribeError::Store(error) => Error::from_store(error),
        })?;
        services.watchers.add(&session_id, caller, role);
        Ok(Watch {
            subscription,
            services: Arc::clone(services),
            session_id,
            connection: caller.connection,
        })
    }
}
