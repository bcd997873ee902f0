//! Requests to a server on loopback: what is sent, and how it is answered.

use std::collections::BTreeMap;
use std::time::Duration;

use agentd_protocol::event::TurnErrorCode;
use agentd_protocol::item::Part;
use agentd_protocol::session::{ModelOptions, ReasoningEffort};
use serde_json::{Value, json};

use super::super::AnthropicMessages;
use crate::clock::Clock;
use crate::config::{KeySource, ModelConfig, ProviderConfig};
use crate::provider::http::Transports;
use crate::provider::kept::Kept;
use crate::provider::lessons::Lessons;
use crate::provider::tests::server::{Reply, Server, Step};
use crate::provider::tests::{answer, read, reasoning, request, system, text, user};
use crate::provider::{Carriage, ModelEvent, Provider, Request};

fn provider(config: &ProviderConfig) -> AnthropicMessages {
    AnthropicMessages::new(
        "p",
        config,
        &mut Transports::default(),
        Lessons::default(),
        Clock::manual(),
    )
    .expect("a good table")
}

fn table(server: &Server, path: &str) -> ProviderConfig {
    let base_url = Some(format!("http://{}{path}", server.address));
    ProviderConfig { base_url, ..ProviderConfig::default() }
}

fn good() -> Reply {
    let body = r#"{"type":"message","role":"assistant","content":[{"type":"text","text":"x"}],
        "stop_reason":"end_turn","usage":{"input_tokens":3,"output_tokens":1}}"#;
    Reply::body(200, "application/json", body)
}

/// The body that this request has.
async fn sent(config: ProviderConfig, request: Request) -> Value {
    let server = Server::start([good()]).await;
    let config = ProviderConfig { base_url: table(&server, "").base_url, ..config };
    read(provider(&config).stream(request)).await;
    serde_json::from_slice(&server.asked()[0].body).expect("JSON")
}

fn of_model(model: &str, options: ModelOptions) -> Request {
    Request { model: model.to_owned(), options, ..request(Vec::new()) }
}

#[tokio::test]
async fn a_request_has_its_headers_and_its_marks() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("key");
    std::fs::write(&file, "sk-ant-secret\n").expect("it is writable");
    for path in ["", "/", "/v1", "/v1/"] {
        let server = Server::start([good(), good()]).await;
        let config =
            ProviderConfig { api_key: Some(KeySource::File(file.clone())), ..table(&server, path) };
        let provider = provider(&config);
        let messages = [
            provider.encode("m", None, &[system("s")]),
            provider.encode("m", None, &[user(vec![Part::text("hi")])]),
        ];
        let (events, failed) =
            read(provider.stream(request(vec![messages.join(&b","[..]).into()]))).await;
        assert_eq!(failed, None);
        assert_eq!(events[0], ModelEvent::Text("x".to_owned()));
        assert!(matches!(events[2], ModelEvent::End { .. }), "{events:?}");
        let asked = &server.asked()[0];
        assert_eq!(asked.path, "/v1/messages");
        assert_eq!(asked.headers["x-api-key"], "sk-ant-secret");
        assert_eq!(asked.headers["anthropic-version"], "2023-06-01");
        assert!(!asked.headers.contains_key("authorization"));
        let mark = json!({ "type": "ephemeral" });
        let body: Value = serde_json::from_slice(&asked.body).expect("JSON");
        assert_eq!(
            body,
            json!({
                "model": "m", "stream": true, "max_tokens": 8192,
                "system": [{ "type": "text", "text": "s", "cache_control": mark }],
                "messages": [{ "role": "user", "content": [
                    { "type": "text", "text": "hi", "cache_control": mark },
                ] }],
            })
        );
    }
}

/// The markers are the only difference between a request's start and the next one's.
#[tokio::test]
async fn the_prefix_is_stable() {
    let server = Server::start([good(), good()]).await;
    let provider = provider(&table(&server, ""));
    let first = [
        provider.encode("m", None, &[system("s")]),
        provider.encode("m", None, &[user(vec![Part::text("hi")])]),
    ]
    .join(&b","[..]);
    let said = provider.encode("m", None, &[answer(vec![text("yes?")], &[])]);
    let second =
        [first.as_slice(), &said, &provider.encode("m", None, &[user(vec![Part::text("go")])])]
            .join(&b","[..]);
    for messages in [first, second] {
        read(provider.stream(request(vec![messages.into()]))).await;
    }
    let unmarked = |body: &[u8]| {
        let body = String::from_utf8(body.to_vec()).expect("text");
        let mark = r#","cache_control":{"type":"ephemeral"}"#;
        assert_eq!(body.matches(mark).count(), 2, "{body}");
        body.replace(mark, "")
    };
    let asked = server.asked();
    let [first, second] = [&asked[0], &asked[1]].map(|asked| unmarked(&asked.body));
    assert!(second.starts_with(first.strip_suffix("]}").expect("a closing")), "{second}");
}

