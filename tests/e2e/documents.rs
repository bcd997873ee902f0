//! Copies, over the socket: a session travels to another daemon as a document, and a backup is
//! another daemon's state.

use std::os::unix::fs::PermissionsExt;

use harness::Daemon;
use harness::client::is_turn_end;
use serde_json::{Value, json};

/// A document that no message holds goes by way of a file.
#[tokio::test]
async fn a_document_may_be_larger_than_a_message() {
    let daemon = Daemon::start("[server]\nmax_message_bytes = 65536\n").await;
    let mut client = daemon.client().await;
    let params = json!({ "cwd": daemon.work_dir(), "model": "demo/demo" });
    let session = client.call("session/create", params).await["session_id"].take();
    let id = session.as_str().unwrap();
    client.subscribe(id, Some(0)).await;
    for turn in ["s1", "s2"] {
        client.submit(id, turn, &"words ".repeat(6_000)).await;
        client.watch_until(is_turn_end).await;
    }
    let params = json!({ "session_id": session, "format": "json" });
    let refused = client.try_call("session/export", params).await.unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("session/export_file"), "{refused}");

    let path = daemon.path("long.json");
    let params = json!({ "session_id": session, "format": "json", "path": path });
    let made = client.call("session/export_file", params.clone()).await;
    let meta = std::fs::metadata(&path).unwrap();
    assert_eq!(
        (made["bytes"].as_u64(), meta.permissions().mode() & 0o777),
        (Some(meta.len()), 0o600)
    );
    let refused = client.try_call("session/export_file", params).await.unwrap_err();
    assert!(refused["message"].as_str().unwrap().contains("exists"), "it is not overwritten");

    let params = json!({ "path": path, "key": "k" });
    let imported = client.call("session/import_file", params.clone()).await;
    assert_eq!(
        imported["item_count"],
        client.call("session/get", json!({ "session_id": session })).await["item_count"]
    );
    assert_eq!(
        client.call("session/import_file", params).await["session_id"],
        imported["session_id"]
    );
    let id = imported["session_id"].as_str().unwrap();
    client.subscribe(id, Some(0)).await;
    client.submit(id, "s1", "think").await;
    let seen = client.watch_until(is_turn_end).await;
    assert_eq!(seen.last().unwrap()["type"], "turn.completed");

    for (path, why) in [
        (daemon.work_dir(), "no file"),
        (daemon.path("nothing.json"), "No such file"),
        ("long.json".into(), "absolute path"),
        ("/dev/zero".into(), "no file"),
    ] {
        let refused =
            client.try_call("session/import_file", json!({ "path": path })).await.unwrap_err();
        assert_eq!(refused["data"]["field"], "path");
        assert!(refused["message"].as_str().unwrap().contains(why), "{refused}");
    }
}

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

/// However a backup is cut off, nothing that looks like one and is not stays behind.
#[tokio::test]
async fn a_backup_that_is_cut_off_leaves_no_half_copy() {
    let mut daemon = Daemon::start("").await;
    let mut client = daemon.client().await;
    let params = json!({ "cwd": daemon.work_dir(), "model": "demo/demo" });
    let session = client.call("session/create", params).await["session_id"].take();
    client.subscribe(session.as_str().unwrap(), Some(0)).await;
    client.submit(session.as_str().unwrap(), "s1", &"word ".repeat(400_000)).await;
    client.watch_until(is_turn_end).await;
    let directory = daemon.path("copies");
    std::fs::create_dir(&directory).unwrap();
    let path = directory.join("copy.db");
    client.request("daemon/backup", json!({ "path": path })).await;
    while std::fs::read_dir(&directory).unwrap().next().is_none() {
        tokio::task::yield_now().await;
    }
    daemon.kill();
    if path.exists() {
        let whole = std::fs::read(&path).unwrap();
        assert!(whole.starts_with(b"SQLite format 3\0"), "{} bytes", whole.len());
        let pages = u32::from_be_bytes(whole[28..32].try_into().unwrap());
        assert_eq!(whole.len(), usize::try_from(pages).unwrap() * 4_096);
    }
    daemon.restart().await;
    let mut client = daemon.client().await;
    std::fs::remove_file(&path).ok();
    client.call("daemon/backup", json!({ "path": path })).await;
}
