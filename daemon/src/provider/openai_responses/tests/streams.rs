//! Streams as servers send them, with many words and with few, and as they break them off.

use std::time::Duration;

use agentd_protocol::event::TurnErrorCode;
use agentd_protocol::session::Usage;
use proptest::prelude::*;
use serde_json::json;

use super::assembler;
use crate::provider::decoder::Decoder;
use crate::provider::tests::{decode, failed, said};
use crate::provider::{ModelCall, ModelEvent};

fn ev(data: &str) -> String {
    let kind: serde_json::Value = serde_json::from_str(data).expect("JSON");
    format!("event: {}\ndata: {data}\n\n", kind["type"].as_str().expect("a type"))
}

const CREATED: &str = r#"{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","status":"in_progress","output":[],"usage":null,"error":null,"incomplete_details":null}}"#;
const REASONING: &str = r#"{"id":"rs_1","type":"reasoning","encrypted_content":"gAAA+/=","summary":[{"type":"summary_text","text":"Let me see."},{"type":"summary_text","text":"Yes."}]}"#;
const MESSAGE: &str = r#"{"id":"msg_1","type":"message","status":"completed","role":"assistant","phase":"commentary","content":[{"type":"output_text","annotations":[],"text":"Grüße 🙂"}]}"#;
const CALL_1: &str = r#"{"id":"fc_1","type":"function_call","status":"completed","arguments":"{\"path\":\"a.txt\"}","call_id":"call_1","name":"read"}"#;
const CALL_2: &str = r#"{"id":"fc_2","type":"function_call","status":"completed","arguments":"","call_id":"call_2","name":"list"}"#;
const USAGE: &str = r#"{"input_tokens":100,"input_tokens_details":{"cached_tokens":70},"output_tokens":15,"output_tokens_details":{"reasoning_tokens":9},"total_tokens":115}"#;

