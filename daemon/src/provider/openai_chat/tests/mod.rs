//! Real servers' habits, each a case by its id, on bytes and over a loopback server.

use agentd_protocol::event::TurnErrorCode;
use agentd_protocol::session::Usage;

use super::*;
use crate::provider::ModelEvent;
use crate::provider::decoder::Decoder;

mod cases;
mod encoding;
mod pieces;
mod server;
mod transport;

fn decoder() -> Decoder<Assembler> {
    Decoder::new("provider p", Assembler::new("provider p"))
}

/// The events of a stream of these bytes that is closed after them, and the error that ended it.
fn decode<'a>(reads: impl IntoIterator<Item = &'a [u8]>) -> (Vec<ModelEvent>, Option<ModelError>) {
    let mut decoder = decoder();
    let fed = reads.into_iter().try_for_each(|read| decoder.feed(read));
    let failed = fed.and_then(|()| decoder.close()).err();
    let events = std::iter::from_fn(|| decoder.pop()).collect();
    (events, failed)
}

fn chunk(choice: &str) -> String {
    format!(
        "data: {{\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\
         \"model\":\"m\",\"choices\":[{choice}]}}\n\n"
    )
}

/// A chunk with this delta.
fn d(delta: &str) -> String {
    chunk(&format!("{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}"))
}

/// A chunk with this finish reason.
fn f(reason: &str) -> String {
    chunk(&format!("{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{reason}\"}}"))
}

const DONE: &str = "data: [DONE]\n\n";

/// An answer as a whole.
#[derive(Debug, Clone, Default, PartialEq)]
struct Said {
    text: String,
    reasoning: String,
    calls: Vec<(Option<String>, String, Value)>,
    usage: Option<Usage>,
    /// It came to its end.
    ended: bool,
    finish_reason: Option<String>,
}

impl Said {
    fn of(events: impl IntoIterator<Item = ModelEvent>) -> Self {
        let mut said = Self::default();
        for event in events {
            assert!(!said.ended, "{event:?} after the end");
            match event {
                ModelEvent::Text(text) => said.text.push_str(&text),
                ModelEvent::Reasoning(text) => said.reasoning.push_str(&text),
                ModelEvent::Call(call) => {
                    said.calls.push((call.provider_call_id, call.name, call.arguments));
                }
                ModelEvent::Usage(usage) => said.usage = Some(usage),
                ModelEvent::End { finish_reason, continues } => {
                    assert!(!continues);
                    said.ended = true;
                    said.finish_reason = finish_reason;
                }
            }
        }
        said
    }
}

/// The answer that this stream is.
fn said(stream: &[&str]) -> Said {
    let text = stream.concat();
    let (events, failed) = decode([text.as_bytes()]);
    assert_eq!(failed, None, "{text}");
    let said = Said::of(events);
    assert!(said.ended, "no end: {text}");
    said
}

/// What this stream fails with, and what came before that.
fn failed(stream: &[&str]) -> (Said, ModelError) {
    let text = stream.concat();
    let (events, failed) = decode([text.as_bytes()]);
    (Said::of(events), failed.unwrap_or_else(|| panic!("it did not fail: {text}")))
}

fn call(id: &str, name: &str, arguments: Value) -> (Option<String>, String, Value) {
    (Some(id.to_owned()).filter(|id| !id.is_empty()), name.to_owned(), arguments)
}
