//! Notifications as text: `session/event` around an event, progress or a marker.
//!
//! The subscription's id is the session's, so one line serves all who watch it.
//!
//! Receives JSON of events and values of the other kinds; hands lines to hubs and subscriptions.

use agentd_protocol::id::SessionId;
use agentd_protocol::progress::Progress;
use bytes::Bytes;
use serde::Serialize;

use crate::store::Numbered;

/// A longer line is not kept in a ring: 256 of them are 2 MiB.
pub(super) const MAX_RING_LINE_BYTES: usize = 8 << 10;

const HEAD: &str = r#"{"jsonrpc":"2.0","method":"session/event","params":{"subscription":"#;

/// The notification with `result` as its result.
pub(super) fn of_json(session_id: &SessionId, result: &str) -> Bytes {
    let id = serde_json::Value::from(session_id.as_str()).to_string();
    let mut line = String::with_capacity(HEAD.len() + id.len() + result.len() + 16);
    for piece in [HEAD, &id, r#","result":"#, result, "}}"] {
        line.push_str(piece);
    }
    line.into()
}

/// The notification of a value.
pub(super) fn of(session_id: &SessionId, result: &impl Serialize) -> Bytes {
    let json = serde_json::to_string(result).expect("the protocol's types are plain data");
    of_json(session_id, &json)
}

/// The notification of an event, unless it is too long for a ring.
pub(super) fn of_event(numbered: &Numbered) -> Option<Bytes> {
    of_logged(&numbered.event().session_id, &numbered.json())
}

/// The notification of an event of the log, unless it is too long for a ring.
pub(super) fn of_logged(session_id: &SessionId, json: &str) -> Option<Bytes> {
    (json.len() <= MAX_RING_LINE_BYTES).then(|| of_json(session_id, json))
}

/// Passing news in pieces whose lines are not too long for a ring.
pub(super) fn pieces(session_id: &SessionId, progress: Progress) -> Vec<Progress> {
    let text = match &progress {
        Progress::MessageDelta { delta, .. } => delta,
        Progress::ToolOutput { chunk, .. } => chunk,
    };
    // A byte becomes six at most.
    if text.len() * 6 <= MAX_RING_LINE_BYTES
        || of(session_id, &progress).len() <= MAX_RING_LINE_BYTES
    {
        return vec![progress];
    }
    match halves(&progress) {
        None => vec![progress],
        Some((first, second)) => {
            let mut all = pieces(session_id, first);
            all.extend(pieces(session_id, second));
            all
        }
    }
}

/// Two pieces that say the same; `None` for text that cannot be cut.
fn halves(progress: &Progress) -> Option<(Progress, Progress)> {
    let (text, offset) = match progress {
        Progress::MessageDelta { delta, offset, .. } => (delta, *offset),
        Progress::ToolOutput { chunk, offset, .. } => (chunk, *offset),
    };
    let middle = (1..=text.len() / 2).rev().find(|at| text.is_char_boundary(*at))?;
    let (first, second) = text.split_at(middle);
    let piece = |text: &str, offset: u64| match progress.clone() {
        Progress::MessageDelta { item_id, attempt, kind, .. } => {
            Progress::MessageDelta { item_id, attempt, kind, offset, delta: text.to_owned() }
        }
        Progress::ToolOutput { call_id, .. } => {
            Progress::ToolOutput { call_id, offset, chunk: text.to_owned() }
        }
    };
    Some((piece(first, offset), piece(second, offset + middle as u64)))
}
