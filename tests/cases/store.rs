//! The database under others: e9, e10, e33.
//!
//! Receives the harness; hands out turns that end well all the same.

use std::os::unix::fs::PermissionsExt;

use harness::client::is_turn_end;
use harness::{Answer, Client, Daemon, Gate, ModelServer, wait};
use serde_json::json;

/// e9: eight processes run a turn of five steps each against one database.
#[tokio::test]
async fn e9_no_busy_timeout_on_database() {
    let model = ModelServer::start().await;
    model.improvise(|body| {
        let calls = body["messages"].as_array().map_or(0, Vec::len) / 2;
        if calls < 5 {
            let path = format!("step-{calls}.txt");
            Answer::saying("A step.").call("write", &json!({ "path": path, "content": "x\n" }))
        } else {
            Answer::saying("Done.")
        }
    });
    let config =
        format!("{}[permission]\nmode = \"full\"\n[store]\nshared = true\n", model.config());
    let world = Daemon::world(&config);
    let mut daemons: Vec<Daemon> = (0..8).map(|n| world.sibling(&format!("d{n}"))).collect();
    for daemon in &mut daemons {
        daemon.spawn();
    }
    let mut clients: Vec<(Client, String)> = Vec::new();
    for (index, daemon) in daemons.iter_mut().enumerate() {
        daemon.ready().await;
        let mut client = daemon.client().await;
        let folder = world.path(&format!("work/{index}"));
        std::fs::create_dir(&folder).unwrap();
        let session = client.create_session(&folder).await;
        client.subscribe(&session, Some(0)).await;
        clients.push((client, session));
    }
    for (client, session) in &mut clients {
        client.submit(session, "s1", "Five steps.").await;
    }
    for (client, _) in &mut clients {
        let seen = client.watch_until(is_turn_end).await;
        let end = seen.last().unwrap();
        assert_eq!(end["type"], "turn.completed", "{end}");
    }
    for daemon in &mut daemons {
        assert_eq!(daemon.stop().await.code(), Some(0));
    }
    model.assert_all_taken();
}

fn locked(daemon: &Daemon) -> rusqlite::Connection {
    let folder = std::fs::read_dir(daemon.path("state")).unwrap();
    let path = folder
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|ending| ending == "db"))
        .expect("there is a database");
    let connection = rusqlite::Connection::open(path).unwrap();
    connection.busy_timeout(wait::DEADLINE).unwrap();
    connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    connection
}

/// e10: another connection holds the write lock while a turn streams. The stream is shown all the
/// same, other requests are answered, and what had to wait is there once, when the lock is gone.
#[tokio::test]
async fn e10_lock_outlasts_the_busy_timeout() {
    let model = ModelServer::start().await;
    let gates = [Gate::new(), Gate::new()];
    let answer = Answer::saying("Before the lock.").wait(&gates[0]).text(" Under the lock.");
    model.push(answer.wait(&gates[1]).text(" The end."));
    let daemon = Daemon::start(&model.config()).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    client.submit(&session, "s1", "Talk.").await;
    gates[0].reached().await;
    let lock = locked(&daemon);
    gates[0].open();
    let mut seen = client.watch_until_text("Under the lock.").await;
    gates[1].reached().await;
    gates[1].open();
    seen.extend(client.watch_until_text("The end.").await);
    // The answer is whole, its record cannot be written, and the daemon still answers.
    for _ in 0..20 {
        client.call("daemon/status", json!({})).await;
        client.call("session/get", json!({ "session_id": session })).await;
    }
    // The long version holds the lock for longer than any busy timeout.
    if std::env::var_os("AGENTD_SOAK").is_some() {
        tokio::time::sleep(std::time::Duration::from_secs(15)).await;
    }
    drop(lock);
    seen.extend(client.watch_until(is_turn_end).await);
    assert_eq!(seen.last().unwrap()["type"], "turn.completed");
    let log = client.events(&session).await;
    for (index, event) in log.iter().enumerate() {
        assert_eq!(event["seq"], index + 1);
    }
    let answers = log
        .iter()
        .filter(|event| event["item"]["role"] == "assistant")
        .map(|event| event["item"]["content"][0]["text"].as_str().unwrap())
        .collect::<Vec<_>>();
    assert_eq!(answers, ["Before the lock. Under the lock. The end."]);
}

/// e33: a state directory that cannot be written is one clear error; a home that cannot is none.
#[tokio::test]
async fn e33_read_only_home_or_state_directory() {
    if rustix::process::geteuid().is_root() {
        // Root may write everywhere, so that only the file system itself can refuse.
        return unwritable_by_kind();
    }
    let mut daemon = Daemon::world("");
    for folder in ["state", "home"] {
        let mode = std::fs::Permissions::from_mode(0o500);
        std::fs::set_permissions(daemon.path(folder), mode).unwrap();
    }
    let output = daemon.command().output().unwrap();
    refused_by_name(&daemon, &output);
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(daemon.path("state"), mode).unwrap();
    daemon.spawn();
    daemon.ready().await;
    daemon.stop().await;
}

fn unwritable_by_kind() {
    let daemon = Daemon::world("");
    std::fs::remove_dir(daemon.path("state")).unwrap();
    std::fs::write(daemon.path("state"), "not a directory").unwrap();
    let output = daemon.command().output().unwrap();
    refused_by_name(&daemon, &output);
    assert_eq!(std::fs::read_to_string(daemon.path("state")).unwrap(), "not a directory");
}

fn refused_by_name(daemon: &Daemon, output: &std::process::Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(daemon.path("state").to_str().unwrap()), "{said}");
    assert!(!daemon.socket().exists());
}
