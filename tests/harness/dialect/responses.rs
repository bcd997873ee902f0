//! Responses without storage: what a real server demands of a request, and the events it sends.
//!
//! Reasoning comes encrypted: here that is its text with a mark before it, so that a request shows
//! whether it came back as it was.
//!
//! Receives steps and the body of a request; hands out events and the first thing that is wrong.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Ending, Speak, Step, event, strings};

/// What stands before encrypted reasoning.
const SEAL: &str = "sealed:";

const BODY_KEYS: [&str; 10] = [
    "model",
    "input",
    "stream",
    "store",
    "tools",
    "include",
    "reasoning",
    "temperature",
    "max_output_tokens",
    "parallel_tool_calls",
];

/// An answer's items.
#[derive(Default)]
pub(super) struct Speaker {
    items: Vec<Value>,
    /// The last item is not done.
    open: bool,
}

impl Speaker {
    /// Opens an item of this kind, if the open one is of another; what has to be said for it.
    fn of_kind(&mut self, kind: &str, item: Value) -> String {
        if self.open && kind != "function_call" && self.items[self.items.len() - 1]["type"] == kind
        {
            return String::new();
        }
        let mut said = self.close();
        self.open = true;
        let index = self.items.len();
        said += &event(&json!({
            "type": "response.output_item.added", "output_index": index, "item": item,
        }));
        self.items.push(item);
        said
    }

    fn delta(&mut self, kind: &str, piece: &str) -> String {
        let index = self.items.len() - 1;
        event(&json!({
            "type": format!("response.{kind}.delta"), "output_index": index,
            "content_index": 0, "summary_index": 0, "delta": piece,
        }))
    }

    /// Puts a piece behind the text that is at `pointer` of the last item.
    fn add(&mut self, pointer: &str, piece: &str) {
        let item = self.items.last_mut().expect("one is open");
        let text = item.pointer_mut(pointer).expect("it has a text");
        *text = format!("{}{piece}", text.as_str().unwrap_or_default()).into();
    }

    /// The answer, once its last item is done.
    fn response(&self, ending: &Ending) -> Value {
        let usage = json!({
            "input_tokens": ending.usage["prompt_tokens"],
            "output_tokens": ending.usage["completion_tokens"],
            "input_tokens_details": { "cached_tokens": 40 },
        });
        let cut = ending.finish_reason == "length";
        let mut response = json!({
            "id": "resp_1", "status": if cut { "incomplete" } else { "completed" },
            "output": self.items, "usage": usage,
        });
        if cut {
            response["incomplete_details"] = json!({ "reason": "max_output_tokens" });
        }
        if ending.pauses {
            response["end_turn"] = json!(false);
        }
        response
    }

    fn close(&mut self) -> String {
        if !std::mem::take(&mut self.open) {
            return String::new();
        }
        let index = self.items.len() - 1;
        let item = &mut self.items[index];
        if item["type"] == "reasoning" {
            let text = item["summary"][0]["text"].as_str().unwrap_or_default();
            item["encrypted_content"] = format!("{SEAL}{text}").into();
        }
        let item = item.clone();
        event(&json!({ "type": "response.output_item.done", "output_index": index, "item": item }))
    }
}

impl Speak for Speaker {
    fn begin(&mut self) -> String {
        let response = json!({ "id": "resp_1", "status": "in_progress", "output": [] });
        event(&json!({ "type": "response.created", "response": response }))
    }

    fn step(&mut self, step: &Step) -> String {
        let id = self.items.len();
        match step {
            Step::Text(piece) => {
                let content = json!([{ "type": "output_text", "text": "" }]);
                let item = json!({
                    "type": "message", "id": format!("msg_{id}"), "role": "assistant",
                    "content": content,
                });
                let opened = self.of_kind("message", item);
                self.add("/content/0/text", piece);
                opened + &self.delta("output_text", piece)
            }
            Step::Reasoning(piece) => {
                let summary = json!([{ "type": "summary_text", "text": "" }]);
                let item =
                    json!({ "type": "reasoning", "id": format!("rs_{id}"), "summary": summary });
                let opened = self.of_kind("reasoning", item);
                self.add("/summary/0/text", piece);
                opened + &self.delta("reasoning_summary_text", piece)
            }
            Step::Call { index, name } => {
                let item = json!({
                    "type": "function_call", "id": format!("fc_{id}"), "name": name,
                    "call_id": format!("provider-{index}"), "arguments": "",
                });
                self.of_kind("function_call", item)
            }
            Step::Arguments { piece, .. } => {
                self.add("/arguments", piece);
                self.delta("function_call_arguments", piece)
            }
            Step::Pause => String::new(),
        }
    }

