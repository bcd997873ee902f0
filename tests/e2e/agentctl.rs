//! The command line against a real daemon: what a person types first.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Command, Output, Stdio};

use harness::daemon::{Daemon, program};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

fn agentctl(daemon: &Daemon, arguments: &[&str]) -> Command {
    surrounded(Command::new(program("agentctl")), daemon, arguments)
}

/// The same in the foreground of the terminal that is its standard input.
fn agentctl_at_a_terminal(daemon: &Daemon, arguments: &[&str]) -> Command {
    let mut command = Command::new("setsid");
    command.args(["--ctty", "--wait"]).arg(program("agentctl"));
    surrounded(command, daemon, arguments)
}

fn surrounded(mut command: Command, daemon: &Daemon, arguments: &[&str]) -> Command {
    command
        .arg("--socket")
        .arg(daemon.socket())
        .arg("--no-start")
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", daemon.path("home"))
        .env("TERM", "dumb")
        .current_dir(daemon.work_dir())
        .stdin(Stdio::null());
    command
}

fn run(daemon: &Daemon, arguments: &[&str]) -> Output {
    agentctl(daemon, arguments).output().expect("agentctl was built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const WISH: &str = "read notes.txt and then write out.txt with hello";

/// Both ends of a terminal.
fn terminal() -> (File, OwnedFd) {
    let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("terminals are there");
    grantpt(&keyboard).expect("it is ours");
    unlockpt(&keyboard).expect("it is ours");
    let name = ptsname(&keyboard, Vec::new()).expect("it has a name");
    let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY;
    let screen = rustix::fs::open(&name, flags, rustix::fs::Mode::empty());
    (File::from(keyboard), screen.expect("the name leads to it"))
}

/// What appears on the screen; nothing after a while of silence, `None` when the program ended.
fn read_while(mut keyboard: &File) -> Option<String> {
    let silence = rustix::event::Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
    let mut waiting = [PollFd::new(keyboard, PollFlags::IN)];
    if poll(&mut waiting, Some(&silence)).expect("a terminal can be waited for") == 0 {
        return Some(String::new());
    }
    let mut bytes = [0; 4_096];
    match keyboard.read(&mut bytes) {
        Ok(count @ 1..) => Some(text(&bytes[..count])),
        Ok(0) | Err(_) => None,
    }
}

/// The main job: a turn that reads a file, asks at the terminal before it writes one, writes it
/// and completes.
#[tokio::test]
async fn run_asks_at_the_terminal_and_completes() {
    let daemon = Daemon::start("").await;
    daemon.write_file("notes.txt", "a note\n");
    let (mut keyboard, screen) = terminal();
    let mut child = agentctl_at_a_terminal(&daemon, &["run", "-m", "demo/demo", WISH])
        .stdin(screen.try_clone().expect("there are descriptors"))
        .stdout(screen.try_clone().expect("there are descriptors"))
        .stderr(screen)
        .spawn()
        .expect("agentctl was built");
    let mut shown = String::new();
    let mut presses = 0;
    while let Some(more) = read_while(&keyboard) {
        shown.push_str(&more);
        // A key that was pressed before the question was whole does not count.
        if more.is_empty() && shown.contains("y = yes") {
            presses += 1;
            assert!(presses < 50, "it does not take a yes: {shown}");
            assert!(presses > 1 || !daemon.work_dir().join("out.txt").exists(), "asked first");
            keyboard.write_all(b"y").expect("it reads");
        }
    }
    assert_eq!(child.wait().expect("it ran").code(), Some(0), "{shown}");
    assert!(shown.contains("write out.txt") && shown.contains("completed"), "{shown}");
    let written = std::fs::read_to_string(daemon.work_dir().join("out.txt")).expect("written");
    assert_eq!(written.trim_end(), "hello");
}

/// Without a terminal nobody can be asked: the call is denied, said, and exit 4.
#[tokio::test]
async fn run_without_a_terminal_denies_and_says_how_to_allow() {
    let daemon = Daemon::start("").await;
    daemon.write_file("notes.txt", "a note\n");
    let output = run(&daemon, &["run", "-m", "demo/demo", WISH]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("--mode") || said.contains("--allow"), "{said}");
    assert!(!daemon.work_dir().join("out.txt").exists());
    let output = run(&daemon, &["run", "-m", "demo/demo", "--mode", "auto-edit", WISH]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(daemon.work_dir().join("out.txt").exists());
}

/// d11: a prompt in a JSON mode leaves stdout JSON, the denial is in it, and the exit says so.
#[tokio::test]
async fn d11_prompt_text_corrupts_machine_output() {
    let daemon = Daemon::start("").await;
    let output = run(&daemon, &["run", "-m", "demo/demo", "--json", "write out.txt with hello"]);
    assert_eq!(output.status.code(), Some(4));
    let events: Vec<Value> = text(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("every line is JSON"))
        .collect();
    let denied = events.iter().find(|event| event["type"] == "permission.resolved");
    assert_eq!(denied.expect("the denial is told")["decision"], "deny");
    assert_eq!(events.last().expect("events")["type"], "turn.completed");
}

/// The listings agree with what was done, and a model that is not there is explained.
#[tokio::test]
async fn listings_and_mistakes() {
    let daemon = Daemon::start("").await;
    let output = run(&daemon, &["run", "think"]);
    let said = text(&output.stderr);
    assert_ne!(output.status.code(), Some(0));
    assert!(said.contains("demo/demo"), "it says what to do: {said}");
    assert_eq!(run(&daemon, &["run", "-m", "demo/demo", "think"]).status.code(), Some(0));
    let listed = run(&daemon, &["ls", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).expect("JSON");
    assert!(listed.to_string().contains("think"), "{listed}");
    let shown = run(&daemon, &["show"]);
    assert!(text(&shown.stdout).contains("think"), "the last session of this directory");
    let missing = run(&daemon, &["show", "ses_nothing"]);
    assert_ne!(missing.status.code(), Some(0));
    assert!(text(&missing.stderr).contains("ses_nothing"));
}
