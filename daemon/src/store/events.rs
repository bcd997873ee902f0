//! The event log: numbered events as JSON, written once and read in pages.
//!
//! An event's JSON is made once, before its transaction. What is stored is its body; an item in it
//! is stored in `items` only and put back when the event is read, so that a replayed event is byte
//! for byte the one that was sent live.
//!
//! Invariants: numbers are dense; an event is never changed after its commit.
//!
//! Receives events from `append.rs`; hands pages to `journal` and `session`.

use std::fmt::Write as _;
use std::ops::Range;

use agentd_protocol::event::{Event, EventBody};
use agentd_protocol::id::{SessionId, TurnId};
use agentd_protocol::session::EventsResult;
use agentd_protocol::time::Time;
use rusqlite::Connection;

use super::column::Millis;
use super::error::Error;
use super::project::Target;

/// Where an event stands that carries an item.
const ITEM_KEY: &str = "\"item\":";

/// An event with its number and its JSON.
#[derive(Debug, Clone)]
pub struct Numbered {
    event: Event,
    body: String,
    /// Where the item stands in `body`.
    item: Option<Range<usize>>,
}

impl Numbered {
    pub(super) fn new(event: Event) -> Result<Self, Error> {
        let body = serde_json::to_string(&event.body).map_err(Error::unreadable)?;
        let item = match event.body.item() {
            None => None,
            Some(item) => {
                let json = serde_json::to_string(item).map_err(Error::unreadable)?;
                let start = body.find(ITEM_KEY).map_or(0, |at| at + ITEM_KEY.len());
                Some(start..start + json.len())
            }
        };
        Ok(Self { event, body, item })
    }

    /// The event.
    pub fn event(&self) -> &Event {
        &self.event
    }

    pub(super) fn into_event(self) -> Event {
        self.event
    }

    /// The event as JSON, as it is on the wire.
    pub fn json(&self) -> String {
        let event = &self.event;
        let turn_id = event.turn_id.as_ref().map(TurnId::as_str);
        json(event.session_id.as_str(), event.seq, event.time, turn_id, &[&self.body])
    }

    /// The JSON of the item that it carries.
    pub(super) fn item_json(&self) -> Option<&str> {
        self.item.clone().map(|range| &self.body[range])
    }

    /// About how much will be written for it.
    pub(super) fn bytes(&self) -> usize {
        self.body.len() + 200
    }
}

/// The envelope around a body, which is given in pieces.
fn json(session_id: &str, seq: u64, time: Time, turn_id: Option<&str>, body: &[&str]) -> String {
    let mut text = String::with_capacity(160 + body.iter().map(|piece| piece.len()).sum::<usize>());
    let quoted = |word: &str| serde_json::Value::from(word);
    // Writing to a string cannot fail.
    let _ =
        write!(text, "{{\"seq\":{seq},\"time\":\"{time}\",\"session_id\":{}", quoted(session_id));
    if let Some(turn_id) = turn_id {
        let _ = write!(text, ",\"turn_id\":{}", quoted(turn_id));
    }
    text.push(',');
    let mut pieces = body.iter();
    if let Some(first) = pieces.next() {
        text.push_str(first.strip_prefix('{').unwrap_or(first));
    }
    pieces.for_each(|piece| text.push_str(piece));
    text
}

/// Writes the event; `item` is the key of the item that it carries.
pub(super) fn insert(
    target: Target<'_>,
    numbered: &Numbered,
    item: Option<i64>,
) -> Result<(), Error> {
    let event = &numbered.event;
    let body = match &numbered.item {
        None => std::borrow::Cow::from(&numbered.body),
        Some(range) => {
            format!("{}null{}", &numbered.body[..range.start], &numbered.body[range.end..]).into()
        }
    };
    target
        .conn
        .prepare_cached(
            "INSERT INTO events (session, seq, time, turn_id, item, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute((
            target.session,
            event.seq,
            Millis(event.time),
            event.turn_id.as_ref().map(TurnId::as_str),
            item,
            body,
        ))?;
    Ok(())
}

