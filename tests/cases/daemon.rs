//! The daemon's life and its door: who may come in, what ends it, what it writes meanwhile. e28,
//! e34, f5 (observers and unknown methods), and the wall between tools and the socket.
//!
//! Receives the harness; hands out who was served, and how the daemon ended.

use std::os::unix::net::UnixDatagram;
use std::process::Stdio;

use harness::client::is_turn_end;
use harness::{Answer, Client, Daemon, Framing, ModelServer, wait};
use rustix::process::Signal;
use serde_json::json;

/// *Only the owner connects*, and a tool is not its owner: it must not answer its own prompt.
#[tokio::test]
async fn only_the_owner_connects_and_no_tool() {
    let model = ModelServer::start().await;
    let daemon = Daemon::start(&format!("{}[permission]\nmode = \"full\"\n", model.config())).await;
    // A second daemon asks who listens at its socket before it gives up: a client as any other.
    let asking = format!(
        "{} --socket {} --state-dir {}",
        harness::daemon::program("agentd").display(),
        daemon.socket().display(),
        daemon.path("other-state").display(),
    );
    model.push(Answer::calling("shell", &json!({ "command": asking })));
    model.push(Answer::saying("I see."));
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, None).await;
    client.submit(&session, "s1", "Ask it.").await;
    let seen = client.watch_until(is_turn_end).await;
    let completed = seen.iter().find(|message| message["type"] == "tool.completed").unwrap();
    let said = completed["item"]["content"].to_string();
    assert!(said.contains("was started by a tool of this daemon"), "{said}");
    assert!(daemon.log().contains("refused: process"), "{}", daemon.log());
}

#[tokio::test]
async fn an_observer_reads_and_changes_nothing() {
    let daemon = Daemon::start("model = \"demo/demo\"\n").await;
    let session = daemon.client().await.create_session(&daemon.work_dir()).await;
    let mut observer = daemon.client().await;
    let hello = json!({
        "client": { "name": "watcher", "version": "1" },
        "protocol": { "min": 1, "max": 1 },
        "role": "observer",
    });
    observer.call("initialize", hello).await;
    observer.subscribe(&session, Some(0)).await;
    observer.call("session/get", json!({ "session_id": session })).await;
    for (method, params) in [
        ("session/create", json!({ "cwd": daemon.work_dir() })),
        ("session/submit", harness::client::input(&session, "s1", "Hi.")),
        ("session/delete", json!({ "session_id": session })),
        ("daemon/shutdown", json!({})),
    ] {
        let error = observer.try_call(method, params).await.unwrap_err();
        assert_eq!(error["data"], json!({ "kind": "forbidden", "role": "observer" }), "{method}");
    }
}

