//! `shell`, through the real launcher.
//!
//! Receives nothing; hands verdicts to the test runner.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentd::clock::Clock;
use agentd::launcher::{self, Mark};
use agentd::tools::end_orphans;
use agentd_protocol::id::{CallId, SessionId};
use agentd_protocol::item::ToolStatus;
use futures_util::FutureExt;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::workspace::{Workspace, error, ok, text};

/// Whether a process is there and no zombie.
pub(crate) fn lives(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|stat| stat.rsplit_once(')').map(|(_, rest)| !rest.starts_with(" Z")))
        .unwrap_or(false)
}

/// Waits for a state, without a bound of its own: the runner has one.
pub(crate) async fn until(mut state: impl FnMut() -> bool) {
    while !state() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn impatient() -> Workspace {
    Workspace::new().with(|context| {
        let mut config = (*context.config).clone();
        config.shell.kill_grace = Duration::from_millis(200);
        context.config = Arc::new(config);
    })
}

#[tokio::test]
async fn both_streams_come_in_order_and_marked() {
    let ws = Workspace::new();
    let output = ws.call("shell", &json!({ "command": "echo a; echo b >&2; exit 3" })).await;
    assert_eq!(error(&output), "exit code 3\na\n[stderr]\nb\n");
    let output = ws.call("shell", &json!({ "command": "printf x >&2" })).await;
    assert_eq!(ok(&output), "exit code 0\n[stderr]\nx");
    let output = ws.call("shell", &json!({ "command": "true" })).await;
    assert_eq!(ok(&output), "exit code 0\n[no output]");
    let output = ws.call("shell", &json!({ "command": "kill -9 $$" })).await;
    assert_eq!(error(&output), "killed by signal 9\n[no output]");
}

#[tokio::test]
async fn it_runs_where_it_is_told() {
    let ws = Workspace::new();
    ws.put("sub/a", "");
    let cwd = ws.context.cwd.display();
    let output = ws.call("shell", &json!({ "command": "pwd; echo $PWD" })).await;
    assert_eq!(ok(&output), format!("exit code 0\n{cwd}\n{cwd}\n"));
    let output = ws.call("shell", &json!({ "command": "pwd", "cwd": "sub" })).await;
    assert_eq!(ok(&output), format!("exit code 0\n{cwd}/sub\n"));
    let output = ws.call("shell", &json!({ "command": "pwd", "cwd": "none" })).await;
    assert!(error(&output).contains(&format!("{cwd}/none does not exist")), "{}", text(&output));
}

#[tokio::test]
async fn c1_a_quiet_child_in_the_background_holds_nothing_up() {
    let ws = Workspace::new();
    for command in [
        "sleep 300 & echo $! >pid; echo done",
        "sleep 300 </dev/null >/dev/null & echo $! >pid; echo done",
    ] {
        let output = ws.call("shell", &json!({ "command": command })).await;
        let text = ok(&output);
        assert!(text.starts_with("exit code 0\ndone\n"), "{text}");
        assert!(text.contains("1 process of this command is still running"), "{text}");
        let pid = String::from_utf8(ws.get("pid")).expect("a number");
        assert!(lives(pid.trim()), "what was left in the background goes on");
    }
    let pid = String::from_utf8(ws.get("pid")).expect("a number");
    drop(ws);
    // The tools are gone, and with them the pipe that was the child's life.
    until(|| !lives(pid.trim())).await;
}

#[tokio::test]
async fn c2_a_talking_child_in_the_background_holds_nothing_up() {
    let ws = Workspace::new();
    let command = "(echo $BASHPID >pid; while :; do echo t; done) & sleep 0.2; echo done";
    let output = ws.call("shell", &json!({ "command": command })).await;
    assert!(ok(&output).contains("still running"), "{}", text(&output));
    let pid = String::from_utf8(ws.get("pid")).expect("a number");
    // It writes on and is not blocked: its time of work grows.
    let work = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).expect("it lives");
        let fields: Vec<&str> = stat.split(' ').collect();
        fields[13].parse::<u64>().expect("a number") + fields[14].parse::<u64>().expect("a number")
    };
    let before = work();
    until(|| work() > before).await;
}

