//! Batches: the answers to the entries of one message, gathered into one.
//!
//! Invariants: one answer for each request, in the order of the requests; the whole is never
//! larger than a message may be; nothing is sent where there were only notifications.
//!
//! Receives the entries' calls from `connection`; hands back the one answer.

use bytes::{BufMut, Bytes, BytesMut};
use tokio::task::JoinHandle;

use crate::rpc::dispatch::{Answer, Queued, failed, too_large};
use crate::rpc::envelope::Id;
use crate::rpc::outbound::Lane;

/// What became of an entry.
#[derive(Debug)]
pub enum Part {
    /// It is over.
    Ready(Option<Answer>),
    /// It runs.
    Running(JoinHandle<Option<Answer>>),
}

/// Waits for all parts.
pub async fn gather(parts: Vec<Part>, max_message_bytes: usize) -> Option<Answer> {
    let mut json = BytesMut::new();
    let mut lane = Lane::First;
    let mut queued = Queued::default();
    for part in parts {
        let answer = match part {
            Part::Ready(answer) => answer,
            // A call that was given up at the connection's end has no answer.
            Part::Running(call) => call.await.ok().flatten(),
        };
        let Some(mut answer) = answer else { continue };
        let bytes = json.len() + answer.json.len() + "[]".len();
        if bytes > max_message_bytes {
            answer = failed(answer.id, &too_large(bytes, max_message_bytes));
        }
        json.put_u8(if json.is_empty() { b'[' } else { b',' });
        json.put_slice(&answer.json);
        if answer.lane == Lane::InOrder {
            lane = Lane::InOrder;
        }
        queued.and(answer.queued);
    }
    if json.is_empty() {
        return None;
    }
    json.put_u8(b']');
    if json.len() > max_message_bytes {
        return Some(failed(Id::null(), &too_large(json.len(), max_message_bytes)));
    }
    Some(Answer { id: Id::null(), json: Bytes::from(json), lane, queued })
}
