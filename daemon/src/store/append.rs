//! One transaction of one session: fence, head check, rows, events, release.
//!
//! Everything is prepared before the transaction (numbers follow from the expected head, JSON is
//! made once), so that the writer thread only executes statements and can run them again.
//!
//! Invariants: *single writer*: nothing is written unless owner and epoch are in force. *Dense
//! numbering*: an event's number is one more than the last one's, checked inside the transaction.
//!
//! Receives appends from the store's handle; hands statements to the tables.

use agentd_protocol::event::Event;
use agentd_protocol::id::SessionId;

use rusqlite::Connection;

use super::error::Error;
use super::events::{self, Numbered};
use super::lease::{self, Terms};
use super::project::{Target, project};
use super::record::{Append, LeaseUse, Row};
use super::sessions::Moved;
use super::{files, items, sessions, submissions};

/// An append with its events numbered.
#[derive(Debug)]
pub(super) struct Prepared {
    pub session_id: SessionId,
    pub expected_head: u64,
    pub lease: LeaseUse,
    pub release: bool,
    pub events: Vec<Numbered>,
    pub rows: Vec<Row>,
}

impl Prepared {
    pub(super) fn new(append: Append) -> Result<Self, Error> {
        let Append { session_id, expected_head, lease, release, events, rows } = append;
        let events = (expected_head + 1..)
            .zip(events)
            .map(|(seq, mut new)| {
                events::date_session(&mut new.body, seq, new.time);
                let session_id = session_id.clone();
                let (turn_id, time, body) = (new.turn_id, new.time, new.body);
                Numbered::new(Event { seq, time, session_id, turn_id, body })
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { session_id, expected_head, lease, release, events, rows })
    }

    /// About how much will be written.
    pub(super) fn bytes(&self) -> usize {
        let rows = self.rows.iter().map(|row| match row {
            Row::Submission { .. } => 1_000,
            Row::Checkpoint { text, .. } => text.len() + 100,
            Row::FileSeen { path, .. } => path.len() + 100,
        });
        self.events.iter().map(Numbered::bytes).chain(rows).sum()
    }

    /// The session's last event after it.
    pub(super) fn head(&self) -> u64 {
        self.events.last().map_or(self.expected_head, |last| last.event().seq)
    }
}

/// Runs it; the epoch under which it was written.
pub(super) fn apply(
    conn: &Connection,
    prepared: &Prepared,
    terms: Terms<'_>,
) -> Result<u64, Error> {
    let (session, head) = sessions::find(conn, &prepared.session_id)?;
    let epoch = match prepared.lease {
        LeaseUse::Held { epoch } => {
            lease::fence(conn, session, terms.holder, epoch)?;
            epoch
        }
        LeaseUse::Take { by_force } => lease::take(conn, session, terms, by_force)?,
    };
    if head != prepared.expected_head {
        return Err(Error::HeadMoved { expected: prepared.expected_head, actual: head });
    }
    let target = Target { conn, session };
    for row in &prepared.rows {
        if let Row::Submission { params, digest, result } = row {
            submissions::accepted(target, params, digest, result)?;
        }
    }
    let mut moved = Moved::default();
    for numbered in &prepared.events {
        write(target, numbered, &mut moved)?;
    }
    for row in &prepared.rows {
        match row {
            Row::Submission { .. } => {}
            Row::Checkpoint { item_id, attempt, kind, offset, text } => {
                items::checkpoint(target, item_id, *attempt, (*kind, *offset, text))?;
            }
            Row::FileSeen { path, sha256 } => files::seen(target, path, sha256)?,
        }
    }
    moved.write(target)?;
    if prepared.release {
        lease::release(conn, session, terms.holder, epoch)?;
    }
    Ok(epoch)
}

/// Writes one event and what follows from it, but for what `moved` writes of all.
pub(super) fn write(
    target: Target<'_>,
    numbered: &Numbered,
    moved: &mut Moved,
) -> Result<(), Error> {
    let event = numbered.event();
    moved.by(event);
    let item = match (event.body.item(), numbered.item_json()) {
        (Some(item), Some(json)) => Some(items::completed(target, item, json)?),
        _ => None,
    };
    events::insert(target, numbered, item)?;
    project(target, event)
}
