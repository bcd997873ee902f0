//! Doors for fuzzers: any bytes through the pure parts that read what servers send.
//!
//! Each takes bytes from outside the daemon and must not panic, must not depend on how they were
//! cut, and must not hold more than it was given. The same checks run under `cargo fuzz`
//! (`daemon/fuzz/`) and, always, under proptest.
//!
//! Receives bytes of a fuzzer; panics where a promise is broken.

use super::ModelEvent;
use super::anthropic_messages::stream::Assembler as Messages;
use super::decoder::{Assemble, Decoder};
use super::failure::{Complaint, classify};
use super::openai_chat::stream::Assembler as Chat;
use super::openai_responses::stream::Assembler as Responses;
use super::sse::{Event, Splitter, TooLong};
use crate::config::ThinkTags;

/// A byte that is no UTF-8 becomes the three of U+FFFD.
const MAX_GROWTH: usize = 3;
/// Events that need no byte of their own: the end.
const FREE_EVENTS: usize = 1;

/// Cuts bytes into pieces whose lengths follow from `seed`.
fn pieces(bytes: &[u8], seed: u64) -> Vec<&[u8]> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut rest = bytes;
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let (piece, after) = rest.split_at(rng.usize(1..=rest.len().min(64)));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// The splitter of server-sent events.
///
/// # Panics
/// When a promise is broken.
pub fn split(bytes: &[u8], seed: u64) {
    let whole = events_of(&[bytes]);
    assert_eq!(events_of(&pieces(bytes, seed)), whole, "the cuts show");
    let said: usize = whole.iter().map(|(name, data)| name.len() + data.len()).sum();
    assert!(said <= bytes.len(), "more was said than came");
}

fn events_of(reads: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut events = Vec::new();
    let mut sink = |event: Event<'_>| {
        events.push((event.name.to_vec(), event.data.to_vec()));
        Ok::<_, TooLong>(())
    };
    let mut splitter = Splitter::new();
    let fed = reads.iter().try_for_each(|read| splitter.feed(read, &mut sink));
    let finished = fed.and_then(|()| splitter.finish(&mut sink));
    finished.expect("a fuzzer's input is shorter than an event may be");
    events
}

/// The decoder of Chat Completions, with its assembler of calls.
///
/// # Panics
/// When a promise is broken.
pub fn chat(bytes: &[u8], seed: u64) {
    for tags in [ThinkTags::Auto, ThinkTags::On] {
        decoded(bytes, seed, || Chat::new("provider p", tags));
    }
}

/// The decoders of Responses and of Messages.
///
/// # Panics
/// When a promise is broken.
pub fn responses_and_messages(bytes: &[u8], seed: u64) {
    decoded(bytes, seed, || Responses::new("provider p"));
    decoded(bytes, seed, || Messages::new("provider p"));
}

fn decoded<A: Assemble>(bytes: &[u8], seed: u64, assembler: impl Fn() -> A) {
    let read = |reads: &[&[u8]]| {
        let mut decoder = Decoder::new("provider p", assembler());
        let fed = reads.iter().try_for_each(|read| decoder.feed(read));
        let failed = fed.and_then(|()| decoder.close()).err();
        decoder.flush_usage();
        let events: Vec<ModelEvent> = std::iter::from_fn(|| decoder.pop()).collect();
        (joined(events), failed)
    };
    let whole = read(&[bytes]);
    assert_eq!(read(&pieces(bytes, seed)), whole, "the cuts show");
    let (events, failed) = whole;
    let ends = events.iter().filter(|event| matches!(event, ModelEvent::End { .. })).count();
    let last = matches!(events.last(), Some(ModelEvent::End { .. }));
    assert_eq!((ends, last), if failed.is_none() { (1, true) } else { (0, false) });
    let said: usize = events.iter().map(bytes_of).sum();
    assert!(said <= bytes.len() * MAX_GROWTH, "more was said than came");
    assert!(events.len() <= bytes.len() + FREE_EVENTS, "more events than bytes");
    let mut decoder = Decoder::new("provider p", assembler());
    drop(decoder.whole(bytes));
}

/// Pieces of text that follow each other as one: where they were parted is the cuts' business.
pub(super) fn joined(events: impl IntoIterator<Item = ModelEvent>) -> Vec<ModelEvent> {
    let mut joined: Vec<ModelEvent> = Vec::new();
    for event in events {
        match (joined.last_mut(), event) {
            (Some(ModelEvent::Text(text)), ModelEvent::Text(more))
            | (Some(ModelEvent::Reasoning(text)), ModelEvent::Reasoning(more)) => {
                text.push_str(&more);
            }
            (_, event) => joined.push(event),
        }
    }
    joined
}

