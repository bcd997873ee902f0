//! What a real provider demands of a Chat Completions request, all of it at once.
//!
//! Each provider refuses some of this with a 400; the test server refuses all of it, so that a
//! history it takes is one that every provider takes.
//!
//! Receives the body of a request; hands out the first thing that is wrong with it.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

type Object = Map<String, Value>;

const BODY_KEYS: [&str; 15] = [
    "model",
    "messages",
    "stream",
    "stream_options",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "temperature",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "reasoning_effort",
    "stop",
    "seed",
    "user",
];

/// Checks a request.
pub fn check(body: &Value) -> Result<(), String> {
    let body = object(body, "the body")?;
    known(body, "the body", &BODY_KEYS)?;
    text(body, "model")?;
    if !body.get("stream").is_some_and(Value::is_boolean) {
        return Err("'stream' is neither true nor false".to_owned());
    }
    if let Some(tools) = body.get("tools") {
        check_tools(tools)?;
    }
    let messages = list(body, "messages")?;
    let mut roles = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let role = check_message(message).map_err(|why| format!("messages[{index}]: {why}"))?;
        roles.push(role);
    }
    check_order(&roles)
}

/// What the order of messages depends on.
#[derive(Debug, PartialEq)]
enum Role {
    System,
    User,
    Assistant(BTreeSet<String>),
    Tool(String),
}

fn check_message(message: &Value) -> Result<Role, String> {
    let message = object(message, "a message")?;
    match text(message, "role")? {
        "system" | "developer" => {
            known(message, "a system message", &["role", "content"])?;
            content(message)?;
            Ok(Role::System)
        }
        "user" => {
            known(message, "a user message", &["role", "content"])?;
            content(message)?;
            Ok(Role::User)
        }
        "assistant" => check_assistant(message).map(Role::Assistant),
        "tool" => {
            known(message, "a tool message", &["role", "content", "tool_call_id"])?;
            content(message)?;
            Ok(Role::Tool(text(message, "tool_call_id")?.to_owned()))
        }
        other => Err(format!("no role '{other}'")),
    }
}

fn check_assistant(message: &Object) -> Result<BTreeSet<String>, String> {
    known(
        message,
        "an assistant message",
        &["role", "content", "tool_calls", "reasoning_content"],
    )?;
    let mut ids = BTreeSet::new();
    if message.contains_key("tool_calls") {
        for call in list(message, "tool_calls")? {
            let call = object(call, "a call")?;
            known(call, "a call", &["id", "type", "function"])?;
            if call.get("type").and_then(Value::as_str) != Some("function") {
                return Err("a call's 'type' is not 'function'".to_owned());
            }
            let function = object(call.get("function").unwrap_or(&Value::Null), "'function'")?;
            known(function, "'function'", &["name", "arguments"])?;
            check_name(text(function, "name")?)?;
            let arguments = function.get("arguments").and_then(Value::as_str);
            let arguments = arguments.ok_or("'arguments' is not a string")?;
            if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
                return Err(format!("'arguments' is no JSON object: {arguments}"));
            }
            if !ids.insert(text(call, "id")?.to_owned()) {
                return Err("two calls have the same id".to_owned());
            }
        }
    }
    match message.get("content") {
        None | Some(Value::Null) if !ids.is_empty() => {}
        None | Some(Value::Null) => return Err("an assistant message says nothing".to_owned()),
        Some(Value::String(text)) if text.is_empty() && !ids.is_empty() => {}
        Some(_) => content(message)?,
    }
    Ok(ids)
}

/// Text that is not empty, or parts.
fn content(message: &Object) -> Result<(), String> {
    let parts = match message.get("content") {
        Some(Value::String(text)) if text.is_empty() => return Err("'content' is empty".to_owned()),
        Some(Value::String(_)) => return Ok(()),
        Some(Value::Array(parts)) if !parts.is_empty() => parts,
        _ => return Err("'content' is neither text nor parts".to_owned()),
    };
    for part in parts {
        let part = object(part, "a part")?;
        match text(part, "type")? {
            "text" => known(part, "a text part", &["type", "text"])?,
            "image_url" => known(part, "an image part", &["type", "image_url"])?,
            other => return Err(format!("no part '{other}'")),
        }
    }
    Ok(())
}

