//! A turn from its prompt to its end.
//!
//! Receives the harness; hands out what two clients saw and what the model was asked.

use harness::client::{is_turn_end, replay};
use harness::{Answer, Daemon, ModelServer, Transcript};
use serde_json::{Value, json};

/// A turn that reads a file, writes one after a word of another client, and ends.
#[tokio::test]
async fn reads_asks_writes_and_completes() {
    let model = ModelServer::start().await;
    model.push(
        Answer::saying("I will read the notes first.")
            .call("read", &json!({ "path": "notes.txt" })),
    );
    let write = json!({ "path": "summary.txt", "content": "three fruits\n" });
    model.push(Answer::saying("Now the summary.").call("write", &write).usage(150, 20));
    model.push(Answer::saying("There are three fruits; the summary is written.").usage(200, 30));
    let daemon = Daemon::start(&model.config()).await;
    daemon.write_file("notes.txt", "apple\npear\nplum\n");

    let mut author = daemon.client().await;
    let session = author.create_session(&daemon.work_dir()).await;
    author.subscribe(&session, Some(0)).await;
    let mut watcher = daemon.client().await;
    watcher.subscribe(&session, Some(0)).await;
    let accepted = author.submit(&session, "s1", "Summarise notes.txt into summary.txt.").await;
    assert_eq!(accepted["disposition"], "started");

    let mut watched = watcher.watch_until_type("permission.requested").await;
    let prompt = &watched.last().expect("it was waited for")["prompt"];
    let reply = json!({ "prompt_id": prompt["prompt_id"], "decision": "allow" });
    let outcome = watcher.call("permission/reply", reply).await;
    assert_eq!(outcome["outcome"], "accepted");
    watched.extend(watcher.watch_until(is_turn_end).await);
    let seen = author.watch_until(is_turn_end).await;

    let written = std::fs::read_to_string(daemon.work_dir().join("summary.txt")).unwrap();
    assert_eq!(written, "three fruits\n");
    assert_eq!(replay(&seen), replay(&watched), "both saw the same events");
    assert_eq!(replay(&seen), author.events(&session).await[..replay(&seen).len()]);
    model.assert_all_taken();
    assert_each_request_extends_the_last(&model);
    let mut transcript = Transcript::new().with_folder(&daemon.work_dir(), "<work>");
    transcript.add(&seen);
    insta::assert_snapshot!(transcript.text());
}

fn assert_each_request_extends_the_last(model: &ModelServer) {
    let asked = model.asked();
    assert!(asked.len() > 1);
    for pair in asked.windows(2) {
        let [before, after] = [&pair[0], &pair[1]].map(|asked| messages(&asked.body));
        assert_eq!(before, after[..before.len()], "an earlier message changed");
        let shared = pair[0].bytes.iter().zip(&pair[1].bytes).take_while(|(a, b)| a == b).count();
        // All but what closes the body is the same bytes.
        assert!(shared + 64 > pair[0].bytes.len(), "the prefix ends after {shared} bytes");
    }
}

fn messages(body: &Value) -> Vec<Value> {
    body["messages"].as_array().expect("checked by the server").clone()
}

/// The turn that the README shows: the built-in model, offline.
#[tokio::test]
async fn the_demo_model_reads_asks_and_writes() {
    let daemon = Daemon::start("model = \"demo/demo\"\n").await;
    daemon.write_file("notes.txt", "apple\npear\n");
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    client.submit(&session, "s1", "read notes.txt, then write out.txt with hello").await;
    let mut seen = client.watch_until_type("permission.requested").await;
    let prompt = &seen.last().unwrap()["prompt"];
    let reply = json!({ "prompt_id": prompt["prompt_id"], "decision": "allow" });
    client.call("permission/reply", reply).await;
    seen.extend(client.watch_until(is_turn_end).await);
    assert_eq!(seen.last().unwrap()["type"], "turn.completed");
    let written = std::fs::read_to_string(daemon.work_dir().join("out.txt")).unwrap();
    assert_eq!(written.trim(), "hello");
    let tools: Vec<&Value> = seen
        .iter()
        .filter(|message| message["type"] == "tool.called")
        .map(|event| &event["name"])
        .collect();
    assert_eq!(tools, ["read", "write"]);
}

