//! kill -9 of the daemon, and how the conversation goes on after it.
//!
//! Whatever was cut off: one terminal event (or the same prompt), a history that the strictest
//! server takes, a request that extends those before the crash, and a model that is told what is
//! not known.
//!
//! Receives the harness; hands out the requests after a restart.

use std::path::Path;

use harness::{Answer, Gate, wait};
use rustix::process::{Pid, test_kill_process};
use serde_json::{Value, json};

use crate::scene::{FULL, Scene, end_of, of_type, statuses};

/// Goes on after a crash and gives what was seen, the old turn's end first.
async fn resume(scene: &mut Scene) -> Vec<Value> {
    let mut seen = scene.end().await;
    let end = seen.last().unwrap();
    assert_eq!((&end["type"], &end["reason"]), (&json!("turn.aborted"), &json!("crashed")));
    let state = scene.state().await;
    assert_eq!(state["state"], "interrupted");
    let resumed = scene.op("r1", json!({ "type": "resume" })).await;
    assert_eq!(resumed["disposition"], "started");
    seen.extend(scene.end().await);
    assert_eq!(end_of(&seen), "turn.completed");
    seen
}

/// The last message tells the model why it is asked again.
fn assert_told_to_go_on(scene: &Scene, request: usize) {
    let (role, note) = scene.last_message(request);
    assert_eq!(role, "user");
    assert!(note.contains("agentd was stopped without warning"), "{note}");
}

/// What the database holds of the text that streams.
fn kept_text(state: &Path) -> Result<String, String> {
    let folder = std::fs::read_dir(state).expect("the daemon made it");
    let path = folder
        .map(|entry| entry.expect("it can be read").path())
        .find(|path| path.extension().is_some_and(|ending| ending == "db"))
        .expect("there is a database");
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let database = rusqlite::Connection::open_with_flags(path, flags).expect("it can be read");
    let all = "SELECT coalesce(group_concat(text, ''), '') FROM \
               (SELECT text FROM checkpoints ORDER BY rowid)";
    database.query_row(all, (), |row| row.get(0)).map_err(|error| error.to_string())
}

async fn gone(pid: Pid) {
    wait::until("a process to be gone", async || match test_kill_process(pid) {
        Err(_) => Ok(()),
        Ok(()) => Err(pid),
    })
    .await;
}

/// The text that was shown 100 ms before is kept, and a call that was complete is answered.
#[tokio::test]
async fn in_the_stream_the_text_and_the_calls_are_kept() {
    let mut scene = Scene::start("").await;
    scene.daemon.write_file("a.txt", "words\n");
    let gate = Gate::new();
    scene.model.push(Answer::saying("Reading.").call("read", &json!({ "path": "a.txt" })));
    scene.model.push(
        Answer::new()
            .reasoning("Both at once.")
            .text("Half of the answer")
            // The first call is complete when the second begins; it does not start before.
            .call("write", &json!({ "path": "b.txt", "content": "words\n" }))
            .call("read", &json!({ "path": "c.txt" }))
            .wait(&gate),
    );
    scene.submit("s1", "Tell me.").await;
    gate.reached().await;
    let called = |seen: &[Value]| of_type(seen, "tool.called").len();
    let mut seen = Vec::new();
    while called(&seen) < 2 {
        seen.extend(scene.client.watch_until_type("tool.called").await);
    }
    wait::until("the text to be kept", async || {
        let kept = kept_text(&scene.daemon.path("state"))?;
        if kept.ends_with("Half of the answer") { Ok(()) } else { Err(kept) }
    })
    .await;
    scene.crash().await;
    scene.model.push(Answer::saying("The whole answer."));
    let seen = resume(&mut scene).await;
    let partial = of_type(&seen, "message.completed")
        .into_iter()
        .map(|message| &message["item"])
        .find(|item| item["status"] == "partial")
        .expect("the partial answer is an item");
    assert_eq!(
        partial["content"],
        json!([
            { "type": "reasoning", "text": "Both at once." },
            { "type": "text", "text": "Half of the answer" },
        ])
    );
    assert_eq!(partial["calls"].as_array().unwrap().len(), 1);
    assert_eq!(statuses(&seen), ["ok", "interrupted"]);
    let results = scene.results(2);
    assert!(results[1].contains("must be retried if still needed"), "{results:?}");
    assert_told_to_go_on(&scene, 2);
    scene.check().await;
}

