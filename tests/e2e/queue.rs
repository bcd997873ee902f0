//! Inputs that wait: their order, what holds them, and that none vanishes.
//!
//! Receives the harness; hands out what became of each input.

use harness::client::{input, is_turn_end};
use harness::{Answer, Client, Daemon, Gate, ModelServer};
use serde_json::{Value, json};

/// A daemon with a turn that stands before a gate.
async fn busy() -> (ModelServer, Gate, Daemon, Client, String) {
    let model = ModelServer::start().await;
    let gate = Gate::new();
    model.push(Answer::saying("Working").wait(&gate).text("."));
    model.improvise(|body| {
        let last = body["messages"].as_array().and_then(|messages| messages.last());
        let text = last.and_then(|message| message["content"].as_str()).unwrap_or_default();
        Answer::saying(&format!("You said: {text}"))
    });
    let daemon = Daemon::start(&model.config()).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    client.submit(&session, "s1", "one").await;
    gate.reached().await;
    (model, gate, daemon, client, session)
}

fn queued(session: &str, id: &str, text: &str) -> Value {
    let mut params = input(session, id, text);
    params["submission"]["op"]["delivery"] = json!("queue");
    params
}

fn of_type<'a>(seen: &'a [Value], kind: &str) -> Vec<&'a Value> {
    seen.iter().filter(|message| message["type"] == kind).collect()
}

#[tokio::test]
async fn queued_inputs_run_in_order_each_in_its_own_turn() {
    let (model, gate, _daemon, mut client, session) = busy().await;
    for (id, text, position) in [("s2", "two", 1), ("s3", "three", 2)] {
        let result = client.call("session/submit", queued(&session, id, text)).await;
        assert_eq!(result["disposition"], "queued");
        let state = client.call("session/get", json!({ "session_id": session })).await;
        assert_eq!(state["queue"].as_array().unwrap().len(), position);
    }
    gate.open();
    let mut seen = Vec::new();
    for _ in 0..3 {
        seen.extend(client.watch_until(is_turn_end).await);
    }
    let started: Vec<&Value> =
        of_type(&seen, "turn.started").into_iter().map(|event| &event["submission_id"]).collect();
    assert_eq!(started, ["s1", "s2", "s3"]);
    let positions: Vec<&Value> =
        of_type(&seen, "input.queued").into_iter().map(|event| &event["position"]).collect();
    assert_eq!(positions, [1, 2]);
    assert_eq!(of_type(&seen, "turn.completed").len(), 3);
    model.assert_all_taken();
}

#[tokio::test]
async fn an_interrupt_holds_the_queue_until_resume() {
    let (model, _gate, _daemon, mut client, session) = busy().await;
    client.call("session/submit", queued(&session, "s2", "two")).await;
    client.submit_op(&session, "i1", json!({ "type": "interrupt" })).await;
    client.watch_until(is_turn_end).await;
    let state = client.call("session/get", json!({ "session_id": session })).await;
    assert_eq!((&state["state"], &state["queue_held"]), (&json!("idle"), &json!(true)));
    assert_eq!(state["queue"][0]["submission_id"], "s2");
    client.submit_op(&session, "r1", json!({ "type": "resume" })).await;
    let seen = client
        .watch_until(|message| {
            message["type"] == "turn.started" && message["submission_id"] == "s2"
        })
        .await;
    assert!(!seen.is_empty());
    client.watch_until(is_turn_end).await;
    model.assert_all_taken();
}

#[tokio::test]
async fn inputs_that_are_taken_out_say_so() {
    let (_model, _gate, _daemon, mut client, session) = busy().await;
    for id in ["s2", "s3", "s4"] {
        client.call("session/submit", queued(&session, id, "later")).await;
    }
    client.submit_op(&session, "d1", json!({ "type": "dequeue", "submission_id": "s3" })).await;
    let interrupt = json!({ "type": "interrupt", "drop_queue": true });
    client.submit_op(&session, "i1", interrupt).await;
    let mut seen = client.watch_until(is_turn_end).await;
    while of_type(&seen, "input.dropped").len() < 3 {
        seen.extend(client.watch_until_type("input.dropped").await);
    }
    let mut dropped: Vec<&str> = of_type(&seen, "input.dropped")
        .into_iter()
        .map(|event| event["submission_id"].as_str().unwrap())
        .collect();
    dropped.sort_unstable();
    assert_eq!(dropped, ["s2", "s3", "s4"]);
    let state = client.call("session/get", json!({ "session_id": session })).await;
    assert_eq!(state["queue"], json!([]));
}

#[tokio::test]
async fn a_queue_survives_a_crash_and_is_held() {
    let (model, _gate, mut daemon, mut client, session) = busy().await;
    client.call("session/submit", queued(&session, "s2", "two")).await;
    daemon.kill();
    daemon.restart().await;
    let mut client = daemon.client().await;
    let state = client.call("session/get", json!({ "session_id": session })).await;
    assert_eq!(state["queue_held"], true, "{state}");
    assert_eq!(state["queue"][0]["submission_id"], "s2");
    client.subscribe(&session, None).await;
    client.submit(&session, "s3", "three").await;
    let mut seen = client.watch_until(is_turn_end).await;
    seen.extend(client.watch_until(is_turn_end).await);
    let mut started: Vec<&str> = of_type(&seen, "turn.started")
        .into_iter()
        .map(|event| event["submission_id"].as_str().unwrap())
        .collect();
    started.sort_unstable();
    assert_eq!(started, ["s2", "s3"]);
    model.assert_all_taken();
}

#[tokio::test]
async fn reject_is_refused_while_a_turn_runs() {
    let (_model, gate, _daemon, mut client, session) = busy().await;
    let mut params = input(&session, "s2", "two");
    params["submission"]["op"]["delivery"] = json!("reject");
    let error = client.try_call("session/submit", params.clone()).await.unwrap_err();
    assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(-32002), &json!("turn_active")));
    gate.open();
    client.watch_until(is_turn_end).await;
    // The refusal left the id free.
    let accepted = client.call("session/submit", params).await;
    assert_eq!(
        (&accepted["disposition"], &accepted["replayed"]),
        (&json!("started"), &json!(false))
    );
    client.watch_until(is_turn_end).await;
}
