//! Items as messages, and tools.

use std::sync::Arc;

use agentd_protocol::item::{Item, Part, ToolStatus};
use serde_json::{Value, json};

use super::super::encode::{Profile, encode_tools, split_system};
use crate::provider::ToolDefinition;
use crate::provider::kept::Kept;
use crate::provider::tests::{answer, picture, reasoning, result, system, text, user, values};

fn profile() -> Profile {
    Profile { model: "p/m".to_owned(), reasoning: true }
}

fn encoded(answers: Option<&Item>, segment: &[Arc<Item>]) -> Value {
    values(&profile().encode(answers, segment))
}

fn signed(text: &str) -> agentd_protocol::item::AssistantPart {
    let block = json!({ "type": "thinking", "signature": format!("sig of {text}") });
    reasoning(text, Some(Kept::signature(0, block)))
}

#[test]
fn results_come_first_and_pictures_stay_inside() {
    let asked = answer(
        vec![text("I look.")],
        &[
            ("call_1", Some("toolu_01A09q90qw90lq917835lq9"), "read", json!({ "path": "a" })),
            ("call_2", Some("0"), "no name", json!("{\"pa")),
        ],
    );
    assert_eq!(
        encoded(None, std::slice::from_ref(&asked)),
        json!([{ "role": "assistant", "content": [
            { "type": "text", "text": "I look." },
            { "type": "tool_use", "id": "toolu_01A09q90qw90lq917835lq9", "name": "read",
              "input": { "path": "a" } },
            { "type": "tool_use", "id": "call_2", "name": "no_name",
              "input": { "invalid_arguments": "{\"pa" } },
        ] }])
    );
    let segment = [
        result("call_1", ToolStatus::Ok, vec![Part::text("seen"), picture()]),
        result("call_2", ToolStatus::Invalid, vec![Part::text("no such tool")]),
        user(vec![Part::text("and?"), Part::text(" "), picture()]),
    ];
    let image = json!({ "type": "image",
        "source": { "type": "base64", "media_type": "image/png", "data": "AAAA" } });
    assert_eq!(
        encoded(Some(&asked), &segment),
        json!([{ "role": "user", "content": [
            { "type": "tool_result", "tool_use_id": "toolu_01A09q90qw90lq917835lq9",
              "content": [{ "type": "text", "text": "seen" }, image] },
            { "type": "tool_result", "tool_use_id": "call_2", "content": "no such tool",
              "is_error": true },
            { "type": "text", "text": "and?" },
            image,
        ] }])
    );
}

#[test]
fn what_is_empty_says_something_or_is_not_sent() {
    let empty = answer(vec![text(" \n"), signed("hm")], &[]);
    assert_eq!(encoded(None, std::slice::from_ref(&empty)), json!([]));
    let input = user(vec![Part::text("")]);
    assert_eq!(
        encoded(Some(&empty), &[input]),
        json!([
            { "role": "assistant", "content": [{ "type": "text", "text": "(no answer yet)" }] },
            { "role": "user", "content": [{ "type": "text", "text": "(empty)" }] },
        ])
    );
    let asked = answer(Vec::new(), &[("call_1", None, "read", json!({}))]);
    let failed = result("call_1", ToolStatus::Error, vec![Part::text(" ")]);
    let content = &encoded(Some(&asked), &[failed])[0]["content"];
    assert_eq!(content[0]["content"], "(no output)");
}

#[test]
fn a_picture_of_an_error_is_no_error() {
    let asked = answer(Vec::new(), &[("call_1", None, "read", json!({}))]);
    let failed = result("call_1", ToolStatus::Error, vec![picture()]);
    let content = &encoded(Some(&asked), &[failed])[0]["content"][0];
    assert!(content.get("is_error").is_none(), "{content}");
    let bitmap = Part::Image { mime_type: "image/bmp".into(), data: Some("AA".into()), path: None };
    let content = &encoded(None, &[user(vec![bitmap])])[0]["content"];
    assert_eq!(*content, json!([{ "type": "text", "text": "[image: image/bmp]" }]));
}

