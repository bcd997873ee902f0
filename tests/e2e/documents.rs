//! Copies, over the socket: a session travels to another daemon as a document, and a backup is
//! another daemon's state.

use std::os::unix::fs::PermissionsExt;

use harness::Daemon;
use harness::client::is_turn_end;
use serde_json::{Value, json};

async fn items(client: &mut harness::Client, session: &Value) -> Value {
    let params = json!({ "session_id": session });
    client.call("session/items", params).await["items"].take()
}

#[tokio::test]
async fn a_document_and_a_backup_hold_what_was_said() {
    let daemon = Daemon::start("").await;
    daemon.write_file("notes.txt", "a note\n");
    let mut client = daemon.client().await;
    let params = json!({ "cwd": daemon.work_dir(), "model": "demo/demo" });
    let session = client.call("session/create", params).await["session_id"].take();
    client.subscribe(session.as_str().unwrap(), Some(0)).await;
    client.submit(session.as_str().unwrap(), "s1", "read notes.txt").await;
    client.watch_until(is_turn_end).await;
    let said = items(&mut client, &session).await;

    let params = json!({ "session_id": session, "format": "json" });
    let document = client.call("session/export", params).await;
    let other = Daemon::start("").await;
    let mut elsewhere = other.client().await;
    let params = json!({ "content": document["content"], "cwd": other.work_dir() });
    let imported = elsewhere.call("session/import", params).await;
    assert_eq!(items(&mut elsewhere, &imported["session_id"]).await, said);

    let mut copy = Daemon::world("");
    let path = copy.path("copy.db");
    let made = client.call("daemon/backup", json!({ "path": path })).await;
    assert!(made["bytes"].as_u64() > Some(0), "{made}");
    let private = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(copy.path("state"), private).unwrap();
    std::fs::rename(path, copy.path("state/agentd.db")).unwrap();
    copy.spawn();
    copy.ready().await;
    let mut restored = copy.client().await;
    assert_eq!(items(&mut restored, &session).await, said);
}
