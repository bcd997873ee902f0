//! The classes of errors, by the wordings that servers use.

use TurnErrorCode::{
    ContextOverflow, ProviderRefused, ProviderUnreachable, QuotaExhausted, RateLimited,
};
use serde_json::json;

use super::*;

fn of(status: u16, body: &str) -> ModelError {
    classify("provider p", Some(status), &Complaint::of_body(body.as_bytes()))
}

#[test]
fn statuses_decide_where_words_do_not() {
    let table = [
        (400, ProviderRefused, false),
        (401, ProviderRefused, false),
        (402, QuotaExhausted, false),
        (403, ProviderRefused, false),
        (404, ProviderRefused, false),
        (408, ProviderUnreachable, true),
        (409, ProviderRefused, true),
        (413, ProviderRefused, false),
        (422, ProviderRefused, false),
        (429, RateLimited, true),
        (500, ProviderUnreachable, true),
        (502, ProviderUnreachable, true),
        (503, ProviderUnreachable, true),
        (504, ProviderUnreachable, true),
        (529, ProviderUnreachable, true),
        (307, ProviderRefused, false),
    ];
    for (status, code, retryable) in table {
        let error = of(status, r#"{"error":{"message":"m"}}"#);
        assert_eq!((error.code, error.retryable), (code, retryable), "{status}");
        assert_eq!(error.status, Some(status));
        assert!(error.message.starts_with(&format!("provider p: m (status {status})")), "{error}");
    }
}

#[test]
fn a54_overflow_is_known_in_many_words() {
    let table = [
        (400, r#"{"error":{"code":"context_length_exceeded","message":"m"}}"#),
        (
            400,
            r#"{"error":{"code":400,"type":"exceed_context_size_error",
                "message":"request (9 tokens) exceeds the available context size (8 tokens)",
                "n_prompt_tokens":9,"n_ctx":8}}"#,
        ),
        (400, r#"{"error":{"message":"This model's maximum context length is 8 tokens."}}"#),
        (413, r#"{"error":{"message":"Prompt is too long"}}"#),
        (413, "prompt is too long"),
        (500, r#"{"error":{"message":"no user query found in messages"}}"#),
    ];
    for (status, body) in table {
        let error = of(status, body);
        assert_eq!((error.code, error.retryable), (ContextOverflow, false), "{body}");
    }
}

#[test]
fn a55_throttling_is_no_overflow() {
    let error = of(429, r#"{"message":"Too many tokens, please wait"}"#);
    assert_eq!((error.code, error.retryable), (RateLimited, true));
    let body = r#"{"message":"Too many tokens, please wait","type":"ThrottlingException"}"#;
    assert_eq!(of(400, body).code, RateLimited);
}

#[test]
fn a_used_up_plan_is_final_whatever_the_status() {
    for (status, body) in [
        (429, r#"{"error":{"code":"insufficient_quota","message":"m"}}"#),
        (429, r#"{"error":{"code":"billing_hard_limit_reached","message":"m"}}"#),
        (400, r#"{"error":{"message":"Your credit balance is too low"}}"#),
        (500, r#"{"error":{"message":"You've hit your usage limit"}}"#),
        (429, r#"{"error":{"message":"Quota exceeded: 100 requests per day"}}"#),
    ] {
        let error = of(status, body);
        assert_eq!((error.code, error.retryable), (QuotaExhausted, false), "{body}");
    }
    let minute = of(429, r#"{"error":{"message":"Quota exceeded: 10 requests per minute"}}"#);
    assert_eq!((minute.code, minute.retryable), (RateLimited, true));
}

#[test]
fn a_malformed_history_is_not_sent_again() {
    let body = r#"{"error":{"type":"server_error","message":"Conversation roles must alternate"}}"#;
    let error = of(500, body);
    assert_eq!((error.code, error.retryable), (ProviderRefused, false));
}

#[test]
fn complaints_have_many_shapes() {
    let table = [
        (json!({"error": {"message": "m", "code": 7, "type": "t"}}), "m", Some("7"), Some("t")),
        (json!({"error": "m"}), "m", None, None),
        (json!({"error": "t", "message": "m"}), "m", None, Some("t")),
        (json!({"message": "m", "type": "t"}), "m", None, Some("t")),
        (json!({"detail": "m"}), "m", None, None),
        (json!({"error_type": "t", "error_message": "m"}), "m", None, Some("t")),
        (json!([{"error": {"message": "m", "status": "t"}}]), "m", None, Some("t")),
        (json!({"error": {"code": "c"}}), "", Some("c"), None),
    ];
    for (value, message, code, kind) in table {
        let expected = Complaint {
            message: message.to_owned(),
            code: code.map(str::to_owned),
            kind: kind.map(str::to_owned),
        };
        assert_eq!(Complaint::of_value(&value), Some(expected), "{value}");
    }
    for value in [json!({}), json!({"error": null}), json!(3), json!([]), json!({"choices": []})] {
        assert_eq!(Complaint::of_value(&value), None, "{value}");
    }
}

#[test]
fn inside_a_stream_the_code_or_the_kind_decides() {
    let table = [
        (json!({"message": "m", "type": "server_error", "code": 400}), ProviderRefused, false),
        (json!({"message": "m", "code": 502}), ProviderUnreachable, true),
        (json!({"message": "m", "code": "429"}), RateLimited, true),
        (json!({"message": "m", "type": "BadRequestError"}), ProviderRefused, false),
        (json!({"message": "m", "type": "invalid_request_error"}), ProviderRefused, false),
        (json!({"message": "m", "type": "overloaded_error"}), ProviderUnreachable, true),
        (json!({"message": "m", "type": "rate_limit_error"}), RateLimited, true),
        (json!({"message": "m"}), ProviderUnreachable, true),
    ];
    for (value, code, retryable) in table {
        let complaint = Complaint::of_value(&value).expect("a complaint");
        let error = classify("provider p", None, &complaint);
        assert_eq!((error.code, error.retryable), (code, retryable), "{value}");
        assert_eq!((error.status, error.message.as_str()), (None, "provider p: m"), "{value}");
    }
}

#[test]
fn text_that_is_no_json_is_shown_in_one_short_line() {
    let error = of(502, &format!("<html>\n<head>{}", "x".repeat(1_000)));
    assert!(error.message.starts_with("provider p: <html> <head>xxx"), "{error}");
    assert!(error.message.chars().count() < EXCERPT_CHARS + 60);
}
