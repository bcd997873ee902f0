//! One session's hub: its state and the critical sections over it.
//!
//! The session's snapshot is known only while somebody watches. It is read from the store while
//! events go on, so the hub keeps those that come meanwhile and folds them over what was read.
//!
//! Invariants: `head` never falls; a snapshot is as of `head`; every entry of the ring stands
//! where it was published.
//!
//! Receives events and progress from `hubs.rs`; hands entries to the ring and joins to watchers.

use agentd_protocol::event::Event;
use agentd_protocol::id::CallId;
use agentd_protocol::progress::{InFlight, InFlightItem, Progress, Watchers};
use agentd_protocol::session::{Lease, Session};
use agentd_protocol::view::in_flight;
use agentd_protocol::view::session::apply;
use bytes::Bytes;
use tokio::sync::{broadcast, watch};

/// Entries of a ring: some seconds of a fast stream. A watcher that is further behind reads the
/// log.
const RING_ENTRIES: usize = 256;
/// Events kept while a snapshot is read. Beyond it the snapshot is read again.
const PENDING_EVENTS: usize = 256;

/// A notification, whole but for its framing.
pub type Line = Bytes;

/// What goes through a ring.
#[derive(Debug, Clone)]
pub enum Entry {
    /// A committed event; a large one without its line, which is then read from the log.
    Event {
        /// Its number.
        seq: u64,
        /// Its line.
        line: Option<Line>,
    },
    /// Passing news.
    Progress(Line),
    /// Where the subscription stands.
    Marker(Line),
}

/// What the store knows about a session at a moment.
#[derive(Debug)]
pub struct Seed {
    /// The session; `head_seq` is the moment.
    pub session: Session,
    /// The item that streams, as far as it was kept.
    pub streaming: Option<InFlightItem>,
    /// Calls that started and have no result.
    pub running_calls: Vec<CallId>,
}

/// Whether a snapshot is known now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seeding {
    /// It is.
    Done,
    /// The seed was too old: read it again.
    Again,
}

/// What a joiner gets, all as of one moment.
#[derive(Debug)]
pub struct Joined {
    /// The number of the last event.
    pub head: u64,
    /// The session as of it.
    pub session: Box<Session>,
    /// Text and output that no event holds yet.
    pub in_flight: InFlight,
    /// The marker that says the store cannot be written, while that is so.
    pub trouble: Option<Line>,
    /// Who watches; only the last state, since nobody needs those between.
    pub watchers: watch::Receiver<Watchers>,
    /// All that is published from now on.
    pub entries: broadcast::Receiver<Entry>,
}

/// An attempt to join.
#[derive(Debug)]
pub enum Join {
    /// It worked.
    Joined(Joined),
    /// The snapshot is not known: seed first.
    Unseeded,
    /// The session was deleted.
    Closed,
}

/// The session's snapshot.
#[derive(Debug)]
enum Known {
    No,
    /// It is being read.
    Reading(Meanwhile),
    Yes(Box<Session>),
}

/// What came while a snapshot was read.
#[derive(Debug, Default)]
struct Meanwhile {
    events: Vec<Event>,
    held: Held,
}

/// What a commit said of the session's lease.
#[derive(Debug, Default)]
enum Held {
    /// There was no commit.
    #[default]
    Unsaid,
    /// Who holds it after the last one.
    By(Option<Lease>),
}

/// A hub's state, behind its mutex.
#[derive(Debug)]
pub(super) struct Hub {
    head: Option<u64>,
    known: Known,
    in_flight: InFlight,
    trouble: Option<Line>,
    ring: Option<broadcast::Sender<Entry>>,
    watches: usize,
    watchers: watch::Sender<Watchers>,
    closed: bool,
    /// It left the map: whoever still has it looks there again.
    pub(super) retired: bool,
}

impl Hub {
    pub(super) fn new() -> Self {
        Self {
            head: None,
            known: Known::No,
            in_flight: InFlight::default(),
            trouble: None,
            ring: None,
            watches: 0,
            watchers: watch::Sender::default(),
            closed: false,
            retired: false,
        }
    }

    /// A committed event. One that is known already, from the log, changes nothing.
    pub(super) fn publish(&mut self, event: &Event, line: impl FnOnce() -> Option<Line>) {
        let seq = event.seq;
        if self.head.is_some_and(|head| seq <= head) {
            return;
        }
        // Another process wrote what is missing; the log has it.
        let hole = self.head.is_some_and(|head| seq > head + 1);
        self.head = Some(seq);
        self.trouble = None;
        in_flight::settle(&mut self.in_flight, event);
        match &mut self.known {
            Known::No => {}
            Known::Reading(_) | Known::Yes(_) if hole => self.known = Known::No,
            Known::Reading(Meanwhile { events, .. }) if events.len() == PENDING_EVENTS => {
                self.known = Known::No;
            }
            Known::Reading(Meanwhile { events, .. }) => events.push(event.clone()),
            Known::Yes(session) => apply(session, event),
        }
        if self.ring.is_some() {
            self.send(Entry::Event { seq, line: line() });
        }
    }

