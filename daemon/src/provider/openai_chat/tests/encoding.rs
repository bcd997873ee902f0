//! Items as messages, and tools.

use agentd_protocol::item::{AssistantPart, ItemBody, Part, ToolStatus};

use super::*;
use crate::config::{Auto, EmptyParameters, NullContent, ReasoningEcho, SystemRole};
use crate::provider::tests::{self as shared, answer as assistant, item, picture, text, user};

fn reasoning(text: &str) -> AssistantPart {
    shared::reasoning(text, Some("s".to_owned()))
}

fn result(call: &str, content: Vec<Part>) -> Arc<Item> {
    shared::result(call, ToolStatus::Ok, content)
}

fn default_profile() -> Profile {
    Profile::default()
}

/// The profile of a table.
fn with(change: impl FnOnce(&mut ProviderConfig)) -> Profile {
    let mut config = ProviderConfig::default();
    change(&mut config);
    Quirks::new(&config, "host", Lessons::default()).profile("m")
}

fn messages(profile: Profile, answers: Option<&Item>, segment: &[Arc<Item>]) -> Value {
    let bytes = profile.encode(answers, segment);
    assert_eq!(bytes, profile.encode(answers, segment), "the same bytes each time");
    serde_json::from_slice(&[b"[", bytes.as_ref(), b"]"].concat()).expect("JSON")
}

fn encoded(segment: &[Arc<Item>]) -> Value {
    messages(default_profile(), None, segment)
}

#[test]
fn system_and_user_items() {
    let system = item(ItemBody::System { content: vec![Part::text("a"), Part::text("b")] });
    assert_eq!(encoded(&[system]), json!([{ "role": "system", "content": "a\nb" }]));
    let file = Part::File { path: "a.txt".to_owned() };
    let absent = Part::Image { mime_type: String::new(), data: None, path: Some("b.png".into()) };
    let parts = vec![Part::text("see"), file, absent];
    assert_eq!(
        encoded(&[user(parts), user(vec![Part::text("v")])]),
        json!([
            { "role": "user", "content": "see\n[file: a.txt]\n[image: b.png]" },
            { "role": "user", "content": "v" },
        ])
    );
}