fn check_order(roles: &[Role]) -> Result<(), String> {
    if roles.first() != Some(&Role::System) {
        return Err("the first message is not the system message".to_owned());
    }
    let mut open = BTreeSet::new();
    for (index, role) in roles.iter().enumerate().skip(1) {
        match role {
            Role::Tool(id) if open.remove(id) => {}
            Role::Tool(id) => return Err(format!("messages[{index}] answers no open call: {id}")),
            _ if !open.is_empty() => {
                return Err(format!(
                    "messages[{index}]: calls without an answer before it: {open:?}"
                ));
            }
            Role::System => return Err(format!("messages[{index}] is a second system message")),
            Role::User => {}
            Role::Assistant(calls) => open.clone_from(calls),
        }
    }
    match roles.last() {
        _ if !open.is_empty() => Err(format!("calls without an answer at the end: {open:?}")),
        Some(Role::User | Role::Tool(_)) => Ok(()),
        _ => Err("the last message is neither a user's nor a tool's".to_owned()),
    }
}

fn check_tools(tools: &Value) -> Result<(), String> {
    let tools = tools.as_array().filter(|tools| !tools.is_empty()).ok_or("'tools' is empty")?;
    let mut names = BTreeSet::new();
    for tool in tools {
        let tool = object(tool, "a tool")?;
        known(tool, "a tool", &["type", "function"])?;
        let function = object(tool.get("function").unwrap_or(&Value::Null), "'function'")?;
        known(function, "'function'", &["name", "description", "parameters", "strict"])?;
        let name = text(function, "name")?;
        check_name(name)?;
        if function.get("parameters").and_then(|schema| schema.get("type")).is_none() {
            return Err(format!("the parameters of '{name}' are no object schema"));
        }
        if !names.insert(name) {
            return Err(format!("two tools are called '{name}'"));
        }
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), String> {
    let is_right = (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if is_right { Ok(()) } else { Err(format!("'{name}' is no name of a function")) }
}

fn object<'a>(value: &'a Value, what: &str) -> Result<&'a Object, String> {
    value.as_object().ok_or_else(|| format!("{what} is no object"))
}

fn list<'a>(object: &'a Object, key: &str) -> Result<&'a Vec<Value>, String> {
    let list = object.get(key).and_then(Value::as_array).filter(|list| !list.is_empty());
    list.ok_or_else(|| format!("'{key}' is not a list with something in it"))
}

fn text<'a>(object: &'a Object, key: &str) -> Result<&'a str, String> {
    let text = object.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    text.ok_or_else(|| format!("'{key}' is not a text with something in it"))
}

fn known(object: &Object, what: &str, keys: &[&str]) -> Result<(), String> {
    match object.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!("unknown key '{key}' in {what}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request(messages: &Value) -> Value {
        json!({ "model": "m", "stream": true, "messages": messages })
    }

    #[test]
    fn a_good_history_is_taken() {
        let messages = json!([
            { "role": "system", "content": "s" },
            { "role": "user", "content": "u" },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "1", "type": "function", "function": { "name": "a", "arguments": "{}" } },
                { "id": "2", "type": "function", "function": { "name": "a", "arguments": "{}" } },
            ] },
            { "role": "tool", "tool_call_id": "1", "content": "r" },
            { "role": "tool", "tool_call_id": "2", "content": "r" },
            { "role": "assistant", "content": "t" },
            { "role": "user", "content": [{ "type": "text", "text": "u" }] },
        ]);
        assert_eq!(check(&request(&messages)), Ok(()));
    }

    #[test]
    fn bad_histories_are_refused() {
        let system = json!({ "role": "system", "content": "s" });
        let user = json!({ "role": "user", "content": "u" });
        let call = json!({ "role": "assistant", "content": "", "tool_calls": [
            { "id": "1", "type": "function", "function": { "name": "a", "arguments": "{}" } },
        ] });
        let result = |id: &str| json!({ "role": "tool", "tool_call_id": id, "content": "r" });
        let cases = [
            (json!([]), "'messages' is not a list"),
            (json!([user]), "the first message is not the system message"),
            (json!([system, user, system]), "messages[2] is a second system message"),
            (json!([system, user, call]), "calls without an answer at the end"),
            (json!([system, user, call, user]), "messages[3]: calls without an answer"),
            (json!([system, user, call, result("2")]), "messages[3] answers no open call"),
            (
                json!([system, user, call, result("1"), result("1")]),
                "messages[4] answers no open call",
            ),
            (
                json!([system, user, { "role": "assistant", "content": "a" }]),
                "the last message is neither",
            ),
            (
                json!([system, user, { "role": "assistant", "content": "" }, user]),
                "messages[2]: 'content' is empty",
            ),
            (
                json!([system, { "role": "user", "content": "u", "id": 1 }]),
                "messages[1]: unknown key 'id'",
            ),
        ];
        for (messages, expected) in cases {
            let refusal = check(&request(&messages)).expect_err(expected);
            assert!(refusal.starts_with(expected), "{messages}\n  said: {refusal}");
        }
        let unknown = json!({ "model": "m", "stream": true, "messages": [system, user], "x": 1 });
        assert_eq!(check(&unknown), Err("unknown key 'x' in the body".to_owned()));
    }
}
