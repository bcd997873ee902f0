//! The journal: what happened, committed and then told.
//!
//! Receives appends from `session`; hands them to `store` and then to `fanout`.

use agentd_protocol::id::SessionId;
use agentd_protocol::progress::Progress;
use agentd_protocol::session::Lease;
use bytes::Bytes;

use crate::store::{Append, Appended, Error, Store};

/// The journal. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Journal {}

impl Journal {
    /// A journal over this store.
    pub fn new(_store: Store) -> Self {
        unimplemented!()
    }

    /// Commits, publishes to the session's watchers, then returns.
    pub async fn append(&self, _append: Append) -> Result<Appended, Error> {
        unimplemented!()
    }

    /// Tells watchers passing news and adds it to what is in flight. What is in flight is emptied
    /// by the events that make it so: an item that completes or is reset, a tool that completes.
    pub fn progress(&self, _session_id: &SessionId, _progress: Progress) {
        unimplemented!()
    }

    /// Tells watchers that another process runs the session now, and forgets what is in flight.
    pub fn detached(&self, _session_id: &SessionId, _holder: Option<Lease>) {
        unimplemented!()
    }

    /// Tells watchers that the store cannot be written.
    pub fn store_failed(&self, _session_id: &SessionId, _cause: &str) {
        unimplemented!()
    }

    /// Ends every subscription of a session that was deleted.
    pub fn deleted(&self, _session_id: &SessionId) {
        unimplemented!()
    }

    /// Whether anybody watches the session.
    pub fn is_watched(&self, _session_id: &SessionId) -> bool {
        unimplemented!()
    }

    /// Watches a session. `Err` is [`SubscribeError::CursorAhead`] for a `since` past the head.
    pub async fn subscribe(
        &self,
        _session_id: &SessionId,
        _since: Option<u64>,
        _progress: bool,
    ) -> Result<Subscription, SubscribeError> {
        unimplemented!()
    }
}

/// Why a session cannot be watched from there.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SubscribeError {
    /// `since` is past the last event.
    #[error("the session's last event is {head}")]
    CursorAhead {
        /// The last event.
        head: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
}

/// One watcher's way through a session: replay, join, live.
#[derive(Debug)]
pub struct Subscription {}

impl Subscription {
    /// The next message: a whole JSON-RPC notification `session/event`, without framing. `None`
    /// when the session was deleted. Cancel-safe.
    pub async fn next(&mut self) -> Option<Bytes> {
        unimplemented!()
    }
}
