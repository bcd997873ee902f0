//! The classes of errors, by the wordings that servers use.

use std::time::Duration;

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

const OVERFLOWS: [(&str, u16, &str, Option<u64>); 20] = [
    (
        "OpenAI",
        400,
        r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 204308 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        Some(128_000),
    ),
    (
        "OpenAI Responses",
        400,
        r#"{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}"#,
        None,
    ),
    (
        "OpenAI, input too large for a tier",
        400,
        r#"{"error":{"message":"Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300123 tokens. Please reduce the length of the messages.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        None,
    ),
    (
        "Anthropic",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 215000 tokens > 200000 maximum"}}"#,
        Some(200_000),
    ),
    (
        "Anthropic, with the output",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again"}}"#,
        Some(200_000),
    ),
    (
        "Anthropic, body",
        413,
        r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size: prompt is too long"}}"#,
        None,
    ),
    (
        "llama.cpp",
        400,
        r#"{"error":{"code":400,"message":"request (9 tokens) exceeds the available context size (8 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9,"n_ctx":8}}"#,
        Some(8),
    ),
    (
        "llama.cpp, older",
        500,
        r#"{"error":{"code":500,"message":"Context size has been exceeded.","type":"server_error"}}"#,
        None,
    ),
    (
        "Ollama",
        400,
        r#"{"error":{"message":"input length exceeds the context length","type":"invalid_request_error","param":null,"code":null}}"#,
        None,
    ),
    ("Ollama, short", 500, r#"{"error":"the input length exceeds maximum context length"}"#, None),
    (
        "vLLM, older",
        400,
        r#"{"object":"error","message":"This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the messages, 10000 in the completion). Please reduce the length of the messages or completion.","type":"BadRequestError","param":null,"code":400}"#,
        Some(16_384),
    ),
    (
        "vLLM",
        400,
        r#"{"error":{"message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller than the number of text tokens.","type":"BadRequestError","param":null,"code":400}}"#,
        Some(4_096),
    ),
    (
        "vLLM, output",
        400,
        r#"{"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 8192 tokens and your request has 5000 input tokens","type":"BadRequestError","param":null,"code":400}}"#,
        Some(8_192),
    ),
    (
        "LM Studio",
        400,
        r#"{"error":"Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context length of only 7866 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input"}"#,
        Some(7_866),
    ),
    (
        "LM Studio, newer",
        400,
        r#"{"error":"The number of tokens to keep from the initial prompt is greater than the context length (n_keep: 13055>= n_ctx: 4096). Try to load the model with a larger context length, or provide a shorter input."}"#,
        Some(4_096),
    ),
    (
        "OpenRouter",
        400,
        r#"{"error":{"message":"This endpoint's maximum context length is 32768 tokens. However, you requested about 40000 tokens (39000 of text input, 1000 in the output). Please reduce the length of either one, or use the "middle-out" transform to compress your prompt automatically.","code":400,"metadata":{"provider_name":null}},"user_id":"u"}"#,
        Some(32_768),
    ),
    (
        "OpenRouter, a provider behind it",
        400,
        r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{"error":{"message":"This model's maximum context length is 8192 tokens. However, you requested 8246 tokens"}}","provider_name":"P"}}}"#,
        Some(8_192),
    ),
    (
        "Gemini",
        400,
        r#"[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]"#,
        Some(1_048_576),
    ),
    (
        "xAI",
        400,
        r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 150000 tokens."}"#,
        Some(131_072),
    ),
    (
        "DeepSeek",
        400,
        r#"{"error":{"message":"This model's maximum context length is 65536 tokens. However, you requested 70000 tokens","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}"#,
        Some(65_536),
    ),
];

/// What servers say when the conversation is too long, and the window that they name.
#[test]
fn overflow_in_the_words_of_servers() {
    for (server, status, body, window) in OVERFLOWS {
        let error = of(status, body);
        assert_eq!((error.code, error.retryable), (ContextOverflow, false), "{server}: {error}");
        assert_eq!(error.context_window, window, "{server}: {error}");
    }
}

const THROTTLES: [(&str, u16, &str, Option<u64>); 12] = [
    (
        "OpenAI",
        429,
        r#"{"error":{"message":"Rate limit reached for gpt-4o in organization org-1 on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 2.5s. Visit https://platform.openai.com/account/rate-limits to learn more.","type":"tokens","param":null,"code":"rate_limit_exceeded"}}"#,
        Some(2_500),
    ),
    (
        "OpenAI, minutes",
        429,
        r#"{"error":{"message":"Rate limit reached for requests per min (RPM). Please try again in 1m2.5s.","type":"requests","code":"rate_limit_exceeded"}}"#,
        Some(62_500),
    ),
    (
        "OpenAI, milliseconds",
        429,
        r#"{"error":{"message":"Rate limit reached on tokens per min. Please try again in 120ms.","code":"rate_limit_exceeded"}}"#,
        Some(120),
    ),
    (
        "OpenAI, one request over the limit",
        429,
        r#"{"error":{"message":"Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 42000. The input or output tokens must be reduced in order to run successfully.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        None,
    ),
    (
        "Anthropic",
        429,
        r#"{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 40,000 input tokens per minute. Please reduce the prompt length or the maximum tokens requested, or try again later."}}"#,
        None,
    ),
    (
        "OpenRouter, a provider behind it",
        429,
        r#"{"error":{"message":"Provider returned error","code":429,"metadata":{"raw":"m is temporarily rate-limited upstream. Please retry shortly, or add your own key to accumulate your rate limits","provider_name":"P"}}}"#,
        None,
    ),
    (
        "Gemini, a minute",
        429,
        r#"[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.\n* Quota exceeded for metric: generativelanguage.googleapis.com/generate_content_free_tier_requests, limit: 10\nPlease retry in 38.8s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"38s"}]}}]"#,
        Some(38_000),
    ),
    (
        "Gemini, no details",
        429,
        r#"{"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}"#,
        None,
    ),
    (
        "Groq",
        429,
        r#"{"error":{"message":"Rate limit reached for model `m` on tokens per minute (TPM): Limit 6000, Used 5500, Requested 900. Please try again in 4s.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        Some(4_000),
    ),
    ("Bedrock", 429, r#"{"message":"Too many tokens, please wait before trying again."}"#, None),
    (
        "Bedrock, as a 400",
        400,
        r#"{"message":"Too many requests, please wait before trying again.","__type":"ThrottlingException"}"#,
        None,
    ),
    (
        "DeepSeek",
        429,
        r#"{"error":{"message":"Rate limit reached","type":"rate_limit_error"}}"#,
        None,
    ),
];

/// What servers say when they want a slower pace, and how long they want it.
#[test]
fn throttling_in_the_words_of_servers() {
    for (server, status, body, wait) in THROTTLES {
        let error = of(status, body);
        assert_eq!((error.code, error.retryable), (RateLimited, true), "{server}: {error}");
        assert_eq!(error.retry_after, wait.map(Duration::from_millis), "{server}: {error}");
    }
}

const QUOTAS: [(&str, u16, &str); 9] = [
    (
        "OpenAI",
        429,
        r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#,
    ),
    (
        "OpenAI, a day",
        429,
        r#"{"error":{"message":"Rate limit reached for gpt-4o on requests per day (RPD): Limit 200, Used 200, Requested 1. Please try again in 7m12s.","type":"requests","code":"rate_limit_exceeded"}}"#,
    ),
    (
        "Anthropic",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}"#,
    ),
    (
        "Anthropic, a limit of one's own",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-02-01 at 00:00 UTC."}}"#,
    ),
    (
        "OpenRouter",
        402,
        r#"{"error":{"message":"This request requires more credits, or fewer max_tokens. You requested up to 32000 tokens, but can only afford 27342.","code":402,"metadata":{"provider_name":null}},"user_id":"u"}"#,
    ),
    (
        "OpenRouter, free models",
        429,
        r#"{"error":{"message":"Rate limit exceeded: free-models-per-day. Add 10 credits to unlock 1000 free model requests per day","code":429}}"#,
    ),
    (
        "Gemini, a day",
        429,
        r#"[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.\nPlease retry in 38.8s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"38s"}]}}]"#,
    ),
    (
        "DeepSeek",
        402,
        r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#,
    ),
    ("Ollama, in the cloud", 429, r#"{"error":"you've reached your weekly usage limit"}"#),
];

/// What servers say when a plan is used up.
#[test]
fn quotas_in_the_words_of_servers() {
    for (server, status, body) in QUOTAS {
        let error = of(status, body);
        assert_eq!((error.code, error.retryable), (QuotaExhausted, false), "{server}: {error}");
    }
}

#[test]
fn what_is_wrong_with_a_request_is_nothing_else() {
    let table = [
        (
            "OpenAI",
            400,
            r#"{"error":{"message":"Invalid value: 'x'. Supported values are: 'a'.","type":"invalid_request_error","param":"p","code":"invalid_value"}}"#,
        ),
        (
            "OpenAI, the output",
            400,
            r#"{"error":{"message":"max_tokens is too large: 100000. This model supports at most 16384 completion tokens","type":"invalid_request_error","code":"invalid_value"}}"#,
        ),
        (
            "Anthropic",
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.1: `tool_use` ids were found without `tool_result` blocks immediately after"}}"#,
        ),
        (
            "llama.cpp",
            500,
            r#"{"error":{"code":500,"message":"Jinja Exception: Conversation roles must alternate","type":"server_error"}}"#,
        ),
        (
            "Ollama",
            404,
            r#"{"error":{"message":"model 'm' not found","type":"not_found_error","param":null,"code":null}}"#,
        ),
        (
            "vLLM",
            400,
            r#"{"error":{"message":""auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","code":400}}"#,
        ),
    ];
    for (server, status, body) in table {
        let error = of(status, body);
        assert_eq!((error.code, error.retryable), (ProviderRefused, false), "{server}: {error}");
    }
}

#[test]
fn a57_a_prompt_that_was_cut_to_nothing_is_an_overflow() {
    let error = of(500, r#"{"error":{"message":"no user query found in messages"}}"#);
    assert_eq!((error.code, error.retryable), (ContextOverflow, false));
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
    for message in [
        "Conversation roles must alternate",
        "can only concatenate str (not \\\"NoneType\\\") to str",
        "Failed to apply the chat template",
    ] {
        let error =
            of(500, &format!(r#"{{"error":{{"type":"server_error","message":"{message}"}}}}"#));
        assert_eq!((error.code, error.retryable), (ProviderRefused, false), "{message}");
    }
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
        let found = Complaint::of_value(&value).expect("a complaint");
        let said = (found.message.as_str(), found.code.as_deref(), found.kind.as_deref());
        assert_eq!(said, (message, code, kind), "{value}");
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
