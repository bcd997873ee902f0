//! Requests to a server on loopback: what is sent, and how each way of failing ends.

use std::path::Path;
use std::time::Duration;

use agentd_protocol::session::{ModelOptions, ReasoningEffort};
use futures_util::{FutureExt, StreamExt};

use super::*;
use crate::config::{KeySource, ModelConfig};
use crate::provider::exchange::TAIL_GRACE;
use crate::provider::tests as shared;
use crate::provider::tests::server::{Reply, Server, Step};

fn table(server: &Server) -> ProviderConfig {
    ProviderConfig {
        base_url: Some(format!("http://{}/v1/", server.address)),
        ..ProviderConfig::default()
    }
}

fn provider(config: &ProviderConfig, clock: &Clock) -> OpenaiChat {
    OpenaiChat::new("p", config, &mut Transports::default(), Lessons::default(), clock.clone())
        .expect("a good table")
}

fn request() -> Request {
    Request {
        model: "m".to_owned(),
        messages: vec![Bytes::from_static(br#"{"role":"user","content":"hi"}"#)],
        ..Request::default()
    }
}

/// Reads a stream to its end.
async fn read(stream: ModelStream) -> (Said, Option<ModelError>) {
    let (events, failed) = shared::read(stream).await;
    (Said::of(events), failed)
}

/// What a server with this one reply is understood to say.
async fn exchange(reply: Reply) -> (Said, Option<ModelError>) {
    let server = Server::start([reply]).await;
    let result = read(provider(&table(&server), &Clock::manual()).stream(request())).await;
    assert_eq!(server.asked().len(), 1, "one request, whatever comes of it");
    result
}

async fn failure(reply: Reply) -> ModelError {
    exchange(reply).await.1.expect("it fails")
}

fn send(pieces: &[&str]) -> Vec<Step> {
    pieces.iter().map(|piece| Step::Send((*piece).to_owned())).collect()
}

fn good() -> Reply {
    Reply::stream(send(&[&d(r#"{"content":"x"}"#), &f("stop"), DONE]))
}

/// The next event of a stream; the clock moves on whenever it has to wait.
async fn next_as_time_passes(
    stream: &mut ModelStream,
    clock: &Clock,
    step: Duration,
) -> Option<Result<ModelEvent, ModelError>> {
    loop {
        if let Some(event) = stream.next().now_or_never() {
            return event;
        }
        clock.advance(step);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_request_and_its_answer() {
    let server = Server::start([Reply::stream(send(&[
        &d(r#"{"role":"assistant","content":"He"}"#),
        &d(r#"{"content":"llo"}"#),
        &d(r#"{"tool_calls":[{"index":0,"id":"k1","function":{"name":"read","arguments":"{}"}}]}"#),
        &f("tool_calls"),
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\n",
        DONE,
    ]))])
    .await;
    let provider = provider(&table(&server), &Clock::manual());
    let tools = provider.encode_tools(
        "m",
        &[ToolDefinition {
            name: "read".to_owned(),
            description: "Reads.".to_owned(),
            input_schema: json!({ "type": "object" }),
        }],
    );
    let (said, failed) = read(provider.stream(Request { tools, ..request() })).await;
    assert_eq!(failed, None);
    assert_eq!(said.text, "Hello");
    assert_eq!(said.calls, [call("k1", "read", json!({}))]);
    assert_eq!(said.usage, Some(Usage { input: 3, output: 1, ..Usage::default() }));
    assert_eq!(said.finish_reason.as_deref(), Some("tool_calls"));

    let asked = server.asked().pop().expect("a request");
    assert_eq!(asked.path, "/v1/chat/completions");
    assert_eq!(asked.headers["content-type"], "application/json");
    assert_eq!(asked.headers["content-length"], asked.body.len().to_string());
    assert!(!asked.headers.contains_key("authorization"));
    assert!(!asked.headers.contains_key("accept-encoding"));
    let body: Value = serde_json::from_slice(&asked.body).expect("JSON");
    assert_eq!(
        body,
        json!({
            "model": "m",
            "stream": true,
            "stream_options": { "include_usage": true },
            "messages": [{ "role": "user", "content": "hi" }],
            "tools": [{ "type": "function", "function": {
                "name": "read",
                "description": "Reads.",
                "parameters": { "type": "object", "properties": {} },
            } }],
        })
    );
    assert!(asked.body.ends_with(br#""messages":[{"role":"user","content":"hi"}]}"#));
}

#[tokio::test]
async fn options_become_fields() {
    let server = Server::start([good(), good()]).await;
    let mut config = table(&server);
    config.stream_usage = false;
    config.parallel_tool_calls = Some(false);
    let longest = ModelConfig { max_output_tokens: Some(100), ..ModelConfig::default() };
    config.models.insert("m".to_owned(), longest);
    let provider = provider(&config, &Clock::manual());
    let extra = [("top_k".to_owned(), json!(4)), ("temperature".to_owned(), json!(1))];
    let options = ModelOptions {
        reasoning_effort: Some(ReasoningEffort::High),
        temperature: Some(0.5),
        max_output_tokens: Some(7),
        extra_body: Some(extra.into_iter().collect()),
        record: None,
    };
    read(provider.stream(Request { options, ..request() })).await;
    read(provider.stream(request())).await;
    let bodies: Vec<Value> = server
        .asked()
        .iter()
        .map(|asked| serde_json::from_slice(&asked.body).expect("JSON"))
        .collect();
    let messages = json!([{ "role": "user", "content": "hi" }]);
    assert_eq!(
        bodies,
        [
            json!({
                "model": "m", "stream": true, "reasoning_effort": "high", "temperature": 1,
                "max_tokens": 7, "top_k": 4, "messages": messages,
            }),
            json!({ "model": "m", "stream": true, "max_tokens": 100, "messages": messages }),
        ]
    );
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_before_it_is() {
    let server = Server::start([]).await;
    let provider = provider(&table(&server), &Clock::manual());
    for name in ["messages", "tools", "stream"] {
        let extra_body = Some([(name.to_owned(), json!(1))].into_iter().collect());
        let options = ModelOptions { extra_body, ..ModelOptions::default() };
        let (_, failed) = read(provider.stream(Request { options, ..request() })).await;
        let error = failed.expect("it fails");
        assert_eq!((error.code, error.retryable), (TurnErrorCode::ProviderRefused, false));
        assert!(error.message.contains(name), "{error}");
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_connection_is_used_again() {
    let server = Server::start([good(), good(), good()]).await;
    let provider = provider(&table(&server), &Clock::system());
    for _ in 0..3 {
        let (said, failed) = read(provider.stream(request())).await;
        assert_eq!((said.text.as_str(), failed), ("x", None));
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn dropping_a_stream_drops_its_connection() {
    let text = Step::Send(d(r#"{"content":"x"}"#));
    let server = Server::start([Reply::stream([text, Step::Hang])]).await;
    let mut stream = provider(&table(&server), &Clock::manual()).stream(request());
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Text(_)))));
    drop(stream);
    server.body_dropped().await;
}

#[tokio::test]
async fn a14_an_answer_that_ends_or_breaks_early() {
    let text = Step::Send(d(r#"{"content":"Hel"}"#));
    for steps in [vec![text.clone()], vec![text, Step::Break]] {
        let (said, failed) = exchange(Reply::stream(steps)).await;
        assert_eq!((said.text.as_str(), said.ended), ("Hel", false));
        let error = failed.expect("it fails");
        assert_eq!((error.code, error.retryable), (TurnErrorCode::ProviderUnreachable, true));
    }
}

#[tokio::test]
async fn usage_is_told_although_the_answer_fails() {
    let usage = "data: {\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\n";
    let (said, failed) = exchange(Reply::stream(send(&[usage]))).await;
    assert!(failed.is_some());
    assert_eq!(said.usage.map(|usage| usage.input), Some(3));
}

#[tokio::test]
async fn a16_the_socket_stays_open_after_done() {
    let steps = send(&[&d(r#"{"content":"x"}"#), &f("stop"), DONE]);
    let server = Server::start([Reply::stream(steps.into_iter().chain([Step::Hang]))]).await;
    let (said, failed) = read(provider(&table(&server), &Clock::system()).stream(request())).await;
    assert_eq!((said.text.as_str(), said.ended, failed), ("x", true, None));
    server.body_dropped().await;
}

#[tokio::test]
async fn a_complete_answer_does_not_wait_long_for_its_end() {
    let steps = [Step::Send([d(r#"{"content":"x"}"#), f("stop")].concat()), Step::Hang];
    let server = Server::start([Reply::stream(steps)]).await;
    let clock = Clock::manual();
    let mut stream = provider(&table(&server), &clock).stream(request());
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Text(_)))));
    let end = next_as_time_passes(&mut stream, &clock, TAIL_GRACE).await;
    assert!(matches!(end, Some(Ok(ModelEvent::End { .. }))), "{end:?}");
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn silence_is_an_error() {
    let text = Step::Send(d(r#"{"content":"x"}"#));
    let server = Server::start([Reply::stream([text, Step::Hang])]).await;
    let clock = Clock::manual();
    let config = table(&server);
    let mut stream = provider(&config, &clock).stream(request());
    assert!(matches!(stream.next().await, Some(Ok(ModelEvent::Text(_)))));
    let end = next_as_time_passes(&mut stream, &clock, config.idle_timeout).await;
    let error = end.expect("an error").expect_err("an error");
    assert_eq!((error.code, error.retryable), (TurnErrorCode::ProviderUnreachable, true));
    assert!(error.message.contains("idle_timeout"), "{error}");
    assert_eq!(stream.next().await, None);
}

#[tokio::test]
async fn nobody_listens() {
    let server = Server::start([]).await;
    let config = table(&server);
    let address = server.address;
    drop(server);
    let clock = Clock::manual();
    // The port is free again once the server's task is gone.
    tokio::task::yield_now().await;
    let (_, failed) = read(provider(&config, &clock).stream(request())).await;
    let error = failed.expect("it fails");
    assert_eq!((error.code, error.retryable), (TurnErrorCode::ProviderUnreachable, true));
    assert!(error.message.starts_with(&format!("provider p at http://{address}")), "{error}");
}

#[tokio::test]
async fn a32_a_page_is_no_stream() {
    let page = "<html>\n<head><title>502</title></head>\n</html>\n";
    let error = failure(Reply::body(200, "text/html; charset=utf-8", page)).await;
    assert_eq!((error.code, error.retryable), (TurnErrorCode::BadResponse, false));
    for part in ["200", "text/html", "<title>502</title>"] {
        assert!(error.message.contains(part), "{part} in {error}");
    }
    let error = failure(Reply::body(502, "text/html", page)).await;
    assert_eq!((error.code, error.retryable), (TurnErrorCode::ProviderUnreachable, true));
    assert_eq!(error.status, Some(502));
    for part in ["502", "text/html", "<title>502</title>"] {
        assert!(error.message.contains(part), "{part} in {error}");
    }
}

#[tokio::test]
async fn a33_a_response_tells_how_long_to_wait() {
    let limited = || Reply::body(429, "application/json", r#"{"error":{"message":"slow down"}}"#);
    for (value, wait) in [
        ("2", Some(2_000)),
        // The manual clock starts 1,000 s after 2026 began.
        ("Thu, 01 Jan 2026 00:16:42 GMT", Some(2_000)),
        ("soon", None),
    ] {
        let error = failure(limited().header("retry-after", value)).await;
        assert_eq!((error.code, error.retryable), (TurnErrorCode::RateLimited, true));
        assert_eq!(error.retry_after, wait.map(Duration::from_millis), "{value}");
    }
    assert_eq!(failure(limited()).await.retry_after, None);
}

#[tokio::test]
async fn a59_a_refused_request_is_final() {
    let error =
        failure(Reply::body(400, "application/json", r#"{"error":{"message":"bad"}}"#)).await;
    assert_eq!((error.code, error.retryable), (TurnErrorCode::ProviderRefused, false));
    assert_eq!((error.status, error.message.as_str()), (Some(400), "provider p: bad (status 400)"));
}

#[tokio::test]
async fn a60_compression_that_was_not_asked_for_is_an_error() {
    for encoding in ["gzip", "br"] {
        let error = failure(good().header("content-encoding", encoding)).await;
        assert_eq!((error.code, error.retryable), (TurnErrorCode::BadResponse, false));
        assert!(error.message.contains(encoding), "{error}");
    }
    let (said, failed) = exchange(good().header("content-encoding", "identity")).await;
    assert_eq!((said.text.as_str(), failed), ("x", None));
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let reply = Reply::body(307, "text/plain", "").header("location", "http://127.0.0.1:1/");
    let error = failure(reply).await;
    assert_eq!((error.code, error.retryable), (TurnErrorCode::ProviderRefused, false));
    assert!(error.message.contains("base_url"), "{error}");
}

#[tokio::test]
async fn a_server_may_answer_without_streaming() {
    let whole = json!({
        "object": "chat.completion",
        "choices": [{ "index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant",
            "content": "x",
            "tool_calls": [
                { "id": "k1", "type": "function", "function": { "name": "read", "arguments": "{}" } },
            ],
        } }],
        "usage": { "prompt_tokens": 3, "completion_tokens": 1 },
    });
    let (said, failed) = exchange(Reply::body(200, "application/json", &whole.to_string())).await;
    assert_eq!((said.text.as_str(), failed, said.ended), ("x", None, true));
    assert_eq!(said.calls, [call("k1", "read", json!({}))]);
    let stream = [d(r#"{"content":"x"}"#), f("stop"), DONE.to_owned()].concat();
    let (said, failed) = exchange(Reply::body(200, "application/json", &stream)).await;
    assert_eq!((said.text.as_str(), failed, said.ended), ("x", None, true));
    let error = failure(Reply::body(200, "application/json", "{}")).await;
    assert_eq!(error.code, TurnErrorCode::BadResponse);
    let error = failure(Reply::body(200, "application/json", r#"{"error":"m"}"#)).await;
    assert!(error.message.ends_with(": m"), "{error}");
}

fn key_file(directory: &Path, key: &str) -> KeySource {
    let file = directory.join("key");
    std::fs::write(&file, key).expect("a writable directory");
    KeySource::File(file)
}

#[tokio::test]
async fn the_key_is_sent_and_never_said() {
    let directory = tempfile::tempdir().expect("a directory");
    let echo =
        json!({ "error": { "message": "bad key sk-secret, team blue-team", "code": "sk-secret" } });
    let inside = format!("data: {echo}\n\n");
    let server = Server::start([
        Reply::body(401, "application/json", &echo.to_string()),
        Reply::stream(send(&[&inside])),
    ])
    .await;
    let mut config = table(&server);
    config.api_key = Some(key_file(directory.path(), "sk-secret\n"));
    config.headers.insert("X-Team".to_owned(), "blue-team".to_owned());
    let provider = provider(&config, &Clock::manual());
    for _ in 0..2 {
        let (_, failed) = read(provider.stream(request())).await;
        let error = failed.expect("it fails");
        assert!(error.message.contains("bad key ***, team ***"), "{error}");
        assert!(!format!("{error:?}").contains("sk-secret"));
    }
    assert!(!format!("{provider:?}").contains("sk-secret"));
    for asked in server.asked() {
        assert_eq!(asked.headers["authorization"], "Bearer sk-secret");
        assert_eq!(asked.headers["x-team"], "blue-team");
    }
}

#[tokio::test]
async fn a_key_is_read_for_each_request() {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start([good(), good()]).await;
    let mut config = table(&server);
    config.api_key = Some(key_file(directory.path(), "first"));
    let provider = provider(&config, &Clock::system());
    read(provider.stream(request())).await;
    key_file(directory.path(), "second");
    read(provider.stream(request())).await;
    let keys: Vec<_> =
        server.asked().iter().map(|asked| asked.headers["authorization"].clone()).collect();
    assert_eq!(keys, ["Bearer first", "Bearer second"]);
}

#[tokio::test]
async fn a_missing_key_says_where_it_was_looked_for() {
    let server = Server::start([]).await;
    let mut config = table(&server);
    config.api_key = Some(KeySource::File("/nowhere/key".into()));
    let (_, failed) = read(provider(&config, &Clock::manual()).stream(request())).await;
    let error = failed.expect("it fails");
    assert_eq!((error.code, error.retryable), (TurnErrorCode::ProviderRefused, false));
    assert!(error.message.contains("/nowhere/key"), "{error}");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_certificate_file_that_is_none_says_so() {
    let server = Server::start([]).await;
    let mut config = table(&server);
    config.ca_file = Some("/nowhere/ca.pem".into());
    let (_, failed) = read(provider(&config, &Clock::manual()).stream(request())).await;
    let error = failed.expect("it fails");
    assert!(!error.retryable && error.message.contains("/nowhere/ca.pem"), "{error}");
}

#[test]
fn a_table_that_is_wrong_says_what() {
    for (base_url, header) in [(None, "a"), (Some("nowhere"), "a"), (Some("http://h/v1"), "\n")] {
        let config = ProviderConfig {
            base_url: base_url.map(str::to_owned),
            headers: [("X-A".to_owned(), header.to_owned())].into_iter().collect(),
            ..ProviderConfig::default()
        };
        let made = OpenaiChat::new(
            "p",
            &config,
            &mut Transports::default(),
            Lessons::default(),
            Clock::manual(),
        );
        let error = made.expect_err("a wrong table");
        assert!(error.contains(if header == "a" { "base_url" } else { "headers" }), "{error}");
    }
}

#[tokio::test]
async fn the_models_are_those_that_the_server_lists() {
    let list = r#"{"object":"list","data":[{"id":"b/large","object":"model"},{"id":"a"}]}"#;
    let refusal = r#"{"error":{"message":"the key sk-secret-1 is wrong"}}"#;
    let server = Server::start([
        Reply::body(200, "application/json", list),
        Reply::body(401, "application/json", refusal),
        Reply::body(200, "application/json", "{}"),
    ])
    .await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    std::fs::write(&file, "sk-secret-1\n").unwrap();
    let config = ProviderConfig { api_key: Some(KeySource::File(file)), ..table(&server) };
    let provider = provider(&config, &Clock::manual());
    assert_eq!(provider.models().await.unwrap().unwrap(), ["b/large", "a"]);
    let asked = server.asked();
    assert_eq!(asked[0].path, "/v1/models");
    assert_eq!(asked[0].headers["authorization"], "Bearer sk-secret-1");
    let refused = provider.models().await.unwrap_err();
    assert_eq!(refused.status, Some(401));
    assert!(!refused.message.contains("sk-secret-1"), "{refused}");
    let unreadable = provider.models().await.unwrap_err();
    assert!(unreadable.message.contains("list of models"), "{unreadable}");
}
