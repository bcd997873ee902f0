//! kill -9 of the daemon: in the stream, in a tool, at a prompt.
//!
//! Receives the harness; hands out what the next daemon made of it.

use harness::client::{is_turn_end, replay};
use harness::{Answer, Daemon, Gate, ModelServer, Transcript, wait};
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};

async fn state(client: &mut harness::Client, session: &str) -> Value {
    client.call("session/get", json!({ "session_id": session })).await
}

#[tokio::test]
async fn in_the_stream_closes_the_turn_and_keeps_the_text() {
    let model = ModelServer::start().await;
    let gate = Gate::new();
    model.push(Answer::saying("Half of the answer").wait(&gate));
    model.push(Answer::saying("The rest."));
    let mut daemon = Daemon::start(&model.config()).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    client.submit(&session, "s1", "Tell me.").await;
    gate.reached().await;
    let before = client.watch_until_text("Half of the answer").await;
    let kept = wait::until("the text to be kept", async || checkpoint(&daemon)).await;
    daemon.kill();
    daemon.restart().await;

    let mut client = daemon.client().await;
    assert_eq!(state(&mut client, &session).await["state"], "interrupted");
    client.subscribe(&session, Some(0)).await;
    let after = client.watch_until(is_turn_end).await;
    let seen_before = replay(&before);
    assert_eq!(seen_before, replay(&after)[..seen_before.len()], "history is what it was");
    let end = after.last().unwrap();
    assert_eq!((&end["type"], &end["reason"]), (&json!("turn.aborted"), &json!("crashed")));
    let partial = after
        .iter()
        .filter(|message| message["type"] == "message.completed")
        .find(|message| message["item"]["role"] == "assistant")
        .expect("the partial answer is an item");
    assert_eq!(partial["item"]["status"], "partial");
    let text = partial["item"]["content"][0]["text"].as_str().unwrap();
    assert!("Half of the answer".starts_with(text) && text.len() >= kept, "{text}");

    client.submit(&session, "s2", "Go on.").await;
    let end = client.watch_until(is_turn_end).await.pop().unwrap();
    assert_eq!(end["type"], "turn.completed");
    model.assert_all_taken();
}

/// How many bytes of the streaming text the database holds.
fn checkpoint(daemon: &Daemon) -> Result<usize, String> {
    let sum = "SELECT coalesce(sum(length(text)), 0) FROM checkpoints";
    let kept: i64 =
        database(daemon).query_row(sum, (), |row| row.get(0)).map_err(|error| error.to_string())?;
    usize::try_from(kept).ok().filter(|kept| *kept > 0).ok_or_else(|| "no checkpoint".to_owned())
}

fn database(daemon: &Daemon) -> rusqlite::Connection {
    let folder = std::fs::read_dir(daemon.path("state")).expect("the daemon made it");
    let path = folder
        .map(|entry| entry.expect("it can be read").path())
        .find(|path| path.extension().is_some_and(|ending| ending == "db"))
        .expect("there is a database");
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    rusqlite::Connection::open_with_flags(path, flags).expect("it can be read")
}

#[tokio::test]
async fn in_a_tool_ends_the_tool_and_says_that_its_outcome_is_unknown() {
    let model = ModelServer::start().await;
    let command = "echo $$ > pid; echo started; sleep 1000";
    model.push(Answer::calling("shell", &json!({ "command": command })));
    model.push(Answer::saying("I will check first."));
    let mut daemon =
        Daemon::start(&format!("{}[permission]\nmode = \"full\"\n", model.config())).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    client.submit(&session, "s1", "Run it.").await;
    client
        .watch_until(|message| message["chunk"].as_str().is_some_and(|c| c.contains("started")))
        .await;
    let pid = std::fs::read_to_string(daemon.work_dir().join("pid")).unwrap();
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    daemon.kill();
    wait::until("the tool to end with its daemon", async || match test_kill_process(pid) {
        Err(_) => Ok(()),
        Ok(()) => Err(pid),
    })
    .await;
    daemon.restart().await;

    let mut client = daemon.client().await;
    client.subscribe(&session, Some(0)).await;
    let seen = client.watch_until(is_turn_end).await;
    let end = seen.last().unwrap();
    assert_eq!((&end["type"], &end["reason"]), (&json!("turn.aborted"), &json!("crashed")));
    let completed = seen.iter().find(|message| message["type"] == "tool.completed").unwrap();
    assert_eq!(completed["status"], "interrupted");
    client.submit(&session, "s2", "And now?").await;
    client.watch_until(is_turn_end).await;
    let asked = model.asked();
    let messages = asked.last().unwrap().body["messages"].as_array().unwrap();
    let result = messages.iter().find(|message| message["role"] == "tool").unwrap();
    assert!(result["content"].as_str().unwrap().contains("unknown"), "{result}");
    model.assert_all_taken();
}

#[tokio::test]
async fn at_a_prompt_the_turn_waits_on_and_goes_on() {
    let model = ModelServer::start().await;
    model.push(Answer::calling("write", &json!({ "path": "new.txt", "content": "x\n" })));
    model.push(Answer::saying("Written."));
    let mut daemon = Daemon::start(&model.config()).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    client.submit(&session, "s1", "Write new.txt.").await;
    let mut seen = client.watch_until_type("permission.requested").await;
    let prompt = seen.last().unwrap()["prompt"].clone();
    daemon.kill();
    daemon.restart().await;

    let mut client = daemon.client().await;
    let waiting = state(&mut client, &session).await;
    assert_eq!((&waiting["state"], &waiting["prompts"]), (&json!("waiting"), &json!([prompt])));
    let since = replay(&seen).len() as u64;
    client.subscribe(&session, Some(since)).await;
    let reply = json!({ "prompt_id": prompt["prompt_id"], "decision": "allow" });
    client.call("permission/reply", reply).await;
    seen.extend(client.watch_until(is_turn_end).await);
    assert_eq!(seen.last().unwrap()["type"], "turn.completed");
    assert_eq!(std::fs::read_to_string(daemon.work_dir().join("new.txt")).unwrap(), "x\n");
    let turns: Vec<&Value> =
        seen.iter().filter(|message| message["type"] == "turn.started").collect();
    assert_eq!(turns.len(), 1, "it is the same turn");
    model.assert_all_taken();
    let mut transcript = Transcript::new().with_folder(&daemon.work_dir(), "<work>");
    transcript.add(&seen);
    insta::assert_snapshot!(transcript.text());
}

/// Nothing that was acknowledged before the crash is lost, and it is the same for every client.
#[tokio::test]
async fn sessions_and_their_logs_are_what_they_were() {
    let mut daemon = Daemon::start("model = \"demo/demo\"\n").await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    client.submit(&session, "s1", "Hello.").await;
    client.watch_until(is_turn_end).await;
    wait::until(
        "the session to be idle",
        async || match state(&mut client, &session).await["state"].take() {
            Value::String(state) if state == "idle" => Ok(()),
            other => Err(other),
        },
    )
    .await;
    let events = client.events(&session).await;
    let items = client.call("session/items", json!({ "session_id": session })).await;
    daemon.kill();
    daemon.restart().await;
    let mut client = daemon.client().await;
    assert_eq!(client.events(&session).await, events);
    assert_eq!(client.call("session/items", json!({ "session_id": session })).await, items);
}