fn added(index: u32, item: &str) -> String {
    ev(&format!(r#"{{"type":"response.output_item.added","output_index":{index},"item":{item}}}"#))
}

fn done(index: u32, item: &str) -> String {
    ev(&format!(r#"{{"type":"response.output_item.done","output_index":{index},"item":{item}}}"#))
}

fn delta(kind: &str, index: u32, part: u32, text: &str) -> String {
    ev(&format!(
        r#"{{"type":"response.{kind}.delta","item_id":"x","output_index":{index},"content_index":0,"summary_index":{part},"delta":{}}}"#,
        json!(text)
    ))
}

fn completed(output: &str) -> String {
    ev(&format!(
        r#"{{"type":"response.completed","response":{{"id":"resp_1","status":"completed","output":{output},"usage":{USAGE},"error":null}}}}"#
    ))
}

fn output() -> String {
    format!("[{REASONING},{MESSAGE},{CALL_1},{CALL_2}]")
}

/// All the events that OpenAI sends.
fn many_words() -> String {
    [
        ev(CREATED),
        ev(r#"{"type":"response.in_progress","response":{"id":"resp_1"}}"#),
        added(0, r#"{"id":"rs_1","type":"reasoning","summary":[]}"#),
        ev(r#"{"type":"response.reasoning_summary_part.added","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}"#),
        delta("reasoning_summary_text", 0, 0, "Let me "),
        delta("reasoning_summary_text", 0, 0, "see."),
        ev(r#"{"type":"response.reasoning_summary_text.done","output_index":0,"summary_index":0,"text":"Let me see."}"#),
        delta("reasoning_summary_text", 0, 1, "Yes."),
        done(0, REASONING),
        ev(r#"{"type":"keepalive","sequence_number":7}"#),
        added(1, r#"{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}"#),
        ev(r#"{"type":"response.content_part.added","output_index":1,"content_index":0,"part":{"type":"output_text","text":""}}"#),
        delta("output_text", 1, 0, "Gr\u{fc}"),
        delta("output_text", 1, 0, "ße 🙂"),
        ev(r#"{"type":"response.output_text.done","output_index":1,"content_index":0,"text":"Grüße 🙂"}"#),
        done(1, MESSAGE),
        added(2, r#"{"id":"fc_1","type":"function_call","status":"in_progress","arguments":"","call_id":"call_1","name":"read"}"#),
        delta("function_call_arguments", 2, 0, "{\"path\":"),
        delta("function_call_arguments", 2, 0, "\"a.txt\"}"),
        ev(r#"{"type":"response.function_call_arguments.done","output_index":2,"arguments":"{\"path\":\"a.txt\"}"}"#),
        done(2, CALL_1),
        done(3, CALL_2),
        completed(&output()),
    ]
    .concat()
}

fn call(id: &str, name: &str, arguments: serde_json::Value) -> ModelEvent {
    let provider_call_id = Some(id.to_owned());
    ModelEvent::Call(ModelCall { provider_call_id, name: name.to_owned(), arguments })
}

fn usage() -> ModelEvent {
    let (input, output, cache_read, reasoning) = (100, 15, 70, 9);
    ModelEvent::Usage(Usage { input, output, cache_read, reasoning, ..Usage::default() })
}

fn end(reason: &str, continues: bool) -> ModelEvent {
    ModelEvent::End { finish_reason: Some(reason.to_owned()), continues }
}

fn expected() -> Vec<ModelEvent> {
    let signed = r#"{"block":{"encrypted_content":"gAAA+/=","id":"rs_1","type":"reasoning"}}"#;
    let phase = r#"{"block":{"phase":"commentary","type":"message"}}"#;
    vec![
        ModelEvent::Reasoning("Let me see.\n\nYes.".to_owned()),
        ModelEvent::Signature(signed.to_owned()),
        ModelEvent::Text("Grüße 🙂".to_owned()),
        ModelEvent::Signature(phase.to_owned()),
        call("call_1", "read", json!({ "path": "a.txt" })),
        call("call_2", "list", json!({})),
        usage(),
        end("completed", false),
    ]
}

#[test]
fn a_turn_comes_out_the_same_however_it_is_cut() {
    assert_eq!(said(assembler, &many_words()), expected());
}

#[test]
fn servers_of_few_words_say_the_same() {
    let items = [done(0, REASONING), done(1, MESSAGE), done(2, CALL_1), done(3, CALL_2)].concat();
    assert_eq!(said(assembler, &(items + &completed("[]"))), expected());
    assert_eq!(said(assembler, &completed(&output())), expected());
    let whole = format!(
        r#"{{"object":"response","status":"completed","output":{},"usage":{USAGE}}}"#,
        output()
    );
    let mut decoder = Decoder::new("provider p", assembler());
    decoder.whole(whole.as_bytes()).expect("it is an answer");
    assert_eq!(std::iter::from_fn(|| decoder.pop()).collect::<Vec<_>>(), expected());
}

#[test]
fn what_an_open_model_thought_is_told_and_kept_as_such() {
    let item = r#"{"id":"rs_1","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]}"#;
    let stream = [delta("reasoning_text", 0, 0, "hm"), done(0, item), completed("[]")].concat();
    let kept = r#"{"block":{"id":"rs_1","text":"content","type":"reasoning"}}"#;
    let expected = [
        ModelEvent::Reasoning("hm".to_owned()),
        ModelEvent::Signature(kept.to_owned()),
        usage(),
        end("completed", false),
    ];
    assert_eq!(said(assembler, &stream), expected);
}

#[test]
fn ends_are_information_but_for_the_length_and_a_turn_that_goes_on() {
    let incomplete = |reason: &str| {
        ev(&format!(
            r#"{{"type":"response.incomplete","response":{{"status":"incomplete","incomplete_details":{{"reason":"{reason}"}},"usage":{USAGE}}}}}"#
        ))
    };
    assert_eq!(said(assembler, &incomplete("max_output_tokens")), [usage(), end("length", false)]);
    let filtered = [usage(), end("content_filter", false)];
    assert_eq!(said(assembler, &incomplete("content_filter")), filtered);
    let goes_on =
        r#"{"type":"response.completed","response":{"status":"completed","end_turn":false}}"#;
    assert_eq!(said(assembler, &ev(goes_on)), [end("completed", true)]);
    let refusal = delta("refusal", 0, 0, "I can't help with that.") + &completed("[]");
    assert_eq!(
        said(assembler, &refusal)[0],
        ModelEvent::Text("I can't help with that.".to_owned())
    );
}

#[test]
fn what_does_not_come_to_its_end_fails() {
    let turn = many_words();
    let complete = turn.find("event: response.completed").expect("it has an end");
    for cut in 0..complete {
        let (events, failure) = decode(assembler(), [&turn.as_bytes()[..cut]]);
        let failure = failure.unwrap_or_else(|| panic!("cut at {cut} it came to an end"));
        assert!(failure.retryable, "{failure}");
        assert!(!events.iter().any(|event| matches!(event, ModelEvent::End { .. })));
    }
    let (_, failure) = failed(assembler(), &format!("{}data: [DONE]\n\n", ev(CREATED)));
    assert_eq!(failure.code, TurnErrorCode::ProviderUnreachable);
}

#[test]
fn errors_in_the_stream_are_told_apart() {
    use TurnErrorCode::{
        ContextOverflow, ProviderRefused, ProviderUnreachable, QuotaExhausted, RateLimited,
    };
    let table = [
        ("server_error", "An error occurred", ProviderUnreachable, true),
        ("rate_limit_exceeded", "Rate limit reached for gpt-5", RateLimited, true),
        ("insufficient_quota", "You exceeded your current quota", QuotaExhausted, false),
        ("context_length_exceeded", "Your input exceeds the window", ContextOverflow, false),
        ("invalid_prompt", "flagged", ProviderRefused, false),
    ];
    for (code, message, kind, retryable) in table {
        let error = json!({ "code": code, "message": message });
        let events = [
            json!({ "type": "response.failed", "response": { "status": "failed", "error": error } }),
            json!({ "type": "error", "code": code, "message": message, "param": null }),
            json!({ "type": "error", "error": { "type": code, "code": code, "message": message } }),
        ];
        for event in events {
            let (_, failure) = failed(assembler(), &ev(&event.to_string()));
            assert_eq!((failure.code, failure.retryable), (kind, retryable), "{event}: {failure}");
            assert_eq!(failure.provider_code.as_deref(), Some(code), "{event}");
            assert!(failure.message.contains(message), "{failure}");
        }
    }
    let paid = format!(
        r#"{{"type":"response.failed","response":{{"usage":{USAGE},"error":{{"code":"server_error","message":"x"}}}}}}"#
    );
    assert_eq!(failed(assembler(), &ev(&paid)).0, [usage()]);
}

#[test]
fn a_failure_says_when_to_come_back() {
    let table = [
        ("Rate limit reached. Please try again in 1.898s. Visit x.", Some(1_898)),
        ("Please try again in 28ms.", Some(28)),
        ("Please try again in 2m.", Some(120_000)),
        ("Please try again in 6m0s.", Some(360_000)),
        ("Please try again in a moment.", None),
        ("Please try again in 5", None),
        ("Please try again in 1.2.3s", None),
    ];
    for (message, millis) in table {
        let error = json!({ "code": "rate_limit_exceeded", "message": message });
        let event = json!({ "type": "response.failed", "response": { "error": error } });
        let (_, failure) = failed(assembler(), &ev(&event.to_string()));
        assert_eq!(failure.retry_after, millis.map(Duration::from_millis), "{message}");
    }
}

proptest! {
    /// Whatever comes, it ends in one way, without a panic.
    #[test]
    fn garbage_never_panics(
        cuts in prop::collection::vec(any::<(prop::sample::Index, prop::sample::Index)>(), 0..4),
        noise in prop::collection::vec(any::<u8>(), 0..40),
        at in any::<prop::sample::Index>(),
    ) {
        let mut stream = many_words().into_bytes();
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