#[tokio::test]
async fn c3_a_child_in_its_own_session_ends_with_the_time() {
    let ws = impatient();
    let command = "setsid sh -c 'echo $$ >pid; exec sleep 300' & wait";
    let arguments = json!({ "command": command, "timeout_ms": 500 });
    let output = ws.call("shell", &arguments).await;
    assert!(error(&output).contains("did not end within 500 ms"), "{}", text(&output));
    let pid = String::from_utf8(ws.get("pid")).expect("a number");
    assert!(!lives(pid.trim()), "the child in another session was ended too");
}

#[tokio::test]
async fn c5_whoever_ignores_sigterm_is_killed() {
    let ws = impatient();
    let command = r#"bash -c 'trap "" TERM; (trap "" TERM; echo $BASHPID >pid; sleep 300; sleep 300) & sleep 300; sleep 300'"#;
    let arguments = json!({ "command": command, "timeout_ms": 300 });
    let output = ws.call("shell", &arguments).await;
    assert!(error(&output).contains("did not end within 300 ms"), "{}", text(&output));
    assert!(!text(&output).contains("still there"), "{}", text(&output));
    let pid = String::from_utf8(ws.get("pid")).expect("a number");
    assert!(!lives(pid.trim()));
    // There is a bound even if none was asked for.
    assert_eq!(ws.context.config.shell.timeout, Duration::from_mins(2));
}

#[tokio::test]
async fn c7_there_is_no_terminal_to_ask_at() {
    let ws = Workspace::new();
    // Fields 6 and 7: the session and the terminal. (The test's own session may be outside of its
    // process namespace, where its number is 0.)
    let own = std::fs::read_to_string("/proc/self/stat").expect("procfs is there");
    let ours = own.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(3));
    let command = "cut -d' ' -f6,7 /proc/$$/stat; (read x </dev/tty) 2>/dev/null || echo refused";
    let output = ws.call("shell", &json!({ "command": command })).await;
    let lines: Vec<&str> = ok(&output).lines().collect();
    let (session, terminal) = lines[1].split_once(' ').expect("two fields");
    assert_ne!(Some(session), ours, "it runs in a session of its own");
    assert_eq!(terminal, "0");
    assert_eq!(lines[2], "refused");
    // Standard input is at its end, and an editor does nothing, whatever a profile says.
    let ws = ws.with(|context| {
        let mut env = (*context.env).clone();
        env.insert("EDITOR".to_owned(), "sleep 300; true".to_owned());
        env.insert("GIT_EDITOR".to_owned(), "sleep 300; true".to_owned());
        env.insert("GIT_CONFIG_GLOBAL".to_owned(), "/dev/null".to_owned());
        context.env = Arc::new(env);
    });
    let command = "cat; git init -q . && git -c user.name=a -c user.email=a@b commit --allow-empty";
    let output = ws.call("shell", &json!({ "command": command })).await;
    assert!(error(&output).contains("empty commit message"), "{}", text(&output));
}

#[tokio::test]
async fn c9_endless_output_needs_no_memory() {
    let ws = Workspace::new();
    // Far more than is kept in memory or on disk.
    let command = "yes | head -c 70000000";
    let output = ws.call("shell", &json!({ "command": command })).await;
    let shown = ok(&output);
    assert!(shown.len() <= 51 * 1024, "{} bytes", shown.len());
    let full = output.full_output.as_ref().expect("it was cut");
    assert!(full.bytes <= 64 * 1024 * 1024);
    assert_eq!(std::fs::metadata(&full.path).expect("it is kept").len(), full.bytes);
    let note = shown.lines().find(|line| line.starts_with('[')).expect("a note");
    let dropped: u64 =
        note[1..].split(' ').next().and_then(|n| n.parse().ok()).expect("the dropped bytes");
    let around = shown.len() - "exit code 0\n".len() - note.len() - 1;
    assert_eq!(dropped + around as u64, 70_000_000);
    // A command that never ends is ended, however much it says.
    let ws = impatient();
    let arguments = json!({ "command": "cat /dev/zero", "timeout_ms": 1_500 });
    let output = ws.call("shell", &arguments).await;
    assert!(error(&output).contains("left out"));
}

