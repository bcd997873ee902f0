//! Who watches which session through this daemon.
//!
//! Two things want to know: a question for permission, which is worth asking only where somebody
//! could answer, and the watchers themselves, who see each other.
//!
//! Invariants: a connection counts once, also while its second subscription replaces the first;
//! what is told of a session is told in the order in which it became so.
//!
//! Receives connections that begin and end to watch; hands the company they are in to `journal`.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use agentd_protocol::daemon::Role;
use agentd_protocol::id::SessionId;
use agentd_protocol::progress::{Watchers as Company, WatchingClient};

use crate::journal::Journal;
use crate::session::Caller;

/// Names that are told: nobody reads more, and a message stays small.
const MAX_NAMES: usize = 16;
/// Characters of a name, which is whatever a client says.
const MAX_NAME_CHARS: usize = 64;

/// All watchers, by session and connection.
#[derive(Debug)]
pub struct Watchers {
    journal: Journal,
    watching: Mutex<Watching>,
}

type Watching = BTreeMap<(SessionId, u64), Watcher>;

#[derive(Debug)]
struct Watcher {
    name: String,
    role: Role,
    /// Its subscriptions: one, or two while the second replaces the first.
    subscriptions: usize,
}

impl Watchers {
    pub(super) fn new(journal: Journal) -> Self {
        Self { journal, watching: Mutex::default() }
    }

    pub(super) fn add(&self, session_id: &SessionId, caller: &Caller, role: Role) {
        let mut watching = self.lock();
        let key = (session_id.clone(), caller.connection);
        let watcher = watching.entry(key).or_insert_with(|| Watcher {
            name: caller.client.name.chars().take(MAX_NAME_CHARS).collect(),
            role,
            subscriptions: 0,
        });
        watcher.subscriptions += 1;
        if watcher.subscriptions == 1 {
            self.tell(session_id, &watching);
        }
    }

    pub(super) fn remove(&self, session_id: &SessionId, connection: u64) {
        let mut watching = self.lock();
        let key = (session_id.clone(), connection);
        let Some(watcher) = watching.get_mut(&key) else { return };
        watcher.subscriptions -= 1;
        if watcher.subscriptions == 0 {
            watching.remove(&key);
            self.tell(session_id, &watching);
        }
    }

    /// Whether a controller watches, other than `connection` if one is named.
    pub(super) fn has_other(&self, session_id: &SessionId, connection: Option<u64>) -> bool {
        of(session_id, &self.lock())
            .any(|(number, watcher)| Some(number) != connection && watcher.role == Role::Controller)
    }

    /// Under the lock, so that of two changes the later one is told last.
    fn tell(&self, session_id: &SessionId, watching: &Watching) {
        self.journal.watched_by(session_id, company(session_id, watching));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Watching> {
        self.watching.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of<'a>(
    session_id: &'a SessionId,
    watching: &'a Watching,
) -> impl Iterator<Item = (u64, &'a Watcher)> {
    watching
        .range((session_id.clone(), 0)..)
        .take_while(move |((watched, _), _)| watched == session_id)
        .map(|((_, connection), watcher)| (*connection, watcher))
}

fn company(session_id: &SessionId, watching: &Watching) -> Company {
    let mut names: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, watcher) in of(session_id, watching) {
        *names.entry(&watcher.name).or_default() += 1;
    }
    let count = names.values().sum();
    let clients = names.into_iter().take(MAX_NAMES);
    let clients = clients.map(|(name, count)| WatchingClient { name: name.to_owned(), count });
    Company { count, clients: clients.collect() }
}
