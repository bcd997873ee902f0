//! All hubs, by session: made when needed, dropped when there is nothing to keep them for.
//!
//! A hub has its own mutex, so sessions do not wait for each other. One that was dropped from the
//! map while somebody was about to use it is marked as retired, and the map is asked again.
//!
//! Receives events and progress from `journal`; hands watches to subscriptions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentd_protocol::event::Event;
use agentd_protocol::id::SessionId;
use agentd_protocol::progress::{Progress, Watchers};
use agentd_protocol::session::Lease;

use super::hub::{Hub, Join, Line, Seed, Seeding};

type Shared = Arc<Mutex<Hub>>;

/// All hubs. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Hubs(Arc<Mutex<HashMap<SessionId, Shared>>>);

/// A hub whose state a panic left half done is still the best there is.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hubs {
    /// Runs `work` on the session's hub, which is made if `make` says so.
    fn with<R>(
        &self,
        session_id: &SessionId,
        make: bool,
        work: impl FnOnce(&mut Hub) -> R,
    ) -> Option<R> {
        loop {
            let hub = {
                let mut hubs = lock(&self.0);
                match hubs.get(session_id) {
                    Some(hub) => Arc::clone(hub),
                    None if make => {
                        let hub = Arc::new(Mutex::new(Hub::new()));
                        hubs.insert(session_id.clone(), Arc::clone(&hub));
                        hub
                    }
                    None => return None,
                }
            };
            let mut state = lock(&hub);
            if state.retired {
                continue;
            }
            let result = work(&mut state);
            let idle = state.is_idle();
            drop(state);
            if idle {
                self.retire(session_id, &hub);
            }
            return Some(result);
        }
    }

    /// Drops the hub if it is still idle.
    fn retire(&self, session_id: &SessionId, hub: &Shared) {
        let mut hubs = lock(&self.0);
        let mut state = lock(hub);
        if state.is_idle() && hubs.get(session_id).is_some_and(|known| Arc::ptr_eq(known, hub)) {
            state.retired = true;
            hubs.remove(session_id);
        }
    }

    /// Tells a committed event. `line` is asked only if somebody watches.
    pub fn publish(
        &self,
        session_id: &SessionId,
        event: &Event,
        line: impl FnOnce() -> Option<Line>,
    ) {
        self.with(session_id, false, |hub| hub.publish(event, line));
    }

    /// Tells the events of a transaction and who holds the session after it, all at one moment.
    /// The lines are asked only if somebody watches.
    pub fn commit<'a, L: FnOnce() -> Option<Line>>(
        &self,
        session_id: &SessionId,
        events: impl Iterator<Item = (&'a Event, L)>,
        lease: Option<&Lease>,
    ) {
        self.with(session_id, false, |hub| {
            for (event, line) in events {
                hub.publish(event, line);
            }
            hub.held_by(lease);
        });
    }

    /// Tells passing news. `line` is asked only if somebody watches.
    pub fn progress(
        &self,
        session_id: &SessionId,
        progress: &Progress,
        line: impl FnOnce() -> Line,
    ) {
        self.with(session_id, true, |hub| hub.progress(progress, line));
    }

    /// Says until the next event that the store cannot be written.
    pub fn trouble(&self, session_id: &SessionId, line: Line) {
        self.with(session_id, false, |hub| hub.trouble(line));
    }

    /// Says that another process runs the session.
    pub fn detach(&self, session_id: &SessionId, holder: Option<&Lease>, line: Line) {
        self.with(session_id, false, |hub| hub.detach(holder, line));
    }

    /// Says who watches the session.
    pub fn watched_by(&self, session_id: &SessionId, watchers: Watchers) {
        self.with(session_id, false, |hub| hub.watched_by(watchers));
    }

    /// Ends every watch of a session that was deleted.
    pub fn close(&self, session_id: &SessionId) {
        let hub = lock(&self.0).remove(session_id);
        if let Some(hub) = hub {
            let mut state = lock(&hub);
            state.retired = true;
            state.close();
        }
    }

    /// Whether anybody watches the session.
    pub fn is_watched(&self, session_id: &SessionId) -> bool {
        self.with(session_id, false, |hub| hub.is_watched()).unwrap_or(false)
    }

    /// The sessions that somebody watches, each with the number of its last event.
    pub fn watched(&self) -> Vec<(SessionId, u64)> {
        let hubs = lock(&self.0);
        let watched = hubs.iter().filter_map(|(session_id, hub)| {
            let hub = lock(hub);
            hub.head().filter(|_| hub.is_watched()).map(|head| (session_id.clone(), head))
        });
        watched.collect()
    }

    /// How many hubs there are.
    pub fn len(&self) -> usize {
        lock(&self.0).len()
    }

    /// Whether there is no hub.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Begins to watch. The hub stays while the watch lives.
    pub fn watch(&self, session_id: &SessionId) -> Watch {
        loop {
            let hub = Arc::clone(
                lock(&self.0)
                    .entry(session_id.clone())
                    .or_insert_with(|| Arc::new(Mutex::new(Hub::new()))),
            );
            let mut state = lock(&hub);
            if state.retired {
                continue;
            }
            state.enter();
            drop(state);
            return Watch { hubs: self.clone(), session_id: session_id.clone(), hub };
        }
    }
}

/// One watcher's hold on a hub; leaves it when dropped.
#[derive(Debug)]
pub struct Watch {
    hubs: Hubs,
    session_id: SessionId,
    hub: Shared,
}

impl Watch {
    /// The session.
    pub fn session_id(&self) -> &SessionId {
        &self.session_id
    }

    /// Whether the snapshot has to be read; events are kept for it from now on.
    pub fn begin_seeding(&self) -> bool {
        lock(&self.hub).begin_seeding()
    }

    /// Takes what was read after [`Watch::begin_seeding`].
    pub fn seed(&self, seed: Seed) -> Seeding {
        lock(&self.hub).seed(seed)
    }

    /// The number of the last event, where one is known.
    pub fn head(&self) -> Option<u64> {
        lock(&self.hub).head()
    }

    /// Joins: all that was published before is in what it returns, all after comes in its entries.
    pub fn join(&self) -> Join {
        lock(&self.hub).join()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let idle = {
            let mut state = lock(&self.hub);
            state.leave();
            state.is_idle()
        };
        if idle {
            self.hubs.retire(&self.session_id, &self.hub);
        }
    }
}