#[tokio::test]
async fn c11_the_end_of_long_output_is_kept() {
    let ws = Workspace::new();
    let command = "seq 1 200000; echo FAIL-X >&2; exit 3";
    let output = ws.call("shell", &json!({ "command": command })).await;
    let shown = error(&output);
    assert!(shown.starts_with("exit code 3\n1\n2\n3\n"));
    assert!(
        shown.ends_with("199999\n200000\n[stderr]\nFAIL-X\n"),
        "{:?}",
        &shown[shown.len() - 60..]
    );
    let full = output.full_output.as_ref().expect("it was cut");
    assert!(shown.contains(&format!("all of it is in {}", full.path)));
    let all = std::fs::read_to_string(&full.path).expect("it is kept");
    assert!(all.starts_with("1\n2\n") && all.ends_with("200000\n[stderr]\nFAIL-X\n"));
    // The model can read it, though it is outside the workspace.
    let output =
        ws.call("read", &json!({ "path": full.path, "offset": 100_000, "limit": 1 })).await;
    assert!(ok(&output).starts_with("100000\t100000\n"), "{}", text(&output));
}

#[tokio::test]
async fn c14_a_deleted_directory_is_named() {
    let ws = Workspace::new();
    ws.put("../other", "text");
    std::fs::remove_dir_all(&ws.context.cwd).expect("it can be removed");
    for (tool, arguments) in [
        ("shell", json!({ "command": "echo hi" })),
        ("read", json!({ "path": "a" })),
        ("list", json!({})),
    ] {
        let output = ws.call(tool, &arguments).await;
        assert_eq!(output.status, ToolStatus::Invalid);
        let cwd = ws.context.cwd.display().to_string();
        assert!(text(&output).contains(&cwd), "{tool}: {}", text(&output));
        assert!(text(&output).contains("does not exist"), "{tool}: {}", text(&output));
    }
    // Absolute paths are understood all the same, and it heals.
    let other = ws.outside().join("other");
    ws.tools.prepare("read", &json!({ "path": other }), &ws.context).expect("a path");
    std::fs::create_dir(&ws.context.cwd).expect("it can be made again");
    assert_eq!(ok(&ws.call("shell", &json!({ "command": "echo hi" })).await), "exit code 0\nhi\n");
    // Removed by the command itself, and between the judgement and the run.
    ws.call("shell", &json!({ "command": "rm -rf \"$PWD\"" })).await;
    let output = ws.call("shell", &json!({ "command": "echo hi" })).await;
    assert_eq!(output.status, ToolStatus::Invalid);
}

#[tokio::test]
async fn an_interrupt_ends_everything_and_says_so() {
    let ws = impatient();
    let command = "sleep 300 & echo $! >pid; echo started; wait";
    let prepare = ws.prepare("shell", &json!({ "command": command })).expect("a call");
    let approved = ws.approve(&prepare);
    let cancel = CancellationToken::new();
    let (run, mut live) = ws.start(&cancel);
    let canceller = async {
        let chunk = live.recv().await.expect("live output");
        assert_eq!(chunk.chunk, "started\n");
        cancel.cancel();
    };
    let (output, ()) = tokio::join!(prepare.tool.run(&approved, run), canceller);
    assert_eq!(output.status, ToolStatus::Interrupted);
    assert_eq!(text(&output), "interrupted; the command was ended\nstarted\n");
    let pid = String::from_utf8(ws.get("pid")).expect("a number");
    assert!(!lives(pid.trim()));
}

#[tokio::test]
async fn an_aborted_call_leaves_nothing_behind() {
    let ws = impatient();
    let command = "trap '' TERM; echo $$ >pid; echo started; sleep 300; sleep 300";
    let prepare = ws.prepare("shell", &json!({ "command": command })).expect("a call");
    let approved = ws.approve(&prepare);
    let (run, mut live) = ws.start(&CancellationToken::new());
    tokio::select! {
        _ = prepare.tool.run(&approved, run) => panic!("it waits"),
        chunk = live.recv() => assert!(chunk.is_some()),
    }
    let pid = String::from_utf8(ws.get("pid")).expect("a number");
    until(|| !lives(pid.trim())).await;
}