    fn usage(&mut self, _: &Ending) -> String {
        String::new()
    }

    fn end(&mut self, ending: &Ending) -> String {
        let closed = self.close();
        let response = self.response(ending);
        let cut = response["status"] == "incomplete";
        let kind = if cut { "response.incomplete" } else { "response.completed" };
        closed + &event(&json!({ "type": kind, "response": response }))
    }

    fn whole(&mut self, steps: &[Step], ending: &Ending) -> Value {
        for step in steps {
            self.step(step);
        }
        self.close();
        self.response(ending)
    }
}

/// Checks a request.
pub fn check(body: &Value) -> Result<(), String> {
    let fields = body.as_object().ok_or("the body is no object")?;
    if let Some(key) = fields.keys().find(|key| !BODY_KEYS.contains(&key.as_str())) {
        return Err(format!("Unknown parameter: '{key}'."));
    }
    if body["store"] != false || !body["stream"].is_boolean() {
        return Err("'store' must be false, and 'stream' must be said".to_owned());
    }
    for tool in strings(&body["tools"]) {
        if tool["name"].as_str().is_none_or(str::is_empty) || !tool["parameters"].is_object() {
            return Err(format!("Missing required parameter in a tool: {tool}"));
        }
    }
    let items = body["input"].as_array().filter(|items| !items.is_empty());
    check_items(items.ok_or("Missing required parameter: 'input'.")?)
}

fn check_items(items: &[Value]) -> Result<(), String> {
    let mut called = BTreeSet::new();
    let mut open = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let at = |why: String| format!("{why} (input[{index}])");
        match kind(item) {
            "system" if index == 0 => {}
            "user" | "assistant" if index == 0 => return Err(at("no system text".to_owned())),
            "user" => said_something(&item["content"]).map_err(at)?,
            // An answer may go on after a call.
            "assistant" => {
                said_something(&item["content"]).map_err(at)?;
                continue;
            }
            "function_call" => {
                let id = item["call_id"].as_str().unwrap_or_default();
                check_call(item).map_err(at)?;
                if !called.insert(id) {
                    return Err(at(format!("Duplicate item found with call_id {id}.")));
                }
                open.insert(id);
                continue;
            }
            "function_call_output" => {
                let id = item["call_id"].as_str().unwrap_or_default();
                said_something(&item["output"]).map_err(at)?;
                if !open.remove(id) {
                    return Err(at(format!(
                        "No tool call found for function call output with call_id {id}."
                    )));
                }
                continue;
            }
            "reasoning" => {
                check_reasoning(item, items.get(index + 1)).map_err(at)?;
                continue;
            }
            other => return Err(at(format!("Invalid value: '{other}'."))),
        }
        if let Some(id) = open.first() {
            return Err(at(format!("No tool output found for function call {id}.")));
        }
    }
    match open.first() {
        Some(id) => Err(format!("No tool output found for function call {id}.")),
        None => Ok(()),
    }
}

/// The type of an item, or the role of a message.
fn kind(item: &Value) -> &str {
    let word = |name: &str| item[name].as_str();
    word("type").filter(|kind| *kind != "message").or_else(|| word("role")).unwrap_or_default()
}

