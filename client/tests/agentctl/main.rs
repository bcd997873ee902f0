//! The program as a user or a script meets it: what it prints where, and its exit codes.
//!
//! The daemon is a few lines of a thread that plays a script, so each test says exactly what
//! happened; the real daemon is met in the workspace's end-to-end tests.
//!
//! Receives what `agentctl` sends and prints; hands nothing on.

mod script;

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use crate::script::{
    Daemon, answer, asked, denied, ended, event, reset, server, started, streamed,
};

fn agentctl(socket: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_agentctl"));
    command.arg("--no-start").arg("--socket").arg(socket).args(arguments);
    command.env_remove("AGENTD_SOCKET").stdin(Stdio::null());
    command
}

fn run(daemon: &Daemon, arguments: &[&str]) -> (i32, String, String) {
    let output = agentctl(daemon.socket(), arguments).output().expect("it runs");
    outcome(output)
}

fn outcome(output: Output) -> (i32, String, String) {
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code().expect("an exit code"), text(output.stdout), text(output.stderr))
}

#[test]
fn a_run_prints_answers_to_stdout_and_all_else_to_stderr() {
    let daemon = Daemon::new();
    daemon.after_submit(vec![
        started(),
        streamed(0, "I re"),
        answer(1, "I read it."),
        event(json!({
            "type": "tool.called", "call_id": "call_1", "item_id": "item_1", "name": "read",
            "arguments": {}
        })),
        event(json!({
            "type": "tool.started", "call_id": "call_1", "summary": "read a.txt", "risk": "read"
        })),
        answer(2, "Done.\n"),
        ended("turn.completed", json!({})),
    ]);
    let (code, stdout, stderr) = run(&daemon, &["run", "look", "at", "it"]);
    assert_eq!((code, stdout.as_str()), (0, "I read it.\nDone.\n"));
    assert!(stderr.contains("● read a.txt") && stderr.contains("completed"), "{stderr}");
    let submit = daemon.last("session/submit");
    assert_eq!(submit["submission"]["op"]["content"], "look at it");
    assert_eq!(
        (&submit["on_disconnect"], &submit["on_prompt"]),
        (&json!("interrupt"), &json!("deny"))
    );
    let create = daemon.last("session/create");
    assert_eq!(create["cwd"], std::env::current_dir().unwrap().to_str().unwrap());
    assert!(create["env"]["PATH"].is_string());
}

#[test]
fn a_pipe_never_gets_half_an_answer_twice() {
    let daemon = Daemon::new();
    daemon.after_submit(vec![
        started(),
        streamed(0, "The answ"),
        reset(),
        answer(1, "The whole answer."),
        ended("turn.completed", json!({})),
    ]);
    let (code, stdout, _) = run(&daemon, &["run", "x"]);
    assert_eq!((code, stdout.as_str()), (0, "The whole answer.\n"));
}

#[test]
fn exit_codes_say_how_the_turn_ended() {
    let failure = json!({ "error": {
        "code": "quota_exhausted", "message": "the plan is used up", "retryable": false,
        "attempts": 1
    } });
    for (kind, fields, code) in [
        ("turn.completed", json!({}), 0),
        ("turn.failed", failure, 1),
        ("turn.exhausted", json!({ "limit": "iterations" }), 3),
        ("turn.aborted", json!({ "reason": "interrupted" }), 130),
        ("turn.aborted", json!({ "reason": "crashed" }), 1),
    ] {
        let daemon = Daemon::new();
        daemon.after_submit(vec![started(), ended(kind, fields)]);
        assert_eq!(run(&daemon, &["run", "x"]).0, code, "{kind}");
    }
}

#[test]
fn a_denial_because_nobody_could_be_asked_is_4_and_says_how_to_allow() {
    let daemon = Daemon::new();
    let script = [
        started(),
        asked("shell", &json!({ "command": "make" })),
        denied(),
        ended("turn.completed", json!({})),
    ];
    daemon.after_submit(script.to_vec());
    for format in [&[][..], &["--json"]] {
        let (code, _, stderr) = run(&daemon, &[&["run", "x"], format].concat());
        assert_eq!(code, 4);
        assert!(stderr.contains("--allow"), "{stderr}");
    }
}

#[test]
fn rules_answer_for_nobody() {
    for (rule, decision, code) in [("shell:make *", "allow", 0), ("shell:cargo *", "deny", 4)] {
        let daemon = Daemon::new();
        daemon.after_submit(vec![started(), asked("shell", &json!({ "command": "make check" }))]);
        daemon.after_reply(vec![ended("turn.completed", json!({}))]);
        assert_eq!(run(&daemon, &["run", "--allow", rule, "x"]).0, code, "{rule}");
        assert_eq!(daemon.last("session/submit")["on_prompt"], "wait");
        let reply = daemon.last("permission/reply");
        assert_eq!((&reply["decision"], &reply["scope"]), (&json!(decision), &json!("once")));
    }
}

#[test]
fn json_is_the_events_as_they_came() {
    let daemon = Daemon::new();
    let mut strange = ended("x", json!({}));
    strange["type"] = json!("of.the.future");
    let script = vec![
        started(),
        streamed(0, "Hi"),
        strange,
        answer(1, "Hi"),
        ended("turn.completed", json!({})),
    ];
    daemon.after_submit(script);
    for (arguments, progress) in
        [(&["run", "--json", "x"][..], false), (&["run", "--json", "--progress", "x"], true)]
    {
        let (code, stdout, stderr) = run(&daemon, arguments);
        assert_eq!((code, stderr.as_str()), (0, ""));
        let lines = stdout.lines().map(|line| serde_json::from_str(line).unwrap());
        let types: Vec<String> = lines
            .map(|line: serde_json::Value| line["type"].as_str().unwrap().to_owned())
            .collect();
        let mut expected = vec!["turn.started"];
        expected.extend(progress.then_some("message.delta"));
        expected.extend(["of.the.future", "message.completed", "turn.completed"]);
        assert_eq!(types, expected);
    }
}