/// e28: the log is bounded while the daemon runs, a deleted one is there again, and polls add
/// nothing to it.
#[tokio::test]
async fn e28_log_grows_while_daemon_runs() {
    let daemon = Daemon::world("[log]\nmax_bytes = 65536\n");
    let mut command = daemon.command();
    command.args(["--autostart", "--log-level", "debug"]).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let socket = daemon.socket();
    wait::until("the socket", async || std::fs::metadata(&socket).map(drop)).await;
    let mut client = Client::connect(&socket, Framing::Lines).await;
    let log = daemon.path("state/agentd.log");
    for round in 0..1_000 {
        // Each connection that ends is a line at this level.
        drop(Client::connect(&socket, Framing::Lines).await);
        if round == 500 {
            std::fs::remove_file(&log).unwrap();
        }
    }
    client.call("daemon/status", json!({})).await;
    wait::until("the deleted log to be there again", async || std::fs::metadata(&log).map(drop))
        .await;
    let bytes: u64 = ["state/agentd.log", "state/agentd.log.1"]
        .iter()
        .filter_map(|name| std::fs::metadata(daemon.path(name)).ok())
        .map(|metadata| metadata.len())
        .sum();
    assert!((1..=65_536).contains(&bytes), "{bytes} bytes");
    client.call("daemon/shutdown", json!({ "mode": "now" })).await;
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[tokio::test]
async fn e28_polls_do_not_log_at_info() {
    let daemon = Daemon::start("").await;
    let mut client = daemon.client().await;
    // The socket answers a moment before it is said.
    wait::until("the start to be logged", async || {
        let log = daemon.log();
        if log.contains("ready") { Ok(()) } else { Err(log) }
    })
    .await;
    let before = daemon.log().len();
    for _ in 0..100 {
        client.call("daemon/status", json!({})).await;
        client.call("session/list", json!({})).await;
        drop(daemon.client().await);
    }
    assert_eq!(&daemon.log()[before..], "");
}

/// e34: neither a closed terminal nor a client that is gone ends the daemon or its turns.
#[tokio::test]
async fn e34_client_death_ends_running_turn() {
    let model = ModelServer::start().await;
    let gate = harness::Gate::new();
    model.push(Answer::saying("One").wait(&gate).text(" two."));
    let daemon = Daemon::start(&model.config()).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.submit(&session, "s1", "Count.").await;
    gate.reached().await;
    drop(client);
    daemon.signal(Signal::HUP);
    gate.open();
    let mut next = daemon.client().await;
    next.subscribe(&session, Some(0)).await;
    let end = next.watch_until(is_turn_end).await.pop().unwrap();
    assert_eq!(end["type"], "turn.completed");
}

/// e22: a second signal does not wait for the turns that the first one lets end.
#[tokio::test]
async fn e22_a_second_signal_speeds_the_stop_up() {
    let model = ModelServer::start().await;
    model.push(Answer::saying("This never ends").silence());
    let config = format!("{}[daemon]\ndrain_timeout = \"10m\"\n", model.config());
    let mut daemon = Daemon::start(&config).await;
    let mut client = daemon.client().await;
    client.call("daemon/subscribe", json!({})).await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    client.submit(&session, "s1", "Hi.").await;
    client.watch_until_type("message.delta").await;
    daemon.signal(Signal::TERM);
    client.watch_until_type("daemon.shutting_down").await;
    // No one finds the daemon any more, those who are there are served.
    wait::until("the socket to be gone", async || match std::fs::metadata(daemon.socket()) {
        Err(_) => Ok(()),
        Ok(_) => Err("it is there"),
    })
    .await;
    client.call("session/get", json!({ "session_id": session })).await;
    daemon.signal(Signal::INT);
    let end = client.watch_until(is_turn_end).await.pop().unwrap();
    assert_eq!((&end["type"], &end["reason"]), (&json!("turn.aborted"), &json!("shutdown")));
    assert_eq!(daemon.exit().await.code(), Some(0));
}

#[tokio::test]
async fn a_daemon_with_nothing_to_do_ends_when_it_is_told_to() {
    let config = "model = \"demo/demo\"\n[daemon]\nidle_exit = \"10ms\"\n";
    let mut daemon = Daemon::world(config);
    daemon.spawn();
    assert_eq!(daemon.exit().await.code(), Some(0));
    assert!(daemon.log().contains("there was nothing to do"), "{}", daemon.log());
    assert!(!daemon.socket().exists());
}

/// A background command is something to do, though nobody is connected and no turn runs.
#[tokio::test]
async fn a_background_command_keeps_an_idle_daemon() {
    let config =
        "model = \"demo/demo\"\n[daemon]\nidle_exit = \"1s\"\n[permission]\nmode = \"full\"\n";
    let mut daemon = Daemon::start(config).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    client.submit(&session, "s1", "start `sleep 2; touch done`").await;
    client.watch_until(is_turn_end).await;
    drop(client);
    assert_eq!(daemon.exit().await.code(), Some(0));
    assert!(daemon.work_dir().join("done").exists(), "it was ended before its time");
}

#[tokio::test]
async fn a_service_manager_is_told_of_start_and_stop() {
    let mut daemon = Daemon::world("");
    let path = daemon.path("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    daemon.set_variable("NOTIFY_SOCKET", path.to_str().unwrap());
    daemon.spawn();
    let told = || {
        let mut buffer = [0; 256];
        let bytes = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..bytes]).into_owned()
    };
    assert!(told().starts_with("READY=1"));
    // It is ready when it says so.
    daemon.client().await.call("daemon/status", json!({})).await;
    daemon.signal(Signal::TERM);
    assert!(told().starts_with("STOPPING=1"));
    assert_eq!(daemon.exit().await.code(), Some(0));
}

/// e33: without a home the daemon serves from the directories it is given, and says what it
/// misses.
#[tokio::test]
async fn e33_a_missing_home_is_a_warning() {
    let mut daemon = Daemon::world("model = \"demo/demo\"\n");
    daemon.set_variable("HOME", daemon.path("nowhere").to_str().unwrap());
    daemon.spawn();
    daemon.ready().await;
    let mut client = daemon.client().await;
    client.call("daemon/status", json!({})).await;
}
