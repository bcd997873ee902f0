//! Commands as processes: recorded before they exist, judged before they run, gone with their
//! daemon.
//!
//! Receives the harness; hands out what the record and the system say of a call.

use harness::client::is_turn_end;
use harness::{Answer, wait};
use serde_json::{Value, json};

use crate::scene::{FULL, Scene, of_type, statuses};

/// What there is of a call's processes: their mark is in the environment of each.
fn marked(call_id: &str) -> Vec<String> {
    let mark = format!("AGENTD_CALL_ID={call_id}");
    let processes = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let is_marked = |path: &std::path::Path| {
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
    };
    processes
        .map(|entry| entry.path())
        .filter(|path| is_marked(path))
        .map(|path| std::fs::read_to_string(path.join("cmdline")).unwrap_or_default())
        .collect()
}

/// Waits until a call has this many processes; one between its fork and its program is not seen.
async fn started(call_id: &str, least: usize) {
    wait::until("the call's processes", async || {
        let marked = marked(call_id);
        if marked.len() >= least { Ok(()) } else { Err(marked) }
    })
    .await;
}

/// *recorded before run*: the first thing that a command can do is too late to find its start
/// missing in the database.
#[tokio::test]
async fn recorded_before_run() {
    let mut scene = Scene::start(FULL).await;
    let database = scene.daemon.path("state/agentd.db");
    let database = database.display();
    let command = format!(
        "grep -aq '\"tool.started\",\"call_id\":\"'$AGENTD_CALL_ID'\"' {database} {database}-wal \
         && echo recorded; \
         grep -aq '\"tool.completed\",\"call_id\":\"'$AGENTD_CALL_ID'\"' {database} {database}-wal \
         || echo running"
    );
    for round in 0..5 {
        // The same command again would be taken for a repetition.
        let command = format!("{command} # {round}");
        scene.model.push(Answer::calling("shell", &json!({ "command": command })));
    }
    scene.model.push(Answer::saying("Done."));
    let seen = scene.turn("s1", "Look.").await;
    let results = of_type(&seen, "tool.completed");
    assert_eq!(results.len(), 5);
    for result in results {
        let said = result["item"]["content"].to_string();
        assert!(said.contains("recorded\\nrunning"), "{result}");
    }
    scene.check().await;
}

/// *judged before run*: what a rule denies never becomes a process, in the mode that allows all.
#[tokio::test]
async fn judged_before_run() {
    let rules = "[[permission.rules]]\ntool = \"shell\"\nmatch = \"touch *\"\naction = \"deny\"\n\
                 [[permission.rules]]\ntool = \"write\"\naction = \"deny\"\n";
    let mut scene = Scene::start(&format!("{FULL}{rules}")).await;
    scene.model.push(
        Answer::new()
            .call("shell", &json!({ "command": "touch denied" }))
            .call("write", &json!({ "path": "denied", "content": "x" }))
            .call("shell", &json!({ "command": "mkdir allowed" })),
    );
    scene.model.push(Answer::saying("Done."));
    let seen = scene.turn("s1", "Try.").await;
    assert_eq!(statuses(&seen), ["denied", "denied", "ok"]);
    let started = of_type(&seen, "tool.started");
    assert_eq!(started.len(), 1, "what is denied is not started: {started:?}");
    let work = scene.daemon.work_dir();
    assert!(!work.join("denied").exists() && work.join("allowed").exists());
    scene.check().await;
}

