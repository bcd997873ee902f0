//! What is recorded of a server, and that it is the same when it is played back.

use std::path::Path;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};

use super::*;
use crate::config::{KeySource, ReplayPace};
use crate::provider::tests::server::{Reply, Server, Step};

fn provider(config: &ProviderConfig, clock: &Clock) -> OpenaiChat {
    let mut transports = Transports::default();
    let made = OpenaiChat::new("p", config, &mut transports, Lessons::default(), clock.clone());
    made.expect("a good table")
}

fn recording_of(server: &Server, path: &Path) -> ProviderConfig {
    ProviderConfig {
        base_url: Some(format!("http://{}/v1", server.address)),
        record: Some(path.to_owned()),
        ..ProviderConfig::default()
    }
}

fn replaying(path: &Path) -> ProviderConfig {
    ProviderConfig { replay: Some(path.to_owned()), ..ProviderConfig::default() }
}

/// A request with so many inputs.
fn request(inputs: usize) -> Request {
    let message = r#"{"role":"user","content":"hi"}"#;
    let messages = vec![Bytes::from(vec![message; inputs].join(","))];
    Request { model: "m".to_owned(), messages, ..Request::default() }
}

async fn ask(provider: &OpenaiChat, inputs: usize) -> Vec<Result<ModelEvent, ModelError>> {
    provider.stream(request(inputs)).collect().await
}

fn error_of(answer: &[Result<ModelEvent, ModelError>]) -> &ModelError {
    let Some(Err(error)) = answer.last() else { panic!("{answer:?}") };
    error
}

fn good() -> Reply {
    let text = "\u{597d}\u{1f642} text";
    let delta = d(&json!({ "content": text }).to_string());
    // Cut inside a character.
    let at = delta.find('\u{597d}').map_or(5, |at| at - 1);
    let (before, after) = delta.split_at(at);
    Reply::stream([before, after, &f("stop"), DONE].map(|piece| Step::Send(piece.to_owned())))
}

