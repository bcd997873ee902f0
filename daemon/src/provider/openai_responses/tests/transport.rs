//! Requests to a server on loopback: what is sent.

use std::collections::BTreeMap;

use agentd_protocol::item::Part;
use agentd_protocol::session::{ModelOptions, ReasoningEffort};
use serde_json::{Value, json};

use super::super::OpenaiResponses;
use crate::clock::Clock;
use crate::config::{KeySource, ModelConfig, ProviderConfig, ReasoningEcho};
use crate::provider::http::Transports;
use crate::provider::lessons::Lessons;
use crate::provider::tests::server::{Reply, Server};
use crate::provider::tests::{read, request, system, user};
use crate::provider::{ModelEvent, Provider, Request};

fn provider(config: &ProviderConfig) -> OpenaiResponses {
    OpenaiResponses::new(
        "p",
        config,
        &mut Transports::default(),
        Lessons::default(),
        Clock::manual(),
    )
    .expect("a good table")
}

fn good() -> Reply {
    let body = r#"{"object":"response","status":"completed","output":[{"type":"message",
        "content":[{"type":"output_text","text":"x"}]}]}"#;
    Reply::body(200, "application/json", body)
}

/// The body that this request has.
async fn sent(config: ProviderConfig, request: Request) -> Value {
    let server = Server::start([good()]).await;
    let base_url = Some(format!("http://{}/v1", server.address));
    read(provider(&ProviderConfig { base_url, ..config }).stream(request)).await;
    serde_json::from_slice(&server.asked()[0].body).expect("JSON")
}

#[tokio::test]
async fn a_request_stores_nothing_at_the_provider() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("key");
    std::fs::write(&file, "sk-secret\n").expect("it is writable");
    let server = Server::start([good()]).await;
    let config = ProviderConfig {
        base_url: Some(format!("http://{}/v1", server.address)),
        api_key: Some(KeySource::File(file)),
        ..ProviderConfig::default()
    };
    let provider = provider(&config);
    let messages = [
        provider.encode("m", None, &[system("s")]),
        provider.encode("m", None, &[user(vec![Part::text("hi")])]),
    ];
    let messages = vec![messages.join(&b","[..]).into()];
    let (events, failed) = read(provider.stream(request(messages))).await;
    assert_eq!(failed, None);
    assert_eq!(events[0], ModelEvent::Text("x".to_owned()));
    let asked = &server.asked()[0];
    assert_eq!(asked.path, "/v1/responses");
    assert_eq!(asked.headers["authorization"], "Bearer sk-secret");
    let body: Value = serde_json::from_slice(&asked.body).expect("JSON");
    assert_eq!(
        body,
        json!({
            "model": "m", "stream": true, "store": false,
            "input": [{ "role": "system", "content": "s" }, { "role": "user", "content": "hi" }],
        })
    );
}

#[tokio::test]
async fn only_models_that_reason_are_asked_for_it() {
    let ask = |model: &str, effort| Request {
        model: model.to_owned(),
        options: ModelOptions { reasoning_effort: effort, ..ModelOptions::default() },
        ..request(Vec::new())
    };
    let summary = json!({ "summary": "auto" });
    let low = json!({ "summary": "auto", "effort": "low" });
    let table = [
        ("gpt-5.4", None, Some(&summary)),
        ("gpt-4.1", None, None),
        ("anything", Some(ReasoningEffort::Low), Some(&low)),
    ];
    for (model, effort, expected) in table {
        let body = sent(ProviderConfig::default(), ask(model, effort)).await;
        assert_eq!(body.get("reasoning"), expected, "{model}");
        let include = expected.map(|_| json!(["reasoning.encrypted_content"]));
        assert_eq!(body.get("include"), include.as_ref(), "{model}");
    }
}

#[tokio::test]
async fn options_go_along_and_must_not_break_the_form() {
    let most = ModelConfig { max_output_tokens: Some(100), ..ModelConfig::default() };
    let config = ProviderConfig {
        parallel_tool_calls: Some(false),
        models: BTreeMap::from([("m".to_owned(), most)]),
        ..ProviderConfig::default()
    };
    let extra = |name: &str| Request {
        options: ModelOptions {
            extra_body: Some(BTreeMap::from([(name.to_owned(), json!("x"))])),
            temperature: Some(0.5),
            ..ModelOptions::default()
        },
        tools: br#"[{"type":"function","name":"a"}]"#.as_slice().into(),
        ..request(Vec::new())
    };
    let body = sent(config.clone(), extra("prompt_cache_key")).await;
    let expected = json!({
        "model": "m", "stream": true, "store": false, "temperature": 0.5,
        "max_output_tokens": 100, "parallel_tool_calls": false, "prompt_cache_key": "x",
        "tools": [{ "type": "function", "name": "a" }], "input": [],
    });
    assert_eq!(body, expected);
    let provider =
        provider(&ProviderConfig { base_url: Some("http://127.0.0.1:1".into()), ..config });
    for name in ["input", "tools", "stream", "store"] {
        let (_, failed) = read(provider.stream(extra(name))).await;
        let failed = failed.expect("it is not sent");
        assert!(failed.message.contains(name) && !failed.retryable, "{failed}");
    }
}

/// What the table says is not learned otherwise: the refusal is the user's to see.
#[tokio::test]
async fn a_refusal_of_what_the_table_says_is_handed_on() {
    let error = json!({ "message": "Encrypted content is not supported with this model." });
    let body = json!({ "error": error }).to_string();
    let server = Server::start([Reply::body(400, "application/json", &body)]).await;
    let base_url = Some(format!("http://{}/v1", server.address));
    let reasoning_echo = ReasoningEcho::Always;
    let config = ProviderConfig { base_url, reasoning_echo, ..ProviderConfig::default() };
    let request = Request { model: "gpt-5".to_owned(), ..request(Vec::new()) };
    let (events, failed) = read(provider(&config).stream(request)).await;
    let failed = failed.expect("it is refused");
    assert!(events.is_empty() && !failed.adapted && !failed.retryable, "{events:?} {failed}");
}

/// What is refused for its form is sent once more in another, and from then on so.
#[tokio::test]
async fn what_is_refused_of_reasoning_is_given_up() {
    let refusals = [
        "Your organization must be verified to generate reasoning summaries.",
        "Encrypted content is not supported with this model.",
    ];
    let refusal = |message: &&str| {
        let error = json!({ "type": "invalid_request_error", "message": message });
        Reply::body(400, "application/json", &json!({ "error": error }).to_string())
    };
    let server = Server::start(refusals.iter().map(refusal).chain([good()])).await;
    let base_url = Some(format!("http://{}/v1", server.address));
    let provider = provider(&ProviderConfig { base_url, ..ProviderConfig::default() });
    let request = || Request { model: "gpt-5".to_owned(), ..request(Vec::new()) };
    for refusal in refusals {
        let (events, failed) = read(provider.stream(request())).await;
        assert!(matches!(events[..], [ModelEvent::Warning { .. }]), "{events:?}");
        let failed = failed.expect("it is refused");
        assert!(failed.adapted && failed.message.contains(refusal), "{failed}");
    }
    assert_eq!(read(provider.stream(request())).await.1, None);
    let asked = server.asked();
    let bodies =
        asked.iter().map(|asked| serde_json::from_slice::<Value>(&asked.body).expect("JSON"));
    let forms: Vec<_> = bodies
        .map(|body| (body.get("reasoning").is_some(), body.get("include").is_some()))
        .collect();
    assert_eq!(forms, [(true, true), (false, true), (false, false)]);
}
