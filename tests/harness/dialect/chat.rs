//! Chat Completions, as `history` demands it.
//!
//! Receives steps; hands out chunks.

use serde_json::{Value, json};

use super::{Ending, Speak, Step, strings};

/// Needs no memory.
pub(super) struct Speaker;

impl Speak for Speaker {
    fn begin(&mut self) -> String {
        delta(&json!({ "role": "assistant", "content": "" }))
    }

    fn step(&mut self, step: &Step) -> String {
        match step {
            Step::Text(piece) => delta(&json!({ "content": piece })),
            Step::Reasoning(piece) => delta(&json!({ "reasoning_content": piece })),
            Step::Call { index, name } => delta(&json!({ "tool_calls": [call(*index, name)] })),
            Step::Arguments { index, piece } => {
                let call = json!({ "index": index, "function": { "arguments": piece } });
                delta(&json!({ "tool_calls": [call] }))
            }
            Step::Pause => String::new(),
        }
    }

    fn usage(&mut self, ending: &Ending) -> String {
        let mut usage = chunk(&json!([]));
        usage["usage"] = ending.usage.clone();
        data(&usage)
    }

    fn end(&mut self, ending: &Ending) -> String {
        let reason = ending.finish_reason;
        let finish = chunk(&json!([{ "index": 0, "delta": {}, "finish_reason": reason }]));
        format!("{}{}data: [DONE]\n\n", data(&finish), self.usage(ending))
    }

    fn whole(&mut self, steps: &[Step], ending: &Ending) -> Value {
        let mut message = json!({ "role": "assistant", "content": "" });
        let mut calls: Vec<Value> = Vec::new();
        for step in steps {
            match step {
                Step::Text(piece) => append(&mut message["content"], piece),
                Step::Reasoning(piece) => append(&mut message["reasoning_content"], piece),
                Step::Call { index, name } => calls.push(call(*index, name)),
                Step::Arguments { index, piece } => {
                    append(&mut calls[*index]["function"]["arguments"], piece);
                }
                Step::Pause => {}
            }
        }
        if !calls.is_empty() {
            message["tool_calls"] = Value::from(calls);
        }
        let reason = ending.finish_reason;
        let choice = json!({ "index": 0, "message": message, "finish_reason": reason });
        let mut body = chunk(&json!([choice]));
        body["usage"] = ending.usage.clone();
        body
    }
}

fn call(index: usize, name: &str) -> Value {
    json!({
        "index": index,
        "id": format!("provider-{index}"),
        "type": "function",
        "function": { "name": name, "arguments": "" },
    })
}

fn append(to: &mut Value, more: &str) {
    *to = Value::from(to.as_str().unwrap_or_default().to_owned() + more);
}

fn delta(delta: &Value) -> String {
    data(&chunk(&json!([{ "index": 0, "delta": delta, "finish_reason": null }])))
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn chunk(choices: &Value) -> Value {
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1_767_225_600,
        "model": "model",
        "choices": choices,
    })
}

pub(super) fn said(body: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut said = Vec::new();
    for message in strings(&body["messages"]).filter(|message| message["role"] != "system") {
        let content = text(&message["content"]);
        if !content.is_empty() {
            said.push((text(&message["role"]), content));
        }
        for call in strings(&message["tool_calls"]) {
            said.push(("assistant".to_owned(), text(&call["function"]["name"])));
        }
    }
    said
}
