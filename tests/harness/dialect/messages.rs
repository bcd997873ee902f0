//! Anthropic's Messages: what a real server demands of a request, and the events it sends.
//!
//! Thinking comes signed: here the signature is the text with a mark before it, so that a request
//! shows whether it came back as it was.
//!
//! Receives steps and the body of a request; hands out events and the first thing that is wrong.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Ending, Speak, Step, event, strings};

/// What stands before signed thinking.
const SEAL: &str = "signed:";
/// What moves on with every request.
pub(super) const CACHE_MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;
/// Cache marks of one request.
const MAX_MARKS: usize = 4;

const BODY_KEYS: [&str; 10] = [
    "model",
    "messages",
    "system",
    "stream",
    "max_tokens",
    "tools",
    "tool_choice",
    "temperature",
    "thinking",
    "output_config",
];

/// An answer's blocks.
#[derive(Default)]
pub(super) struct Speaker {
    index: usize,
    open: Option<&'static str>,
    thought: String,
}

impl Speaker {
    fn of_kind(&mut self, kind: &'static str, block: &Value) -> String {
        if self.open == Some(kind) && kind != "tool_use" {
            return String::new();
        }
        let mut said = self.close();
        self.open = Some(kind);
        said += &event(&json!({
            "type": "content_block_start", "index": self.index, "content_block": block,
        }));
        said
    }

    fn delta(&self, delta: &Value) -> String {
        event(&json!({ "type": "content_block_delta", "index": self.index, "delta": delta }))
    }

    fn close(&mut self) -> String {
        let Some(kind) = self.open.take() else { return String::new() };
        let mut said = String::new();
        if kind == "thinking" {
            let signature = format!("{SEAL}{}", std::mem::take(&mut self.thought));
            said = self.delta(&json!({ "type": "signature_delta", "signature": signature }));
        }
        said += &event(&json!({ "type": "content_block_stop", "index": self.index }));
        self.index += 1;
        said
    }
}

impl Speak for Speaker {
    fn begin(&mut self) -> String {
        let usage = json!({ "input_tokens": 0, "output_tokens": 1 });
        let message = json!({
            "id": "msg_1", "type": "message", "role": "assistant", "content": [],
            "model": "model", "stop_reason": null, "usage": usage,
        });
        event(&json!({ "type": "message_start", "message": message }))
            + &event(&json!({ "type": "ping" }))
    }

    fn step(&mut self, step: &Step) -> String {
        match step {
            Step::Text(piece) => {
                let opened = self.of_kind("text", &json!({ "type": "text", "text": "" }));
                opened + &self.delta(&json!({ "type": "text_delta", "text": piece }))
            }
            Step::Reasoning(piece) => {
                let block = json!({ "type": "thinking", "thinking": "", "signature": "" });
                let opened = self.of_kind("thinking", &block);
                self.thought.push_str(piece);
                opened + &self.delta(&json!({ "type": "thinking_delta", "thinking": piece }))
            }
            Step::Call { index, name } => {
                let id = format!("provider-{index}");
                let block = json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
                self.of_kind("tool_use", &block)
            }
            Step::Arguments { piece, .. } => {
                self.delta(&json!({ "type": "input_json_delta", "partial_json": piece }))
            }
            Step::Pause => {
                let block =
                    json!({ "type": "server_tool_use", "id": "srv_1", "name": "x", "input": {} });
                self.of_kind("server_tool_use", &block)
            }
        }
    }

    fn usage(&mut self, ending: &Ending) -> String {
        let closed = self.close();
        let (reason, usage) = outcome(ending);
        closed
            + &event(&json!({
                "type": "message_delta", "delta": { "stop_reason": reason }, "usage": usage,
            }))
    }

    fn end(&mut self, ending: &Ending) -> String {
        self.usage(ending) + &event(&json!({ "type": "message_stop" }))
    }

    fn whole(&mut self, steps: &[Step], ending: &Ending) -> Value {
        let mut content: Vec<Value> = Vec::new();
        let mut json = String::new();
        for step in steps {
            let (kind, name, piece) = match step {
                Step::Text(piece) => ("text", "text", piece.as_str()),
                Step::Reasoning(piece) => ("thinking", "thinking", piece.as_str()),
                Step::Call { index, name } => {
                    let id = format!("provider-{index}");
                    content.push(json!({ "type": "tool_use", "id": id, "name": name }));
                    json.clear();
                    continue;
                }
                Step::Arguments { piece, .. } => {
                    json.push_str(piece);
                    let call = content.last_mut().expect("it began");
                    call["input"] = serde_json::from_str(&json).unwrap_or_else(|_| json!({}));
                    continue;
                }
                Step::Pause => continue,
            };
            if content.last().is_none_or(|last| last["type"] != kind) {
                content.push(json!({ "type": kind, name: "" }));
            }
            let block = content.last_mut().expect("one is open");
            let text = block[name].as_str().unwrap_or_default().to_owned() + piece;
            if kind == "thinking" {
                block["signature"] = format!("{SEAL}{text}").into();
            }
            block[name] = text.into();
        }
        let (reason, usage) = outcome(ending);
        json!({
            "type": "message", "role": "assistant", "content": content, "stop_reason": reason,
            "usage": usage,
        })
    }
}