    /// Who holds the session.
    pub(super) fn held_by(&mut self, lease: Option<&Lease>) {
        match &mut self.known {
            Known::No => {}
            Known::Reading(meanwhile) => meanwhile.held = Held::By(lease.cloned()),
            Known::Yes(session) => session.lease = lease.cloned(),
        }
    }

    /// Passing news.
    pub(super) fn progress(&mut self, progress: &Progress, line: impl FnOnce() -> Line) {
        in_flight::extend(&mut self.in_flight, progress);
        if self.ring.is_some() {
            self.send(Entry::Progress(line()));
        }
    }

    /// A marker for all who watch.
    pub(super) fn mark(&mut self, line: Line) {
        self.send(Entry::Marker(line));
    }

    fn send(&self, entry: Entry) {
        if let Some(ring) = &self.ring {
            // Nobody listens between two joins of the only watcher.
            let _ = ring.send(entry);
        }
    }

    /// As [`Hub::mark`], and for all who join until the next event. It is said once.
    pub(super) fn trouble(&mut self, line: Line) {
        if self.trouble.as_ref() == Some(&line) {
            return;
        }
        self.trouble = Some(line.clone());
        self.mark(line);
    }

    /// Another process runs the session: what was in flight here ends here.
    pub(super) fn detach(&mut self, holder: Option<&Lease>, line: Line) {
        self.in_flight = InFlight::default();
        self.held_by(holder);
        self.mark(line);
    }

    /// The session was deleted.
    pub(super) fn close(&mut self) {
        self.in_flight = InFlight::default();
        self.closed = true;
        self.ring = None;
    }

    pub(super) fn watched_by(&mut self, watchers: Watchers) {
        self.watchers.send_replace(watchers);
    }

    pub(super) fn enter(&mut self) {
        self.watches += 1;
    }

    pub(super) fn leave(&mut self) {
        self.watches -= 1;
        if self.watches == 0 {
            self.ring = None;
            self.known = Known::No;
        }
    }

    pub(super) fn is_watched(&self) -> bool {
        self.watches > 0
    }

    /// Whether there is nothing to keep it for.
    pub(super) fn is_idle(&self) -> bool {
        self.watches == 0 && self.in_flight == InFlight::default()
    }

    pub(super) fn head(&self) -> Option<u64> {
        self.head
    }

    /// Whether a seed is needed; events are kept for it from now on.
    pub(super) fn begin_seeding(&mut self) -> bool {
        match self.known {
            Known::Yes(_) => false,
            Known::Reading(_) => true,
            Known::No => {
                self.known = Known::Reading(Meanwhile::default());
                true
            }
        }
    }

    /// Takes what the store knew at a moment after [`Hub::begin_seeding`].
    pub(super) fn seed(&mut self, seed: Seed) -> Seeding {
        let Seed { mut session, streaming, running_calls } = seed;
        let Meanwhile { events, held } = match std::mem::replace(&mut self.known, Known::No) {
            Known::Yes(known) => {
                self.known = Known::Yes(known);
                return Seeding::Done;
            }
            Known::Reading(meanwhile) => meanwhile,
            Known::No => Meanwhile::default(),
        };
        let read_at = session.head_seq;
        if let Held::By(lease) = held
            && self.head.is_some_and(|head| head >= read_at)
        {
            session.lease = lease;
        }
        match self.head {
            Some(head) if head > read_at => {
                if events.first().is_none_or(|first| first.seq > read_at + 1) {
                    return Seeding::Again;
                }
                for event in &events {
                    apply(&mut session, event);
                }
            }
            Some(head) if head == read_at => {
                let item = &mut self.in_flight.item;
                *item = item.take().or(streaming.filter(has_text));
            }
            _ => {
                // These events are committed and about to be published: they count already, and
                // who is live reads them from the log.
                self.head = Some(read_at);
                self.send(Entry::Event { seq: read_at, line: None });
                let ours = self.in_flight.item.take();
                self.in_flight.item = streaming.and_then(|kept| match ours {
                    Some(ours) if is_attempt_of(&ours, &kept) => Some(ours),
                    _ => Some(kept).filter(has_text),
                });
                self.in_flight.tools.retain(|tool| running_calls.contains(&tool.call_id));
            }
        }
        self.known = Known::Yes(Box::new(session));
        Seeding::Done
    }

    pub(super) fn join(&mut self) -> Join {
        if self.closed {
            return Join::Closed;
        }
        let (Known::Yes(session), Some(head)) = (&self.known, self.head) else {
            return Join::Unseeded;
        };
        let ring = self.ring.get_or_insert_with(|| broadcast::channel(RING_ENTRIES).0);
        Join::Joined(Joined {
            head,
            session: session.clone(),
            in_flight: self.in_flight.clone(),
            trouble: self.trouble.clone(),
            watchers: self.watchers.subscribe(),
            entries: ring.subscribe(),
        })
    }
}

fn has_text(item: &InFlightItem) -> bool {
    !item.text.is_empty() || !item.reasoning.is_empty()
}

fn is_attempt_of(ours: &InFlightItem, kept: &InFlightItem) -> bool {
    (&ours.item_id, ours.attempt) == (&kept.item_id, kept.attempt)
}
