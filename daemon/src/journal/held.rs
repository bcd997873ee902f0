//! Which sessions this daemon runs, as far as its own commits say. Kept where the database is
//! shared, so that watchers hear of a lost lease once, and before what the new holder writes.
//!
//! Receives the lease of each commit; tells `follow` and the journal whose a session is.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentd_protocol::id::SessionId;
use agentd_protocol::session::Lease;

/// The sessions, each with the epoch of our lease.
#[derive(Debug, Clone, Default)]
pub(super) struct Held(Arc<Mutex<HashMap<SessionId, u64>>>);

impl Held {
    fn map(&self) -> MutexGuard<'_, HashMap<SessionId, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A commit of ours left the session with this lease, or with none.
    pub(super) fn committed(&self, session_id: &SessionId, lease: Option<&Lease>) {
        match lease {
            Some(lease) => self.map().insert(session_id.clone(), lease.epoch),
            None => self.map().remove(session_id),
        };
    }

    /// The session is not ours any more; whether it was until now.
    pub(super) fn lose(&self, session_id: &SessionId) -> bool {
        self.map().remove(session_id).is_some()
    }

    /// The epoch under which the session is ours.
    pub(super) fn epoch(&self, session_id: &SessionId) -> Option<u64> {
        self.map().get(session_id).copied()
    }
}