/// Why an answer stopped, and what it used.
fn outcome(ending: &Ending) -> (&'static str, Value) {
    let reason = match ending.finish_reason {
        _ if ending.pauses => "pause_turn",
        "stop" => "end_turn",
        "tool_calls" => "tool_use",
        "length" => "max_tokens",
        other => other,
    };
    let input = ending.usage["prompt_tokens"].as_u64().unwrap_or_default();
    let usage = json!({
        "input_tokens": input.saturating_sub(40), "cache_read_input_tokens": input.min(40),
        "output_tokens": ending.usage["completion_tokens"],
    });
    (reason, usage)
}

/// Checks a request.
pub fn check(body: &Value) -> Result<(), String> {
    let fields = body.as_object().ok_or("the body is no object")?;
    if let Some(key) = fields.keys().find(|key| !BODY_KEYS.contains(&key.as_str())) {
        return Err(format!("{key}: Extra inputs are not permitted"));
    }
    if body["max_tokens"].as_u64().is_none_or(|tokens| tokens == 0) {
        return Err("max_tokens: Field required".to_owned());
    }
    if body.to_string().matches(CACHE_MARK.trim_start_matches(',')).count() > MAX_MARKS {
        return Err("A maximum of 4 blocks with cache_control may be provided.".to_owned());
    }
    for block in strings(&body["system"]) {
        check_text(block).map_err(|why| format!("system: {why}"))?;
    }
    for tool in strings(&body["tools"]) {
        if tool["name"].as_str().is_none_or(str::is_empty)
            || tool["input_schema"]["type"] != "object"
        {
            return Err(format!("tools: input_schema: Field required: {tool}"));
        }
    }
    check_order(body["messages"].as_array().ok_or("messages: Field required")?)
}

/// Roles that do not alternate are joined by the real server, and refused by some others.
pub(super) fn alternates(body: &Value) -> Result<(), String> {
    let messages = body["messages"].as_array().ok_or("messages: Field required")?;
    for pair in messages.windows(2) {
        if pair[0]["role"] == pair[1]["role"] && !is_paused(&pair[0]) {
            let role = &pair[0]["role"];
            return Err(format!(
                "messages: roles must alternate, but found two of {role} in a row"
            ));
        }
    }
    Ok(())
}

/// Whether a message is an answer whose turn has not ended.
fn is_paused(message: &Value) -> bool {
    strings(&message["content"]).last().is_some_and(|block| block["type"] == "server_tool_use")
}

fn check_order(messages: &[Value]) -> Result<(), String> {
    let mut ids = BTreeSet::new();
    let mut open: BTreeSet<String> = BTreeSet::new();
    if messages.first().is_none_or(|first| first["role"] != "user") {
        return Err("messages: first message must use the \"user\" role".to_owned());
    }
    for (index, message) in messages.iter().enumerate() {
        let at = |why: String| format!("messages.{index}: {why}");
        let blocks = message["content"].as_array().filter(|blocks| !blocks.is_empty());
        let blocks = blocks.ok_or_else(|| at("content must have something in it".to_owned()))?;
        match message["role"].as_str() {
            Some("assistant") => {
                open = check_answer(blocks, &mut ids).map_err(at)?;
            }
            Some("user") => check_input(blocks, &mut open).map_err(at)?,
            other => return Err(at(format!("role: unexpected {other:?}"))),
        }
    }
    match messages.last() {
        Some(last) if last["role"] == "user" || is_paused(last) => Ok(()),
        _ => Err("the conversation must end with a user message".to_owned()),
    }
}

/// The calls that the next message has to answer.
fn check_answer<'a>(
    blocks: &'a [Value],
    ids: &mut BTreeSet<&'a str>,
) -> Result<BTreeSet<String>, String> {
    let mut calls = BTreeSet::new();
    for block in blocks {
        match block["type"].as_str() {
            Some("text") => check_text(block)?,
            Some("thinking") => {
                let thought = block["thinking"].as_str().ok_or("thinking: Field required")?;
                if block["signature"] != format!("{SEAL}{thought}") {
                    return Err("Invalid `signature` in `thinking` block".to_owned());
                }
            }
            Some("tool_use") => {
                let id = block["id"].as_str().unwrap_or_default();
                let name = block["name"].as_str().unwrap_or_default();
                let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
                if ![id, name].iter().all(|word| !word.is_empty() && word.bytes().all(plain)) {
                    return Err(format!("tool_use: String should match pattern: {block}"));
                }
                if !block["input"].is_object() {
                    return Err("tool_use.input: Input should be a valid dictionary".to_owned());
                }
                if !ids.insert(id) {
                    return Err(format!("`tool_use` ids must be unique: {id}"));
                }
                calls.insert(id.to_owned());
            }
            Some("redacted_thinking" | "server_tool_use") => {}
            other => return Err(format!("type: unexpected {other:?}")),
        }
    }
    if blocks.last().is_some_and(|last| last["type"] == "thinking") {
        return Err("The final block in an assistant message cannot be `thinking`.".to_owned());
    }
    Ok(calls)
}