/// Nothing of the answer had come: nothing empty is left in the conversation.
#[tokio::test]
async fn before_the_first_word_nothing_is_left() {
    let mut scene = Scene::start("").await;
    let gate = Gate::new();
    scene.model.push(Answer::new().wait(&gate));
    scene.submit("s1", "Tell me.").await;
    gate.reached().await;
    scene.crash().await;
    scene.model.push(Answer::saying("The whole answer."));
    resume(&mut scene).await;
    assert_eq!(scene.messages(1).len(), 3, "system, input, note");
    assert_told_to_go_on(&scene, 1);
    scene.check().await;
}

/// A read has changed nothing, and its turn ends like any other.
#[tokio::test]
async fn in_a_read_the_turn_ends_once_and_goes_on() {
    let mut scene = Scene::start("").await;
    // Far longer than a signal takes, and nothing in the pattern to look for first.
    scene.daemon.write_file("long.txt", &"ab ab\n".repeat(6_000_000));
    let pattern = "[a-z]+ [a-z]+[^a-z]$";
    scene.model.push(
        Answer::saying("Searching.")
            .call("grep", &json!({ "pattern": pattern, "path": "long.txt" }))
            .call("list", &json!({})),
    );
    scene.submit("s1", "Search.").await;
    scene.until("tool.started").await;
    scene.crash().await;
    scene.model.push(Answer::saying("I search again."));
    let seen = resume(&mut scene).await;
    assert_eq!(statuses(&seen)[0], "interrupted", "it was still reading");
    assert_eq!(scene.results(1).len(), 2);
    assert_told_to_go_on(&scene, 1);
    scene.check().await;
}

/// The command and all it started end with the daemon; the model is told that nobody knows.
#[tokio::test]
async fn in_a_command_no_process_is_left_and_the_outcome_is_unknown() {
    let mut scene = Scene::start(FULL).await;
    let command = "setsid sh -c 'echo $$ > child; exec sleep 1000' & \
                   while [ ! -s child ]; do :; done; echo $$ > parent; echo started; wait";
    scene.model.push(
        Answer::new()
            .call("list", &json!({}))
            .call("shell", &json!({ "command": command }))
            .call("shell", &json!({ "command": "touch never" })),
    );
    scene.submit("s1", "Run it.").await;
    scene
        .client
        .watch_until(|message| message["chunk"].as_str().is_some_and(|c| c.contains("started")))
        .await;
    let pids: Vec<Pid> = ["parent", "child"]
        .map(|name| std::fs::read_to_string(scene.daemon.work_dir().join(name)).unwrap())
        .map(|pid| Pid::from_raw(pid.trim().parse().unwrap()).unwrap())
        .into();
    scene.crash().await;
    // The next daemon closes the turn only when they are gone.
    let state = scene.state().await;
    assert_eq!(state["state"], "interrupted");
    for pid in pids {
        gone(pid).await;
    }
    scene.model.push(Answer::saying("I check first."));
    let seen = resume(&mut scene).await;
    assert_eq!(statuses(&seen), ["ok", "interrupted", "interrupted"]);
    let results = scene.results(1);
    assert!(results[1].contains("its outcome is unknown"), "{results:?}");
    assert!(results[2].contains("must be retried if still needed"), "{results:?}");
    assert!(!scene.daemon.work_dir().join("never").exists());
    assert_told_to_go_on(&scene, 1);
    scene.check().await;
}

/// The same prompt, answered after the crash; what waited behind it runs, what was done is not
/// done again.
#[tokio::test]
async fn at_a_prompt_the_batch_goes_on_where_it_was() {
    let mut scene = Scene::start("").await;
    scene.daemon.write_file("a.txt", "words\n");
    scene.model.push(
        Answer::saying("Three things.")
            .call("read", &json!({ "path": "a.txt" }))
            .call("write", &json!({ "path": "b.txt", "content": "written\n" }))
            .call("read", &json!({ "path": "b.txt" })),
    );
    scene.model.push(Answer::saying("All done."));
    scene.submit("s1", "Do it.").await;
    let prompt = scene.until("permission.requested").await["prompt"].clone();
    assert_eq!(scene.submit("s2", "Then say so.").await["disposition"], "steered");
    scene.crash().await;
    let state = scene.state().await;
    assert_eq!((&state["state"], &state["prompts"]), (&json!("waiting"), &json!([prompt])));
    scene.reply(&prompt, json!({ "decision": "allow" })).await;
    let seen = scene.end().await;
    assert_eq!(end_of(&seen), "turn.completed");
    assert_eq!(of_type(&seen, "turn.started").len(), 1);
    assert_eq!(statuses(&seen), ["ok", "ok", "ok"]);
    assert_eq!(of_type(&seen, "tool.started").len(), 3);
    assert!(scene.results(1)[2].contains("written"));
    assert_eq!(scene.last_message(1).1, "Then say so.", "what was steered is not lost");
    scene.check().await;
}