#[test]
fn thinking_goes_back_as_it_came_to_whom_it_came_from() {
    let redacted = Kept::signature(0, json!({ "type": "redacted_thinking", "data": "EmwK" }));
    let later = Kept::signature(1, json!({ "type": "thinking", "signature": "s2" }));
    let item = answer(
        vec![
            signed("first"),
            reasoning("", Some(redacted)),
            reasoning("lost its signature", None),
            text("so"),
            reasoning("second", Some(later)),
        ],
        &[("call_1", None, "a", json!({})), ("call_2", None, "b", json!({}))],
    );
    let call =
        |id: &str, name: &str| json!({ "type": "tool_use", "id": id, "name": name, "input": {} });
    let thinking = json!([
        { "type": "thinking", "thinking": "first", "signature": "sig of first" },
        { "type": "redacted_thinking", "data": "EmwK" },
        { "type": "text", "text": "so" },
        call("call_1", "a"),
        { "type": "thinking", "thinking": "second", "signature": "s2" },
        call("call_2", "b"),
    ]);
    let segment = std::slice::from_ref(&item);
    assert_eq!(encoded(None, segment)[0]["content"], thinking);
    let plain = json!([{ "type": "text", "text": "so" }, call("call_1", "a"), call("call_2", "b")]);
    for other in [
        Profile { model: "p/other".to_owned(), ..profile() },
        Profile { reasoning: false, ..profile() },
    ] {
        assert_eq!(values(&other.encode(None, segment))[0]["content"], plain);
        assert_ne!(other.key(), profile().key());
    }
}

#[test]
fn thinking_is_never_the_last_block() {
    let item = answer(vec![text("so"), signed("cut off here")], &[]);
    let content = &encoded(None, &[item])[0]["content"];
    assert_eq!(*content, json!([{ "type": "text", "text": "so" }]));
    let only = Kept::signature(0, json!({ "type": "server_tool_use", "id": "s" }));
    let item = answer(vec![reasoning("", Some(only))], &[]);
    let content = &encoded(None, &[item])[0]["content"];
    assert_eq!(*content, json!([{ "type": "server_tool_use", "id": "s" }]));
}

#[test]
fn the_system_text_is_taken_out_wherever_pieces_end() {
    let system = profile().encode(None, &[system("be \"brief\"")]);
    let hello = profile().encode(None, &[user(vec![Part::text("hi")])]);
    let expected = br#"{"type":"text","text":"be \"brief\""}"#;
    let one = [system.as_ref(), b",", &hello].concat();
    let two = [b",".as_slice(), &hello].concat();
    for pieces in [vec![one.into()], vec![system.clone(), two.into()]] {
        let (found, rest) = split_system(&pieces);
        assert_eq!(found.as_deref(), Some(expected.as_slice()));
        assert_eq!(rest.concat(), hello);
    }
    assert_eq!(split_system(std::slice::from_ref(&hello)), (None, vec![hello]));
}

#[test]
fn a_system_text_in_the_middle_is_something_to_read() {
    let mut late = Arc::unwrap_or_clone(system("mind the gap"));
    late.index = 4;
    let expected =
        json!([{ "role": "user", "content": [{ "type": "text", "text": "mind the gap" }] }]);
    assert_eq!(encoded(None, &[Arc::new(late)]), expected);
}

#[test]
fn tools_have_object_schemas() {
    let tool = |name: &str, input_schema| ToolDefinition {
        name: name.to_owned(),
        description: "d".to_owned(),
        input_schema,
    };
    let given = json!({ "type": "object", "properties": { "p": { "type": "string" } } });
    let tools = [tool("a", given.clone()), tool("b", json!({ "type": "object" }))];
    let encoded: Value = serde_json::from_slice(&encode_tools(&tools)).expect("JSON");
    let empty = json!({ "type": "object", "properties": {} });
    assert_eq!(
        encoded,
        json!([
            { "name": "a", "description": "d", "input_schema": given },
            { "name": "b", "description": "d", "input_schema": empty },
        ])
    );
    assert!(encode_tools(&[]).is_empty());
}