#[tokio::test]
async fn the_longest_answer_is_the_users_or_a_sensible_one() {
    let most = |tokens| ModelConfig { max_output_tokens: Some(tokens), ..ModelConfig::default() };
    let config = ProviderConfig {
        models: BTreeMap::from([("own".to_owned(), most(100))]),
        ..ProviderConfig::default()
    };
    let asked = ModelOptions { max_output_tokens: Some(7), ..ModelOptions::default() };
    for (model, options, expected) in [
        ("own", asked, 7),
        ("own", ModelOptions::default(), 100),
        ("unknown", ModelOptions::default(), 8_192),
    ] {
        let body = sent(config.clone(), of_model(model, options)).await;
        assert_eq!(body["max_tokens"], expected, "{model}");
    }
}

#[tokio::test]
async fn models_are_made_to_think_in_their_own_way() {
    let effort =
        |effort| ModelOptions { reasoning_effort: Some(effort), ..ModelOptions::default() };
    let table = [
        ("claude-3-5-haiku-20241022", ReasoningEffort::High, json!(null), json!(null)),
        (
            "claude-sonnet-4-5",
            ReasoningEffort::High,
            json!({ "type": "enabled", "budget_tokens": 4_096 }),
            json!(null),
        ),
        (
            "claude-opus-4-8",
            ReasoningEffort::Medium,
            json!({ "type": "adaptive", "display": "summarized" }),
            json!({ "effort": "medium" }),
        ),
        ("claude-opus-4-8", ReasoningEffort::None, json!({ "type": "disabled" }), json!(null)),
    ];
    for (model, how, thinking, config) in table {
        let body = sent(ProviderConfig::default(), of_model(model, effort(how))).await;
        assert_eq!((&body["thinking"], &body["output_config"]), (&thinking, &config), "{model}");
    }
    let whole = Request { carriage: Carriage::Whole, ..of_model("m", ModelOptions::default()) };
    let body = sent(ProviderConfig::default(), whole).await;
    assert_eq!((body.get("thinking"), &body["stream"]), (None, &json!(false)), "nobody asked");
}

#[tokio::test]
async fn options_go_along_and_must_not_break_the_form() {
    let config = ProviderConfig { parallel_tool_calls: Some(false), ..ProviderConfig::default() };
    let extra = |name: &str| {
        let extra_body = Some(BTreeMap::from([(name.to_owned(), json!(1))]));
        ModelOptions { extra_body, temperature: Some(0.5), ..ModelOptions::default() }
    };
    let tools = br#"[{"name":"a","input_schema":{"type":"object"}}]"#.as_slice();
    let asked = Request { tools: tools.into(), ..of_model("m", extra("top_k")) };
    let body = sent(config, asked).await;
    assert_eq!((&body["top_k"], &body["temperature"]), (&json!(1), &json!(0.5)));
    assert_eq!(body["tool_choice"], json!({ "type": "auto", "disable_parallel_tool_use": true }));
    assert_eq!(body["tools"][0]["name"], "a");
    let provider = provider(&ProviderConfig {
        base_url: Some("http://127.0.0.1:1".to_owned()),
        ..ProviderConfig::default()
    });
    for name in ["messages", "system", "tools", "stream"] {
        let (_, failed) = read(provider.stream(of_model("m", extra(name)))).await;
        let failed = failed.expect("it is not sent");
        assert!(failed.message.contains(name) && !failed.retryable, "{failed}");
    }
}

