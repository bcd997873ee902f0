//! Real servers' habits, each a case by its id, on bytes and over a loopback server.

use agentd_protocol::event::TurnErrorCode;
use agentd_protocol::session::Usage;

use super::*;
use crate::provider::ModelEvent;
use crate::provider::decoder::Decoder;

mod cases;
mod encoding;
mod habits;
mod pieces;
mod recordings;
mod transport;

fn decoder() -> Decoder<Assembler> {
    decoder_with(ThinkTags::Auto)
}

fn decoder_with(tags: ThinkTags) -> Decoder<Assembler> {
    Decoder::new("provider p", Assembler::new("provider p", tags))
}

/// The events of a stream of these bytes that is closed after them, and the error that ended it.
fn decode<'a>(reads: impl IntoIterator<Item = &'a [u8]>) -> (Vec<ModelEvent>, Option<ModelError>) {
    decode_with(ThinkTags::Auto, reads)
}

fn decode_with<'a>(
    tags: ThinkTags,
    reads: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<ModelEvent>, Option<ModelError>) {
    let mut decoder = decoder_with(tags);
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
    warnings: Vec<&'static str>,
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
                ModelEvent::Signature(_) => panic!("this format signs nothing"),
                ModelEvent::Usage(usage) => said.usage = Some(usage),
                ModelEvent::Warning { code, .. } => said.warnings.push(code),
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

/// What this stream is understood to say, and how it failed: the same however it is cut.
fn understood(tags: ThinkTags, stream: &[&str]) -> (Said, Option<ModelError>) {
    /// Longer streams are cut at some places only.
    const EVERYWHERE: usize = 1_500;
    const SOME: usize = 20;
    let text = stream.concat();
    let bytes = text.as_bytes();
    let whole = |reads: &[&[u8]]| {
        let (events, failed) = decode_with(tags, reads.iter().copied());
        (Said::of(events), failed)
    };
    let expected = whole(&[bytes]);
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(whole(&single), expected, "byte by byte: {text}");
    let step = if bytes.len() <= EVERYWHERE { 1 } else { bytes.len() / SOME };
    for at in (1..bytes.len()).step_by(step) {
        let (before, after) = bytes.split_at(at);
        assert_eq!(whole(&[before, after]), expected, "cut at {at}: {text}");
    }
    expected
}

/// The answer that this stream is.
fn said(stream: &[&str]) -> Said {
    said_with(ThinkTags::Auto, stream)
}

fn said_with(tags: ThinkTags, stream: &[&str]) -> Said {
    let (said, failed) = understood(tags, stream);
    assert_eq!(failed, None, "{stream:?}");
    assert!(said.ended, "no end: {stream:?}");
    said
}

/// What this stream fails with, and what came before that.
fn failed(stream: &[&str]) -> (Said, ModelError) {
    let (said, failed) = understood(ThinkTags::Auto, stream);
    (said, failed.unwrap_or_else(|| panic!("it did not fail: {stream:?}")))
}

fn call(id: &str, name: &str, arguments: Value) -> (Option<String>, String, Value) {
    (Some(id.to_owned()).filter(|id| !id.is_empty()), name.to_owned(), arguments)
}