fn check_call(item: &Value) -> Result<(), String> {
    let name = item["name"].as_str().unwrap_or_default();
    let is_right = (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if !is_right {
        return Err(format!("Invalid 'name': '{name}'."));
    }
    let arguments = item["arguments"].as_str().unwrap_or_default();
    if !serde_json::from_str::<Value>(arguments).is_ok_and(|value| value.is_object()) {
        return Err(format!("Invalid 'arguments': {arguments}"));
    }
    match item["call_id"].as_str().unwrap_or_default().len() {
        1..=64 => Ok(()),
        length => Err(format!("Invalid 'call_id': string of length {length}.")),
    }
}

fn check_reasoning(item: &Value, next: Option<&Value>) -> Result<(), String> {
    let id = item["id"].as_str().ok_or("Missing required parameter: 'id'.")?;
    let summary = item["summary"].as_array().ok_or("Missing required parameter: 'summary'.")?;
    let text = summary.first().map_or("", |part| part["text"].as_str().unwrap_or_default());
    if item["encrypted_content"] != format!("{SEAL}{text}") {
        return Err(format!(
            "Item with id '{id}' not found. Items are not persisted when `store` is set to false."
        ));
    }
    match next.map(kind) {
        Some("assistant" | "function_call" | "reasoning") => Ok(()),
        _ => Err(format!(
            "Item '{id}' of type 'reasoning' was provided without its required following item."
        )),
    }
}

/// Text that is not empty, or parts of which each says something.
fn said_something(content: &Value) -> Result<(), String> {
    let is_part = |part: &Value| match part["type"].as_str() {
        Some("input_text") => part["text"].as_str().is_some_and(|text| !text.is_empty()),
        Some("input_image") => {
            part["image_url"].as_str().is_some_and(|u| u.starts_with("data:image/"))
        }
        _ => false,
    };
    match content {
        Value::String(text) if !text.is_empty() => Ok(()),
        Value::Array(parts) if !parts.is_empty() && parts.iter().all(is_part) => Ok(()),
        other => Err(format!("Invalid content: {other}")),
    }
}

pub(super) fn said(body: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        parts => strings(parts).filter_map(|part| part["text"].as_str()).collect(),
    };
    let pair = |role: &str, text: String| Some((role.to_owned(), text));
    let items = strings(&body["input"]).filter_map(|item| match kind(item) {
        "function_call" => pair("assistant", text(&item["name"])),
        "function_call_output" => pair("tool", text(&item["output"])),
        role @ ("user" | "assistant") => pair(role, text(&item["content"])),
        _ => None,
    });
    items.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_histories_are_refused() {
        let system = json!({ "role": "system", "content": "s" });
        let user = json!({ "role": "user", "content": "u" });
        let call =
            json!({ "type": "function_call", "call_id": "1", "name": "a", "arguments": "{}" });
        let output = json!({ "type": "function_call_output", "call_id": "1", "output": "r" });
        let thought = json!({
            "type": "reasoning", "id": "rs", "encrypted_content": "sealed:hm",
            "summary": [{ "type": "summary_text", "text": "hm" }],
        });
        let mut stolen = thought.clone();
        stolen["encrypted_content"] = json!("sealed:other");
        let checked = |input: Value| {
            check(&json!({ "model": "m", "stream": true, "store": false, "input": input }))
        };
        assert_eq!(checked(json!([system, user, thought, call, output, user])), Ok(()));
        let cases = [
            (json!([]), "Missing required parameter: 'input'"),
            (json!([user]), "no system text"),
            (json!([system, user, system]), "Invalid value: 'system'"),
            (json!([system, user, call]), "No tool output found"),
            (json!([system, user, call, user]), "No tool output found"),
            (json!([system, user, output]), "No tool call found"),
            (json!([system, user, call, output, call, output]), "Duplicate item"),
            (json!([system, user, thought, user]), "Item 'rs' of type 'reasoning'"),
            (json!([system, user, stolen, call, output]), "Item with id 'rs' not found"),
            (json!([system, { "role": "user", "content": "" }]), "Invalid content"),
            (json!([system, user, { "role": "assistant", "content": [] }]), "Invalid content"),
        ];
        for (input, expected) in cases {
            let refusal = checked(input.clone()).expect_err(expected);
            assert!(refusal.starts_with(expected), "{input}\n  said: {refusal}");
        }
    }
}