/// Two turns in one session: the second request holds the whole first turn.
#[tokio::test]
async fn a_second_turn_goes_on_from_the_first() {
    let model = ModelServer::start().await;
    model.push(Answer::saying("Hello."));
    model.push(Answer::saying("Hello again."));
    let daemon = Daemon::start(&model.config()).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, None).await;
    for (id, text) in [("s1", "Hi."), ("s2", "Hi again.")] {
        client.submit(&session, id, text).await;
        let seen = client.watch_until(is_turn_end).await;
        assert_eq!(seen.last().unwrap()["type"], "turn.completed");
    }
    let last = messages(&model.asked()[1].body);
    let said: Vec<(&str, &str)> = last[1..]
        .iter()
        .map(|message| (message["role"].as_str().unwrap(), message["content"].as_str().unwrap()))
        .collect();
    assert_eq!(said, [("user", "Hi."), ("assistant", "Hello."), ("user", "Hi again.")]);
    model.assert_all_taken();
}

/// The model server refuses: the turn fails with what it said, and the next one runs.
#[tokio::test]
async fn a_refused_request_fails_the_turn_and_not_the_session() {
    let model = ModelServer::start().await;
    model.push(Answer::refusing(401, "no such key"));
    model.push(Answer::saying("Fine now."));
    let daemon = Daemon::start(&model.config()).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, None).await;
    client.submit(&session, "s1", "Hi.").await;
    let seen = client.watch_until(is_turn_end).await;
    let end = seen.last().unwrap();
    assert_eq!(end["type"], "turn.failed", "{end}");
    assert_eq!(end["error"]["status"], 401, "{end}");
    assert_eq!(end["error"]["retryable"], false, "{end}");
    assert!(end["error"]["message"].as_str().unwrap().contains("no such key"), "{end}");
    let state = client.call("session/get", json!({ "session_id": session })).await;
    assert_eq!(state["state"], "failed");
    client.submit(&session, "s2", "Again.").await;
    let seen = client.watch_until(is_turn_end).await;
    assert_eq!(seen.last().unwrap()["type"], "turn.completed");
    model.assert_all_taken();
}

/// The iteration limit ends a turn as exhausted, never as completed.
#[tokio::test]
async fn the_iteration_limit_exhausts_the_turn() {
    let model = ModelServer::start().await;
    model.improvise(|body| {
        let turns = body["messages"].as_array().map_or(0, Vec::len);
        Answer::calling("list", &json!({ "path": ".", "depth": turns }))
    });
    let daemon = Daemon::start(&model.config()).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, None).await;
    let mut params = harness::client::input(&session, "s1", "List for ever.");
    params["limits"] = json!({ "max_iterations": 3 });
    client.call("session/submit", params).await;
    let seen = client.watch_until(is_turn_end).await;
    let end = seen.last().unwrap();
    assert_eq!((&end["type"], &end["limit"]), (&json!("turn.exhausted"), &json!("iterations")));
    assert_eq!(end["iterations"], 3);
    assert_eq!(model.asked().len(), 3);
    model.assert_all_taken();
}

/// Without a model nothing is written, and the error says what to do.
#[tokio::test]
async fn without_a_model_a_submission_is_refused_and_its_id_stays_free() {
    let daemon = Daemon::start("").await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    let before = client.events(&session).await.len();
    let params = harness::client::input(&session, "s1", "Hi.");
    let error = client.try_call("session/submit", params).await.unwrap_err();
    assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(-32004), &json!("no_provider")));
    assert_eq!(client.events(&session).await.len(), before);
    let configure = json!({ "type": "configure", "model": "demo/demo" });
    client.submit_op(&session, "c1", configure).await;
    client.subscribe(&session, None).await;
    let accepted = client.submit(&session, "s1", "Hello.").await;
    assert_eq!(accepted["replayed"], false);
    let seen = client.watch_until(is_turn_end).await;
    assert_eq!(seen.last().unwrap()["type"], "turn.completed");
}
