//! A recording: what was asked of model servers and what they answered, byte for byte, as lines of
//! JSON.
//!
//! Lines, so that a recording that breaks off is one up to there, and that several requests at a
//! time can write into one file: each line names its exchange. A body is kept as it went out, and a
//! piece of an answer as it was read, with its time; what is no UTF-8 is kept in Base64.
//!
//! Receives lines from `record`; hands them to `replay`.

use std::collections::BTreeMap;

use agentd_protocol::time::Time;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::provider::ModelError;

/// One line of a recording.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    Request(RequestLine),
    Response(ResponseLine),
    Data(DataLine),
    End(EndLine),
}

/// A request, before it was sent.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RequestLine {
    pub(super) exchange: String,
    pub(super) at: Time,
    /// The version of agentd.
    pub(super) agentd: String,
    pub(super) provider: String,
    /// Without a password and without a query.
    pub(super) url: String,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Box<RawValue>,
}

/// The head of its response.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ResponseLine {
    pub(super) exchange: String,
    /// Since the request.
    pub(super) ms: u64,
    pub(super) status: u16,
    pub(super) headers: BTreeMap<String, String>,
}

/// A piece of the response, as it was read.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DataLine {
    pub(super) exchange: String,
    pub(super) ms: u64,
    #[serde(flatten)]
    pub(super) data: Data,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Data {
    Text(String),
    Base64(String),
}

/// How the response ended. Without this line it was left before its end.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EndLine {
    pub(super) exchange: String,
    pub(super) ms: u64,
    pub(super) end: End,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum End {
    /// The server closed it.
    Complete,
    /// All that was needed was read.
    Left,
    /// The connection failed, in these words; `broken`: in use.
    Error { message: String, broken: bool },
}

impl End {
    pub(super) fn of(error: &ModelError) -> Self {
        Self::Error { message: error.message.clone(), broken: error.broken }
    }
}

/// What a request is about, so that another can be compared with it: who speaks, and which tools
/// are called. Texts, times and ids are left out, since they are others in every run.
pub(super) fn outline(body: &[u8]) -> Vec<String> {
    let body: Value = serde_json::from_slice(body).unwrap_or_default();
    let messages = ["messages", "input"].iter().find_map(|key| body.get(key)?.as_array());
    messages.into_iter().flatten().map(speaker).collect()
}

fn speaker(message: &Value) -> String {
    let word = |value: &Value, key: &str| value.get(key)?.as_str().map(str::to_owned);
    let who = word(message, "role").or_else(|| word(message, "type")).unwrap_or_default();
    let list = |key: &str| message.get(key).and_then(Value::as_array).into_iter().flatten();
    let calls = list("tool_calls").filter_map(|call| word(call.get("function")?, "name"));
    let parts = list("content")
        .filter(|part| part.get("type").is_some_and(|kind| kind == "tool_use"))
        .filter_map(|part| word(part, "name"));
    let own = (who == "function_call").then(|| word(message, "name")).flatten();
    let names: Vec<String> = calls.chain(parts).chain(own).collect();
    if names.is_empty() { who } else { format!("{who}({})", names.join(", ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_outline_says_who_speaks_and_what_is_called() {
        let chat = json!({ "messages": [
            { "role": "system", "content": "s" },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "1", "function": { "name": "read", "arguments": "{}" } },
                { "id": "2", "function": { "name": "grep", "arguments": "{}" } },
            ] },
            { "role": "tool", "tool_call_id": "1", "content": "r" },
        ] });
        let messages = json!({ "messages": [
            { "role": "user", "content": "u" },
            { "role": "assistant", "content": [
                { "type": "text", "text": "t" }, { "type": "tool_use", "name": "read" },
            ] },
        ] });
        let responses = json!({ "input": [
            { "role": "user", "content": "u" },
            { "type": "function_call", "name": "read" },
            { "type": "function_call_output", "output": "r" },
        ] });
        let table: [(Value, &[&str]); 4] = [
            (chat, &["system", "assistant(read, grep)", "tool"]),
            (messages, &["user", "assistant(read)"]),
            (responses, &["user", "function_call(read)", "function_call_output"]),
            (json!(3), &[]),
        ];
        for (body, expected) in table {
            assert_eq!(outline(body.to_string().as_bytes()), expected);
        }
    }
}