#[tokio::test]
async fn the_environment_is_the_sessions_and_marked() {
    let ws = Workspace::new().with(|context| {
        let mut env = (*context.env).clone();
        env.insert("FROM_SESSION".to_owned(), "yes".to_owned());
        context.env = Arc::new(env);
    });
    let output = ws.call("shell", &json!({ "command": "env" })).await;
    let env: BTreeMap<&str, &str> =
        ok(&output).lines().filter_map(|line| line.split_once('=')).collect();
    assert_eq!(env["FROM_SESSION"], "yes");
    assert_eq!(env["PAGER"], "cat");
    assert!(env["AGENTD_CALL_ID"].starts_with("call_"));
    assert!(!env.contains_key("HOME"), "nothing of the daemon's own comes through");
    assert_eq!(Path::new(env["PWD"]), ws.context.cwd);
}

#[tokio::test]
async fn the_end_of_a_session_ends_what_it_left_behind() {
    let ws = Workspace::new();
    let command = "sleep 300 >&- 2>&- & echo $! >pid; echo $AGENTD_CALL_ID >id";
    ws.call("shell", &json!({ "command": command })).await;
    let pid = String::from_utf8(ws.get("pid")).expect("a number");
    let call = CallId::from(String::from_utf8(ws.get("id")).expect("an id").trim());
    let call = [Mark::of_call(&call)];
    assert_eq!(launcher::survivors(&call), 1);
    ws.tools.background().forget(&SessionId::from("ses_other"));
    assert!(lives(pid.trim()));
    ws.tools.background().forget(&ws.context.session_id);
    until(|| launcher::survivors(&call) == 0).await;
    assert!(!lives(pid.trim()));
}

#[tokio::test]
async fn whoever_lost_its_launcher_is_found_by_its_mark_and_killed() {
    let ws = Workspace::new();
    let command = "echo $AGENTD_CALL_ID >id; echo $$ >pid; kill -9 $PPID; sleep 300; sleep 300";
    let output = ws.call("shell", &json!({ "command": command })).await;
    assert!(error(&output).contains("ended without a word"), "{}", text(&output));
    let [id, pid] = ["id", "pid"].map(|name| String::from_utf8(ws.get(name)).expect("text"));
    let clock = Clock::manual();
    let call = [CallId::from(id.trim())];
    // Of others nothing is left, and nothing is waited for.
    let none = [CallId::from("call_none")];
    assert!(end_orphans(&none, Some("dmn_none"), Duration::ZERO, &clock).await);
    assert!(lives(pid.trim()));
    // By itself it does not end; once its time is over, it is ended.
    let mut ended = std::pin::pin!(end_orphans(&call, None, Duration::ZERO, &clock));
    until(|| {
        clock.advance(Duration::from_millis(100));
        !lives(pid.trim()) || ended.as_mut().now_or_never().is_some()
    })
    .await;
    assert!(!lives(pid.trim()));
}

/// The processes with this variable.
fn bearing(variable: &str) -> Vec<String> {
    let pids = std::fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| {
        let pid = entry.ok()?.file_name().into_string().ok()?;
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        environment.split(|byte| *byte == 0).any(|v| v == variable.as_bytes()).then_some(pid)
    });
    pids.collect()
}

#[tokio::test]
async fn a_launcher_waits_for_the_next_command_and_ends_with_its_daemon() {
    let id = "dmn_waits";
    let ws = Workspace::new().of_daemon(id);
    let launchers = [Mark::of_daemon(id)];
    assert_eq!(launcher::survivors(&launchers), 0, "nobody asked for a command");
    let parent = || async {
        let output = ws.call("shell", &json!({ "command": "echo $PPID" })).await;
        ok(&output).lines().nth(1).expect("a number").to_owned()
    };
    let first = parent().await;
    until(|| launcher::survivors(&launchers) == 1).await;
    // It is another one for each command, and one that died is no harm.
    let second = parent().await;
    assert_ne!(first, second);
    until(|| launcher::survivors(&launchers) == 1).await;
    let ready = bearing(&format!("{}={id}", launcher::DAEMON_ID));
    assert_eq!(launcher::kill_survivors(&launchers), 1);
    until(|| ready.iter().all(|pid| !lives(pid))).await;
    assert_ne!(parent().await, second);
    drop(ws);
    until(|| launcher::survivors(&launchers) == 0).await;
}

#[test]
fn a_launcher_is_for_nobody_else() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_agentd"))
        .arg(launcher::FLAG)
        .output()
        .expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stderr, b"agentd --launcher: for agentd's own use\n");
}
