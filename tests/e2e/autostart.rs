//! The daemon that `agentctl` starts: what the README shows first, with both programs installed
//! beside each other.
//!
//! Receives the harness; hands out what was printed and the exit codes.

use std::process::Output;

use harness::{Daemon, wait};
use serde_json::{Value, json};

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Runs a command without holding up the test's own runtime.
async fn run(daemon: &Daemon, arguments: &[&str]) -> Output {
    let mut command = daemon.agentctl(arguments);
    let ran = tokio::task::spawn_blocking(move || command.output().unwrap());
    wait::within("agentctl", ran).await.unwrap()
}

#[tokio::test]
async fn run_starts_the_daemon_and_plays_a_turn() {
    let world = Daemon::world("");
    world.write_file("notes.txt", "apple\npear\n");
    let prompt = "read notes.txt and write out.txt with hello";
    let played = run(&world, &["run", "-m", "demo/demo", "--allow", "write", prompt]).await;
    let (said, told) = (text(&played.stdout), text(&played.stderr));
    assert_eq!(played.status.code(), Some(0), "{said}\n{told}");
    assert!(!said.trim().is_empty() && told.contains("out.txt"), "{said}\n{told}");
    let written = std::fs::read_to_string(world.work_dir().join("out.txt")).unwrap();
    assert_eq!(written.trim(), "hello");

    let listed = run(&world, &["ls", "--json"]).await;
    let sessions: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let listed = (&sessions[0]["title"], &sessions[0]["state"], sessions.get(1));
    assert_eq!(listed, (&json!(prompt), &json!("idle"), None));
    let stopped = run(&world, &["shutdown"]).await;
    assert_eq!(stopped.status.code(), Some(0), "{}", text(&stopped.stderr));
    wait::until("the socket to be gone", async || {
        if world.socket().exists() { Err("it is there") } else { Ok(()) }
    })
    .await;
    let refused = run(&world, &["status", "--no-start"]).await;
    assert_eq!(refused.status.code(), Some(5), "{}", text(&refused.stderr));
}

#[tokio::test]
async fn a_wrong_configuration_is_shown_to_whoever_started_the_daemon() {
    let world = Daemon::world("modle = \"demo/demo\"\n");
    let failed = run(&world, &["run", "hello"]).await;
    let told = text(&failed.stderr);
    assert_eq!(failed.status.code(), Some(5), "{told}");
    assert!(told.contains("config.toml:1:1: unknown key `modle`"), "{told}");
}
