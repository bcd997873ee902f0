//! What servers of every wire format get wrong alike, and what is made of it.
//!
//! Receives the assemblers of the formats; hands them streams that are odd in one way each.

use agentd_protocol::event::TurnErrorCode;
use agentd_protocol::session::Usage;

use super::decode;
use crate::config::ThinkTags;
use crate::provider::anthropic_messages::stream::Assembler as Messages;
use crate::provider::decoder::Assemble;
use crate::provider::openai_chat::stream::Assembler as Chat;
use crate::provider::openai_responses::stream::Assembler as Responses;
use crate::provider::{ModelError, ModelEvent};

/// What each wire format makes of a stream of `data` lines.
fn each(streams: [&[String]; 3]) -> [(Vec<ModelEvent>, Option<ModelError>); 3] {
    fn of<A: Assemble>(assembler: A, events: &[String]) -> (Vec<ModelEvent>, Option<ModelError>) {
        let lines: Vec<String> = events.iter().map(|data| format!("data: {data}\n\n")).collect();
        decode(assembler, lines.iter().map(String::as_bytes))
    }
    let [chat, responses, messages] = streams;
    [
        of(Chat::new("provider p", ThinkTags::Auto), chat),
        of(Responses::new("provider p"), responses),
        of(Messages::new("provider p"), messages),
    ]
}

/// An answer with this text, as it stands in a JSON string, and this usage: in each format.
fn answers(text: &str, usage: &str) -> [Vec<String>; 3] {
    [
        vec![
            format!(r#"{{"choices":[{{"delta":{{"content":"{text}"}}}}]}}"#),
            format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"stop"}}],"usage":{usage}}}"#),
            "[DONE]".to_owned(),
        ],
        vec![
            r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}"#
                .to_owned(),
            format!(r#"{{"type":"response.output_text.delta","output_index":0,"delta":"{text}"}}"#),
            format!(
                r#"{{"type":"response.completed","response":{{"status":"completed","output":[],"usage":{usage}}}}}"#
            ),
        ],
        vec![
            format!(r#"{{"type":"message_start","message":{{"usage":{usage}}}}}"#),
            format!(
                r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#
            ),
            format!(
                r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}},"usage":{usage}}}"#
            ),
            r#"{"type":"message_stop"}"#.to_owned(),
        ],
    ]
}

