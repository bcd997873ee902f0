//! What the tests of the wire formats share: a server on loopback, answers as a whole, items.

use std::sync::Arc;

use agentd_protocol::id::{CallId, ItemId, TurnId};
use agentd_protocol::item::{
    AssistantItem, AssistantPart, AssistantStatus, Call, Item, ItemBody, Origin, Part, ToolItem,
    ToolStatus,
};
use agentd_protocol::session::Usage;
use agentd_protocol::time::Time;
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::Value;

use super::decoder::{Assemble, Decoder};
use super::fuzzing::joined;
use super::{ModelError, ModelEvent, ModelStream, Request};

mod odd;
pub(super) mod server;

/// The events of a stream of these reads that is closed after them, and the error that ended it.
/// Pieces of one text that came apart are one event.
pub(super) fn decode<'a, A: Assemble>(
    assembler: A,
    reads: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<ModelEvent>, Option<ModelError>) {
    let mut decoder = Decoder::new("provider p", assembler);
    let fed = reads.into_iter().try_for_each(|read| decoder.feed(read));
    let failed = fed.and_then(|()| decoder.close()).err();
    if failed.is_some() {
        decoder.flush_usage();
    }
    let events = std::iter::from_fn(|| decoder.pop());
    (joined(events), failed)
}

/// The events of this stream, which comes to its end, however it is cut.
pub(super) fn said<A: Assemble>(assembler: impl Fn() -> A, stream: &str) -> Vec<ModelEvent> {
    let (events, failed) = decode(assembler(), [stream.as_bytes()]);
    assert_eq!(failed, None, "{stream}");
    assert!(matches!(events.last(), Some(ModelEvent::End { .. })), "no end: {stream}");
    for cut in 0..=stream.len() {
        let (start, rest) = stream.as_bytes().split_at(cut);
        assert_eq!(decode(assembler(), [start, rest]), (events.clone(), None), "cut at {cut}");
    }
    let bytes = stream.as_bytes().chunks(1);
    assert_eq!(decode(assembler(), bytes), (events.clone(), None), "byte by byte");
    events
}

/// What this stream fails with, and what came before that.
pub(super) fn failed<A: Assemble>(assembler: A, stream: &str) -> (Vec<ModelEvent>, ModelError) {
    let (events, failed) = decode(assembler, [stream.as_bytes()]);
    (events, failed.unwrap_or_else(|| panic!("it did not fail: {stream}")))
}

/// Reads a stream to its end.
pub(super) async fn read(mut stream: ModelStream) -> (Vec<ModelEvent>, Option<ModelError>) {
    let mut events = Vec::new();
    let mut failed = None;
    while let Some(event) = stream.next().await {
        assert_eq!(failed, None, "{event:?} after the error");
        match event {
            Ok(event) => events.push(event),
            Err(error) => failed = Some(error),
        }
    }
    (joined(events), failed)
}

/// A request of these messages to the model `m`.
pub(super) fn request(messages: Vec<Bytes>) -> Request {
    Request { model: "m".to_owned(), messages, ..Request::default() }
}

pub(super) fn item(body: ItemBody) -> Arc<Item> {
    Arc::new(Item {
        item_id: ItemId::from_unique(1),
        index: 1,
        turn_id: TurnId::from_unique(1),
        created_at: Time::from_unix_millis(0),
        hidden_by: None,
        body,
    })
}

pub(super) fn system(text: &str) -> Arc<Item> {
    item(ItemBody::System { content: vec![Part::text(text)] })
}

pub(super) fn user(content: Vec<Part>) -> Arc<Item> {
    item(ItemBody::User { content, origin: Origin::User, submission_id: None })
}

/// A call: our id, the provider's, name, arguments.
pub(super) type Asked<'a> = (&'a str, Option<&'a str>, &'a str, Value);

/// An answer of the model `p/m`.
pub(super) fn answer(content: Vec<AssistantPart>, calls: &[Asked<'_>]) -> Arc<Item> {
    let calls = calls.iter().map(|(ours, theirs, name, arguments)| Call {
        call_id: CallId::from(*ours),
        provider_call_id: theirs.map(str::to_owned),
        name: (*name).to_owned(),
        arguments: arguments.clone(),
    });
    item(ItemBody::Assistant(AssistantItem {
        content,
        calls: calls.collect(),
        status: AssistantStatus::Complete,
        model: "p/m".to_owned(),
        usage: Usage::default(),
        finish_reason: None,
    }))
}

pub(super) fn text(text: &str) -> AssistantPart {
    AssistantPart::Text { text: text.to_owned() }
}

pub(super) fn reasoning(text: &str, signature: Option<String>) -> AssistantPart {
    AssistantPart::Reasoning { text: text.to_owned(), signature }
}

pub(super) fn result(call: &str, status: ToolStatus, content: Vec<Part>) -> Arc<Item> {
    item(ItemBody::Tool(ToolItem {
        call_id: CallId::from(call),
        name: "read".to_owned(),
        status,
        content,
        full_output: None,
    }))
}

pub(super) fn picture() -> Part {
    Part::Image { mime_type: "image/png".to_owned(), data: Some("AAAA".to_owned()), path: None }
}

/// The values of encoded messages.
pub(super) fn values(messages: &[u8]) -> Value {
    let list = [b"[".as_slice(), messages, b"]"].concat();
    serde_json::from_slice(&list).expect("messages are JSON")
}
