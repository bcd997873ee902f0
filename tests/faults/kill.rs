//! kill -9 at random moments of random work.
//!
//! Receives a seed; hands out the promise that a crash broke, if one did.

use std::time::Duration;

use fastrand::Rng;
use harness::client::input;
use harness::{Answer, Client, Daemon, ModelServer, wait};
use serde_json::{Value, json};

use crate::promises::Promises;
use crate::seed;

/// Crashes in the life of one session.
const ROUNDS: usize = 6;
/// Sessions in the long version; the short one has one.
const SOAK_SESSIONS: usize = 50;
/// The most messages a client reads before the daemon is killed.
const MESSAGES: usize = 60;

fn sessions() -> usize {
    if std::env::var_os("AGENTD_SOAK").is_some() { SOAK_SESSIONS } else { 1 }
}

/// A model that reads, writes and talks, as its last input and a number say.
fn improvise(body: &Value) -> Answer {
    let messages = body["messages"].as_array().map_or(0, Vec::len);
    match messages % 4 {
        // The read starts while the answer still streams.
        0 => Answer::saying("I look around.")
            .call("list", &json!({ "path": "." }))
            .call("read", &json!({ "path": "notes.txt", "limit": messages + 1 }))
            .pause(Duration::from_millis(120))
            .text("That is all."),
        1 => Answer::calling(
            "write",
            &json!({ "path": format!("f{messages}.txt"), "content": "x\n" }),
        )
        .call("read", &json!({ "path": "notes.txt" })),
        2 => Answer::calling("shell", &json!({ "command": "echo one; echo two" })),
        _ => Answer::saying("That is all there is to say about it, and it is quite a lot."),
    }
}

#[tokio::test]
async fn kill_at_random_moments_keeps_every_promise() {
    let seed = seed();
    // Shown only when the test fails.
    eprintln!("AGENTD_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let model = ModelServer::start().await;
    model.improvise(improvise);
    let config = format!("{}[permission]\nmode = \"full\"\n", model.config());
    let mut daemon = Daemon::start(&config).await;
    daemon.write_file("notes.txt", "apple\n");
    for _ in 0..sessions() {
        one_session(&mut daemon, &mut rng).await;
    }
    model.assert_all_taken();
}

async fn one_session(daemon: &mut Daemon, rng: &mut Rng) {
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    let mut promises = Promises::default();
    for round in 0..ROUNDS {
        work_until_killed(daemon, &session, round, rng, &mut promises).await;
        daemon.spawn();
        daemon.ready().await;
        let log = daemon.client().await.events(&session).await;
        promises.check(&log, false);
    }
    let mut client = daemon.client().await;
    rest(&mut client, &session).await;
    promises.check(&client.events(&session).await, true);
}

/// Submits, watches, and kills the daemon after a random number of messages.
async fn work_until_killed(
    daemon: &mut Daemon,
    session: &str,
    round: usize,
    rng: &mut Rng,
    promises: &mut Promises,
) {
    let mut client = daemon.client().await;
    client.subscribe(session, Some(promises.head())).await;
    // What was sent and not answered before the crash is sent again under its id.
    let mut unanswered: Vec<String> =
        (0..round).map(|round| format!("s{round}")).filter(|id| !promises.has(id)).collect();
    unanswered.push(format!("s{round}"));
    let mut requests = Vec::new();
    for id in unanswered {
        let mut params = input(session, &id, &format!("Do {id}."));
        params["submission"]["op"]["delivery"] = json!("queue");
        requests.push((client.request("session/submit", params).await, id));
    }
    for _ in 0..rng.usize(..MESSAGES) {
        let Some(message) = client.read().await else { break };
        note(&message, &requests, promises);
        if is_at_rest(&message) && requests.iter().all(|(_, id)| promises.has(id)) {
            break;
        }
    }
    daemon.kill();
    // What had left the daemon before it died was promised, too.
    while let Some(message) = client.read().await {
        note(&message, &requests, promises);
    }
}

fn note(message: &Value, requests: &[(u64, String)], promises: &mut Promises) {
    if message.get("method").is_some() {
        promises.saw(std::slice::from_ref(&message["params"]["result"]));
    } else if let Some((_, id)) = requests.iter().find(|(request, _)| message["id"] == *request)
        && message.get("result").is_some()
    {
        promises.accepted(id, &message["result"]);
    }
}

fn is_at_rest(message: &Value) -> bool {
    let event = &message["params"]["result"];
    event["type"] == "session.state"
        && !matches!(event["state"].as_str(), Some("running" | "waiting"))
}

/// Lets what still runs or waits end.
async fn rest(client: &mut Client, session: &str) {
    client.submit_op(session, "rest", json!({ "type": "interrupt", "drop_queue": true })).await;
    wait::until("the session to rest", async || {
        let state = client.call("session/get", json!({ "session_id": session })).await;
        match state["state"].as_str() {
            Some("running" | "waiting") | None => Err(state),
            Some(_) => Ok(()),
        }
    })
    .await;
}