fn said(text: &str, usage: &str) -> [(String, Option<Usage>); 3] {
    let [chat, responses, messages] = answers(text, usage);
    each([&chat, &responses, &messages]).map(|(events, failed)| {
        assert_eq!(failed, None, "{text} {usage}");
        assert!(matches!(events.last(), Some(ModelEvent::End { .. })), "{events:?}");
        let text = events.iter().filter_map(|event| match event {
            ModelEvent::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let usage = events.iter().find_map(|event| match event {
            ModelEvent::Usage(usage) => Some(*usage),
            _ => None,
        });
        (text.collect(), usage)
    })
}

#[test]
fn half_a_character_does_not_cost_the_answer() {
    let table = [
        (r"a\ud83db", "a\u{fffd}b"),
        (r"a\uDE42", "a\u{fffd}"),
        (r"\ud83d\ud83d\ude42", "\u{fffd}🙂"),
        (r"\ud83d\n\ude42", "\u{fffd}\n\u{fffd}"),
        (r"\\ud83d", r"\ud83d"),
        (r"\\\ud83d", "\\\u{fffd}"),
        (r"\ud83d\u00e4", "\u{fffd}ä"),
        (r"\ud83d\ude42", "🙂"),
    ];
    for (sent, read) in table {
        for (text, _) in said(sent, "null") {
            assert_eq!(text, read, "{sent}");
        }
    }
}

#[test]
fn odd_usage_does_not_cost_the_answer() {
    let odd = ["-5", "1.5e300", "\"12\"", "{}", "1180591620717411303424", "[1]"];
    for odd in odd {
        let usage = format!(
            r#"{{"prompt_tokens":{odd},"completion_tokens":{odd},"input_tokens":{odd},"output_tokens":{odd}}}"#
        );
        for (text, usage) in said("a", &usage) {
            assert_eq!((text.as_str(), usage), ("a", None), "{odd}");
        }
    }
}

#[test]
fn counts_that_nobody_can_have_end_no_sum() {
    let most = u64::MAX;
    let usage = format!(
        r#"{{"prompt_tokens":{most},"completion_tokens":{most},"input_tokens":{most},"output_tokens":{most},"cache_read_input_tokens":{most},"cache_creation_input_tokens":{most}}}"#
    );
    for (_, usage) in said("a", &usage) {
        let usage = usage.expect("a usage");
        let mut sum = Usage::default();
        for _ in 0..1_000_000 {
            sum.add(&usage);
        }
        assert!(sum.input > 0 && sum.output > 0);
        assert!(i64::try_from(sum.billable_tokens()).is_ok(), "the store cannot hold {sum:?}");
    }
}

#[test]
fn what_is_no_stream_is_shown() {
    fn of<A: Assemble>(assembler: A, body: &str) -> ModelError {
        decode(assembler, body.as_bytes().chunks(3)).1.expect("it fails")
    }
    let table = [
        ("<html><body>Log in</body></html>", true),
        ("\n\n  <!doctype html>", true),
        ("upstream connect error: reset", true),
        ("[]", true),
        // These may have broken off.
        ("", false),
        (": ping\n\n", false),
        ("dat", false),
        ("\u{feff}event: mess", false),
        ("retry: 5\nda", false),
        ("{\"choi", false),
    ];
    for (body, is_none) in table {
        for error in [
            of(Chat::new("provider p", ThinkTags::Auto), body),
            of(Responses::new("provider p"), body),
            of(Messages::new("provider p"), body),
        ] {
            let none = error.code == TurnErrorCode::BadResponse;
            assert_eq!((none, error.retryable), (is_none, !is_none), "{body:?}: {error}");
            let start = body.trim();
            assert!(!is_none || error.message.contains(start), "{body:?}: {error}");
        }
    }
}

#[test]
fn text_without_end_is_cut_off() {
    let piece = "x".repeat(1 << 20);
    let [chat, responses, messages] = answers(&piece, "null").map(|answer| {
        let endless = std::iter::repeat_n(answer[1].clone(), 17);
        answer[..1].iter().cloned().chain(endless).collect::<Vec<_>>()
    });
    let chat: Vec<String> = std::iter::repeat_n(chat[0].clone(), 17).collect();
    for (events, failed) in each([&chat, &responses, &messages]) {
        assert!(matches!(events.as_slice(), [ModelEvent::Text(_)]), "it was shown");
        let error = failed.expect("it fails");
        assert_eq!((error.code, error.retryable), (TurnErrorCode::BadResponse, false));
    }
}

#[test]
fn calls_without_end_are_cut_off() {
    let calls = |of: fn(usize) -> String| (0..=1_024).map(of).collect::<Vec<_>>();
    let chat = calls(|n| {
        format!(
            r#"{{"choices":[{{"delta":{{"tool_calls":[{{"index":{n},"id":"c{n}","function":{{"name":"list","arguments":"{{}}"}}}}]}}}}]}}"#
        )
    });
    let responses = calls(|n| {
        format!(
            r#"{{"type":"response.output_item.done","output_index":{n},"item":{{"type":"function_call","call_id":"c{n}","name":"list","arguments":"{{}}"}}}}"#
        )
    });
    let messages = calls(|n| {
        format!(
            r#"{{"type":"content_block_start","index":0,"content_block":{{"type":"tool_use","id":"c{n}","name":"list","input":{{}}}}}}"#
        )
    });
    // The last block is never stopped but by the next.
    let next = messages[0].clone();
    let messages: Vec<_> = messages.into_iter().chain([next]).collect();
    for (_, failed) in each([&chat, &responses, &messages]) {
        let error = failed.expect("it fails");
        assert_eq!(error.code, TurnErrorCode::BadResponse);
        assert!(error.message.contains("1024"), "{error}");
    }
}