fn limited() -> Reply {
    Reply::body(429, "application/json", r#"{"error":{"message":"slow down"}}"#)
        .header("retry-after", "2")
}

fn cut() -> Reply {
    Reply::stream([Step::Send(d(r#"{"content":"Hel"}"#)), Step::Break])
}

#[tokio::test]
async fn what_was_recorded_is_played_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("session.jsonl");
    let server = Server::start([good(), limited(), cut(), good()]).await;
    let clock = Clock::system();
    let live = provider(&recording_of(&server, &path), &clock);
    let mut answers = Vec::new();
    for inputs in [1, 2, 2, 2] {
        answers.push(ask(&live, inputs).await);
    }
    assert_eq!(error_of(&answers[1]).retry_after, Some(Duration::from_secs(2)));
    assert!(error_of(&answers[2]).broken);
    let lines: Vec<Value> = std::fs::read_to_string(&path)
        .expect("a recording")
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines[0]["request"]["body"]["messages"][0]["content"], "hi");
    assert_eq!(lines[1]["response"]["status"], 200);
    drop(server);

    let played = provider(&replaying(&path), &clock);
    for (inputs, expected) in [1, 2, 2, 2].into_iter().zip(&answers) {
        let answer = ask(&played, inputs).await;
        let said = |answer: &[Result<ModelEvent, ModelError>]| {
            Said::of(answer.iter().filter_map(|event| event.clone().ok()))
        };
        assert_eq!(said(&answer), said(expected));
        if let Some(Err(error)) = expected.last() {
            assert_eq!(error_of(&answer), error);
        }
    }
    let over = ask(&played, 2).await;
    let error = error_of(&over);
    assert_eq!((error.code, error.retryable), (TurnErrorCode::ProviderRefused, false));
    assert!(error.message.contains("ends after 4 requests"), "{error}");
}

#[tokio::test]
async fn a_request_that_does_not_fit_takes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("session.jsonl");
    let server = Server::start([good()]).await;
    let clock = Clock::system();
    ask(&provider(&recording_of(&server, &path), &clock), 1).await;
    let played = provider(&replaying(&path), &clock);
    let answer = ask(&played, 2).await;
    let message = &error_of(&answer).message;
    assert!(message.contains("request 1 does not fit"), "{message}");
    assert!(message.contains("message 2 is user, recorded was nothing"), "{message}");
    assert!(ask(&played, 1).await.iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_recording_that_is_none_says_so() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("none.jsonl");
    let answer = ask(&provider(&replaying(&path), &Clock::system()), 1).await;
    assert!(error_of(&answer).message.contains("cannot be read"), "{answer:?}");
    std::fs::write(&path, "{}\n{}\n").expect("a writable directory");
    let answer = ask(&provider(&replaying(&path), &Clock::system()), 1).await;
    assert!(error_of(&answer).message.contains("line 1"), "{answer:?}");
}

#[tokio::test]
async fn a_recording_cannot_be_written_to_nowhere() {
    let server = Server::start([]).await;
    let config = recording_of(&server, Path::new("/nowhere/session.jsonl"));
    let answer = ask(&provider(&config, &Clock::system()), 1).await;
    let error = error_of(&answer);
    assert!(!error.retryable && error.message.contains("/nowhere/session.jsonl"), "{error}");
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn no_secret_is_recorded() {
    let directory = tempfile::tempdir().expect("a directory");
    let (path, key) = (directory.path().join("session.jsonl"), directory.path().join("key"));
    std::fs::write(&key, "sk-secret\"quoted").expect("a writable directory");
    let text =
        d(&json!({ "content": "your key is sk-secret\"quoted, team blue-team" }).to_string());
    let (before, after) = text.split_at(text.find("cret").expect("it is there"));
    let steps = [before, after, DONE].map(|piece| Step::Send(piece.to_owned()));
    let server = Server::start([Reply::stream(steps).header("set-cookie", "a=b")]).await;
    let mut config = recording_of(&server, &path);
    config.api_key = Some(KeySource::File(key));
    config.headers.insert("X-Team".to_owned(), "blue-team".to_owned());
    config.base_url = config.base_url.map(|url| url.replace("http://", "http://user:word@"));
    let mut request = request(1);
    request.messages =
        vec![Bytes::from_static(br#"{"role":"user","content":"I am in blue-team"}"#)];
    let own = directory.path().join("own.jsonl");
    request.options.record = Some(own.display().to_string());
    let answer: Vec<_> = provider(&config, &Clock::system()).stream(request).collect().await;
    assert!(answer.iter().all(Result::is_ok), "{answer:?}");
    for path in [path, own] {
        let text = std::fs::read_to_string(&path).expect("a recording");
        for secret in ["sk-secret", "blue-team", "a=b", "user:word"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
        assert!(text.contains("your key is ") && text.contains("***, team ***"), "{text}");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = std::fs::metadata(&path).expect("it is there").permissions().mode();
            assert_eq!(mode & 0o077, 0);
        }
    }
}

#[tokio::test]
async fn a_recording_keeps_its_times_where_that_is_asked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("session.jsonl");
    let line = |value: Value| value.to_string() + "\n";
    let asked = json!({ "request": {
        "exchange": "1", "at": "2026-01-01T00:00:00.000Z", "agentd": "0", "provider": "p",
        "url": "http://h/v1/chat/completions", "headers": {},
        "body": { "messages": [{ "role": "user", "content": "hi" }] },
    } });
    let head = json!({ "response": { "exchange": "1", "ms": 100, "status": 200, "headers": {} } });
    let piece =
        |ms: u64, text: &str| json!({ "data": { "exchange": "1", "ms": ms, "text": text } });
    let text = [
        line(asked),
        line(head),
        line(piece(1_000, &d(r#"{"content":"x"}"#))),
        line(piece(60_000, DONE)),
        "{\"end\":{\"exch".to_owned(),
    ];
    std::fs::write(&path, text.concat()).expect("a writable directory");
    let clock = Clock::manual();
    let config = ProviderConfig { replay_pace: ReplayPace::Recorded, ..replaying(&path) };
    let mut stream = provider(&config, &clock).stream(request(1));
    let mut times = Vec::new();
    loop {
        match stream.next().now_or_never() {
            Some(Some(event)) => times.push((clock.boot_ms(), event.expect("a good event"))),
            Some(None) => break,
            None => {
                clock.advance(Duration::from_millis(100));
                tokio::task::yield_now().await;
            }
        }
    }
    let [(first, ModelEvent::Text(_)), (last, ModelEvent::End { .. })] = times.as_slice() else {
        panic!("{times:?}")
    };
    assert!((59_000..=59_100).contains(&(last - first)), "{times:?}");
}

#[tokio::test]
async fn an_error_that_comes_in_drops_is_not_waited_for_long() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("session.jsonl");
    let line = |value: Value| value.to_string() + "\n";
    let asked = json!({ "request": {
        "exchange": "1", "at": "2026-01-01T00:00:00.000Z", "agentd": "0", "provider": "p",
        "url": "http://h/v1/chat/completions", "headers": {},
        "body": { "messages": [{ "role": "user", "content": "hi" }] },
    } });
    let head = json!({ "response": { "exchange": "1", "ms": 0, "status": 400, "headers": {} } });
    // One a minute, so that there is never silence for `idle_timeout`.
    let drops = "abcDEFGHIJ".char_indices().map(|(at, drop)| {
        let ms = 60_000 * (at + 1);
        line(json!({ "data": { "exchange": "1", "ms": ms, "text": drop.to_string() } }))
    });
    let text = [line(asked), line(head)].into_iter().chain(drops);
    std::fs::write(&path, text.collect::<String>()).expect("a writable directory");
    let clock = Clock::manual();
    let config = ProviderConfig { replay_pace: ReplayPace::Recorded, ..replaying(&path) };
    let mut stream = provider(&config, &clock).stream(request(1));
    let error = loop {
        if let Some(event) = stream.next().now_or_never() {
            break event.expect("an event").expect_err("an error");
        }
        clock.advance(Duration::from_secs(10));
        tokio::task::yield_now().await;
    };
    assert_eq!(error.code, TurnErrorCode::ProviderRefused);
    assert!(error.message.contains(": a"), "{error}");
    assert!(!error.message.contains('D'), "{error}");
}
