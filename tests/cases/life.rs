//! Sessions through the daemon's crashes, stops and shortages: e16, e20, e21, e22, e23, e25, e34.
//!
//! Receives the harness; hands out what became of turns, inputs and processes.

use std::os::unix::process::CommandExt;
use std::path::Path;

use harness::client::{input, is_turn_end};
use harness::{Answer, Client, Daemon, Gate, ModelServer, wait};
use rustix::process::{Pid, Resource, Rlimit, Signal, getsid, prlimit, test_kill_process};
use serde_json::{Value, json};
use tokio::net::UnixStream;

const FULL: &str = "[permission]\nmode = \"full\"\n";
/// As many descriptors as a careful system gives.
const DESCRIPTORS: u64 = 256;

async fn state(client: &mut Client, session: &str) -> Value {
    client.call("session/get", json!({ "session_id": session })).await
}

/// A process that a command wrote into a file.
async fn process(daemon: &Daemon, file: &str) -> Pid {
    let path = daemon.work_dir().join(file);
    wait::until("a process's number", async || {
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let pid = text.trim().parse().map_err(|_| format!("{text:?}"))?;
        Pid::from_raw(pid).ok_or(text)
    })
    .await
}

async fn gone(pid: Pid) {
    wait::until("a process to be gone", async || match test_kill_process(pid) {
        Err(_) => Ok(()),
        Ok(()) => Err(pid),
    })
    .await;
}

fn submissions_of(log: &[Value], kind: &str) -> Vec<String> {
    let of_kind = log.iter().filter(|event| event["type"] == kind);
    of_kind.map(|event| event["submission_id"].as_str().unwrap().to_owned()).collect()
}

fn database(daemon: &Daemon) -> rusqlite::Connection {
    let database = rusqlite::Connection::open(daemon.path("state/agentd.db")).unwrap();
    database.busy_timeout(wait::DEADLINE).unwrap();
    database
}

/// e16: a deadline of a run of the machine that is over means nothing, however far away it is.
#[tokio::test]
async fn e16_monotonic_stamps_stored_on_disk() {
    let config = "model = \"demo/demo\"\n[store]\nshared = true\n";
    let mut daemon = Daemon::start(config).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, None).await;
    client.submit(&session, "s1", "Hello.").await;
    client.watch_until(is_turn_end).await;
    daemon.stop().await;
    // The process is ours and lives, so only the boot tells that the lease is void.
    let changed = database(&daemon).execute(
        "UPDATE leases SET owner = 'dmn_before', pid = ?1, process_started = 0, boot_id = 'before',
             expires_at = 9000000000000000",
        [std::process::id()],
    );
    assert_eq!(changed.unwrap(), 1);
    daemon.restart().await;
    let mut client = daemon.client().await;
    assert_eq!(state(&mut client, &session).await.get("lease"), None);
    client.subscribe(&session, None).await;
    client.submit(&session, "s2", "Hello again.").await;
    let end = client.watch_until(is_turn_end).await.pop().unwrap();
    assert_eq!(end["type"], "turn.completed");
}

