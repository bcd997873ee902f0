//! Interrupts: in a model's stream, in a shell command, at a prompt.
//!
//! Receives the harness; hands out turns that were ended and what is left of them.

use harness::client::is_turn_end;
use harness::{Answer, Daemon, Gate, ModelServer, Transcript, wait};
use rustix::process::{Pid, test_kill_process};
use serde_json::json;

fn interrupt() -> serde_json::Value {
    json!({ "type": "interrupt" })
}

#[tokio::test]
async fn in_the_stream_keeps_the_partial_text_and_leaves_the_provider() {
    let model = ModelServer::start().await;
    let gate = Gate::new();
    model.push(Answer::saying("The first half,").wait(&gate).text(" the second half."));
    model.push(Answer::saying("Going on."));
    let daemon = Daemon::start(&model.config()).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    client.submit(&session, "s1", "Tell me.").await;
    gate.reached().await;
    let mut seen = client.watch_until_text("The first half,").await;
    let applied = client.submit_op(&session, "i1", interrupt()).await;
    assert_eq!(applied["disposition"], "applied");
    seen.extend(client.watch_until(is_turn_end).await);
    model.hangups(1).await;
    let end = seen.last().unwrap();
    assert_eq!((&end["type"], &end["reason"]), (&json!("turn.aborted"), &json!("interrupted")));
    assert_eq!(end["turn_id"], applied["turn_id"]);

    client.submit(&session, "s2", "Go on.").await;
    client.watch_until(is_turn_end).await;
    model.assert_all_taken();
    let mut transcript = Transcript::new().with_folder(&daemon.work_dir(), "<work>");
    transcript.add(&seen);
    insta::assert_snapshot!(transcript.text());
}

#[tokio::test]
async fn in_a_shell_command_ends_its_processes() {
    let model = ModelServer::start().await;
    let command = "sh -c 'echo $$ > child; sleep 1000' & echo $$ > parent; echo started; wait";
    model.push(Answer::calling("shell", &json!({ "command": command })));
    model.push(Answer::saying("Understood."));
    let daemon = Daemon::start(&format!("{}[permission]\nmode = \"full\"\n", model.config())).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    client.submit(&session, "s1", "Run it.").await;
    client
        .watch_until(|message| message["chunk"].as_str().is_some_and(|c| c.contains("started")))
        .await;
    let mut pids = Vec::new();
    for name in ["parent", "child"] {
        let path = daemon.work_dir().join(name);
        let pid = wait::until("a process id", async || {
            let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
            text.trim().parse::<i32>().map_err(|error| error.to_string())
        })
        .await;
        pids.push(Pid::from_raw(pid).unwrap());
    }
    client.submit_op(&session, "i1", interrupt()).await;
    let seen = client.watch_until(is_turn_end).await;
    let end = seen.last().unwrap();
    assert_eq!((&end["type"], &end["reason"]), (&json!("turn.aborted"), &json!("interrupted")));
    let completed = seen.iter().find(|message| message["type"] == "tool.completed").unwrap();
    assert_eq!(completed["status"], "interrupted", "{completed}");
    for pid in pids {
        wait::until("a tool's process to be gone", async || match test_kill_process(pid) {
            Err(_) => Ok(()),
            Ok(()) => Err(pid),
        })
        .await;
    }
    client.submit(&session, "s2", "What now?").await;
    client.watch_until(is_turn_end).await;
    model.assert_all_taken();
}

#[tokio::test]
async fn at_a_prompt_cancels_it() {
    let model = ModelServer::start().await;
    model.push(Answer::calling("shell", &json!({ "command": "touch never" })));
    model.push(Answer::saying("Understood."));
    let daemon = Daemon::start(&model.config()).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    client.submit(&session, "s1", "Run it.").await;
    let seen = client.watch_until_type("permission.requested").await;
    let prompt_id = seen.last().unwrap()["prompt"]["prompt_id"].clone();
    client.submit_op(&session, "i1", interrupt()).await;
    let seen = client.watch_until(is_turn_end).await;
    let resolved = seen.iter().find(|message| message["type"] == "permission.resolved").unwrap();
    assert_eq!((&resolved["prompt_id"], &resolved["decision"]), (&prompt_id, &json!("cancelled")));
    let reply = json!({ "prompt_id": prompt_id, "decision": "allow" });
    let error = client.try_call("permission/reply", reply).await.unwrap_err();
    assert_eq!(error["data"]["decision"], "cancelled", "{error}");
    client.submit(&session, "s2", "What now?").await;
    client.watch_until(is_turn_end).await;
    model.assert_all_taken();
    assert!(!daemon.work_dir().join("never").exists());
}

#[tokio::test]
async fn without_a_turn_changes_nothing() {
    let daemon = Daemon::start("model = \"demo/demo\"\n").await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    let applied = client.submit_op(&session, "i1", interrupt()).await;
    assert_eq!((&applied["disposition"], applied.get("turn_id")), (&json!("applied"), None));
    let mismatch = json!({ "type": "interrupt", "expected_turn_id": "turn_other" });
    let params = json!({
        "session_id": session, "submission": { "id": "i2", "op": mismatch },
    });
    let error = client.try_call("session/submit", params).await.unwrap_err();
    assert!(
        ["turn_mismatch", "no_active_turn"].contains(&error["data"]["kind"].as_str().unwrap()),
        "{error}"
    );
}