#[tokio::test]
async fn failures_are_told_apart_and_say_when_to_come_back() {
    let error = |kind: &str, message: &str| {
        json!({ "type": "error", "error": { "type": kind, "message": message } }).to_string()
    };
    let overloaded = error("overloaded_error", "Overloaded");
    let limited = error("rate_limit_error", "This request would exceed your rate limit");
    let large = error("request_too_large", "Request exceeds the maximum size");
    let table = [
        (529, &overloaded, TurnErrorCode::ProviderUnreachable, true),
        (429, &limited, TurnErrorCode::RateLimited, true),
        (413, &large, TurnErrorCode::ProviderRefused, false),
    ];
    for (status, body, code, retryable) in table {
        let reply = Reply::body(status, "application/json", body).header("retry-after", "7");
        let server = Server::start([reply]).await;
        let (_, failed) = read(provider(&table_of(&server)).stream(request(Vec::new()))).await;
        let failed = failed.expect("it fails");
        assert_eq!((failed.code, failed.retryable), (code, retryable), "{failed}");
        assert_eq!(failed.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(failed.status, Some(status));
    }
    let server = Server::start([Reply::stream([Step::Send(String::new()), Step::Break])]).await;
    let (_, failed) = read(provider(&table_of(&server)).stream(request(Vec::new()))).await;
    assert!(failed.expect("it broke").retryable);
}

fn table_of(server: &Server) -> ProviderConfig {
    table(server, "")
}

#[tokio::test]
async fn the_models_are_those_that_the_server_lists() {
    let list = r#"{"data":[{"type":"model","id":"claude-x"}],"has_more":false}"#;
    let server = Server::start([Reply::body(200, "application/json", list)]).await;
    let models = provider(&table(&server, "")).models().await.expect("they are listed");
    assert_eq!(models.expect("it has a list"), ["claude-x"]);
    assert_eq!(server.asked()[0].path, "/v1/models");
}

/// What is refused for its form is sent once more in another, and from then on so.
#[tokio::test]
async fn what_is_refused_of_thinking_is_given_up() {
    let refusals = [
        "messages.1.content.0: Invalid `signature` in `thinking` block",
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`. \
         When `thinking` is enabled, a final `assistant` message must start with a thinking block",
    ];
    let refusal = |message: &&str| {
        let error = json!({ "type": "invalid_request_error", "message": message });
        let body = json!({ "type": "error", "error": error }).to_string();
        Reply::body(400, "application/json", &body)
    };
    let after = [good(), refusal(&refusals[0]), good()];
    let server = Server::start(refusals.iter().map(refusal).chain(after)).await;
    let provider = provider(&table(&server, ""));
    let block = json!({ "type": "thinking", "signature": "s" });
    let thought = reasoning("hm", Some(Kept::signature(0, block)));
    let answer = answer(vec![thought, text("so")], &[]);
    let effort = Some(ReasoningEffort::Low);
    let request = || Request {
        options: ModelOptions { reasoning_effort: effort, ..ModelOptions::default() },
        messages: vec![provider.encode("m", None, std::slice::from_ref(&answer))],
        ..request(Vec::new())
    };
    let mut keys = vec![provider.encoding_key("m")];
    for _ in refusals {
        let (events, failed) = read(provider.stream(request())).await;
        let [ModelEvent::Warning { code, .. }] = &events[..] else { panic!("{events:?}") };
        assert_eq!(*code, "quirk_learned");
        assert!(failed.expect("it is refused").adapted);
        keys.push(provider.encoding_key("m"));
    }
    assert_eq!(read(provider.stream(request())).await.1, None);
    let (events, failed) = read(provider.stream(request())).await;
    assert_eq!((events, failed.expect("it is refused").adapted), (vec![], false), "that is final");
    assert!(keys[0] != keys[1] && keys[1] == keys[2], "{keys:?}");
    // Another conversation misses nothing.
    let fresh = Request {
        messages: vec![provider.encode("m", None, &[user(vec![Part::text("Hi.")])])],
        ..request()
    };
    assert_eq!(read(provider.stream(fresh)).await.1, None);
    let asked = server.asked();
    let bodies =
        asked.iter().map(|asked| serde_json::from_slice::<Value>(&asked.body).expect("JSON"));
    let form = |body: Value| {
        let first = body["messages"][0]["content"][0]["type"].clone();
        (first, body.get("thinking").is_some())
    };
    let forms: Vec<_> = bodies.map(form).collect();
    let expected =
        [("thinking", true), ("text", true), ("text", false), ("text", false), ("text", true)];
    assert_eq!(forms, expected.map(|(first, thinks)| (json!(first), thinks)));
}
