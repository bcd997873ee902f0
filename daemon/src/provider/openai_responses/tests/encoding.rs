//! Items as input, and tools.

use std::sync::Arc;

use agentd_protocol::item::{AssistantPart, Item, Part, ToolStatus};
use serde_json::{Value, json};

use super::super::encode::{Profile, encode_tools};
use crate::config::SystemRole;
use crate::provider::ToolDefinition;
use crate::provider::kept::Kept;
use crate::provider::tests::{answer, picture, reasoning, result, system, text, user, values};

fn profile() -> Profile {
    Profile { model: "p/m".to_owned(), reasoning: true, system: SystemRole::System }
}

fn encoded(answers: Option<&Item>, segment: &[Arc<Item>]) -> Value {
    values(&profile().encode(answers, segment))
}

fn kept(text: &str, after_calls: usize, block: Value) -> AssistantPart {
    reasoning(text, Some(Kept::signature(after_calls, block)))
}

#[test]
fn an_answer_and_its_results_are_items_of_their_own() {
    let asked = answer(
        vec![text("I look.")],
        &[
            ("call_1", Some("call_QmTzXK1kcH0ncYkkSVdJvRFG"), "read", json!({ "path": "a" })),
            ("call_2", Some("provider-0"), "", json!("{\"pa")),
        ],
    );
    assert_eq!(
        encoded(None, std::slice::from_ref(&asked)),
        json!([
            { "role": "assistant", "content": "I look." },
            { "type": "function_call", "call_id": "call_QmTzXK1kcH0ncYkkSVdJvRFG", "name": "read",
              "arguments": "{\"path\":\"a\"}" },
            { "type": "function_call", "call_id": "call_2", "name": "unknown",
              "arguments": "{\"invalid_arguments\":\"{\\\"pa\"}" },
        ])
    );
    let segment = [
        result("call_1", ToolStatus::Ok, vec![Part::text("seen"), picture()]),
        result("call_2", ToolStatus::Ok, vec![]),
        user(vec![Part::text("and?"), picture()]),
        user(vec![Part::text("")]),
    ];
    let image = json!({ "type": "input_image", "image_url": "data:image/png;base64,AAAA" });
    assert_eq!(
        encoded(Some(&asked), &segment),
        json!([
            { "type": "function_call_output", "call_id": "call_QmTzXK1kcH0ncYkkSVdJvRFG",
              "output": [{ "type": "input_text", "text": "seen" }, image] },
            { "type": "function_call_output", "call_id": "call_2", "output": "(no output)" },
            { "role": "user", "content": [{ "type": "input_text", "text": "and?" }, image] },
            { "role": "user", "content": "(empty)" },
        ])
    );
}

#[test]
fn reasoning_goes_back_as_it_came_to_whom_it_came_from() {
    let hidden = |id: &str| json!({ "type": "reasoning", "id": id, "encrypted_content": "gAAA" });
    let item = answer(
        vec![
            kept("why", 0, hidden("rs_1")),
            text("I look."),
            kept("", 0, json!({ "type": "message", "phase": "commentary" })),
            kept("", 1, hidden("rs_2")),
            kept("hm", 1, json!({ "type": "reasoning", "id": "rs_3", "text": "content" })),
            kept("no more", 1, json!({ "type": "reasoning", "id": "rs_4" })),
        ],
        &[("call_1", None, "a", json!({})), ("call_2", None, "b", json!({}))],
    );
    let call = |id: &str, name: &str| json!({ "type": "function_call", "call_id": id, "name": name, "arguments": "{}" });
    let segment = std::slice::from_ref(&item);
    assert_eq!(
        encoded(None, segment),
        json!([
            { "type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA",
              "summary": [{ "type": "summary_text", "text": "why" }] },
            { "role": "assistant", "content": "I look.", "phase": "commentary" },
            call("call_1", "a"),
            { "type": "reasoning", "id": "rs_2", "encrypted_content": "gAAA", "summary": [] },
            { "type": "reasoning", "id": "rs_3", "summary": [],
              "content": [{ "type": "reasoning_text", "text": "hm" }] },
            call("call_2", "b"),
        ])
    );
    let plain = json!([
        { "role": "assistant", "content": "I look." },
        call("call_1", "a"),
        call("call_2", "b"),
    ]);
    for other in [
        Profile { model: "p/other".to_owned(), ..profile() },
        Profile { reasoning: false, ..profile() },
    ] {
        assert_eq!(values(&other.encode(None, segment)), plain);
        assert_ne!(other.key(), profile().key());
    }
}

#[test]
fn reasoning_that_nothing_follows_is_not_sent() {
    let hidden = json!({ "type": "reasoning", "id": "rs_1", "encrypted_content": "gAAA" });
    let only = answer(vec![kept("why", 0, hidden.clone()), text(" ")], &[]);
    assert_eq!(encoded(None, &[only]), json!([]));
    let last = answer(vec![text("so"), kept("why", 0, hidden)], &[]);
    assert_eq!(encoded(None, &[last]), json!([{ "role": "assistant", "content": "so" }]));
}

#[test]
fn the_system_text_has_the_role_that_the_table_says() {
    let developer = Profile { system: SystemRole::Developer, ..profile() };
    for (profile, role) in [(profile(), "system"), (developer, "developer")] {
        let item = values(&profile.encode(None, &[system("s")]));
        assert_eq!(item, json!([{ "role": role, "content": "s" }]));
    }
}

#[test]
fn tools_are_flat_and_not_strict() {
    let tools = [ToolDefinition {
        name: "a".to_owned(),
        description: "d".to_owned(),
        input_schema: json!({ "type": "object" }),
    }];
    let encoded: Value = serde_json::from_slice(&encode_tools(&tools)).expect("JSON");
    assert_eq!(
        encoded,
        json!([{ "type": "function", "name": "a", "description": "d", "strict": false,
                 "parameters": { "type": "object", "properties": {} } }])
    );
    assert!(encode_tools(&[]).is_empty());
}
