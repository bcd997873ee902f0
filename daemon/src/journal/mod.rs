//! The journal: what happened, committed and then told.
//!
//! An append is published on the writer's thread, after its commit and before its caller hears of
//! it, so a client that has an answer has been told all that led to it, and two appends are told
//! in the order of their commits. Passing news goes to the hub alone.
//!
//! Invariants: *durable before visible*; *replay meets live once* (`subscription`).
//!
//! Receives appends and progress from `session`; hands them to `store` and to `fanout`.

mod follow;
mod held;
mod line;
mod subscription;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use agentd_protocol::id::SessionId;
use agentd_protocol::progress::{DetachReason, Marker, Progress, Watchers};
use agentd_protocol::session::Lease;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

pub use subscription::Subscription;

use self::held::Held;
use crate::fanout::{Hubs, Seed, Seeding, Watch};
use crate::store::{Append, Appended, Committed, Error, Store};

/// The journal. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Journal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shared: Shared,
    /// Follows what other processes write, where the database is shared.
    follower: Option<AbortHandle>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(follower) = &self.follower {
            follower.abort();
        }
    }
}

/// What appends and subscriptions work with.
#[derive(Debug, Clone)]
struct Shared {
    store: Store,
    hubs: Hubs,
    /// Somebody began to watch.
    watched: Arc<Notify>,
    /// What is ours, where the store is shared.
    held: Option<Held>,
}

impl Shared {
    /// The session was ours and is another process's now.
    fn detached(&self, session_id: &SessionId, holder: Option<Lease>) {
        if self.held.as_ref().is_some_and(|held| held.lose(session_id)) {
            let lease = holder.clone();
            let marker = Marker::Detached { reason: DetachReason::LeaseLost, holder };
            let line = line::of(session_id, &marker);
            self.hubs.detach(session_id, lease.as_ref(), line);
        }
    }

    /// Makes the hub know the session.
    async fn seed(&self, watch: &Watch) -> Result<(), Error> {
        while watch.begin_seeding() {
            let snapshot = self.store.snapshot(watch.session_id()).await?;
            let seed = Seed {
                session: snapshot.session,
                streaming: snapshot.streaming,
                running_calls: snapshot.running_calls,
            };
            if watch.seed(seed) == Seeding::Done {
                break;
            }
        }
        Ok(())
    }
}

impl Journal {
    /// A journal over this store. Where the store is shared, this must be called in a runtime.
    pub fn new(store: Store) -> Self {
        let held = store.is_shared().then(Held::default);
        let (hubs, watched) = (Hubs::default(), Arc::new(Notify::new()));
        let shared = Shared { store, hubs, watched, held };
        let follower = shared
            .store
            .is_shared()
            .then(|| tokio::spawn(follow::others(shared.clone())).abort_handle());
        Self(Arc::new(Inner { shared, follower }))
    }

    /// Commits, publishes to the session's watchers, then returns. Once called it is carried out,
    /// also if the future is dropped.
    pub async fn append(&self, append: Append) -> Result<Appended, Error> {
        let (hubs, held) = (self.0.shared.hubs.clone(), self.0.shared.held.clone());
        let session_id = append.session_id.clone();
        let publish = move |committed: Committed<'_>| {
            let lined = |numbered| move || line::of_event(numbered);
            let events = committed.events.iter().map(|event| (event.event(), lined(event)));
            hubs.commit(&session_id, events, committed.lease);
            if let Some(held) = held {
                held.committed(&session_id, committed.lease);
            }
        };
        self.0.shared.store.append_then(append, publish).await
    }

    /// Tells watchers passing news and adds it to what is in flight. What is in flight is emptied
    /// by the events that make it so: an item that completes or is reset, a tool that completes.
    ///
    /// A lost session has none: its watchers follow another daemon.
    pub fn progress(&self, session_id: &SessionId, progress: Progress) {
        if self.0.shared.held.as_ref().is_some_and(|held| held.epoch(session_id).is_none()) {
            return;
        }
        for piece in line::pieces(session_id, progress) {
            self.0.shared.hubs.progress(session_id, &piece, || line::of(session_id, &piece));
        }
    }

    /// Tells watchers that another process runs the session now, unless they know or it was never
    /// ours, and forgets what is in flight.
    pub fn detached(&self, session_id: &SessionId, holder: Option<Lease>) {
        self.0.shared.detached(session_id, holder);
    }

    /// Gives the session's lease back; nothing happens if it is no longer ours.
    pub async fn release(&self, session_id: &SessionId, epoch: u64) -> Result<(), Error> {
        if let Some(held) = &self.0.shared.held {
            held.committed(session_id, None);
        }
        self.0.shared.store.release_lease(session_id, epoch).await
    }

    /// Tells watchers that the store cannot be written, and those who join until it can.
    pub fn store_failed(&self, session_id: &SessionId, cause: &str) {
        let marker = Marker::StoreFailed { cause: cause.to_owned() };
        self.0.shared.hubs.trouble(session_id, line::of(session_id, &marker));
    }

    /// Ends every subscription of a session that was deleted.
    pub fn deleted(&self, session_id: &SessionId) {
        self.0.shared.hubs.close(session_id);
    }

    /// Tells all who watch the session who they are.
    pub fn watched_by(&self, session_id: &SessionId, watchers: Watchers) {
        self.0.shared.hubs.watched_by(session_id, watchers);
    }

    /// Whether anybody watches the session.
    pub fn is_watched(&self, session_id: &SessionId) -> bool {
        self.0.shared.hubs.is_watched(session_id)
    }

    /// Watches a session. `Err` is [`SubscribeError::CursorAhead`] for a `since` past the head.
    pub async fn subscribe(
        &self,
        session_id: &SessionId,
        since: Option<u64>,
        progress: bool,
    ) -> Result<Subscription, SubscribeError> {
        let shared = self.0.shared.clone();
        let watch = shared.hubs.watch(session_id);
        shared.seed(&watch).await?;
        // Not before: what is followed is the log after a known head.
        shared.watched.notify_one();
        let is_ahead = || since > watch.head();
        if is_ahead() {
            // What is committed may not be published yet, or be another process's.
            follow::session(&shared, session_id, watch.head().unwrap_or(0)).await?;
        }
        if is_ahead() {
            return Err(SubscribeError::CursorAhead { head: watch.head().unwrap_or(0) });
        }
        Ok(Subscription::new(shared, watch, since, progress))
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