#[test]
fn without_a_model_it_says_what_to_do_and_leaves_no_session_behind() {
    let daemon = Daemon::new();
    daemon.refuse(
        "session/submit",
        json!({
            "code": -32004, "message": "no model is configured",
            "data": { "kind": "no_provider", "known_models": ["demo/demo"] }
        }),
    );
    let (code, stdout, stderr) = run(&daemon, &["run", "x"]);
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(stderr.contains("config.toml") && stderr.contains("--model demo/demo"), "{stderr}");
    assert!(stderr.lines().count() <= 5, "{stderr}");
    assert_eq!(daemon.last("session/delete")["session_id"], "ses_1");
}

#[test]
fn what_cannot_be_meant_is_2_before_anything_is_connected() {
    let nowhere = Path::new("/nonexistent/s");
    for arguments in [
        &["run"][..],
        &["run", "--max-iterations", "0", "x"],
        &["run", "--mode", "yolo", "x"],
        &["run", "--progress", "x"],
        &["run", "--allow", "shell:", "x"],
        &["frobnicate"],
        &["send", "ses_1", "--queue", "--steer", "x"],
    ] {
        let output = agentctl(nowhere, arguments).output().unwrap();
        assert_eq!(outcome(output).0, 2, "{arguments:?}");
    }
}

#[test]
fn without_a_daemon_it_is_5() {
    for arguments in [&["ls"][..], &["status"], &["run", "x"], &["shutdown"]] {
        let (code, stdout, stderr) =
            outcome(agentctl(Path::new("/nonexistent/s"), arguments).output().unwrap());
        assert_eq!((code, stdout.as_str()), (5, ""), "{arguments:?}");
        assert!(stderr.contains("/nonexistent/s"), "{stderr}");
    }
}

#[test]
fn listings_are_tables_or_json() {
    let daemon = Daemon::new();
    let (code, stdout, _) = run(&daemon, &["ls", "-a"]);
    assert_eq!(code, 0);
    let lines: Vec<_> = stdout.lines().collect();
    assert!(lines[0].trim_start().starts_with("SESSION"), "{stdout}");
    assert!(lines[1].contains("ses_1") && lines[1].contains("idle"), "{stdout}");
    let (_, stdout, _) = run(&daemon, &["ls", "--json"]);
    let sessions: Vec<serde_json::Value> = serde_json::from_str(&stdout).unwrap();
    assert_eq!(sessions[0]["session_id"], "ses_1");
    let cwd = std::env::current_dir().unwrap();
    assert_eq!(daemon.last("session/list")["cwd"], cwd.to_str().unwrap());
}

#[test]
fn an_older_daemon_is_told_and_used_where_it_may_not_be_replaced() {
    let daemon = Daemon::new();
    daemon.answer("initialize", server("0.0.1"));
    let (code, stdout, stderr) = run(&daemon, &["ls", "-a"]);
    assert_eq!(code, 0);
    assert!(stdout.contains("ses_1") && stderr.contains("0.0.1"), "{stderr}");
}

#[test]
fn a_closed_pipe_is_no_failure() {
    let daemon = Daemon::new();
    let mut child = agentctl(daemon.socket(), &["schema"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn ctrl_c_interrupts_and_waits_for_the_end() {
    let daemon = Daemon::new();
    daemon.after_submit(vec![started()]);
    daemon.after_interrupt(vec![ended("turn.aborted", json!({ "reason": "interrupted" }))]);
    let child = agentctl(daemon.socket(), &["run", "x"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    daemon.wait_for("session/subscribe");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let (code, _, stderr) = outcome(child.wait_with_output().unwrap());
    assert_eq!(code, 130, "{stderr}");
    let op = &daemon.last("session/submit")["submission"]["op"];
    assert_eq!((&op["type"], &op["expected_turn_id"]), (&json!("interrupt"), &json!("turn_1")));
}

#[test]
fn attach_replays_and_sends_what_is_typed() {
    let daemon = Daemon::new();
    daemon.replay(vec![answer(1, "Earlier.")]);
    daemon.after_submit(vec![
        started(),
        answer(2, "Later."),
        ended("turn.completed", json!({})),
        json!({ "type": "subscription.closed", "reason": "deleted" }),
    ]);
    let mut child = agentctl(daemon.socket(), &["attach", "ses_1"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    daemon.wait_for("session/subscribe");
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"go on\n").unwrap();
    drop(stdin);
    let (code, stdout, stderr) = outcome(child.wait_with_output().unwrap());
    assert_eq!((code, stdout.as_str()), (0, "Earlier.\nLater.\n"), "{stderr}");
    assert_eq!(daemon.last("session/submit")["submission"]["op"]["content"], "go on");
}

#[test]
fn a_prompt_where_a_command_stands_is_told_where_it_goes() {
    let nowhere = Path::new("/nonexistent/agentd.sock");
    let told = |arguments: &[&str]| {
        let (code, _, stderr) = outcome(agentctl(nowhere, arguments).output().expect("it runs"));
        assert_eq!(code, 2, "{stderr}");
        stderr
    };
    assert!(told(&["fix the build"]).contains("agentctl run '"));
    assert!(told(&["attach-it"]).contains("similar"), "what resembles a command is still named");
    assert!(!told(&["config", "reset"]).contains("agentctl run '"));
    assert!(told(&["send", "ses_1"]).contains("agentctl send SESSION 'TEXT'"));
    assert!(told(&[]).contains("agentctl run 'TEXT'"));
}