/// Invariant *stable prefix*, between two turns: the next request has the same bytes as if nothing had happened.
#[tokio::test]
async fn stable_prefix_across_a_restart() {
    let mut scene = Scene::start(FULL).await;
    scene.daemon.write_file("a.txt", "wörds \"quoted\" \u{1F600}\n");
    scene.model.push(
        Answer::new()
            .reasoning("Hm.")
            .text("Reading.")
            .call("read", &json!({ "path": "a.txt", "limit": 3 }))
            .call("raed", &json!({}))
            .call_with_text("read", "{\"path"),
    );
    scene.model.push(Answer::new());
    scene.model.push(Answer::saying("Read."));
    scene.turn("s1", "Read a.txt.").await;
    scene.model.push(Answer::refusing(400, "no"));
    scene.turn("s2", "Again.").await;
    scene.crash().await;
    for _ in 0..2 {
        scene.end().await;
    }
    scene.model.push(Answer::saying("Good."));
    scene.turn("s3", "And now?").await;
    assert_eq!(scene.model.asked().len(), 5);
    scene.check().await;
}

/// While a retry waits there is nothing to lose but the wait.
#[tokio::test]
async fn in_a_retrys_wait_the_turn_is_closed_and_resumed() {
    let mut scene = Scene::start("").await;
    scene.model.push(Answer::saying("Half an ans").cut());
    scene.submit("s1", "Answer.").await;
    scene.until("retry.scheduled").await;
    scene.crash().await;
    scene.model.push(Answer::saying("Whole."));
    resume(&mut scene).await;
    assert_eq!(scene.messages(1).len(), 3, "what was taken back is not sent");
    assert_told_to_go_on(&scene, 1);
    scene.check().await;
}

/// What was steered into a turn that a crash ended is an input of its own, and is held.
#[tokio::test]
async fn steered_before_a_crash_it_waits_for_its_own_turn() {
    let mut scene = Scene::start("").await;
    let gate = Gate::new();
    scene.model.push(Answer::saying("One").wait(&gate));
    scene.submit("s1", "Say one.").await;
    gate.reached().await;
    assert_eq!(scene.submit("s2", "Say two.").await["disposition"], "steered");
    scene.crash().await;
    let state = scene.state().await;
    assert_eq!(
        (&state["queue"][0]["submission_id"], &state["queue_held"]),
        (&json!("s2"), &json!(true))
    );
    scene.model.push(Answer::saying("One."));
    scene.model.push(Answer::saying("Two."));
    resume(&mut scene).await;
    assert_told_to_go_on(&scene, 1);
    let seen = scene.end().await;
    assert_eq!(of_type(&seen, "turn.started")[0]["submission_id"], "s2");
    assert_eq!(scene.last_message(2).1, "Say two.");
    scene.check().await;
}

/// Twice in a row, the second time while it went on from the first.
#[tokio::test]
async fn two_crashes_leave_two_ends_and_one_conversation() {
    let mut scene = Scene::start("").await;
    let gate = Gate::new();
    scene.model.push(Answer::calling("list", &json!({})));
    scene.model.push(Answer::new().wait(&gate));
    scene.model.push(Answer::new().wait(&gate));
    scene.submit("s1", "List.").await;
    scene.asked(2).await;
    scene.crash().await;
    scene.end().await;
    scene.op("r0", json!({ "type": "resume" })).await;
    scene.asked(3).await;
    scene.crash().await;
    scene.end().await;
    scene.model.push(Answer::saying("Listed."));
    resume(&mut scene).await;
    let roles: Vec<Value> = scene.messages(3).iter().map(|m| m["role"].clone()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "user", "user"]);
    scene.check().await;
}

/// A denial after the crash reaches the model like one before it.
#[tokio::test]
async fn at_a_prompt_a_denial_after_the_crash_is_read() {
    let mut scene = Scene::start("").await;
    scene.model.push(Answer::calling("write", &json!({ "path": "b.txt", "content": "x\n" })));
    scene.model.push(Answer::saying("Not there, then."));
    scene.submit("s1", "Do it.").await;
    let prompt = scene.until("permission.requested").await["prompt"].clone();
    scene.crash().await;
    scene.reply(&prompt, json!({ "decision": "deny", "message": "not that file" })).await;
    let seen = scene.end().await;
    assert_eq!(end_of(&seen), "turn.completed");
    assert_eq!(statuses(&seen), ["denied"]);
    assert!(scene.results(1)[0].contains("not that file"));
    scene.check().await;
}
