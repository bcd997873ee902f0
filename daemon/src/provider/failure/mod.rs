//! What a provider's complaint means: an HTTP status and a body → a [`ModelError`].
//!
//! Every server words its errors in its own way, and the loop must know four things of them:
//! whether the same again may work, whether a plan is used up, whether the conversation is too
//! long, or whether the request itself is wrong. The status decides where it can; words decide
//! where servers misuse statuses (an overflow as 413 or 500, a used-up plan as 429, a malformed
//! history as 500).
//!
//! Receives statuses and bodies from `http` and errors inside streams from the wire formats; hands
//! back classified errors.

use std::time::Duration;

use agentd_protocol::event::TurnErrorCode;
use serde_json::Value;

use super::ModelError;

#[cfg(test)]
mod tests;

/// Bytes of a complaint that are searched for words.
const MAX_WORDS_BYTES: usize = 8 * 1024;

/// Characters of a provider's text that an error repeats.
const EXCERPT_CHARS: usize = 300;

/// A provider's complaint, as far as it says anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Complaint {
    /// In words; empty where there are none.
    pub(super) message: String,
    /// The provider's own code.
    pub(super) code: Option<String>,
    /// The kind, in the provider's words.
    pub(super) kind: Option<String>,
    /// The window in tokens, where it is a number of its own.
    window: Option<u64>,
    /// How long to wait, where the body says so.
    wait: Option<Duration>,
    /// What a server behind an aggregator said, beside the aggregator's own words.
    inner: Option<String>,
    /// All that was said, in small letters, as far as it may matter.
    words: String,
}

impl Complaint {
    /// What the body of an error says: JSON in any of its usual shapes, or else a piece of its text.
    pub(super) fn of_body(body: &[u8]) -> Self {
        serde_json::from_slice(body)
            .ok()
            .and_then(|value| Self::of_value(&value))
            .unwrap_or_else(|| Self::of_text(&String::from_utf8_lossy(body)))
    }

    /// What a JSON document says that may be an error: `{"error": {…}}`, `{"error": "…"}`,
    /// `{"message": "…"}`, `{"detail": "…"}`, `{"error_message": "…"}`, or a list of one of these.
    /// `None` where it says nothing of the kind.
    pub(super) fn of_value(value: &Value) -> Option<Self> {
        let object = match value {
            Value::Array(list) => return list.first().and_then(Self::of_value),
            Value::String(text) => return Some(Self::of_text(text)),
            other => other.as_object()?,
        };
        if let Some(inner) = object.get("error").filter(|error| !error.is_null()) {
            let mut complaint = Self::of_value(inner)?;
            // Some put the details beside a short word.
            if let Some(message) = text(object.get("message")).filter(|_| inner.is_string()) {
                complaint = Self { kind: Some(complaint.message), ..Self::of_text(message) };
            }
            return Some(complaint);
        }
        let first = |names: &[&str]| names.iter().find_map(|name| word(object.get(*name)));
        let said = ["message", "error_message", "detail"];
        let message = said.iter().find_map(|name| text(object.get(*name)));
        // FastAPI lists what is wrong with each field.
        let listed = object.get("detail").filter(|detail| detail.is_array());
        let listed = message.is_none().then(|| listed.map(Value::to_string)).flatten();
        let message = message.or(listed.as_deref()).unwrap_or_default();
        let raw = object.get("metadata").and_then(|metadata| metadata.get("raw"));
        let details = object.get("details");
        let complaint = Self {
            code: first(&["code", "error_code"]),
            kind: first(&["type", "error_type", "status"]),
            window: object.get("n_ctx").and_then(Value::as_u64),
            wait: wait_of_details(details).or_else(|| wait_of_words(message)),
            inner: raw.and_then(|raw| word(Some(raw)).or_else(|| Some(excerpt(&raw.to_string())))),
            message: excerpt(message),
            words: search_text(&[
                message.to_owned(),
                details.map(Value::to_string).unwrap_or_default(),
                raw.map(Value::to_string).unwrap_or_default(),
            ]),
        };
        let says = !complaint.message.is_empty() || complaint.code.is_some();
        (says || complaint.kind.is_some()).then_some(complaint)
    }

    fn of_text(text: &str) -> Self {
        Self {
            message: excerpt(text),
            wait: wait_of_words(text),
            words: search_text(&[text.to_owned()]),
            ..Self::default()
        }
    }