#[test]
fn images_are_data_urls() {
    assert_eq!(
        encoded(&[user(vec![Part::text("see"), picture()])]),
        json!([{ "role": "user", "content": [
            { "type": "text", "text": "see" },
            { "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } },
        ] }])
    );
}

#[test]
fn an_answer_with_text_and_calls() {
    let answer = assistant(
        vec![reasoning("r"), text("x"), text("y")],
        &[("call_1", Some("k1"), "read", json!({"p": 1})), ("call_2", None, "list", json!({}))],
    );
    assert_eq!(
        encoded(std::slice::from_ref(&answer)),
        json!([{ "role": "assistant", "content": "xy", "tool_calls": [
            { "id": "k1", "type": "function",
              "function": { "name": "read", "arguments": "{\"p\":1}" } },
            { "id": "call_2", "type": "function",
              "function": { "name": "list", "arguments": "{}" } },
        ] }])
    );
    let results = [result("call_1", vec![Part::text("r1")]), result("call_2", Vec::new())];
    assert_eq!(
        messages(default_profile(), Some(&answer), &results),
        json!([
            { "role": "tool", "tool_call_id": "k1", "content": "r1" },
            { "role": "tool", "tool_call_id": "call_2", "content": "(no output)" },
        ])
    );
}

#[test]
fn a5_an_id_that_is_empty_or_repeated_is_replaced_by_ours() {
    let answer = assistant(
        Vec::new(),
        &[
            ("call_1", Some("k"), "read", json!({})),
            ("call_2", Some("k"), "read", json!({})),
            ("call_3", Some(""), "read", json!({})),
        ],
    );
    let sent = encoded(std::slice::from_ref(&answer));
    let results = ["call_1", "call_2", "call_3"].map(|call| result(call, vec![Part::text("r")]));
    let answered = messages(default_profile(), Some(&answer), &results);
    for at in 0..3 {
        let id = format!("call_{}", at + 1);
        assert_eq!(sent[0]["tool_calls"][at]["id"], id.as_str());
        assert_eq!(answered[at]["tool_call_id"], id.as_str());
    }
}

#[test]
fn a9_a11_arguments_are_always_an_object_in_a_string() {
    let answer = assistant(
        Vec::new(),
        &[("call_1", None, "read", json!("{\"p\":")), ("call_2", None, "read", json!("[1]"))],
    );
    let sent = encoded(&[answer]);
    let arguments = |at: usize| sent[0]["tool_calls"][at]["function"]["arguments"].clone();
    assert_eq!(arguments(0), "{\"invalid_arguments\":\"{\\\"p\\\":\"}");
    assert_eq!(arguments(1), "{\"invalid_arguments\":\"[1]\"}");
}

#[test]
fn names_that_cannot_be_sent_are_changed() {
    let long = "n".repeat(70);
    let names = ["read file", "é", "", &long].map(|name| ("c", None, name, json!({})));
    let sent = encoded(&[assistant(Vec::new(), &names)]);
    let name = |at: usize| sent[0]["tool_calls"][at]["function"]["name"].clone();
    assert_eq!([name(0), name(1), name(2)], ["read_file", "__", "unknown"]);
    assert_eq!(name(3), "n".repeat(64));
}

#[test]
fn images_of_results_follow_all_of_them() {
    let answer =
        assistant(Vec::new(), &[("c1", None, "read", json!({})), ("c2", None, "read", json!({}))]);
    let segment = [
        result("c1", vec![picture()]),
        result("c2", vec![Part::text("r")]),
        user(vec![Part::text("more")]),
    ];
    let image =
        json!({ "type": "image_url", "image_url": { "url": "data:image/png;base64,AAAA" } });
    assert_eq!(
        messages(default_profile(), Some(&answer), &segment),
        json!([
            { "role": "tool", "tool_call_id": "c1", "content": "(an image, see below)" },
            { "role": "tool", "tool_call_id": "c2", "content": "r" },
            { "role": "user", "content": [
                { "type": "text", "text": "The images of the tool results above:" }, image,
            ] },
            { "role": "user", "content": "more" },
        ])
    );
}

#[test]
fn b8_an_item_with_nothing_to_send_is_not_sent() {
    assert!(default_profile().encode(None, &[assistant(vec![reasoning("r")], &[])]).is_empty());
    assert!(default_profile().encode(None, &[]).is_empty());
}

#[test]
fn b9_where_roles_must_alternate_they_do() {
    let merging = with(|config| config.merge_roles = Auto::On);
    let input = |words: &str| user(vec![Part::text(words)]);
    let filler = json!({ "role": "assistant", "content": "(no answer yet)" });
    // Two inputs in a row, after the system item or after an answer.
    assert_eq!(
        messages(merging, None, &[input("one"), input("two")]),
        json!([{ "role": "user", "content": "one\n\ntwo" }])
    );
    // An answer that said nothing was not sent.
    let empty = assistant(vec![reasoning("r"), text(" ")], &[]);
    assert_eq!(
        messages(merging, Some(&empty), &[input("again")]),
        json!([filler, { "role": "user", "content": "again" }])
    );
    // Results, their images and an input.
    let answer = assistant(Vec::new(), &[("call_1", None, "read", json!({}))]);
    let parts = messages(
        merging,
        Some(&answer),
        &[result("call_1", vec![picture()]), user(vec![Part::text("see"), picture()])],
    );
    let roles: Vec<&Value> =
        parts.as_array().expect("a list").iter().map(|message| &message["role"]).collect();
    assert_eq!(roles, ["tool", "assistant", "user"]);
    assert_eq!(parts[2]["content"].as_array().expect("parts").len(), 4);
    // What needs no merging is what it was.
    for answers in [None, Some(&*answer)] {
        let segment = [result("call_1", vec![Part::text("r")])];
        assert_eq!(merging.encode(answers, &segment), default_profile().encode(answers, &segment));
    }
    assert_ne!(merging.key(), default_profile().key());
}

#[test]
fn a38_reasoning_is_sent_back_only_where_the_table_says_so() {
    let answer = || assistant(vec![reasoning("r"), text("x")], &[]);
    assert_eq!(encoded(&[answer()]), json!([{ "role": "assistant", "content": "x" }]));
    let echo = with(|config| config.reasoning_echo = ReasoningEcho::Always);
    let expected = json!([{ "role": "assistant", "content": "x", "reasoning_content": "r" }]);
    assert_eq!(messages(echo, None, &[answer()]), expected);
}

#[test]
fn the_table_decides_about_empty_content_and_the_system_role() {
    let answer = || assistant(Vec::new(), &[("c", None, "read", json!({}))]);
    assert_eq!(encoded(&[answer()])[0]["content"], Value::Null);
    let empty = with(|config| config.null_content = NullContent::Empty);
    assert_eq!(messages(empty, None, &[answer()])[0]["content"], "");
    let developer = with(|config| config.system_role = SystemRole::Developer);
    let system = item(ItemBody::System { content: vec![Part::text("s")] });
    assert_eq!(messages(developer, None, &[system])[0]["role"], "developer");
    let keys = [default_profile(), empty, developer].map(Profile::key);
    assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2], "{keys:?}");
}

#[test]
fn a52_a_tool_without_parameters() {
    let tool = |schema| ToolDefinition {
        name: "list_tasks".to_owned(),
        description: "Lists.".to_owned(),
        input_schema: schema,
    };
    let parameters = |profile: Profile, schema: Value| {
        let bytes = profile.encode_tools(&[tool(schema)]);
        let tools: Value = serde_json::from_slice(&bytes).expect("JSON");
        tools[0]["function"].get("parameters").cloned()
    };
    let bare = || json!({ "type": "object" });
    let full = json!({ "type": "object", "properties": {} });
    let some = json!({ "type": "object", "properties": { "p": { "type": "string" } } });
    let omit = with(|config| config.empty_parameters = EmptyParameters::Omit);
    assert_eq!(parameters(default_profile(), bare()), Some(full));
    assert_eq!(parameters(default_profile(), some.clone()), Some(some.clone()));
    assert_eq!(parameters(omit, bare()), None);
    assert_eq!(parameters(omit, some.clone()), Some(some));
    assert!(default_profile().encode_tools(&[]).is_empty());
}
