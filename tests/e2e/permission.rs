//! Prompts: who may answer, whose answer counts, and what a denial does.
//!
//! Receives the harness; hands out resolutions.

use harness::client::is_turn_end;
use harness::{Answer, Client, Daemon, ModelServer};
use serde_json::{Value, json};

/// A daemon whose model wants to write a file, a session, and its open prompt.
async fn at_a_prompt() -> (ModelServer, Daemon, Client, String, Value) {
    let model = ModelServer::start().await;
    model.push(Answer::calling("write", &json!({ "path": "new.txt", "content": "x\n" })));
    model.push(Answer::saying("Understood."));
    let daemon = Daemon::start(&model.config()).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, None).await;
    client.submit(&session, "s1", "Write new.txt.").await;
    let seen = client.watch_until_type("permission.requested").await;
    let prompt = seen.last().unwrap()["prompt"].clone();
    (model, daemon, client, session, prompt)
}

#[tokio::test]
async fn a_prompt_says_what_would_happen_and_is_listed() {
    let (_model, daemon, mut client, session, prompt) = at_a_prompt().await;
    assert_eq!(prompt["tool"], "write");
    assert_eq!(prompt["risk"], "write");
    assert_eq!(prompt["arguments"], json!({ "path": "new.txt", "content": "x\n" }));
    assert!(prompt["preview"].as_str().unwrap().contains("+x"), "{prompt}");
    let listed = client.call("permission/list", json!({})).await;
    assert_eq!(listed["prompts"], json!([prompt]));
    let state = client.call("session/get", json!({ "session_id": session })).await;
    assert_eq!((&state["state"], &state["prompts"]), (&json!("waiting"), &json!([prompt])));
    assert!(!daemon.work_dir().join("new.txt").exists());
}

#[tokio::test]
async fn a_denial_is_a_result_that_the_model_reads() {
    let (model, daemon, mut client, _session, prompt) = at_a_prompt().await;
    let reply = json!({
        "prompt_id": prompt["prompt_id"], "decision": "deny", "message": "use another name",
    });
    client.call("permission/reply", reply).await;
    let seen = client.watch_until(is_turn_end).await;
    assert_eq!(seen.last().unwrap()["type"], "turn.completed");
    let completed = seen.iter().find(|message| message["type"] == "tool.completed").unwrap();
    assert_eq!(completed["status"], "denied");
    let asked = model.asked();
    let result = asked[1].body["messages"].as_array().unwrap().last().unwrap();
    assert!(result["content"].as_str().unwrap().contains("use another name"), "{result}");
    assert!(!daemon.work_dir().join("new.txt").exists());
    model.assert_all_taken();
}

#[tokio::test]
async fn the_first_answer_wins_and_the_loser_learns_who_won() {
    let (_model, daemon, mut client, _session, prompt) = at_a_prompt().await;
    let mut other = daemon.client().await;
    let initialize = json!({
        "client": { "name": "other", "version": "1" }, "protocol": { "min": 1, "max": 1 },
    });
    other.call("initialize", initialize).await;
    let reply = |id: &str, decision: &str| json!({ "id": id, "prompt_id": prompt["prompt_id"], "decision": decision });
    other.call("permission/reply", reply("r1", "allow")).await;
    let error = client.try_call("permission/reply", reply("r2", "deny")).await.unwrap_err();
    assert_eq!(
        (&error["code"], &error["data"]["kind"], &error["data"]["decision"]),
        (&json!(-32005), &json!("prompt_resolved"), &json!("allow"))
    );
    assert_eq!(error["data"]["by"]["client"]["name"], "other");
    // The winner's answer sent again is the same answer.
    let again = other.call("permission/reply", reply("r1", "allow")).await;
    assert_eq!(again, json!({ "outcome": "accepted", "replayed": true }));
    let seen = client.watch_until(is_turn_end).await;
    let resolved: Vec<&Value> =
        seen.iter().filter(|message| message["type"] == "permission.resolved").collect();
    assert_eq!(resolved.len(), 1);
    assert_eq!(resolved[0]["by"]["client"]["name"], "other");
    assert!(daemon.work_dir().join("new.txt").exists());
}

#[tokio::test]
async fn a_malformed_answer_leaves_the_prompt_open() {
    let (_model, _daemon, mut client, _session, prompt) = at_a_prompt().await;
    let bad = [
        json!({ "prompt_id": prompt["prompt_id"], "decision": "maybe" }),
        json!({ "prompt_id": prompt["prompt_id"] }),
        json!({ "prompt_id": prompt["prompt_id"], "decision": "allow", "scoop": "once" }),
        json!({
            "prompt_id": prompt["prompt_id"], "decision": "allow", "scope": "always",
            "rule": { "tool": "*", "action": "allow" },
        }),
    ];
    for reply in bad {
        let error = client.try_call("permission/reply", reply.clone()).await.unwrap_err();
        assert_eq!(error["code"], -32602, "{reply} was answered with {error}");
    }
    let unknown = json!({ "prompt_id": "prm_nothing", "decision": "allow" });
    let error = client.try_call("permission/reply", unknown).await.unwrap_err();
    assert_eq!(error["data"]["kind"], "prompt_not_found");
    let listed = client.call("permission/list", json!({})).await;
    assert_eq!(listed["prompts"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_remembered_answer_asks_no_more() {
    let (model, daemon, mut client, session, prompt) = at_a_prompt().await;
    let suggestion = prompt["suggestions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|suggestion| suggestion["scope"] == "session")
        .unwrap_or_else(|| panic!("no suggestion for the session in {prompt}"));
    let reply = json!({
        "prompt_id": prompt["prompt_id"], "decision": "allow",
        "scope": "session", "rule": suggestion["rule"],
    });
    client.call("permission/reply", reply).await;
    client.watch_until(is_turn_end).await;
    std::fs::remove_file(daemon.work_dir().join("new.txt")).unwrap();
    model.push(Answer::calling("write", &json!({ "path": "new.txt", "content": "y\n" })));
    model.push(Answer::saying("Done."));
    client.submit(&session, "s2", "Again.").await;
    let seen = client.watch_until(is_turn_end).await;
    assert!(seen.iter().all(|message| message["type"] != "permission.requested"));
    assert_eq!(std::fs::read_to_string(daemon.work_dir().join("new.txt")).unwrap(), "y\n");
}

#[tokio::test]
async fn an_observer_watches_and_does_not_answer() {
    let (_model, daemon, mut client, session, prompt) = at_a_prompt().await;
    let mut observer = daemon.client().await;
    let initialize = json!({
        "client": { "name": "eye", "version": "1" },
        "protocol": { "min": 1, "max": 1 }, "role": "observer",
    });
    observer.call("initialize", initialize).await;
    observer.subscribe(&session, Some(0)).await;
    observer.watch_until_type("permission.requested").await;
    let reply = json!({ "prompt_id": prompt["prompt_id"], "decision": "allow" });
    for (method, params) in [
        ("permission/reply", reply.clone()),
        ("session/submit", harness::client::input(&session, "o1", "Hi.")),
    ] {
        let error = observer.try_call(method, params).await.unwrap_err();
        assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(-32011), &json!("forbidden")));
    }
    client.call("permission/reply", reply).await;
    observer.watch_until(is_turn_end).await;
}