/// e20: three sessions are killed in a stream, in a tool and at a prompt. None is busy for ever,
/// each says why, and the next message runs.
#[tokio::test]
async fn e20_session_stuck_running_after_restart() {
    let model = ModelServer::start().await;
    model.improvise(|body| {
        let messages = body["messages"].as_array().unwrap();
        match messages.last().unwrap()["content"].as_str().unwrap_or_default() {
            "stream" => Answer::saying("Half").silence(),
            "tool" => Answer::calling("list", &json!({ "path": "." }))
                .call("shell", &json!({ "command": "echo $$ > tool.pid; sleep 1000" })),
            "prompt" => Answer::calling("write", &json!({ "path": "new.txt", "content": "x" })),
            _ => Answer::saying("Here I am."),
        }
    });
    let rules = "[[permission.rules]]\ntool = \"shell\"\naction = \"allow\"\n";
    let mut daemon = Daemon::start(&format!("{}{rules}", model.config())).await;
    let mut client = daemon.client().await;
    let mut sessions = Vec::new();
    for kind in ["stream", "tool", "prompt"] {
        let session = client.create_session(&daemon.work_dir()).await;
        client.subscribe(&session, Some(0)).await;
        client.submit(&session, "s1", kind).await;
        match kind {
            "stream" => drop(client.watch_until_type("message.delta").await),
            "tool" => drop(process(&daemon, "tool.pid").await),
            _ => drop(client.watch_until_type("permission.requested").await),
        }
        sessions.push(session);
    }
    let tool = process(&daemon, "tool.pid").await;
    daemon.kill();
    daemon.restart().await;
    gone(tool).await;

    let mut client = daemon.client().await;
    let listed = client.call("session/list", json!({})).await;
    for (session, expected) in sessions.iter().zip(["interrupted", "interrupted", "waiting"]) {
        let listed = listed["sessions"].as_array().unwrap();
        let listed = listed.iter().find(|listed| listed["session_id"] == *session).unwrap();
        assert_eq!(listed["state"], expected);
        client.subscribe(session, Some(0)).await;
        if expected == "waiting" {
            let asked = client.watch_until_type("permission.requested").await.pop().unwrap();
            client.submit(session, "s2", "next").await;
            let reply = json!({ "prompt_id": asked["prompt"]["prompt_id"], "decision": "allow" });
            client.call("permission/reply", reply).await;
        } else {
            let end = client.watch_until(is_turn_end).await.pop().unwrap();
            assert_eq!((&end["type"], &end["reason"]), (&json!("turn.aborted"), &json!("crashed")));
            client.submit(session, "s2", "next").await;
        }
        let end = client.watch_until(is_turn_end).await.pop().unwrap();
        assert_eq!(end["type"], "turn.completed", "{end}");
        let rested = wait::until("the session to rest", async || {
            let state = state(&mut client, session).await;
            if state["state"] == "idle" { Ok(state) } else { Err(state) }
        })
        .await;
        assert_eq!(rested.get("active_turn_id"), None);
    }
    model.assert_all_taken();
}

/// e21: a model that goes on for ever and a tool that no signal ends are cancelled all the same,
/// and what is sent meanwhile runs, in order.
#[tokio::test]
async fn e21_cancel_ignored_follow_ups_silently_dropped() {
    let model = ModelServer::start().await;
    model.improvise(|body| {
        let last = body["messages"].as_array().and_then(|messages| messages.last()).unwrap();
        let deaf = "trap '' TERM INT HUP; echo $$ > deaf.pid; while :; do sleep 0.02; done";
        match last["content"].as_str() {
            Some("Talk.") => Answer::saying("I never stop").silence(),
            Some("Run it.") => Answer::calling("shell", &json!({ "command": deaf })),
            _ => Answer::saying("Yes."),
        }
    });
    let config = format!("{}{FULL}[tools.shell]\nkill_grace = \"50ms\"\n", model.config());
    let daemon = Daemon::start(&config).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    client.submit(&session, "stream", "Talk.").await;
    client.watch_until_type("message.delta").await;
    cancel_and_follow_up(&mut client, &session, 1).await;
    client.submit(&session, "tool", "Run it.").await;
    let tool = process(&daemon, "deaf.pid").await;
    cancel_and_follow_up(&mut client, &session, 2).await;
    gone(tool).await;
    let started = submissions_of(&client.events(&session).await, "turn.started");
    let inputs: Vec<&String> = started.iter().filter(|id| !id.starts_with("resume")).collect();
    assert_eq!(inputs, ["stream", "p1-1", "p2-1", "tool", "p1-2", "p2-2"]);
    model.assert_all_taken();
}

/// An interrupt with two inputs right behind it; waits until both have had their turns.
async fn cancel_and_follow_up(client: &mut Client, session: &str, round: usize) {
    let submission = json!({ "id": format!("stop-{round}"), "op": { "type": "interrupt" } });
    let params = json!({ "session_id": session, "submission": submission });
    let mut sent = vec![client.request("session/submit", params).await];
    for name in ["p1", "p2"] {
        let mut params = input(session, &format!("{name}-{round}"), "Are you there?");
        params["submission"]["op"]["delivery"] = json!("queue");
        sent.push(client.request("session/submit", params).await);
    }
    for (request, expected) in sent.into_iter().zip(["applied", "", ""]) {
        let disposition = client.response(&request.into()).await["result"]["disposition"].take();
        let disposition = disposition.as_str().unwrap_or_default();
        let inputs = ["started", "queued"];
        assert!(disposition == expected || inputs.contains(&disposition), "{disposition}");
    }
    let end = client.watch_until(is_turn_end).await.pop().unwrap();
    assert_eq!((&end["type"], &end["reason"]), (&json!("turn.aborted"), &json!("interrupted")));
    // What came while the turn was ending waits for a word; what came after its end does not.
    let mut turns = 2;
    if state(client, session).await["queue_held"] == true {
        client.submit_op(session, &format!("resume-{round}"), json!({ "type": "resume" })).await;
        turns += 1;
    }
    for _ in 0..turns {
        let end = client.watch_until(is_turn_end).await.pop().unwrap();
        assert_eq!(end["type"], "turn.completed");
    }
}

