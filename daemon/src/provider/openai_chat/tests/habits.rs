//! What refusals teach, and the ways of transport, over a loopback server.

use std::time::Duration;

use futures_util::StreamExt;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;

use super::*;
use crate::provider::Carriage;
use crate::provider::tests::server::{Reply, Server, Step};

fn provider(server: &Server, lessons: &Lessons) -> OpenaiChat {
    provider_by(server, lessons, Clock::system())
}

fn provider_by(server: &Server, lessons: &Lessons, clock: Clock) -> OpenaiChat {
    let base_url = Some(format!("http://{}/v1", server.address));
    let config = ProviderConfig { base_url, ..ProviderConfig::default() };
    let mut transports = Transports::default();
    OpenaiChat::new("p", &config, &mut transports, lessons.clone(), clock).expect("a good table")
}

fn request(carriage: Carriage) -> Request {
    Request {
        model: "m".to_owned(),
        messages: vec![Bytes::from_static(br#"{"role":"user","content":"hi"}"#)],
        carriage,
        ..Request::default()
    }
}

async fn events(provider: &OpenaiChat, carriage: Carriage) -> Vec<Result<ModelEvent, ModelError>> {
    provider.stream(request(carriage)).collect().await
}

fn good() -> Reply {
    let text = [d(r#"{"content":"x"}"#), f("stop"), DONE.to_owned()].concat();
    Reply::stream([Step::Send(text)])
}

fn refusing(status: u16, message: &str) -> Reply {
    let body = json!({ "error": { "message": message } });
    Reply::body(status, "application/json", &body.to_string())
}

#[tokio::test]
async fn a_lesson_is_told_before_the_failure_it_comes_from() {
    let server = Server::start([refusing(400, "Conversation roles must alternate"), good()]).await;
    let lessons = Lessons::default();
    let provider = provider(&server, &lessons);
    let before = provider.encoding_key("m");
    let first = events(&provider, Carriage::Usual).await;
    let [Ok(ModelEvent::Warning { code, message }), Err(error)] = first.as_slice() else {
        panic!("{first:?}")
    };
    assert_eq!(*code, "quirk_learned");
    assert!(message.contains("merge_roles = true"), "{message}");
    assert!(error.adapted, "{error:?}");
    assert_ne!(provider.encoding_key("m"), before);
    assert!(events(&provider, Carriage::Usual).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn the_limit_of_an_answer_is_called_as_the_server_wants_it() {
    let message = "Unsupported parameter: 'max_tokens' is not supported with this model. Use \
                   'max_completion_tokens' instead.";
    let server = Server::start([refusing(400, message), good()]).await;
    let provider = provider(&server, &Lessons::default());
    let limited = || {
        let mut request = request(Carriage::Usual);
        request.options.max_output_tokens = Some(5);
        request
    };
    for _ in 0..2 {
        provider.stream(limited()).collect::<Vec<_>>().await;
    }
    let asked: Vec<Value> =
        server.asked().iter().map(|a| serde_json::from_slice(&a.body).expect("JSON")).collect();
    assert_eq!(asked[0]["max_tokens"], 5);
    assert_eq!(
        (&asked[1]["max_completion_tokens"], &asked[1]["max_tokens"]),
        (&json!(5), &Value::Null)
    );
}

#[tokio::test]
async fn a56_a_server_teaches_its_window() {
    let body = r#"{"error":{"code":400,"type":"exceed_context_size_error","message":"request (9 tokens) exceeds the available context size (8 tokens)","n_prompt_tokens":9,"n_ctx":8}}"#;
    let server = Server::start([Reply::body(400, "application/json", body)]).await;
    let lessons = Lessons::default();
    let failed = events(&provider(&server, &lessons), Carriage::Usual).await;
    let [Err(error)] = failed.as_slice() else { panic!("{failed:?}") };
    assert_eq!((error.code, error.context_window), (TurnErrorCode::ContextOverflow, Some(8)));
    assert_eq!(lessons.window("m"), Some(8));
}

#[tokio::test]
async fn a_fresh_connection_is_a_new_one() {
    let server = Server::start([good(), good(), good(), good()]).await;
    let provider = provider(&server, &Lessons::default());
    for (carriage, connections) in
        [(Carriage::Usual, 1), (Carriage::Usual, 1), (Carriage::Fresh, 2), (Carriage::Http1, 3)]
    {
        assert!(events(&provider, carriage).await.iter().all(Result::is_ok));
        assert_eq!(server.connections(), connections, "{carriage:?}");
    }
}

/// A laptop that slept: its kept connection is dead, and nothing will ever say so.
#[tokio::test]
async fn e14_connections_from_before_a_sleep_are_not_used() {
    let server = Server::start([good(), good(), good()]).await;
    let clock = Clock::manual();
    let provider = provider_by(&server, &Lessons::default(), clock.clone());
    for (slept, connections) in [(0, 1), (1, 1), (60, 2)] {
        clock.advance(Duration::from_secs(slept));
        assert!(events(&provider, Carriage::Usual).await.iter().all(Result::is_ok));
        assert_eq!(server.connections(), connections, "slept {slept} s");
    }
}

#[tokio::test]
async fn the_last_way_asks_for_the_answer_as_a_whole() {
    let whole = json!({
        "choices": [{ "index": 0, "finish_reason": "stop", "message": { "content": "x" } }],
        "usage": { "prompt_tokens": 3, "completion_tokens": 1 },
    });
    let reply = || Reply::body(200, "application/json", &whole.to_string());
    let server = Server::start([reply()]).await;
    let answer = events(&provider(&server, &Lessons::default()), Carriage::Whole).await;
    let said = Said::of(answer.into_iter().map(|event| event.expect("a good answer")));
    assert_eq!((said.text.as_str(), said.usage.map(|usage| usage.input)), ("x", Some(3)));
    let asked = server.asked().pop().expect("a request");
    let body: Value = serde_json::from_slice(&asked.body).expect("JSON");
    assert_eq!((&body["stream"], body.get("stream_options")), (&json!(false), None));
}

/// What a client offers is in the first bytes of a connection: HTTP/2, but not in the third way.
#[tokio::test]
async fn http_2_is_not_offered_once_it_may_be_the_fault() {
    for (carriage, offered) in [(Carriage::Fresh, true), (Carriage::Http1, false)] {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let base_url = Some(format!("https://{address}/v1"));
        let config = ProviderConfig { base_url, ..ProviderConfig::default() };
        let (mut transports, clock) = (Transports::default(), Clock::manual());
        let provider = OpenaiChat::new("p", &config, &mut transports, Lessons::default(), clock);
        let provider = provider.expect("a good table");
        let hello = async {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut head = [0; 5];
            stream.read_exact(&mut head).await.expect("a record");
            let mut hello = vec![0; usize::from(u16::from_be_bytes([head[3], head[4]]))];
            stream.read_exact(&mut hello).await.expect("a whole record");
            memchr::memmem::find(&hello, b"\x02h2").is_some()
        };
        let (failed, has) = tokio::join!(events(&provider, carriage), hello);
        assert_eq!(has, offered, "{carriage:?}");
        let Some(Err(error)) = failed.last() else { panic!("{failed:?}") };
        assert!(error.retryable, "{error:?}");
    }
}

#[tokio::test]
async fn only_what_broke_in_use_is_a_reason_for_another_way() {
    let text = || Step::Send(d(r#"{"content":"Hel"}"#));
    for (reply, broken) in [
        (Reply::stream([text()]), true),
        (Reply::stream([text(), Step::Break]), true),
        (refusing(503, "busy"), false),
        (refusing(429, "slow down"), false),
    ] {
        let server = Server::start([reply]).await;
        let answer = events(&provider(&server, &Lessons::default()), Carriage::Usual).await;
        let Some(Err(error)) = answer.last() else { panic!("{answer:?}") };
        assert_eq!((error.retryable, error.broken), (true, broken), "{error:?}");
    }
}
