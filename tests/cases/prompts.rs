//! Prompts and their answers: d13, d14, d15. (d11 is in `tests/e2e/agentctl.rs`.)
//!
//! Receives the harness; hands out whose answer counted, and what the others were told.

use std::collections::BTreeSet;

use harness::client::is_turn_end;
use harness::{Answer, Client, Daemon, ModelServer};
use serde_json::{Value, json};

/// A daemon whose model wants to write a file whenever it is told to.
async fn daemon() -> (ModelServer, Daemon) {
    let model = ModelServer::start().await;
    model.improvise(|body| {
        let last = body["messages"].as_array().and_then(|messages| messages.last()).unwrap();
        match last["role"].as_str() {
            Some("user") => {
                Answer::calling("write", &json!({ "path": "new.txt", "content": "x\n" }))
            }
            _ => Answer::saying("Understood."),
        }
    });
    let daemon = Daemon::start(&model.config()).await;
    (model, daemon)
}

/// Submits, and gives the prompt that follows.
async fn prompt(client: &mut Client, session: &str, id: &str) -> Value {
    client.submit(session, id, "Write it.").await;
    let asked = client.watch_until_type("permission.requested").await.pop().unwrap();
    asked["prompt"]["prompt_id"].clone()
}

fn reply(prompt: &Value, decision: &str) -> Value {
    json!({ "prompt_id": prompt, "decision": decision })
}

/// The first resolution that a watcher is told.
async fn resolution(client: &mut Client) -> Value {
    client.watch_until_type("permission.resolved").await.pop().unwrap()
}

/// d13: the ids of prompts never come again, in the next turn, in another session, after a
/// restart.
#[tokio::test]
async fn d13_prompt_ids_restart_each_turn() {
    let (_model, mut daemon) = daemon().await;
    let mut seen = BTreeSet::new();
    let mut sessions = Vec::new();
    for round in 0..2 {
        let mut client = daemon.client().await;
        sessions.push(client.create_session(&daemon.work_dir()).await);
        for session in &sessions {
            client.subscribe(session, None).await;
            for turn in 0..2 {
                let prompt = prompt(&mut client, session, &format!("s{round}-{turn}")).await;
                assert!(seen.insert(prompt.to_string()), "{prompt} came again");
                client.call("permission/reply", reply(&prompt, "deny")).await;
                client.watch_until(is_turn_end).await;
            }
        }
        daemon.restart().await;
    }
    assert_eq!(seen.len(), 6);
}

/// d14: two answer at once; one wins, the other learns who and what, all who watch are told once.
/// A late, a stale and an unknown answer are errors that differ.
#[tokio::test]
async fn d14_double_late_or_stale_answer() {
    let (_model, mut daemon) = daemon().await;
    let mut clients = [daemon.client().await, daemon.client().await];
    let session = clients[0].create_session(&daemon.work_dir()).await;
    for client in &mut clients {
        client.subscribe(&session, None).await;
    }
    for round in 0..8 {
        let [one, two] = &mut clients;
        let asked = prompt(one, &session, &format!("s{round}")).await;
        two.watch_until_type("permission.requested").await;
        let sent = [
            one.request("permission/reply", reply(&asked, "allow")).await,
            two.request("permission/reply", reply(&asked, "deny")).await,
        ];
        let answers = [one.response(&sent[0].into()).await, two.response(&sent[1].into()).await];
        let winner = usize::from(answers[0].get("result").is_none());
        let (won, lost) = (&answers[winner], &answers[1 - winner]);
        assert_eq!(won["result"]["outcome"], "accepted", "{answers:?}");
        let decision = ["allow", "deny"][winner];
        let data = &lost["error"]["data"];
        assert_eq!(
            (&data["kind"], &data["decision"]),
            (&json!("prompt_resolved"), &json!(decision)),
            "{answers:?}"
        );
        for client in &mut clients {
            let resolved = resolution(client).await;
            assert_eq!((&resolved["prompt_id"], &resolved["decision"]), (&asked, &json!(decision)));
            let rest = client.watch_until(is_turn_end).await;
            assert!(rest.iter().all(|message| message["type"] != "permission.resolved"));
        }
    }

    let [one, _] = &mut clients;
    let cancelled = prompt(one, &session, "cancelled").await;
    one.submit_op(&session, "stop", json!({ "type": "interrupt" })).await;
    one.watch_until(is_turn_end).await;
    let late = one.try_call("permission/reply", reply(&cancelled, "allow")).await.unwrap_err();
    assert_eq!(
        (&late["data"]["kind"], &late["data"]["decision"]),
        (&json!("prompt_resolved"), &json!("cancelled"))
    );
    daemon.restart().await;
    let mut client = daemon.client().await;
    let stale = client.try_call("permission/reply", reply(&cancelled, "allow")).await.unwrap_err();
    assert_eq!(stale["data"], late["data"]);
    let nothing = json!("prm_00000000000000000000000000000000");
    let unknown = client.try_call("permission/reply", reply(&nothing, "allow")).await.unwrap_err();
    assert_eq!(unknown["data"]["kind"], "prompt_not_found");
}

/// d15: an answer that is none leaves the prompt open for one that is.
#[tokio::test]
async fn d15_malformed_answer_consumes_the_prompt() {
    let (_model, daemon) = daemon().await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, None).await;
    let asked = prompt(&mut client, &session, "s1").await;
    for wrong in [
        reply(&asked, "perhaps"),
        json!({ "prompt_id": asked, "decision": true }),
        json!({ "prompt_id": asked, "decision": ["allow"] }),
        json!({ "prompt_id": asked }),
        json!({ "prompt_id": asked, "decision": "allow", "scope": "galaxy" }),
    ] {
        let error = client.try_call("permission/reply", wrong.clone()).await.unwrap_err();
        assert_eq!(error["code"], -32602, "{wrong}: {error}");
        // As a submission it is refused all the same, and its id stays free.
        let mut op = wrong.clone();
        op["type"] = json!("permission_reply");
        let submission = json!({ "id": "answer", "op": op });
        let params = json!({ "session_id": session, "submission": submission });
        let error = client.try_call("session/submit", params).await.unwrap_err();
        assert_eq!(error["code"], -32602, "{wrong}: {error}");
    }
    let open = client.call("permission/list", json!({ "session_id": session })).await;
    assert_eq!(open["prompts"][0]["prompt_id"], asked);
    let op = json!({ "type": "permission_reply", "prompt_id": asked, "decision": "allow" });
    client.submit_op(&session, "answer", op).await;
    let end = client.watch_until(is_turn_end).await.pop().unwrap();
    assert_eq!(end["type"], "turn.completed");
    assert!(daemon.work_dir().join("new.txt").exists());
}