/// Which events a page has.
#[derive(Debug, Clone, Copy)]
pub struct Span<'a> {
    /// Only events after this number.
    pub after: u64,
    /// Only events up to this number.
    pub until: u64,
    /// Only events of this turn.
    pub turn_id: Option<&'a TurnId>,
    /// At most so many events.
    pub max_events: usize,
    /// No more once so many bytes are reached; at least one event all the same.
    pub max_bytes: usize,
}

/// A page of events as JSON, ascending, each with its number.
pub(super) fn page(
    conn: &Connection,
    session: i64,
    session_id: &SessionId,
    span: Span<'_>,
) -> Result<Vec<(u64, String)>, Error> {
    let mut statement = conn.prepare_cached(
        "SELECT events.seq, events.time, events.turn_id, events.body, events.item, items.json
         FROM events LEFT JOIN items ON items.id = events.item
         WHERE events.session = ?1 AND events.seq > ?2 AND events.seq <= ?3
             AND (?4 IS NULL OR events.turn_id = ?4)
         ORDER BY events.seq LIMIT ?5",
    )?;
    let until = i64::try_from(span.until).unwrap_or(i64::MAX);
    let after = i64::try_from(span.after).unwrap_or(i64::MAX);
    let turn_id = span.turn_id.map(TurnId::as_str);
    let mut rows = statement.query((session, after, until, turn_id, span.max_events))?;
    let mut page = Vec::new();
    let mut bytes = 0;
    while let Some(row) = rows.next()? {
        let seq = row.get(0)?;
        let time: Millis = row.get(1)?;
        let turn_id = row.get_ref(2)?.as_str_or_null().map_err(rusqlite::Error::from)?;
        let body = row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?;
        let item = row.get_ref(5)?.as_str_or_null().map_err(rusqlite::Error::from)?;
        let has_item = row.get::<_, Option<i64>>(4)?.is_some();
        let json = match item {
            Some(item) => {
                let (head, tail) = around_item(body)
                    .ok_or_else(|| Error::unreadable(format!("event {seq} has no item")))?;
                json(session_id.as_str(), seq, time.0, turn_id, &[head, item, tail])
            }
            None if has_item => {
                return Err(Error::unreadable(format!("the item of event {seq} is missing")));
            }
            None => json(session_id.as_str(), seq, time.0, turn_id, &[body]),
        };
        bytes += json.len();
        page.push((seq, json));
        if bytes >= span.max_bytes {
            break;
        }
    }
    Ok(page)
}

/// What stands before and after the item's `null`. Quotes inside of JSON strings are escaped, so
/// the key is found only where it is one.
fn around_item(body: &str) -> Option<(&str, &str)> {
    let at = body.find(ITEM_KEY)? + ITEM_KEY.len();
    Some((&body[..at], body[at..].strip_prefix("null")?))
}

/// A page of events as values.
pub(super) fn values(
    conn: &Connection,
    session: i64,
    session_id: &SessionId,
    span: Span<'_>,
) -> Result<Vec<Event>, Error> {
    page(conn, session, session_id, span)?.iter().map(|(_, json)| parse(json)).collect()
}

fn parse(json: &str) -> Result<Event, Error> {
    serde_json::from_str(json).map_err(|error| Error::unreadable(format!("an event: {error}")))
}

/// The result of `session/events` for a session whose last event is `head`.
pub(super) fn result(events: Vec<Event>, head: u64) -> EventsResult {
    let last = events.last().map(|event| event.seq);
    EventsResult { events, next: last.filter(|last| *last < head) }
}

/// The session in `session.created` and `session.updated` as of the event itself.
pub(super) fn date_session(body: &mut EventBody, seq: u64, time: Time) {
    if let EventBody::SessionCreated { session, .. } | EventBody::SessionUpdated { session, .. } =
        body
    {
        session.head_seq = seq;
        session.updated_at = time;
        session.lease = None;
    }
}
