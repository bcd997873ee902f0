//! Streams as the API sends them, and as it breaks them off.

use agentd_protocol::event::TurnErrorCode;
use agentd_protocol::session::Usage;
use proptest::prelude::*;
use serde_json::json;

use super::assembler;
use crate::provider::tests::{decode, failed, said};
use crate::provider::{ModelCall, ModelEvent};

const START: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\
    \"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\
    \"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":10,\
    \"cache_creation_input_tokens\":20,\"cache_read_input_tokens\":70,\"output_tokens\":1}}}\n\n";
const STOP: &str = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
const PING: &str = "event: ping\ndata: {\"type\": \"ping\"}\n\n";

fn ev(data: &str) -> String {
    let kind: serde_json::Value = serde_json::from_str(data).expect("JSON");
    format!("event: {}\ndata: {data}\n\n", kind["type"].as_str().expect("a type"))
}

fn start(index: u32, block: &str) -> String {
    ev(&format!(r#"{{"type":"content_block_start","index":{index},"content_block":{block}}}"#))
}

fn delta(index: u32, delta: &str) -> String {
    ev(&format!(r#"{{"type":"content_block_delta","index":{index},"delta":{delta}}}"#))
}

fn stop(index: u32) -> String {
    ev(&format!(r#"{{"type":"content_block_stop","index":{index}}}"#))
}

fn reason(word: &str) -> String {
    ev(&format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{word}","stop_sequence":null}},"usage":{{"output_tokens":15}}}}"#
    ))
}

fn usage() -> ModelEvent {
    let (input, output, cache_read, cache_write) = (100, 15, 70, 20);
    ModelEvent::Usage(Usage { input, output, cache_read, cache_write, ..Usage::default() })
}

fn end(reason: &str, continues: bool) -> ModelEvent {
    ModelEvent::End { finish_reason: Some(reason.to_owned()), continues }
}

fn call(id: &str, name: &str, arguments: serde_json::Value) -> ModelEvent {
    let provider_call_id = Some(id.to_owned());
    ModelEvent::Call(ModelCall { provider_call_id, name: name.to_owned(), arguments })
}

/// Thinking, text in two pieces, two calls, and whatever else may come in between.
fn whole_turn() -> String {
    [
        START.to_owned(),
        start(0, r#"{"type":"thinking","thinking":"","signature":""}"#),
        PING.to_owned(),
        delta(0, r#"{"type":"thinking_delta","thinking":"Let me "}"#),
        delta(0, r#"{"type":"thinking_delta","thinking":"see."}"#),
        delta(0, r#"{"type":"signature_delta","signature":"EqQB/+="}"#),
        stop(0),
        start(1, r#"{"type":"redacted_thinking","data":"EmwK"}"#),
        stop(1),
        start(2, r#"{"type":"text","text":""}"#),
        delta(2, r#"{"type":"text_delta","text":"Gr\u00fc"}"#),
        delta(2, r#"{"type":"text_delta","text":"ße 🙂"}"#),
        ev(r#"{"type":"something_new","index":2,"delta":{"type":"x_delta"}}"#),
        stop(2),
        start(3, r#"{"type":"tool_use","id":"toolu_1","name":"read","input":{}}"#),
        delta(3, r#"{"type":"input_json_delta","partial_json":""}"#),
        delta(3, r#"{"type":"input_json_delta","partial_json":"{\"path\": \"a"}"#),
        delta(3, r#"{"type":"input_json_delta","partial_json":".txt\"}"}"#),
        stop(3),
        start(4, r#"{"type":"tool_use","id":"toolu_2","name":"list","input":{}}"#),
        stop(4),
        reason("tool_use"),
        STOP.to_owned(),
    ]
    .concat()
}

#[test]
fn a_turn_comes_out_the_same_however_it_is_cut() {
    let signed = r#"{"block":{"signature":"EqQB/+=","type":"thinking"}}"#;
    let redacted = r#"{"block":{"data":"EmwK","type":"redacted_thinking"}}"#;
    let expected = [
        ModelEvent::Reasoning("Let me see.".to_owned()),
        ModelEvent::Signature(signed.to_owned()),
        ModelEvent::Signature(redacted.to_owned()),
        ModelEvent::Text("Grüße 🙂".to_owned()),
        call("toolu_1", "read", json!({ "path": "a.txt" })),
        call("toolu_2", "list", json!({})),
        usage(),
        end("tool_use", false),
    ];
    assert_eq!(said(assembler, &whole_turn()), expected);
    let crlf = whole_turn().replace('\n', "\r\n");
    assert_eq!(said(assembler, &crlf), expected);
}

#[test]
fn stop_reasons_are_information_but_for_the_length_and_the_pause() {
    let table = [
        ("end_turn", "end_turn", false),
        ("stop_sequence", "stop_sequence", false),
        ("refusal", "refusal", false),
        ("max_tokens", "length", false),
        ("model_context_window_exceeded", "length", false),
        ("pause_turn", "pause_turn", true),
    ];
    for (word, ours, continues) in table {
        let stream = [START, &reason(word), STOP].concat();
        assert_eq!(said(assembler, &stream), [usage(), end(ours, continues)]);
    }
}

#[test]
fn a_block_that_only_the_provider_understands_is_kept_in_its_place() {
    let stream = [
        START,
        &start(0, r#"{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a"}}"#),
        &stop(0),
        &start(1, r#"{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{}}"#),
        &delta(1, r#"{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}"#),
        &stop(1),
        &reason("pause_turn"),
        STOP,
    ]
    .concat();
    let kept = r#"{"after_calls":1,"block":{"id":"srv_1","input":{"query":"x"},"name":"web_search","type":"server_tool_use"}}"#;
    let expected = [
        call("toolu_1", "read", json!({ "path": "a" })),
        ModelEvent::Signature(kept.to_owned()),
        usage(),
        end("pause_turn", true),
    ];
    assert_eq!(said(assembler, &stream), expected);
}

#[test]
fn arguments_that_are_cut_off_stay_text() {
    let stream = [
        START,
        &start(0, r#"{"type":"tool_use","id":"toolu_1","name":"write","input":{}}"#),
        &delta(0, r#"{"type":"input_json_delta","partial_json":"{\"path\": \"a"}"#),
        &stop(0),
        &reason("max_tokens"),
        STOP,
    ]
    .concat();
    let expected =
        [call("toolu_1", "write", json!("{\"path\": \"a")), usage(), end("length", false)];
    assert_eq!(said(assembler, &stream), expected);
}

#[test]
fn a_stop_reason_is_an_end_and_nothing_less_is() {
    let (events, failure) = decode(assembler(), [[START, &reason("end_turn")].concat().as_bytes()]);
    assert_eq!((events, failure), (vec![usage(), end("end_turn", false)], None));
    let turn = whole_turn();
    let complete = turn.find("event: message_delta").expect("it has an end");
    for cut in 0..complete {
        let (events, failure) = decode(assembler(), [&turn.as_bytes()[..cut]]);
        let failure = failure.unwrap_or_else(|| panic!("cut at {cut} it came to an end"));
        assert!(failure.retryable, "{failure}");
        assert_eq!(failure.code, TurnErrorCode::ProviderUnreachable);
        assert!(!events.iter().any(|event| matches!(event, ModelEvent::End { .. })));
    }
}

#[test]
fn errors_in_the_stream_are_told_apart() {
    let table = [
        ("overloaded_error", "Overloaded", TurnErrorCode::ProviderUnreachable, true),
        ("api_error", "Internal server error", TurnErrorCode::ProviderUnreachable, true),
        ("rate_limit_error", "Number of tokens", TurnErrorCode::RateLimited, true),
        ("invalid_request_error", "messages: no", TurnErrorCode::ProviderRefused, false),
        (
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
            TurnErrorCode::ContextOverflow,
            false,
        ),
        (
            "invalid_request_error",
            "Your credit balance is too low to access the API",
            TurnErrorCode::QuotaExhausted,
            false,
        ),
    ];
    for (kind, message, code, retryable) in table {
        let error = format!(
            r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"r"}}"#
        );
        let (events, error) = failed(assembler(), &[START, &ev(&error)].concat());
        assert_eq!((error.code, error.retryable), (code, retryable), "{error}");
        assert_eq!(error.provider_code.as_deref(), Some(kind));
        assert!(error.message.contains(message), "{error}");
        assert!(matches!(events[..], [ModelEvent::Usage(_)]), "what was used is told: {events:?}");
    }
}

#[test]
fn a_block_that_goes_on_for_ever_is_cut_off() {
    let piece = delta(0, &json!({ "partial_json": "a".repeat(1 << 20) }).to_string());
    let mut stream = start(0, r#"{"type":"tool_use","id":"t","name":"write","input":{}}"#);
    stream.push_str(&piece.repeat(17));
    let (_, error) = failed(assembler(), &stream);
    assert_eq!(error.code, TurnErrorCode::BadResponse);
    let many: String =
        (0..2_000).map(|n| start(n, r#"{"type":"tool_use","id":"t","name":"x"}"#)).collect();
    let (_, error) = failed(assembler(), &many);
    assert_eq!(error.code, TurnErrorCode::BadResponse);
}

proptest! {
    /// Whatever comes, it ends in one way, without a panic.
    #[test]
    fn garbage_never_panics(
        cuts in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..4),
        noise in prop::collection::vec(any::<u8>(), 0..40),
        at in any::<prop::sample::Index>(),
    ) {
        let mut stream = whole_turn().into_bytes();
        for (from, to) in cuts {
            let (from, to) = (from.index(stream.len() + 1), to.index(stream.len() + 1));
            stream.drain(from.min(to)..from.max(to));
        }
        let at = at.index(stream.len() + 1);
        stream.splice(at..at, noise);
        let (events, failure) = decode(assembler(), [stream.as_slice()]);
        let ended = matches!(events.last(), Some(ModelEvent::End { .. }));
        prop_assert!(ended != failure.is_some());
    }
}
