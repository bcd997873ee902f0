//! Submissions run once, however often they are sent.
//!
//! Receives the harness; hands out dispositions.

use harness::client::{input, is_turn_end};
use harness::{Answer, Daemon, ModelServer};
use serde_json::json;

#[tokio::test]
async fn the_same_id_runs_once_also_after_a_crash() {
    let model = ModelServer::start().await;
    model.push(Answer::saying("Once."));
    let mut daemon = Daemon::start(&model.config()).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, None).await;
    let first = client.submit(&session, "s1", "Hi.").await;
    client.watch_until(is_turn_end).await;

    let mut expected = first.clone();
    expected["replayed"] = json!(true);
    let mut other = daemon.client().await;
    assert_eq!(other.submit(&session, "s1", "Hi.").await, expected);
    daemon.kill();
    daemon.restart().await;
    let mut client = daemon.client().await;
    assert_eq!(client.submit(&session, "s1", "Hi.").await, expected);
    let error = client.try_call("session/submit", input(&session, "s1", "Ho.")).await.unwrap_err();
    assert_eq!(
        (&error["code"], &error["data"]["kind"]),
        (&json!(-32008), &json!("submission_conflict"))
    );
    assert_eq!(model.asked().len(), 1);
}

#[tokio::test]
async fn sent_twice_at_once_it_runs_once() {
    let model = ModelServer::start().await;
    model.improvise(|_| Answer::saying("Once."));
    let daemon = Daemon::start(&model.config()).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(client.request("session/submit", input(&session, "s1", "Hi.")).await);
    }
    let mut replayed = 0;
    for id in ids {
        let response = client.response(&json!(id)).await;
        replayed += usize::from(response["result"]["replayed"] == true);
    }
    assert_eq!(replayed, 7);
    client.watch_until(is_turn_end).await;
    assert_eq!(model.asked().len(), 1);
    let started = client.events(&session).await;
    assert_eq!(started.iter().filter(|event| event["type"] == "turn.started").count(), 1);
}

#[tokio::test]
async fn bad_input_is_refused_by_the_field_and_writes_nothing() {
    let daemon = Daemon::start("model = \"demo/demo\"\n").await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    let before = client.events(&session).await;
    let submit = |op: serde_json::Value| json!({ "session_id": session, "submission": { "id": "s1", "op": op } });
    let long_id = "x".repeat(129);
    let cases = [
        ("session/submit", submit(json!({ "type": "user_input", "content": " \n" }))),
        ("session/submit", submit(json!({ "type": "user_input", "content": [] }))),
        ("session/submit", submit(json!({ "type": "user_input", "text": "Hi." }))),
        ("session/submit", submit(json!({ "type": "dance" }))),
        ("session/submit", input(&session, "", "Hi.")),
        ("session/submit", input(&session, &long_id, "Hi.")),
        ("session/create", json!({ "cwd": "relative" })),
        ("session/create", json!({ "cwd": "/nonexistent/folder" })),
        ("session/create", json!({ "cwd": daemon.path("config.toml") })),
        ("session/create", json!({})),
        ("session/create", json!({ "cwd": daemon.work_dir(), "modle": "x/y" })),
        ("session/items", json!({ "session_id": session, "limit": 0 })),
    ];
    for (method, params) in cases {
        let error = client.try_call(method, params.clone()).await.unwrap_err();
        assert_eq!(error["code"], -32602, "{method} {params}: {error}");
        assert_eq!(error["data"]["kind"], "invalid_params", "{error}");
    }
    let unknown = input("ses_nothing", "s1", "Hi.");
    let error = client.try_call("session/submit", unknown).await.unwrap_err();
    assert_eq!(error["data"]["kind"], "session_not_found");
    assert_eq!(client.events(&session).await, before);
    client.subscribe(&session, None).await;
    client.submit(&session, "s1", "Hello.").await;
    client.watch_until(is_turn_end).await;
}
