//! One watcher's way through a session: replay from the log, the join, then live.
//!
//! ```text
//! replay ──(cursor meets the hub's head)──> join ──> live ──(fell behind)──> replay
//! ```
//!
//! Only what the hub has published is replayed, so that the cursor never runs ahead of the join.
//! Live entries that the cursor has passed are left out, and a gap before one is read from the
//! log; so every event comes exactly once, whatever was lost on the way.
//!
//! Invariants: *replay meets live once*. [`Subscription::next`] is cancel-safe: the cursor moves
//! only together with the lines that are ready, after the last wait of a step.
//!
//! Receives entries from a hub and pages from the store; hands lines to a connection.

use std::collections::VecDeque;
use std::time::Duration;

use agentd_protocol::progress::{Marker, Watchers};
use bytes::Bytes;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};

use super::{Shared, line};
use crate::clock::Clock;
use crate::fanout::{Entry, Join, Joined, Watch};
use crate::store::Error;

/// Events and bytes of one page of replay: small, so that a slow watcher holds little.
const PAGE: (usize, usize) = (256, 1 << 20);

/// Milliseconds between two messages about who watches: whoever comes and goes all the time is
/// told of as it is then.
const COMPANY_PAUSE_MS: u64 = 100;

/// How long to wait before a log that could not be read is read again.
const PAUSE: Duration = Duration::from_secs(1);

/// One watcher's way through a session: replay, join, live.
#[derive(Debug)]
pub struct Subscription {
    shared: Shared,
    watch: Watch,
    progress: bool,
    /// The last event that was handed on; `None` until the join, if nothing is replayed.
    cursor: Option<u64>,
    stage: Stage,
    ready: VecDeque<Bytes>,
    /// The last step failed, and that was said.
    failing: bool,
}

#[derive(Debug)]
enum Stage {
    /// Reading the log up to the hub's head.
    Replay,
    /// Joined, with events before the join still to be read.
    Joining(Box<Joined>),
    /// Receiving; `behind` is an event whose line has to be read, with all before it.
    Live { entries: broadcast::Receiver<Entry>, behind: Option<u64>, company: Company },
    /// The session was deleted.
    Ended,
}

/// Who else watches, as far as it was told.
#[derive(Debug)]
struct Company {
    watchers: watch::Receiver<Watchers>,
    told: Watchers,
    /// The next message about it comes no earlier, in boot time.
    not_before_ms: u64,
}

impl Company {
    fn new(mut watchers: watch::Receiver<Watchers>) -> Self {
        let told = watchers.borrow_and_update().clone();
        Self { watchers, told, not_before_ms: 0 }
    }

    /// Waits until somebody came or went. Cancel-safe.
    async fn changed(&mut self, clock: &Clock) -> Watchers {
        loop {
            let pause = self.not_before_ms.saturating_sub(clock.boot_ms());
            if pause > 0 {
                clock.sleep(Duration::from_millis(pause)).await;
            }
            if self.watchers.changed().await.is_err() {
                // The hub is gone, which the entries tell.
                std::future::pending::<()>().await;
            }
            let watchers = self.watchers.borrow_and_update().clone();
            if watchers != self.told {
                self.told = watchers.clone();
                self.not_before_ms = clock.boot_ms() + COMPANY_PAUSE_MS;
                return watchers;
            }
        }
    }
}

impl Subscription {
    pub(super) fn new(shared: Shared, watch: Watch, since: Option<u64>, progress: bool) -> Self {
        let (stage, ready) = (Stage::Replay, VecDeque::new());
        Self { shared, watch, progress, cursor: since, stage, ready, failing: false }
    }

