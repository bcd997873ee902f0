//! The daemon's own life: start, configuration, reload, stop.
//!
//! Receives the harness; hands out exit codes and what was said.

use harness::client::is_turn_end;
use harness::{Answer, Daemon, Gate, ModelServer, wait};
use serde_json::json;

#[tokio::test]
async fn a_wrong_configuration_ends_the_start_with_78_and_its_place() {
    let daemon = Daemon::world("[tools.shell]\ntimeuot = \"1s\"\n");
    let output = daemon.command().output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(78), "{said}");
    let place = format!("{}:2:1: unknown key `timeuot`", daemon.path("config.toml").display());
    assert!(said.contains(&place) && said.contains("did you mean `timeout`"), "{said}");
}

#[tokio::test]
async fn a_reload_with_a_fault_keeps_the_last_good_configuration() {
    let daemon = Daemon::start("model = \"demo/demo\"\n[tools]\nmax_parallel = 3\n").await;
    let mut client = daemon.client().await;
    daemon.configure("model = \"demo/demo\"\n[tools]\nmax_parallel = \"x\"\n");
    let error = client.try_call("daemon/reload", json!({})).await.unwrap_err();
    assert_eq!(
        (&error["code"], &error["data"]["kind"]),
        (&json!(-32014), &json!("invalid_config"))
    );
    assert_eq!(
        (&error["data"]["line"], &error["data"]["key"]),
        (&json!(3), &json!("tools.max_parallel"))
    );
    let value = async |client: &mut harness::Client| {
        let config = client.call("daemon/config", json!({})).await;
        let values = config["values"].as_array().unwrap().clone();
        values.into_iter().find(|value| value["key"] == "tools.max_parallel").unwrap()
    };
    assert_eq!(value(&mut client).await["value"], 3);
    daemon.configure("model = \"demo/demo\"\n[tools]\nmax_parallel = 4\n");
    let reloaded = client.call("daemon/reload", json!({})).await;
    assert_eq!(reloaded["changed"], json!(["tools.max_parallel"]));
    let now = value(&mut client).await;
    assert_eq!(now["value"], 4);
    assert!(now["origin"].as_str().unwrap().ends_with("config.toml:3:1"), "{now}");
}

#[tokio::test]
async fn a_stop_lets_turns_end_and_the_socket_is_gone() {
    let model = ModelServer::start().await;
    let gate = Gate::new();
    model.push(Answer::saying("Nearly").wait(&gate).text(" done."));
    let mut daemon = Daemon::start(&model.config()).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    client.submit(&session, "s1", "Hi.").await;
    gate.reached().await;
    client.call("daemon/shutdown", json!({ "mode": "drain" })).await;
    let mut params = harness::client::input(&session, "s2", "More.");
    params["submission"]["op"]["delivery"] = json!("queue");
    let error = client.try_call("session/submit", params).await.unwrap_err();
    assert_eq!(error["data"]["kind"], "shutting_down");
    gate.open();
    let end = client.watch_until(is_turn_end).await.pop().unwrap();
    assert_eq!(end["type"], "turn.completed", "terminal events come before the connection ends");
    assert_eq!(daemon.exit().await.code(), Some(0));
    assert!(!daemon.socket().exists());
}

#[tokio::test]
async fn a_signal_aborts_what_does_not_end_and_says_so() {
    let model = ModelServer::start().await;
    model.push(Answer::saying("This never ends").silence());
    let config = format!("{}[daemon]\ndrain_timeout = \"1ms\"\n", model.config());
    let mut daemon = Daemon::start(&config).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    client.submit(&session, "s1", "Hi.").await;
    client.watch_until_type("message.delta").await;
    daemon.signal(rustix::process::Signal::TERM);
    let end = client.watch_until(is_turn_end).await.pop().unwrap();
    assert_eq!((&end["type"], &end["reason"]), (&json!("turn.aborted"), &json!("shutdown")));
    assert_eq!(daemon.exit().await.code(), Some(0));
    daemon.restart().await;
    let mut client = daemon.client().await;
    let state = client.call("session/get", json!({ "session_id": session })).await;
    assert_eq!(state["state"], "interrupted");
}

#[tokio::test]
async fn status_says_what_the_daemon_is_doing() {
    let daemon = Daemon::start("model = \"demo/demo\"\n").await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, None).await;
    client.submit(&session, "s1", "Hello.").await;
    client.watch_until(is_turn_end).await;
    let status = wait::until("the turn to be counted out", async || {
        let status = client.call("daemon/status", json!({})).await;
        if status["turns_running"] == 0 { Ok(status) } else { Err(status) }
    })
    .await;
    assert_eq!(status["pid"], daemon.pid().as_raw_nonzero().get());
    assert_eq!(status["connections"], 1);
    assert_eq!(status["sessions"], json!({ "idle": 1 }));
    assert!(status["store_bytes"].as_u64().unwrap() > 0);
    assert_eq!(status["draining"], false);
}
