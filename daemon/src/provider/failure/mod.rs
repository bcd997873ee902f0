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

use agentd_protocol::event::TurnErrorCode;
use serde_json::Value;

use super::ModelError;

#[cfg(test)]
mod tests;

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
}

impl Complaint {
    /// What the body of an error says: JSON in any of its usual shapes, or else a piece of its text.
    pub(super) fn of_body(body: &[u8]) -> Self {
        serde_json::from_slice(body).ok().and_then(|value| Self::of_value(&value)).unwrap_or_else(
            || Self { message: excerpt(&String::from_utf8_lossy(body)), ..Self::default() },
        )
    }

    /// What a JSON document says that may be an error: `{"error": {…}}`, `{"error": "…"}`,
    /// `{"message": "…"}`, `{"detail": "…"}`, `{"error_message": "…"}`, or a list of one of these.
    /// `None` where it says nothing of the kind.
    pub(super) fn of_value(value: &Value) -> Option<Self> {
        let object = match value {
            Value::Array(list) => return list.first().and_then(Self::of_value),
            Value::String(text) => {
                return Some(Self { message: excerpt(text), ..Self::default() });
            }
            other => other.as_object()?,
        };
        if let Some(inner) = object.get("error").filter(|error| !error.is_null()) {
            let mut complaint = Self::of_value(inner)?;
            // Some put the details beside a short word.
            if let Some(message) = word(object.get("message")).filter(|_| inner.is_string()) {
                complaint = Self { message, kind: Some(complaint.message), code: None };
            }
            return Some(complaint);
        }
        let first = |names: &[&str]| names.iter().find_map(|name| word(object.get(*name)));
        let complaint = Self {
            message: first(&["message", "error_message", "detail"]).unwrap_or_default(),
            code: first(&["code", "error_code"]),
            kind: first(&["type", "error_type", "status"]),
        };
        (complaint != Self::default()).then_some(complaint)
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
        let parts = [Some(&self.message), self.code.as_ref(), self.kind.as_ref()];
        parts.into_iter().flatten().map(|part| part.to_ascii_lowercase() + " ").collect()
    }
}

/// Classifies a complaint. `status` is that of the response, absent where the error came inside a
/// stream that began well. `who` names the provider in the message.
pub(super) fn classify(who: &str, status: Option<u16>, complaint: &Complaint) -> ModelError {
    let words = complaint.words();
    // Inside a stream a server that says nothing more has failed itself.
    let meant = status.or_else(|| complaint.status()).unwrap_or(500);
    let (code, retryable, advice) = meaning(meant, &words);
    let said = match (status, complaint.message.as_str()) {
        (Some(status), "") => format!("it answered with status {status}"),
        (Some(status), message) => format!("{message} (status {status})"),
        (None, "") => "it failed in the middle of its answer".to_owned(),
        (None, message) => message.to_owned(),
    };
    ModelError {
        code,
        message: format!("{who}: {said}{advice}"),
        retryable,
        status,
        provider_code: complaint.code.clone().or_else(|| complaint.kind.clone()),
        retry_after: None,
    }
}

/// The class, whether the same again may work, and what to do.
fn meaning(status: u16, words: &str) -> (TurnErrorCode, bool, &'static str) {
    use TurnErrorCode::{
        ContextOverflow, ProviderRefused, ProviderUnreachable, QuotaExhausted, RateLimited,
    };
    let throttled = status == 429 || contains(words, &["throttl", "rate limit", "rate_limit"]);
    if status == 402 || is_quota(words) {
        return (QuotaExhausted, false, "; the plan or budget at the provider is used up");
    }
    if !throttled && is_overflow(words) {
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
    const ALWAYS: [&str; 6] = [
        "insufficient_quota",
        "billing_hard_limit",
        "credit balance",
        "usage limit",
        "insufficient credit",
        "insufficient balance",
    ];
    const PERIODS: [&str; 8] =
        ["per day", "perday", "daily", "per week", "weekly", "per month", "monthly", "/day"];
    contains(words, &ALWAYS)
        || (words.contains("quota") && words.contains("exceeded") && contains(words, &PERIODS))
}

/// The conversation does not fit the model's window.
fn is_overflow(words: &str) -> bool {
    const OVERFLOW: [&str; 13] = [
        "context_length_exceeded",
        "exceed_context_size",
        "maximum context length",
        "context length exceeded",
        "exceeds the available context size",
        "exceeds the context window",
        "exceeds the model's context",
        "maximum prompt length",
        "prompt is too long",
        "input is too long",
        "too many tokens",
        "input token count exceeds",
        // The server cut the prompt until no user message was left.
        "no user query found",
    ];
    contains(words, &OVERFLOW)
}

/// A server's template takes no two messages of one role in a row.
pub(super) fn wants_alternation(message: &str) -> bool {
    contains(&message.to_ascii_lowercase(), &["must alternate", "alternating roles"])
}

/// A 5xx that will be one again, since it is the request that is wrong.
fn is_malformed_history(words: &str) -> bool {
    const MALFORMED: [&str; 5] = [
        "roles must alternate",
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