/// e22: a stop while one session streams and another runs a tool. The partial text is kept and
/// marked, the tool gets its signal, clients are told, nothing of it is left.
#[tokio::test]
async fn e22_sigterm_arrives_during_running_turn() {
    let model = ModelServer::start().await;
    model.push(Answer::saying("The first half").silence());
    let command = "trap 'echo saved > saved; exit 0' TERM; echo $$ > tool.pid; \
                   while :; do sleep 0.02; done";
    model.push(Answer::calling("shell", &json!({ "command": command })));
    let config = format!("{}{FULL}[daemon]\ndrain_timeout = \"50ms\"\n", model.config());
    let mut daemon = Daemon::start(&config).await;
    let mut news = daemon.client().await;
    news.call("daemon/subscribe", json!({})).await;
    let mut clients = Vec::new();
    for text in ["Talk.", "Run it."] {
        let mut client = daemon.client().await;
        let session = client.create_session(&daemon.work_dir()).await;
        client.subscribe(&session, Some(0)).await;
        client.submit(&session, "s1", text).await;
        if text == "Talk." {
            client.watch_until_text("The first half").await;
        }
        clients.push((client, session));
    }
    let tool = process(&daemon, "tool.pid").await;
    daemon.signal(Signal::TERM);
    news.watch_until_type("daemon.shutting_down").await;
    let refused =
        clients[0].0.try_call("session/create", json!({ "cwd": daemon.work_dir() })).await;
    assert_eq!(refused.unwrap_err()["data"]["kind"], "shutting_down");
    for (client, _) in &mut clients {
        let end = client.watch_until(is_turn_end).await.pop().unwrap();
        assert_eq!((&end["type"], &end["reason"]), (&json!("turn.aborted"), &json!("shutdown")));
    }
    assert_eq!(daemon.exit().await.code(), Some(0));
    assert!(!daemon.socket().exists());
    gone(tool).await;
    assert_eq!(std::fs::read_to_string(daemon.work_dir().join("saved")).unwrap(), "saved\n");

    daemon.restart().await;
    let mut client = daemon.client().await;
    for (_, session) in &clients {
        assert_eq!(state(&mut client, session).await["state"], "interrupted");
    }
    let log = client.events(&clients[0].1).await;
    let partial = log.iter().find(|event| event["item"]["role"] == "assistant").unwrap();
    assert_eq!(partial["item"]["status"], "partial");
    assert_eq!(partial["item"]["content"][0]["text"], "The first half");
}

fn descriptors(daemon: &Daemon) -> usize {
    let path = format!("/proc/{}/fd", daemon.pid().as_raw_nonzero());
    std::fs::read_dir(path).map_or(0, Iterator::count)
}

/// One session's whole way: made, watched, a command run, left.
async fn cycle(daemon: &Daemon) {
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, None).await;
    client.submit(&session, "s1", "run true").await;
    let end = client.watch_until(is_turn_end).await.pop().unwrap();
    assert_eq!(end["type"], "turn.completed");
}

/// e23: sessions, tools and clients leave no descriptor behind; without any left the daemon says
/// so, serves those who are there, and recovers.
#[tokio::test]
async fn e23_file_descriptors_leak_per_session() {
    if !Path::new("/proc/self/fd").exists() {
        return;
    }
    let cycles = if std::env::var_os("AGENTD_SOAK").is_some() { 500 } else { 20 };
    let daemon = Daemon::start(&format!("model = \"demo/demo\"\n{FULL}")).await;
    let limit = Rlimit { current: Some(DESCRIPTORS), maximum: Some(DESCRIPTORS) };
    prlimit(Some(daemon.pid()), Resource::Nofile, limit).unwrap();
    let mut client = daemon.client().await;
    // What is opened once is open now.
    for _ in 0..4 {
        cycle(&daemon).await;
    }
    let base = wait::until("the connections to be closed", async || {
        let status = client.call("daemon/status", json!({})).await;
        if status["connections"] == 1 { Ok(descriptors(&daemon)) } else { Err(status) }
    })
    .await;
    for _ in 0..cycles {
        cycle(&daemon).await;
    }
    let as_before = async || {
        wait::until("the descriptors to be given back", async || {
            let now = descriptors(&daemon);
            if now <= base { Ok(()) } else { Err(format!("{now}, before {base}")) }
        })
        .await;
    };
    as_before().await;

    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, None).await;
    let mut crowd = Vec::new();
    wait::until("the descriptors to be used up", async || {
        crowd.extend(UnixStream::connect(daemon.socket()).await.ok());
        let log = daemon.log();
        if log.contains("no connection can be accepted") { Ok(()) } else { Err(crowd.len()) }
    })
    .await;
    // Who is there is served. The launcher that is ready runs a command; another one cannot be
    // started, and that is a result.
    client.submit(&session, "s1", "run true and then run pwd").await;
    let seen = client.watch_until(is_turn_end).await;
    assert_eq!(seen.last().unwrap()["type"], "turn.completed");
    let completed = seen.iter().filter(|message| message["type"] == "tool.completed");
    let statuses: Vec<&Value> = completed.map(|message| &message["status"]).collect();
    assert_eq!(statuses, ["ok", "error"], "{seen:?}");
    let complaints = daemon.log().matches("no connection can be accepted").count();
    assert!(complaints < 10, "it complained {complaints} times");

    drop(crowd);
    cycle(&daemon).await;
    as_before().await;
}