fn check_input(blocks: &[Value], open: &mut BTreeSet<String>) -> Result<(), String> {
    for block in blocks {
        match block["type"].as_str() {
            Some("tool_result") => {
                let id = block["tool_use_id"].as_str().unwrap_or_default();
                if !open.remove(id) {
                    return Err(format!("unexpected `tool_use_id` found in `tool_result`: {id}"));
                }
                for inner in strings(&block["content"]) {
                    if inner["type"] == "image" && block["is_error"] == true {
                        return Err("all content must be type `text` if `is_error` is true".into());
                    }
                    check_shown(inner)?;
                }
            }
            _ if !open.is_empty() => break,
            _ => check_shown(block)?,
        }
    }
    match open.first() {
        Some(id) => Err(format!(
            "`tool_use` ids were found without `tool_result` blocks immediately after: {id}"
        )),
        None => Ok(()),
    }
}

fn check_shown(block: &Value) -> Result<(), String> {
    let source = &block["source"];
    match block["type"].as_str() {
        Some("text") => check_text(block),
        Some("image") if source["type"] == "base64" && source["data"].is_string() => Ok(()),
        other => Err(format!("type: unexpected {other:?}")),
    }
}

fn check_text(block: &Value) -> Result<(), String> {
    match block["text"].as_str() {
        Some(text) if !text.trim().is_empty() => Ok(()),
        _ => Err("text content blocks must contain non-whitespace text".to_owned()),
    }
}

pub(super) fn said(body: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        blocks => strings(blocks).filter_map(|block| block["text"].as_str()).collect(),
    };
    let mut said = Vec::new();
    for message in strings(&body["messages"]) {
        let role = message["role"].as_str().unwrap_or_default();
        for block in strings(&message["content"]) {
            match block["type"].as_str() {
                Some("text") => said.push((role.to_owned(), text(&block["text"]))),
                Some("tool_use") => said.push((role.to_owned(), text(&block["name"]))),
                Some("tool_result") => said.push(("tool".to_owned(), text(&block["content"]))),
                _ => {}
            }
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_histories_are_refused() {
        let text = |text: &str| json!({ "type": "text", "text": text });
        let user = json!({ "role": "user", "content": [text("u")] });
        let said = json!({ "role": "assistant", "content": [text("a")] });
        let call = json!({ "role": "assistant", "content": [
            { "type": "tool_use", "id": "1", "name": "a", "input": {} },
        ] });
        let result = json!({ "type": "tool_result", "tool_use_id": "1", "content": "r" });
        let results = json!({ "role": "user", "content": [result, text("u")] });
        let late = json!({ "role": "user", "content": [text("u"), result] });
        let thought = |signature: &str| {
            let block = json!({ "type": "thinking", "thinking": "hm", "signature": signature });
            json!({ "role": "assistant", "content": [block, text("a")] })
        };
        let checked = |messages: Value| {
            let body = json!({ "model": "m", "max_tokens": 1, "messages": messages });
            check(&body).and_then(|()| alternates(&body))
        };
        assert_eq!(checked(json!([user, call, results, thought("signed:hm"), user])), Ok(()));
        let cases = [
            (json!([]), "messages: first message"),
            (json!([said]), "messages: first message"),
            (json!([user, user]), "messages: roles must alternate"),
            (json!([user, said]), "the conversation must end"),
            (json!([user, call, user]), "messages.2: `tool_use` ids were found without"),
            (json!([user, call, late]), "messages.2: `tool_use` ids were found without"),
            (json!([user, said, results]), "messages.2: unexpected `tool_use_id`"),
            (json!([user, call, results, call, results]), "messages.3: `tool_use` ids must be"),
            (json!([user, thought("signed:x"), user]), "messages.1: Invalid `signature`"),
            (
                json!([user, { "role": "assistant", "content": [] }, user]),
                "messages.1: content must have",
            ),
            (json!([{ "role": "user", "content": [text(" ")] }]), "messages.0: text content"),
            (json!([user, said, { "role": "system", "content": [text("s")] }]), "messages.2: role"),
        ];
        for (messages, expected) in cases {
            let refusal = checked(messages.clone()).expect_err(expected);
            assert!(refusal.starts_with(expected), "{messages}\n  said: {refusal}");
        }
    }
}