    /// The status that the code stands for, or else the kind's words.
    fn status(&self) -> Option<u16> {
        let code = self.code.as_deref().and_then(|code| code.parse().ok());
        code.filter(|code| (400..600).contains(code)).or_else(|| {
            let kind = format!("{} {}", self.kind.as_deref()?, self.code.as_deref().unwrap_or(""))
                .to_ascii_lowercase();
            let of_words = [
                (["authentication", "unauthorized"], 401),
                (["permission", "forbidden"], 403),
                (["not_found", "notfound"], 404),
                (["rate_limit", "ratelimit"], 429),
                (["throttl", "too_many_requests"], 429),
                (["invalid", "badrequest"], 400),
                (["bad_request", "unprocessable"], 400),
                (["overloaded", "unavailable"], 503),
            ];
            let found = of_words.iter().find(|(words, _)| words.iter().any(|w| kind.contains(w)));
            found.map(|(_, status)| *status)
        })
    }

    fn words(&self) -> String {
        let terms = [self.code.as_deref(), self.kind.as_deref()].into_iter().flatten();
        let terms: String = terms.map(|term| term.to_ascii_lowercase() + " ").collect();
        format!("{} {terms}", self.words)
    }
}

/// What is searched for words.
fn search_text(parts: &[String]) -> String {
    let mut words = parts.join(" ").to_ascii_lowercase();
    let end = (0..=MAX_WORDS_BYTES.min(words.len())).rev().find(|at| words.is_char_boundary(*at));
    words.truncate(end.unwrap_or(0));
    words
}