/// e25: a daemon with the environment of a service manager finds the client's own programs.
#[tokio::test]
async fn e25_daemon_environment_lacks_client_path() {
    use std::os::unix::fs::PermissionsExt;
    let mut daemon = Daemon::world(&format!("model = \"demo/demo\"\n{FULL}"));
    let path = std::env::var("PATH").unwrap();
    daemon.set_variable("PATH", "/usr/bin:/bin");
    daemon.spawn();
    daemon.ready().await;
    let own = daemon.path("home/bin");
    std::fs::create_dir(&own).unwrap();
    let tool = own.join("its-own-tool");
    std::fs::write(&tool, "#!/bin/sh\necho \"found with $VIRTUAL_ENV\"\n").unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut client = daemon.client().await;
    let env = json!({ "PATH": format!("{}:{path}", own.display()), "VIRTUAL_ENV": "its-venv" });
    let params = json!({ "cwd": daemon.work_dir(), "env": env });
    let created = client.call("session/create", params).await;
    let session = created["session_id"].as_str().unwrap().to_owned();
    let without = client.create_session(&daemon.work_dir()).await;
    // It is recorded with the session: the next daemon has it too.
    for round in 0..2 {
        for (session, found) in [(&session, true), (&without, false)] {
            client.subscribe(session, None).await;
            client.submit(session, &format!("s{round}"), "run its-own-tool").await;
            let seen = client.watch_until(is_turn_end).await;
            let completed =
                seen.iter().find(|message| message["type"] == "tool.completed").unwrap();
            let text = completed["item"]["content"].to_string();
            assert_eq!(text.contains("found with its-venv"), found, "{text}");
        }
        daemon.restart().await;
        client = daemon.client().await;
    }
}

/// e34: a daemon that a client started outlives the client, its terminal and their hang-up.
#[tokio::test]
async fn e34_an_autostarted_daemon_outlives_the_terminal() {
    let model = ModelServer::start().await;
    let gate = Gate::new();
    model.push(Answer::saying("One").wait(&gate).text(" two."));
    let daemon = Daemon::world(&model.config());
    // A group of its own, as a shell makes one for each command.
    let mut command = daemon.agentctl(&["run", "--detach", "Count."]);
    let mut first = command.process_group(0).spawn().unwrap();
    gate.reached().await;
    let mut client = daemon.client().await;
    let listed = client.call("session/list", json!({})).await;
    let session = listed["sessions"][0]["session_id"].as_str().unwrap().to_owned();
    let mut watcher = daemon.agentctl(&["attach", &session]).process_group(0).spawn().unwrap();
    let status = client.call("daemon/status", json!({})).await;
    let pid = status["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let pid = Pid::from_raw(pid.unwrap()).unwrap();
    assert_eq!(getsid(Some(pid)).unwrap(), pid, "it is in a session of its own");
    watcher.kill().unwrap();
    watcher.wait().unwrap();
    // The hang-up reaches all of the terminal's group; it may have nobody left.
    let _ = rustix::process::kill_process_group(Pid::from_child(&first), Signal::HUP);
    rustix::process::kill_process(pid, Signal::HUP).unwrap();
    first.wait().unwrap();
    gate.open();
    client.subscribe(&session, Some(0)).await;
    let seen = client.watch_until(is_turn_end).await;
    assert_eq!(seen.last().unwrap()["type"], "turn.completed");
    let answer = seen.iter().find(|message| message["item"]["role"] == "assistant").unwrap();
    assert_eq!(answer["item"]["content"][0]["text"], "One two.");
}
