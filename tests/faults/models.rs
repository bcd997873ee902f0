//! An hour of a bad provider in a minute: refusals, cuts, stalls, garbage and delays at random.
//!
//! Whatever the server does, each turn ends exactly once, no call runs twice, and no request is one
//! that a real server would refuse.
//!
//! Receives a seed; hands out the promise that a fault broke, if one did.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use harness::client::is_turn_end;
use harness::{Answer, Client, Daemon, ModelServer};
use serde_json::{Value, json};

use crate::promises::Promises;
use crate::seed;

/// Turns in the long version, and in the one that runs always.
const SOAK_TURNS: usize = 500;
const TURNS: usize = 25;
/// Sessions that share them, all at once.
const SESSIONS: usize = 5;

fn turns() -> usize {
    if std::env::var_os("AGENTD_SOAK").is_some() { SOAK_TURNS } else { TURNS }
}

/// The model: a fault in every second answer, more or less.
fn improvise(rng: &mut Rng, body: &Value) -> Answer {
    let messages = body["messages"].as_array().map_or(0, Vec::len);
    let slow = |answer: Answer| answer.header("retry-after-ms", "5");
    let answer = good(rng, messages);
    match rng.u8(..20) {
        0 => slow(Answer::refusing(429, "Rate limit reached, slow down")),
        1 => slow(Answer::refusing(500, "internal error")),
        2 => slow(Answer::refusing(529, "overloaded")),
        3 => Answer::refusing(503, "busy"),
        4 | 5 => answer.cut(),
        6 => answer.usage_before_cut(),
        7 => answer.closed(),
        8 => answer.garbled(),
        9 => answer.silence(),
        10 => Answer::new().pause(Duration::from_millis(rng.u64(..60))).text("Late."),
        11 => Answer::refusing(400, "Conversation roles must alternate"),
        _ => answer,
    }
}

/// What a turn consists of: its own marks are appended to a file, so that each run shows.
fn good(rng: &mut Rng, messages: usize) -> Answer {
    let mark = format!("{:016x}", rng.u64(..));
    let command = format!("echo {mark} >> ran");
    let shell = json!({ "command": command });
    match rng.u8(..7) {
        0 => Answer::saying("I look.").call("list", &json!({ "path": "." })),
        1 | 2 => Answer::saying("I run.").call("shell", &shell),
        3 => Answer::calling("read", &json!({ "path": "notes.txt" })).call("shell", &shell),
        4 => Answer::calling("list", &json!({ "path": "." }))
            .call("read", &json!({ "path": "notes.txt" }))
            .pause(Duration::from_millis(rng.u64(..200)))
            .call("shell", &shell),
        5 => Answer::new().call_with_text("write", "{\"path\":").finish_reason("length"),
        _ => Answer::saying(&format!("That is all of {messages} messages.")),
    }
}

#[tokio::test]
async fn a_bad_provider_breaks_no_promise() {
    let seed = seed();
    // Shown only when the test fails.
    eprintln!("AGENTD_SEED={seed}");
    let model = ModelServer::start().await;
    let rng = Arc::new(Mutex::new(Rng::with_seed(seed)));
    model.improvise(move |body| {
        improvise(&mut rng.lock().unwrap_or_else(PoisonError::into_inner), body)
    });
    let keys = "max_retries = 3\nidle_timeout = \"300ms\"\nmax_retry_wait = \"1s\"\n";
    let config = model.config().replace("max_retries = 2\n", keys);
    let config = format!(
        "{config}[permission]\nmode = \"full\"\n[limits]\nmax_iterations = 6\n\
         [tools.shell]\nsandbox = \"off\"\n"
    );
    let daemon = Daemon::start(&config).await;
    daemon.write_file("notes.txt", "apple\n");
    let mut sessions = Vec::new();
    for _ in 0..SESSIONS {
        sessions.push(work(&daemon, turns() / SESSIONS));
    }
    for log in futures_util::future::join_all(sessions).await {
        check(&log);
    }
    ran_once(&daemon);
    model.assert_all_taken();
}

/// A session of so many turns; its log.
async fn work(daemon: &Daemon, turns: usize) -> Vec<Value> {
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    for turn in 0..turns {
        client.submit(&session, &format!("s{turn}"), "Go on.").await;
        end(&mut client, &session, turn).await;
    }
    client.events(&session).await
}

/// Waits for a turn's end, and for no retry.
async fn end(client: &mut Client, session: &str, turn: usize) {
    for retry in 0.. {
        let seen = client
            .watch_until(|event| is_turn_end(event) || event["type"] == "retry.scheduled")
            .await;
        if seen.last().is_some_and(is_turn_end) {
            return;
        }
        let id = format!("n{turn}-{retry}");
        client.submit_op(session, &id, json!({ "type": "retry_now" })).await;
    }
}

fn check(log: &[Value]) {
    let mut promises = Promises::default();
    promises.saw(log);
    promises.check(log, true);
    let of_type = |kind: &'static str| log.iter().filter(move |event| event["type"] == kind);
    let mut started = BTreeMap::new();
    for event in of_type("tool.started") {
        *started.entry(event["call_id"].to_string()).or_insert(0) += 1;
    }
    assert!(started.values().all(|count| *count == 1), "a call started twice: {started:?}");
    // A safe read may have started before its answer was taken back.
    let risks: BTreeMap<_, _> = of_type("tool.started")
        .map(|event| (event["call_id"].to_string(), &event["risk"]))
        .collect();
    for reset in of_type("message.reset") {
        for call in reset["discarded"].as_array().into_iter().flatten() {
            let risk = risks.get(&call.to_string());
            assert!(risk.is_none_or(|risk| *risk == "read"), "a discarded call ran: {call}");
        }
    }
}

/// Every command writes a mark of its own, so the same mark twice is a call that ran twice.
fn ran_once(daemon: &Daemon) {
    let text = std::fs::read_to_string(daemon.work_dir().join("ran")).unwrap_or_default();
    let mut marks: Vec<&str> = text.lines().collect();
    let count = marks.len();
    marks.sort_unstable();
    marks.dedup();
    assert_eq!(marks.len(), count, "a call ran twice");
}
