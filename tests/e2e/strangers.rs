//! What a person meets first and does not expect: a daemon of another version, a configuration that
//! broke while the daemon ran, a directory that is none. Each is told with what to do.
//!
//! Receives the harness; hands out what `agentctl` says.

use std::process::Output;

use harness::Daemon;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixListener;

/// Runs it beside this thread, which has the other side of its socket; output and exit code.
async fn agentctl(daemon: &Daemon, arguments: &[&str]) -> (String, Option<i32>) {
    let mut command = daemon.agentctl(arguments);
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let Output { status, stdout, stderr } = output;
    let said = String::from_utf8_lossy(&stderr) + String::from_utf8_lossy(&stdout);
    (said.into_owned(), status.code())
}

/// Answers at a socket as a daemon of another version would, until it is told to shut down.
async fn pretend(listener: UnixListener, answer: impl Fn(&str) -> Value) {
    let path = listener.local_addr().unwrap().as_pathname().unwrap().to_owned();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (read, mut write) = stream.into_split();
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let request: Value = serde_json::from_str(&line).unwrap();
            let method = request["method"].as_str().unwrap();
            let mut response = answer(method);
            response["jsonrpc"] = json!("2.0");
            response["id"] = request["id"].clone();
            // A client that was refused may be gone.
            let _ = write.write_all(format!("{response}\n").as_bytes()).await;
            if method == "daemon/shutdown" {
                std::fs::remove_file(&path).unwrap();
                return;
            }
        }
    }
}

fn refusal(min: u32, max: u32) -> Value {
    let data = json!({ "kind": "unsupported_protocol", "min": min, "max": max });
    let message = format!("this daemon speaks versions {min} to {max} of the protocol");
    json!({ "error": { "code": -32012, "message": message, "data": data } })
}

fn server(version: &str) -> Value {
    json!({ "result": {
        "protocol": 1, "server": { "name": "agentd", "version": version },
        "daemon": { "id": "dmn_1", "pid": 1, "started_at": "2026-01-01T00:00:00.000Z" },
        "capabilities": {},
        "limits": {
            "max_message_bytes": 1000, "max_connections": 1, "max_batch": 1, "max_calls": 1
        }
    }})
}

fn status(turns_running: u64) -> Value {
    json!({ "result": {
        "version": "0.0.1", "pid": 1, "uptime_ms": 1, "sessions": {}, "connections": 1,
        "store_bytes": 1, "turns_running": turns_running, "socket": "/s", "state_dir": "/d",
        "draining": false
    }})
}

#[tokio::test]
async fn a_daemon_without_a_common_protocol_is_told_with_what_to_do() {
    for (answer, words) in [
        (refusal(2, 3), ["versions 2 to 3", "newer than this agentctl: use the one"]),
        (refusal(0, 0), ["versions 0 to 0", "older than this agentctl: end it"]),
        (json!({ "result": { "protocol": 7 } }), ["`initialize`", "of another version"]),
    ] {
        let daemon = Daemon::world("");
        let listener = UnixListener::bind(daemon.socket()).unwrap();
        let pretended = pretend(listener, move |_| answer.clone());
        let (said, code) = tokio::select! {
            () = pretended => panic!("it is not told to end"),
            told = agentctl(&daemon, &["ls"]) => told,
        };
        assert_eq!(code, Some(1), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{words:?} in {said}");
    }
}

/// One that works is left alone; one that does not makes way for the newer one.
#[tokio::test]
async fn an_older_daemon_makes_way_when_it_does_nothing() {
    let busy = Daemon::world("");
    let pretended = pretend(UnixListener::bind(busy.socket()).unwrap(), |method| match method {
        "initialize" => server("0.0.1"),
        "daemon/status" => status(1),
        _ => json!({ "result": { "sessions": [] } }),
    });
    let (said, code) = tokio::select! {
        () = pretended => panic!("it works"),
        told = agentctl(&busy, &["ls"]) => told,
    };
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("version 0.0.1") && said.contains("`agentctl restart`"), "{said}");

    let quiet = Daemon::world("");
    let pretended = pretend(UnixListener::bind(quiet.socket()).unwrap(), |method| match method {
        "initialize" => server("0.0.1"),
        "daemon/status" => status(0),
        _ => json!({ "result": { "turns_running": 0 } }),
    });
    let ((), (said, code)) = tokio::join!(pretended, agentctl(&quiet, &["ls"]));
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("starting") && said.contains("instead"), "{said}");
    let (said, _) = agentctl(&quiet, &["shutdown", "--now"]).await;
    assert!(!said.contains("0.0.1"), "{said}");
}

/// A newer daemon of the same protocol is nothing to speak of.
#[tokio::test]
async fn a_newer_daemon_is_only_used() {
    let daemon = Daemon::world("");
    let pretended = pretend(UnixListener::bind(daemon.socket()).unwrap(), |method| match method {
        "initialize" => server("99.0.0"),
        _ => json!({ "result": { "sessions": [], "of_the_future": 1 } }),
    });
    let (said, code) = tokio::select! {
        () = pretended => panic!("it works"),
        told = agentctl(&daemon, &["ls"]) => told,
    };
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("version"), "{said}");
}

/// The daemon keeps what it has; whoever asks is told that the files say something else.
#[tokio::test]
async fn a_configuration_that_is_not_in_force_is_told() {
    let daemon = Daemon::start("").await;
    let (said, code) = agentctl(&daemon, &["doctor"]).await;
    assert!(said.contains("what is on disk is in force"), "{said}");
    assert_eq!(code, Some(0), "{said}");
    daemon.configure("[tools]\nmax_parallel = \"many\"\n");
    for arguments in [&["doctor"][..], &["config"], &["run", "-m", "demo/demo", "hello"]] {
        let (said, code) = agentctl(&daemon, arguments).await;
        let words = ["on disk cannot be used", "config.toml:2", "stays in force"];
        assert!(words.iter().all(|word| said.contains(word)), "{arguments:?}: {said}");
        assert_eq!(code, Some(i32::from(arguments[0] == "doctor")), "{said}");
    }
    daemon.configure("[tools]\nmax_parallel = 3\n");
    let (said, code) = agentctl(&daemon, &["doctor"]).await;
    assert!(said.contains("not in force: tools.max_parallel"), "{said}");
    assert_eq!(code, Some(0), "{said}");
    agentctl(&daemon, &["config", "reload"]).await;
    let (said, _) = agentctl(&daemon, &["run", "-m", "demo/demo", "hello"]).await;
    assert!(!said.contains("in force"), "{said}");
}

/// Of the directories that cannot be, those that are so for root too.
#[tokio::test]
async fn a_directory_that_cannot_be_is_told_by_name_and_cause() {
    let daemon = Daemon::start("").await;
    daemon.write_file("a.txt", "");
    std::os::unix::fs::symlink("loop", daemon.work_dir().join("loop")).unwrap();
    let long = "n".repeat(300);
    for (dir, cause) in [
        ("a.txt/below", "Not a directory"),
        ("a.txt", "not a directory"),
        ("loop", "symbolic links"),
        (long.as_str(), "name too long"),
        ("absent", "No such file"),
    ] {
        let (said, code) = agentctl(&daemon, &["run", "-m", "demo/demo", "-C", dir, "hi"]).await;
        assert_ne!(code, Some(0), "{said}");
        let said = said.to_lowercase();
        assert!(said.contains(&cause.to_lowercase()) && said.contains(dir), "{dir}: {said}");
    }
}