/// *no tool outlives its daemon unnoticed*: after kill -9 nothing is left of a command, whatever
/// its processes did to get away, and the turn is closed only then.
#[tokio::test]
async fn no_tool_outlives_its_daemon_unnoticed() {
    let mut scene = Scene::start(&format!("{FULL}[tools.shell]\nkill_grace = \"100ms\"\n")).await;
    // Sessions and groups of their own, deaf to signals, orphaned, and a grandchild of each.
    let command = "\
        setsid sh -c 'sleep 1000 & echo > one; wait' & \
        nohup sh -c 'sleep 1000 & echo > two; wait' >/dev/null 2>&1 & \
        (setsid nohup sh -c 'trap \"\" TERM HUP INT; sleep 1000 & echo > three; \
            while :; do sleep 0.05; done' >/dev/null 2>&1 </dev/null &) ; \
        until test -e one -a -e two -a -e three; do sleep 0.02; done; echo ready; wait";
    scene.model.push(Answer::calling("shell", &json!({ "command": command })));
    scene.submit("s1", "Run it.").await;
    let seen = scene
        .client
        .watch_until(|message| message["chunk"].as_str().is_some_and(|c| c.contains("ready")))
        .await;
    let call_id = of_type(&seen, "tool.started")[0]["call_id"].as_str().unwrap().to_owned();
    started(&call_id, 7).await;
    scene.crash().await;
    let closed = scene.end().await;
    assert_eq!(closed.last().unwrap()["reason"], "crashed");
    assert_eq!(marked(&call_id), [""; 0], "nobody is left once the turn is closed");
    scene.check().await;
}

/// Not even when the launcher was killed with it: the next daemon finds them by their mark.
#[tokio::test]
async fn no_tool_outlives_its_daemon_and_its_launcher() {
    let mut scene = Scene::start(&format!("{FULL}[tools.shell]\nkill_grace = \"100ms\"\n")).await;
    let command = "echo $PPID > launcher; setsid sleep 1000 & sleep 1000 & echo ready; wait";
    scene.model.push(Answer::calling("shell", &json!({ "command": command })));
    scene.submit("s1", "Run it.").await;
    let seen = scene
        .client
        .watch_until(|message| message["chunk"].as_str().is_some_and(|c| c.contains("ready")))
        .await;
    let call_id = of_type(&seen, "tool.started")[0]["call_id"].as_str().unwrap().to_owned();
    let launcher = std::fs::read_to_string(scene.daemon.work_dir().join("launcher")).unwrap();
    let launcher = rustix::process::Pid::from_raw(launcher.trim().parse().unwrap()).unwrap();
    // Stopped first, so that the daemon does not notice and the launcher does not clean up.
    scene.daemon.signal(rustix::process::Signal::STOP);
    rustix::process::kill_process(launcher, rustix::process::Signal::KILL).unwrap();
    scene.daemon.kill();
    started(&call_id, 3).await;
    scene.daemon.restart().await;
    scene.client = scene.daemon.client().await;
    assert_eq!(marked(&call_id), [""; 0]);
    let state = scene.state().await;
    assert_eq!(state["state"], "interrupted");
    let log = scene.client.events(&scene.session).await;
    let ends: Vec<&Value> = log.iter().filter(|event| is_turn_end(event)).collect();
    assert_eq!(ends.len(), 1);
    assert_eq!(ends[0]["reason"], "crashed");
    wait::until("the reaping", async || {
        let left = marked(&call_id);
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
}

/// What a reload changes of a tool holds for sessions that are loaded, from their next turn on.
#[tokio::test]
async fn a_reload_reaches_loaded_sessions() {
    let mut scene = Scene::start(FULL).await;
    scene.model.push(Answer::calling("shell", &json!({ "command": "echo first" })));
    scene.model.push(Answer::saying("Done."));
    assert_eq!(statuses(&scene.turn("s1", "First.").await), ["ok"]);
    let config = format!("{}{FULL}[tools.shell]\ntimeout = \"300ms\"\n", scene.model.config());
    scene.daemon.configure(&config);
    scene.client.call("daemon/reload", json!({})).await;
    scene.model.push(Answer::calling("shell", &json!({ "command": "sleep 300" })));
    scene.model.push(Answer::saying("Done."));
    let seen = scene.turn("s2", "Second.").await;
    let result = of_type(&seen, "tool.completed")[0];
    assert!(result["item"]["content"].to_string().contains("within 300 ms"), "{result}");
}