    /// The next message: a whole JSON-RPC notification `session/event`, without framing. `None`
    /// when the session was deleted, after the marker that says so. Cancel-safe.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.ready.pop_front() {
                return Some(line);
            }
            if matches!(self.stage, Stage::Ended) {
                return None;
            }
            match self.step().await {
                Ok(()) => self.failing = false,
                Err(error) => self.failed(&error).await,
            }
        }
    }

    async fn step(&mut self) -> Result<(), Error> {
        match &mut self.stage {
            Stage::Ended => Ok(()),
            Stage::Replay => self.replay().await,
            Stage::Joining(joined) => {
                let head = joined.head;
                if self.read_log(head).await? {
                    self.joined();
                }
                Ok(())
            }
            Stage::Live { behind: Some(seq), .. } => {
                let seq = *seq;
                if self.read_log(seq).await?
                    && let Stage::Live { behind, .. } = &mut self.stage
                {
                    *behind = None;
                }
                Ok(())
            }
            Stage::Live { entries, behind: None, company } => {
                tokio::select! {
                    received = entries.recv() => self.received(received),
                    watchers = company.changed(self.shared.store.clock()), if self.progress => {
                        let marker = Marker::Watchers(watchers);
                        self.ready.push_back(line::of(self.watch.session_id(), &marker));
                    }
                }
                Ok(())
            }
        }
    }

    /// Reads the log until there is nothing between it and the hub, then joins.
    async fn replay(&mut self) -> Result<(), Error> {
        self.shared.seed(&self.watch).await?;
        if let (Some(cursor), Some(head)) = (self.cursor, self.watch.head())
            && cursor < head
        {
            self.read_log(head).await?;
            return Ok(());
        }
        match self.watch.join() {
            Join::Unseeded => {}
            Join::Closed => self.ended(),
            Join::Joined(joined) => {
                self.cursor.get_or_insert(joined.head);
                self.stage = Stage::Joining(Box::new(joined));
            }
        }
        Ok(())
    }

    /// Makes a page of the log ready; whether the cursor is at `until` now.
    async fn read_log(&mut self, until: u64) -> Result<bool, Error> {
        let cursor = self.cursor.unwrap_or(until);
        if cursor >= until {
            return Ok(true);
        }
        let session_id = self.watch.session_id();
        let page = self.shared.store.event_lines(session_id, (cursor, until), PAGE).await?;
        if page.is_empty() {
            return Err(Error::Inconsistent(format!("there is no event after {cursor}")));
        }
        for (seq, json) in page {
            self.ready.push_back(line::of_json(self.watch.session_id(), &json));
            self.cursor = Some(seq);
        }
        Ok(self.cursor == Some(until))
    }

    /// Replay has met live: says so and goes on live.
    fn joined(&mut self) {
        let Stage::Joining(joined) = std::mem::replace(&mut self.stage, Stage::Replay) else {
            return;
        };
        let Joined { head, session, in_flight, trouble, watchers, entries } = *joined;
        let (prompts, queue) = (session.prompts.clone(), session.queue.clone());
        let company = Company::new(watchers);
        let watchers = company.told.clone();
        let marker =
            Marker::Joined { head_seq: head, session, in_flight, prompts, queue, watchers };
        self.ready.push_back(line::of(self.watch.session_id(), &marker));
        self.ready.extend(trouble);
        self.stage = Stage::Live { entries, behind: None, company };
    }

    fn received(&mut self, received: Result<Entry, RecvError>) {
        match received {
            Ok(Entry::Event { seq, line }) => self.event(seq, line),
            Ok(Entry::Progress(line)) => {
                if self.progress {
                    self.ready.push_back(line);
                }
            }
            Ok(Entry::Marker(line)) => self.ready.push_back(line),
            Err(RecvError::Lagged(_)) => self.stage = Stage::Replay,
            Err(RecvError::Closed) => self.ended(),
        }
    }

    fn event(&mut self, seq: u64, line: Option<Bytes>) {
        let cursor = self.cursor.unwrap_or(0);
        if seq <= cursor {
            return;
        }
        match line {
            Some(line) if seq == cursor + 1 => {
                self.ready.push_back(line);
                self.cursor = Some(seq);
            }
            _ => {
                if let Stage::Live { behind, .. } = &mut self.stage {
                    *behind = Some(seq);
                }
            }
        }
    }

    fn ended(&mut self) {
        let marker = Marker::Closed { reason: "deleted".to_owned() };
        self.ready.push_back(line::of(self.watch.session_id(), &marker));
        self.stage = Stage::Ended;
    }

    /// The log could not be read: says so once, and tries again after a while.
    async fn failed(&mut self, error: &Error) {
        if matches!(error, Error::SessionNotFound(_)) {
            self.ended();
            return;
        }
        if self.failing {
            self.shared.store.clock().sleep(PAUSE).await;
            return;
        }
        self.failing = true;
        let marker = Marker::StoreFailed { cause: error.to_string() };
        self.ready.push_back(line::of(self.watch.session_id(), &marker));
    }
}