fn bytes_of(event: &ModelEvent) -> usize {
    match event {
        ModelEvent::Text(text) | ModelEvent::Reasoning(text) => text.len(),
        ModelEvent::Call(call) => {
            call.name.len() + call.provider_call_id.as_ref().map_or(0, String::len)
        }
        // Its form is ours.
        ModelEvent::Signature(_)
        | ModelEvent::Usage(_)
        | ModelEvent::Warning { .. }
        | ModelEvent::End { .. } => 0,
    }
}

/// What is understood of an error's body.
///
/// # Panics
/// When a promise is broken.
pub fn complaint(bytes: &[u8], status: u16) {
    let error = classify("provider p", Some(status), &Complaint::of_body(bytes));
    assert!(error.message.chars().count() < 2_000, "an error repeats too much");
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What streams are made of, so that random ones get somewhere.
    const WORDS: [&str; 32] = [
        "data: ",
        "data:",
        "event: error",
        ": x",
        "\n",
        "\n\n",
        "\r\n\r\n",
        "\r",
        "[DONE]",
        "{\"choices\":[{\"index\":0,\"delta\":",
        ",\"finish_reason\":null}]}",
        ",\"finish_reason\":\"stop\"}]}",
        "{\"content\":\"<think>a\"}",
        "{\"content\":\"b</think> c\"}",
        "{\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}",
        "{\"reasoning_content\":\"r\"}",
        "{\"tool_calls\":[{\"index\":0,\"id\":\"k\",\"function\":{\"name\":\"read\",\"arguments\":\"{}\"}}]}",
        "{\"tool_calls\":[{\"function\":{\"name\":\"re\",\"arguments\":\"{\"}}]}",
        "{\"tool_calls\":[{\"index\":1,\"function\":{\"arguments\":{\"p\":1}}}]}",
        "{\"usage\":{\"prompt_tokens\":3}}",
        "{\"error\":{\"message\":\"m\",\"code\":429}}",
        "{\"error\":null}",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\ud83d",
        "\u{1f642}",
        "\u{feff}",
        "null",
        "0",
    ];

    /// Whole events of the other formats.
    const EVENTS: [&str; 14] = [
        r#"{"type":"message_start","message":{"usage":{"input_tokens":3}}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"k","name":"read","input":{}}}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"thinking","thinking":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"p\":"}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"signature_delta","signature":"s"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":4}}"#,
        r#"{"type":"message_stop"}"#,
        r#"{"type":"response.output_text.delta","delta":"x","output_index":0}"#,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"k","name":"read","arguments":"{}"}}"#,
        r#"{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":3}}}"#,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#,
    ];

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let word = prop::sample::select(WORDS.to_vec()).prop_map(|word| word.as_bytes().to_vec());
        let chunk = (0..WORDS.len(), 0..WORDS.len()).prop_map(|(delta, end)| {
            format!(
                "data: {{\"choices\":[{{\"index\":0,\"delta\":{}{}\n\n",
                WORDS[12 + delta % 7],
                WORDS[10 + end % 2]
            )
            .into_bytes()
        });
        let noise = prop::collection::vec(any::<u8>(), 0..8);
        let event = prop::sample::select(EVENTS.to_vec())
            .prop_map(|event| format!("data: {event}\n\n").into_bytes());
        prop::collection::vec(prop_oneof![4 => chunk, 3 => word, 3 => event, 1 => noise], 0..12)
            .prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn any_bytes_are_split(bytes in bytes(), seed in any::<u64>()) {
            split(&bytes, seed);
        }

        #[test]
        fn any_bytes_are_decoded(bytes in bytes(), seed in any::<u64>()) {
            chat(&bytes, seed);
            responses_and_messages(&bytes, seed);
        }

        #[test]
        fn any_body_is_a_complaint(bytes in bytes(), status in 300_u16..600) {
            complaint(&bytes, status);
        }
    }

    #[test]
    fn noise_alone_does_no_harm() {
        let mut rng = fastrand::Rng::with_seed(7);
        for length in 0..400 {
            let noise: Vec<u8> = std::iter::repeat_with(|| rng.u8(..)).take(length).collect();
            split(&noise, rng.u64(..));
            chat(&noise, rng.u64(..));
            responses_and_messages(&noise, rng.u64(..));
            complaint(&noise, 500);
        }
    }
}