/// The text of a value.
fn text(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// Classifies a complaint. `status` is that of the response, absent where the error came inside a
/// stream that began well. `who` names the provider in the message.
pub(super) fn classify(who: &str, status: Option<u16>, complaint: &Complaint) -> ModelError {
    let words = complaint.words();
    // Inside a stream a server that says nothing more has failed itself.
    let meant = status.or_else(|| complaint.status()).unwrap_or(500);
    let (code, retryable, advice) = meaning(meant, &words);
    let message = match &complaint.inner {
        Some(inner) => format!("{}: {inner}", complaint.message),
        None => complaint.message.clone(),
    };
    let said = match (status, message.as_str()) {
        (Some(status), "") => format!("it answered with status {status}"),
        (Some(status), message) => format!("{message} (status {status})"),
        (None, "") => "it failed in the middle of its answer".to_owned(),
        (None, message) => message.to_owned(),
    };
    let overflows = code == TurnErrorCode::ContextOverflow;
    ModelError {
        retryable,
        status,
        provider_code: complaint.code.clone().or_else(|| complaint.kind.clone()),
        retry_after: complaint.wait,
        context_window: complaint.window.or_else(|| window_of_words(&words)).filter(|_| overflows),
        ..ModelError::new(code, format!("{who}: {said}{advice}"))
    }
}

/// The class, whether the same again may work, and what to do.
fn meaning(status: u16, words: &str) -> (TurnErrorCode, bool, &'static str) {
    use TurnErrorCode::{
        ContextOverflow, ProviderRefused, ProviderUnreachable, QuotaExhausted, RateLimited,
    };
    let throttled = status == 429
        || contains(words, &["throttl", "rate limit", "rate_limit", "too many requests"]);
    if status == 402 || is_quota(words) {
        return (QuotaExhausted, false, "; the plan or budget at the provider is used up");
    }
    if is_overflow(words, throttled) {
        return (ContextOverflow, false, "");
    }
    match status {
        429 => (RateLimited, true, ""),
        _ if throttled => (RateLimited, true, ""),
        401 | 403 => (ProviderRefused, false, "; check its `api_key`"),
        404 => (ProviderRefused, false, "; check the model's name and `base_url`"),
        409 => (ProviderRefused, true, ""),
        408 => (ProviderUnreachable, true, ""),
        500..=u16::MAX if !is_malformed_history(words) => (ProviderUnreachable, true, ""),
        300..=399 => (ProviderRefused, false, "; it redirects, set `base_url` to where it does"),
        _ => (ProviderRefused, false, ""),
    }
}

/// A plan or budget is used up. A quota a minute is a rate limit.
fn is_quota(words: &str) -> bool {
    const ALWAYS: [&str; 9] = [
        "insufficient_quota",
        "billing_hard_limit",
        "credit balance",
        "usage limit",
        "insufficient credit",
        "insufficient balance",
        "insufficient_balance",
        "requires more credits",
        "reached your specified api usage limits",
    ];
    const PERIODS: [&str; 14] = [
        "per day",
        "per-day",
        "perday",
        "daily",
        "/day",
        "(rpd)",
        "(tpd)",
        "per week",
        "weekly",
        "per month",
        "per-month",
        "permonth",
        "monthly",
        "/month",
    ];
    let exceeded = contains(words, &["exceed", "limit reached", "used up", "exhausted"]);
    let of_a_day = contains(words, &["quota", "limit"]) && contains(words, &PERIODS);
    contains(words, &ALWAYS) || (exceeded && of_a_day)
}

/// The conversation does not fit the model's window. A throttle also speaks of too many tokens, so
/// where one is likely only words count that no throttle uses.
fn is_overflow(words: &str, throttled: bool) -> bool {
    const SURE: [&str; 26] = [
        // OpenAI, vLLM, LM Studio, OpenRouter, DeepSeek.
        "context_length_exceeded",
        "maximum context length",
        "maximum model length",
        "max_model_len",
        "context length exceeded",
        "exceeds the context window",
        "exceed the context window",
        "exceeds the context length",
        "exceeds the model's context",
        "exceeds model context",
        "exceeded model token limit",
        "greater than the context length",
        "larger than the context",
        "context the overflows",
        "context overflow",
        "context window exceeds limit",
        "input length and `max_tokens` exceed context limit",
        // llama.cpp.
        "exceed_context_size",
        "exceeds the available context size",
        "context size has been exceeded",
        // Anthropic, Bedrock.
        "prompt is too long",
        "input is too long",
        // Ollama.
        "input length exceeds",
        // Gemini.
        "input token count",
        // xAI.
        "maximum prompt length",
        // A server cut the prompt until no user message was left.
        "no user query found",
    ];
    const UNSURE: [&str; 4] =
        ["too many tokens", "context limit", "context window", "reduce the length"];
    contains(words, &SURE) || (!throttled && contains(words, &UNSURE))
}

/// The window in tokens, where a server's sentence says it.
fn window_of_words(words: &str) -> Option<u64> {
    // Before the number stands what it is, or behind it.
    const BEFORE: [&str; 13] = [
        "n_ctx: ",
        "maximum context length is ",
        "maximum context length of ",
        "maximum context length (",
        "maximum model length of ",
        "maximum number of tokens allowed (",
        "maximum number of tokens allowed ",
        "available context size (",
        "context length of only ",
        "context length (",
        "context window of ",
        "maximum prompt length is ",
        "context limit of ",
    ];
    let number = |text: &str| {
        let digits: String =
            text.chars().take_while(|c| c.is_ascii_digit() || matches!(c, ',' | '_')).collect();
        digits.replace([',', '_'], "").parse().ok().filter(|tokens| *tokens > 0)
    };
    let behind = |part: &&str| words.split_once(*part).and_then(|(_, rest)| number(rest));
    BEFORE.iter().find_map(behind).or_else(|| {
        // Anthropic: "215000 tokens > 200000 maximum", and its sum "188240 + 21333 > 200000".
        let (_, rest) = words.split_once(" > ")?;
        number(rest)
    })
}

/// Google's `RetryInfo`.
fn wait_of_details(details: Option<&Value>) -> Option<Duration> {
    let mut delays = details?.as_array()?.iter().filter_map(|detail| detail.get("retryDelay"));
    let seconds = delays.next()?.as_str()?.strip_suffix('s')?.parse().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// "Please try again in 1m2.5s" (OpenAI), "Please retry in 38.8s" (Gemini), without a header.
fn wait_of_words(message: &str) -> Option<Duration> {
    let said = ["try again in ", "retry in "].iter().find_map(|part| message.split_once(part));
    let (_, mut rest) = said?;
    let mut wait = Duration::ZERO;
    loop {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let Ok(amount) = rest[..digits].parse::<f64>() else { break };
        let unit_end = rest[digits..].find(|c: char| !c.is_ascii_alphabetic());
        let unit = &rest[digits..unit_end.map_or(rest.len(), |end| digits + end)];
        let seconds = match unit {
            "ms" => amount / 1_000.0,
            "s" => amount,
            "m" => amount * 60.0,
            "h" => amount * 3_600.0,
            _ => break,
        };
        wait = wait.checked_add(Duration::try_from_secs_f64(seconds).ok()?)?;
        rest = &rest[digits + unit.len()..];
    }
    (wait > Duration::ZERO).then_some(wait)
}

/// A 5xx that will be one again, since it is the request that is wrong.
fn is_malformed_history(words: &str) -> bool {
    const MALFORMED: [&str; 7] = [
        "roles must alternate",
        "nonetype",
        "chat template",
        "tool_call_id",
        "invalid message",
        "must be followed by tool",
        "jinja",
    ];
    contains(words, &MALFORMED)
}

fn contains(words: &str, any: &[&str]) -> bool {
    any.iter().any(|part| words.contains(part))
}

/// A string or a number as a word, cut; nothing for other things and for empty text.
fn word(value: Option<&Value>) -> Option<String> {
    let text = match value? {
        Value::String(text) => excerpt(text),
        Value::Number(number) => number.to_string(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// The start of a text on one line.
pub(super) fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}
