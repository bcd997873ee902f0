//! The interactive interface in front of a real terminal: what a person sees and presses.
//!
//! The screens are snapshots. Times, ids and the spinner's pictures are masked; everything else is
//! the same in every run, at every width.
//!
//! Receives the harness; hands out screens.

use std::io::Write as _;
use std::process::Command;

use harness::{Answer, Daemon, Gate, Terminal, wait};
use rustix::process::Signal;
use serde_json::json;

use crate::scene::{FULL, Scene};

const ESC: &str = "\x1b";
const CTRL_C: &str = "\x03";

/// A screen with what differs between runs masked.
fn masked(seen: &str) -> String {
    let mut text = String::new();
    for row in seen.lines() {
        let words: Vec<String> = row.split(' ').map(mask).collect();
        let row = words.join(" ");
        // A duration is a number and a unit.
        let row = ["#.# s", "# ms", "# s", "# min"]
            .iter()
            .fold(row, |row, time| row.replace(time, "TIME"));
        text.push_str(row.trim_end());
        text.push('\n');
    }
    text
}

fn mask(word: &str) -> String {
    if word.starts_with("ses_") {
        return "ses_1".to_owned();
    }
    if ["◐", "◓", "◑", "◒"].contains(&word) {
        return "◌".to_owned();
    }
    // Whole and tenths of numbers, which may be times.
    let is_number = !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    match (is_number, word.split_once('.')) {
        (true, Some((whole, _))) if !whole.is_empty() => "#.#".to_owned(),
        (true, None) => "#".to_owned(),
        _ => word.to_owned(),
    }
}

/// A scene with the interface in front of its session.
async fn attached(scene: &Scene, columns: u16, rows: u16) -> Terminal {
    let terminal = scene.daemon.agentctl_at_a_terminal(&["attach", &scene.session], columns, rows);
    terminal.shows("test/model").await;
    terminal
}

/// Does something when it is dropped, also by a failed assertion.
struct Ended<F: Fn()>(F);

impl<F: Fn()> Drop for Ended<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Says why a test did nothing, also where the output of tests that pass is not shown.
fn skipped(why: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("skipped: {name}: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).expect("somebody reads");
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

/// The first minutes: an input, an answer in Markdown, a prompt that is answered by a key.
#[tokio::test]
async fn a_turn_with_a_prompt_answered_by_a_key() {
    for (columns, rows) in [(100, 40), (40, 40), (200, 40)] {
        let mut scene = Scene::start("").await;
        scene.model.push(
            Answer::new()
                .reasoning("The user wants a file.\nI write it.")
                .text("I write **it** now:\n\n```rust\nfn main() {}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
                .call("write", &json!({ "path": "out.txt", "content": "hello\nworld\n" })),
        );
        scene.model.push(Answer::saying("Done: `out.txt` is there."));
        let mut terminal = attached(&scene, columns, rows).await;
        terminal.keys("write a file\r");
        let asked = terminal.shows("e explain").await;
        insta::assert_snapshot!(format!("interface_asked_{columns}"), masked(&asked));
        terminal.keys("a");
        terminal.shows("back").await;
        let seen = terminal.seen().replace(['\n', ' '], "");
        assert!(seen.contains("out.txt`alwaysandeverywhere?"), "the rule is shown before: {seen}");
        assert!(!scene.daemon.work_dir().join("out.txt").exists(), "and nothing was done yet");
        terminal.keys("n");
        terminal.shows("y once").await;
        terminal.keys("y");
        let done = terminal.shows("completed ·").await;
        insta::assert_snapshot!(format!("interface_done_{columns}"), masked(&done));
        let written = std::fs::read_to_string(scene.daemon.work_dir().join("out.txt"));
        assert_eq!(written.unwrap(), "hello\nworld\n");
        scene.end().await;
        scene.check().await;
    }
}

/// A denial takes a reason along; letters that were being typed answer nothing.
#[tokio::test]
async fn a_denial_with_a_reason_and_letters_that_are_no_answer() {
    let scene = Scene::start("").await;
    let gate = Gate::new();
    let call = json!({ "path": "out.txt", "content": "x" });
    scene.model.push(Answer::saying("I").wait(&gate).call("write", &call));
    scene.model.push(Answer::saying("As you wish."));
    let mut terminal = attached(&scene, 80, 30).await;
    terminal.keys("write a file\r");
    gate.reached().await;
    terminal.keys("any");
    terminal.shows("› any").await;
    gate.open();
    terminal.shows("Tab answers it").await;
    terminal.keys("y");
    terminal.shows("› anyy").await;
    assert!(!scene.daemon.work_dir().join("out.txt").exists());
    terminal.keys("\t");
    terminal.shows("n no").await;
    terminal.keys("n");
    terminal.shows("Deny, because:").await;
    terminal.keys("not here\r");
    terminal.shows("denied: not here").await;
    let seen = terminal.shows("As you wish.").await;
    assert!(seen.contains("› anyy"), "what was being written is still there: {seen}");
    assert!(scene.results(1)[0].contains("not here"), "the model hears why");
}

/// Two terminals: both see the same, one answers, the question is gone from the other, which says
/// by whom; what is typed in one is told in the other.
#[tokio::test]
async fn two_terminals_on_one_session() {
    let mut scene = Scene::start("").await;
    let call = json!({ "path": "out.txt", "content": "x" });
    scene.model.push(Answer::calling("write", &call));
    scene.model.push(Answer::saying("Written."));
    let mut one = attached(&scene, 80, 30).await;
    let two = attached(&scene, 100, 30).await;
    // The test's own connection is there too.
    one.shows("2 others watch: ").await;
    two.shows("2 others watch: ").await;
    one.keys("write a file\r");
    one.shows("y once").await;
    let seen = two.shows("y once").await;
    assert!(seen.contains("typed by agentctl"), "{seen}");
    one.keys("y");
    let seen = two.shows("allowed by agentctl, elsewhere").await;
    assert!(!seen.contains("y once"), "{seen}");
    let seen = two.shows("completed ·").await;
    insta::assert_snapshot!("interface_second_terminal", masked(&seen));
    let seen = one.shows("completed ·").await;
    assert!(!seen.contains("elsewhere") && !seen.contains("typed by"), "{seen}");
    drop(two);
    one.shows("1 other watches: ").await;
    scene.end().await;
    scene.check().await;
}

/// What is sent while a turn runs is seen until it is in, what is queued until its turn; Esc ends
/// the turn.
#[tokio::test]
async fn steered_queued_and_interrupted() {
    let scene = Scene::start(FULL).await;
    let gate = Gate::new();
    scene.model.push(Answer::saying("One").wait(&gate).text("."));
    let silence = Gate::new();
    scene.model.push(Answer::saying("Two").wait(&silence));
    let mut terminal = attached(&scene, 80, 30).await;
    terminal.keys("count\r");
    gate.reached().await;
    terminal.keys("in French\r");
    terminal.shows("↳ into this turn: in French").await;
    terminal.keys("and then sing\x11");
    let seen = terminal.shows("↳ queued 1: and then sing").await;
    insta::assert_snapshot!("interface_steered", masked(&seen));
    gate.open();
    terminal.shows("› in French").await;
    silence.reached().await;
    terminal.shows("Two").await;
    terminal.keys(ESC);
    terminal.shows("stopped: interrupted").await;
    let seen = terminal.shows("queue held").await;
    assert!(seen.contains("↳ queued 1: and then sing"), "{seen}");
    terminal.keys("/drop\r");
    terminal.hides("↳ queued").await;
}

/// Wider, narrower, while something streams: nothing is doubled, nothing lost.
#[tokio::test]
async fn resized() {
    let scene = Scene::start("").await;
    let gate = Gate::new();
    scene
        .model
        .push(Answer::saying("A first paragraph.\n\nA second one").wait(&gate).text(" ends."));
    let mut terminal = attached(&scene, 90, 30).await;
    terminal.keys("tell me\r");
    gate.reached().await;
    terminal.shows("A second one").await;
    for (columns, rows) in [(40, 30), (120, 34), (60, 34)] {
        terminal.resize(columns, rows);
        terminal.keys("x");
        terminal.shows("› x").await;
        terminal.keys("\x7f");
        terminal.hides("› x").await;
    }
    gate.open();
    terminal.shows("completed ·").await;
    let all = terminal.all();
    for part in ["› tell me", "A first paragraph.", "A second one ends.", "completed ·"] {
        assert_eq!(count(&all, part), 1, "{part} in\n{all}");
    }
}

/// A paste of 200 kB is a word in the editor, and reaches the model whole.
#[tokio::test]
async fn a_large_paste_is_folded_and_sent_whole() {
    let scene = Scene::start("").await;
    scene.model.push(Answer::saying("A long one."));
    let mut terminal = attached(&scene, 80, 24).await;
    let line = "a line of a log, which is long and says little\n";
    let text = line.repeat(200_000 / line.len() + 1);
    terminal.keys("look: ");
    terminal.paste(&text);
    let lines = text.lines().count();
    terminal.shows(&format!("› look: [paste 1: {lines} lines]")).await;
    terminal.keys("\r");
    terminal.shows("A long one.").await;
    assert_eq!(scene.last_message(0).1.trim_end(), format!("look: {text}").trim_end());
    assert_eq!(count(&terminal.all(), "a line of a log"), 0, "and is not shown");
}

/// What was sent is there in the next run, pastes whole; who only watches leaves no trace.
#[tokio::test]
async fn what_was_written_is_there_in_the_next_run() {
    let scene = Scene::start("").await;
    let file = scene.daemon.path("state/history.jsonl");
    let watching = ["attach", &scene.session, "--read-only"];
    let mut terminal = scene.daemon.agentctl_at_a_terminal(&watching, 80, 24);
    terminal.shows("only watching").await;
    terminal.keys("nothing\r\x04");
    assert!(terminal.exit().await.success());
    assert!(!file.exists());
    let long = "a long line\n".repeat(20);
    for _ in 0..2 {
        scene.model.push(Answer::saying("Seen."));
    }
    let mut first = attached(&scene, 80, 24).await;
    first.keys("first of all\r");
    first.shows("completed ·").await;
    first.keys("/new\r");
    first.shows("your next input makes it").await;
    first.keys("/quit\r");
    assert!(first.exit().await.success());
    let mut second = attached(&scene, 80, 24).await;
    second.shows("first of all").await;
    second.keys("\x1b[A");
    second.shows("› first of all").await;
    second.keys("\x03look: ");
    second.paste(&long);
    second.shows("› look: [paste 1: 20 lines]").await;
    second.keys("\r");
    second.until("an answer", |seen| count(seen, "completed ·") == 2).await;
    second.keys("\x04");
    assert!(second.exit().await.success());
    let mut new = scene.daemon.agentctl_at_a_terminal(&["-m", "test/model"], 80, 24);
    new.shows("a new session").await;
    for text in ["look: [paste 1: 20 lines]", "/quit", "/new", "first of all"] {
        new.keys("\x1b[A");
        new.shows(&format!("› {text}")).await;
    }
    scene.model.push(Answer::saying("Once more."));
    new.keys("\x1b[B\x1b[B\x1b[B");
    new.shows("› look: [paste 1: 20 lines]").await;
    new.keys("\r");
    new.shows("Once more.").await;
    assert_eq!(scene.last_message(2).1.trim_end(), format!("look: {long}").trim_end());
}

/// Ten thousand lines of a tool leave the keys alone: what is typed meanwhile appears, and what
/// the terminal is told stays little.
#[tokio::test]
async fn ten_thousand_lines_of_a_tool() {
    let scene = Scene::start(FULL).await;
    let command = "i=0; while [ $i -lt 10000 ]; do i=$((i+1)); echo line $i; done; \
                   until [ -e go ]; do sleep 0.02; done";
    scene.model.push(Answer::calling("shell", &json!({ "command": command })));
    scene.model.push(Answer::saying("Many lines."));
    let mut terminal = attached(&scene, 80, 24).await;
    terminal.keys("run it\r");
    terminal.keys("typed meanwhile");
    terminal.shows("› typed meanwhile").await;
    // What nobody could take in time is left out of the live output; the result has all of it.
    terminal.shows("│ line ").await;
    scene.daemon.write_file("go", "");
    let seen = terminal.shows("completed ·").await;
    assert!(seen.contains("line 10000") && seen.contains("Ctrl-O"), "{seen}");
    let written = terminal.written();
    assert!(written < 1_000_000, "{written} bytes for the terminal");
    assert!(terminal.all().lines().count() < 60, "the output is folded");
}

/// Left with Ctrl-C twice, the turn goes on; attached again, all of it is there once.
#[tokio::test]
async fn detached_and_attached_again() {
    let scene = Scene::start("").await;
    let gate = Gate::new();
    scene.model.push(Answer::saying("Begun").wait(&gate).text(" and ended."));
    let mut terminal = attached(&scene, 80, 24).await;
    terminal.keys("work\r");
    gate.reached().await;
    terminal.shows("Begun").await;
    terminal.keys(CTRL_C);
    terminal.shows("Ctrl-C again leaves, the turn goes on").await;
    terminal.keys(CTRL_C);
    assert!(terminal.exit().await.success());
    terminal.restored().await;
    terminal.shows("agentctl: left;").await;
    let again = attached(&scene, 80, 24).await;
    let seen = again.shows("Begun").await;
    assert!(seen.contains("working"), "{seen}");
    gate.open();
    again.shows("completed ·").await;
    let all = again.all();
    for part in ["› work", "Begun and ended."] {
        assert_eq!(count(&all, part), 1, "{part} in\n{all}");
    }
}

/// The daemon is killed in the middle of an answer: the interface says so, starts the next one,
/// and shows what the record says, once.
#[tokio::test]
async fn the_daemon_is_killed_while_attached() {
    let mut scene = Scene::start("").await;
    let gate = Gate::new();
    scene.model.push(Answer::saying("A first answer."));
    scene.model.push(Answer::saying("Half of").wait(&gate));
    scene.model.push(Answer::saying("A third answer."));
    let mut terminal = attached(&scene, 80, 30).await;
    terminal.keys("one\r");
    terminal.shows("completed ·").await;
    terminal.keys("two\r");
    gate.reached().await;
    terminal.shows("Half of").await;
    scene.daemon.kill();
    terminal.shows("the daemon is gone: waiting for it").await;
    terminal.shows("the daemon is back").await;
    terminal.shows("stopped: crashed").await;
    terminal.keys("three\r");
    terminal.shows("A third answer.").await;
    wait::until("the end of the turn", async || {
        let all = terminal.all();
        if count(&all, "completed ·") == 2 { Ok(()) } else { Err(all) }
    })
    .await;
    let all = terminal.all();
    for part in ["› one", "A first answer.", "› two", "› three", "A third answer."] {
        assert_eq!(count(&all, part), 1, "{part} in\n{all}");
    }
    // Half an answer is in the record, or it is told that it is not.
    assert_eq!(count(&all, "Half of") + count(&all, "does not count"), 1, "{all}");
}

/// Whatever ends it, the terminal is a shell's again: SIGTERM here, and Ctrl-Z for a while.
#[tokio::test]
async fn the_terminal_is_given_back() {
    let scene = Scene::start("").await;
    let mut terminal = attached(&scene, 80, 24).await;
    assert!(!terminal.is_restored());
    terminal.keys("\x1a");
    // The session's leader cannot be stopped by its terminal: it comes back at once.
    terminal.keys("typed");
    terminal.shows("› typed").await;
    terminal.signal(Signal::TERM);
    assert!(terminal.exit().await.success());
    terminal.restored().await;
}

/// In front of a shell with jobs: set aside by its key and stopped by somebody else, it is taken up
/// again with all that it needs of the terminal, and gives all of it back.
#[tokio::test]
async fn set_aside_in_a_shell_and_taken_up_again() {
    let scene = Scene::start("").await;
    let attach = scene.daemon.agentctl(&["attach", &scene.session]);
    let mut shell = Command::new("bash");
    shell.args(["--norc", "--noprofile", "-i"]).env_clear();
    for (name, value) in attach.get_envs() {
        shell.env(name, value.unwrap_or_default());
    }
    shell.env("TERM", "xterm-256color").env("PS1", "shell> ").env("HISTFILE", "");
    shell.current_dir(scene.daemon.work_dir());
    let mut terminal = Terminal::start(&shell, 100, 30);
    terminal.shows("shell>").await;
    let program = attach.get_program().to_string_lossy().into_owned();
    terminal.keys(&format!("{program} attach {}\r", scene.session));
    terminal.shows("test/model").await;
    for (number, by_key) in [(1, true), (2, false), (3, true)] {
        terminal.until("a raw terminal", |_| terminal.is_raw()).await;
        let typed = format!("typed {number}");
        terminal.keys(&typed);
        terminal.shows(&format!("› {typed}")).await;
        if by_key {
            terminal.keys("\x1a");
        } else {
            terminal.keys("\x15!kill -STOP $PPID\r");
        }
        terminal.until("the shell", |seen| count(seen, "Stopped") >= number).await;
        if by_key {
            terminal.until("what is its own", |_| terminal.keyboard_level() == 0).await;
        }
        let line = format!("echo $((40 + {number})){number}\r");
        terminal.keys(&line);
        terminal.shows(&format!("4{number}{number}")).await;
        terminal.keys("fg\r");
        let status = |seen: &str| seen.lines().last().is_some_and(|row| row.contains("watches"));
        terminal.until("the interface", status).await;
        assert_eq!(terminal.keyboard_level(), 1);
        terminal.keys("\x03");
        terminal.hides(&format!("› {typed}")).await;
    }
    terminal.keys("\x04");
    terminal.shows("agentctl: left;").await;
    terminal.keys("exit\r");
    terminal.exit().await;
    assert_eq!(terminal.keyboard_level(), 0);
}

/// A terminal that is closed is no error.
#[tokio::test]
async fn a_closed_terminal_is_no_error() {
    let scene = Scene::start("").await;
    let mut terminal = attached(&scene, 80, 24).await;
    terminal.signal(Signal::HUP);
    assert!(terminal.exit().await.success());
    terminal.restored().await;
}

/// A command of the user's own runs here at once, and the model hears of it with the next input.
#[tokio::test]
async fn a_command_of_ones_own_goes_into_the_context() {
    let scene = Scene::start("").await;
    scene.daemon.write_file("a.txt", "words\n");
    scene.model.push(Answer::saying("I see."));
    let mut terminal = attached(&scene, 80, 24).await;
    terminal.keys("!cat a.txt; exit 3\r");
    terminal.shows("exit 3; it goes along with your next input").await;
    terminal.keys("what is in @a.t");
    terminal.shows("▸ @a.txt").await;
    terminal.keys("\t\r");
    terminal.shows("I see.").await;
    let said = scene.last_message(0).1;
    for part in ["cat a.txt; exit 3", "words", "exit 3", "what is in @a.txt"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    assert!(!terminal.all().contains("I ran a command"), "it is not shown again");
}

/// Nothing that a model or a tool writes reaches the terminal as a command to it.
#[tokio::test]
async fn what_a_model_writes_does_not_command_the_terminal() {
    let scene = Scene::start(FULL).await;
    let command = "printf '\\033[2J\\033]0;owned\\007\\033[?1049h'";
    scene.model.push(
        Answer::saying("A \x1b[31mred\x1b[0m \x1b[2J word.")
            .call("shell", &json!({ "command": command })),
    );
    scene.model.push(Answer::saying("Done."));
    let mut terminal = attached(&scene, 80, 24).await;
    terminal.keys("go\r");
    let seen = terminal.shows("completed ·").await;
    assert!(seen.contains("› go") && seen.contains("[31mred"), "{seen}");
    assert!(!terminal.picture().alternate_screen());
}

/// Without a model it says what to do and keeps what was typed; chosen from a list, the model is
/// that of the session, which the first input makes.
#[tokio::test]
async fn a_new_session_chooses_its_model() {
    let daemon = Daemon::start("").await;
    let mut terminal = daemon.agentctl_at_a_terminal(&[], 80, 40);
    terminal.shows("no model: /model").await;
    terminal.keys("think\r");
    terminal.shows("set `model` in the configuration").await;
    terminal.shows("› think").await;
    terminal.keys(CTRL_C);
    terminal.hides("› think").await;
    terminal.keys("/model\r");
    terminal.shows("▸ demo/demo").await;
    terminal.keys("\r");
    terminal.hides("no model: /model").await;
    terminal.keys("think\r");
    terminal.shows("completed ·").await;
    let mut client = daemon.client().await;
    let sessions = client.call("session/list", json!({})).await;
    let sessions = sessions["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 1, "nothing is left of the one that was refused");
    assert_eq!(sessions[0]["model"], "demo/demo");
}

/// Without a terminal, and on one that can do nothing, it is plain lines.
#[tokio::test]
async fn plain_lines_where_there_is_no_terminal() {
    let scene = Scene::start("").await;
    scene.model.push(Answer::saying("Said plainly."));
    let mut command = scene.daemon.agentctl(&["attach", &scene.session]);
    command.env("TERM", "dumb");
    let mut terminal = Terminal::start(&command, 80, 24);
    terminal.shows("idle").await;
    terminal.keys("say it\r");
    terminal.shows("completed ·").await;
    assert!(terminal.is_restored(), "nothing was changed");
    assert!(terminal.seen().contains("Said plainly."));
    // What comes through a pipe is one turn.
    scene.model.push(Answer::saying("Said to a pipe."));
    scene.daemon.write_file("wish.txt", "say it again\n");
    let wish = std::fs::File::open(scene.daemon.work_dir().join("wish.txt")).unwrap();
    let mut command = scene.daemon.agentctl(&[]);
    command.stdin(wish);
    // The model server runs in this thread.
    let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Said to a pipe.\n");
}

/// A picture with all numbers alike.
fn without_numbers(svg: &str) -> String {
    let mut text = String::new();
    for c in svg.chars() {
        match c {
            '0'..='9' | '.' if text.ends_with('#') => {}
            '0'..='9' => text.push('#'),
            c => text.push(c),
        }
    }
    text.replace("# ms", "# s")
}

/// The README's picture is one of this interface; `AGENTD_BLESS=1` takes it anew.
#[tokio::test]
async fn the_picture_in_the_readme_is_of_this_interface() {
    let mut scene = Scene::start("").await;
    let session = json!({ "session_id": scene.session });
    scene.client.call("session/unsubscribe", session).await;
    let old = "fn total(prices: &[u32]) -> u32 {\n    prices.iter().sum()\n}\n";
    scene.daemon.write_file("total.rs", old);
    let new = old.replace(
        "    prices.iter().sum()",
        "    prices.iter().copied().fold(0, u32::saturating_add)",
    );
    scene.model.push(
        Answer::new()
            .reasoning("A sum may overflow.")
            .text("I look at it first.")
            .call("read", &json!({ "path": "total.rs" })),
    );
    scene.model.push(
        Answer::saying(
            "The sum **overflows** for large prices. Saturating is what the callers expect:\n\n\
             ```rust\nlet total = prices.iter().copied().fold(0, u32::saturating_add);\n```\n",
        )
        .call("write", &json!({ "path": "total.rs", "content": new })),
    );
    let mut terminal = attached(&scene, 92, 36).await;
    terminal.keys("can total.rs overflow? fix it\r");
    terminal.shows("y once").await;
    let picture = harness::picture::svg(&terminal.picture());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging/interface.svg");
    if std::env::var_os("AGENTD_BLESS").is_some() {
        std::fs::write(path, &picture).unwrap();
    }
    let kept = without_numbers(&std::fs::read_to_string(path).unwrap());
    assert_eq!(without_numbers(&picture), kept, "take it anew with AGENTD_BLESS=1");
}

/// The same in tmux, which reflows what it shows: only where tmux is installed.
#[tokio::test]
async fn in_tmux() {
    let scene = Scene::start("").await;
    let socket = scene.daemon.path("run/tmux");
    let tmux = |arguments: &[&str]| {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&socket).args(["-f", "/dev/null"]).args(arguments);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        // Also for users whose own shell lets nobody in.
        command.env("SHELL", "/bin/sh");
        command.env("LANG", "C.UTF-8").env("HOME", scene.daemon.path("home")).output()
    };
    if Command::new("tmux").arg("-V").output().is_err() {
        skipped("tmux is not installed");
        return;
    }
    // However the test ends, so does the server.
    let _server = Ended(|| drop(tmux(&["kill-server"])));
    scene.model.push(Answer::saying("A line that is long enough to be broken at forty columns."));
    let attach = scene.daemon.agentctl(&["attach", &scene.session]);
    let mut line = "env".to_owned();
    for (name, value) in attach.get_envs() {
        let value = value.unwrap_or_default().to_string_lossy();
        if name != "PATH" && !value.is_empty() {
            let name = name.to_string_lossy();
            line = format!("{line} {name}='{value}'");
        }
    }
    let program = attach.get_program().to_string_lossy().into_owned();
    line = format!("{line} {program} attach {}", scene.session);
    tmux(&["new-session", "-d", "-x", "100", "-y", "24", &line]).unwrap();
    let shows = async |text: &str| {
        wait::until(text, async || {
            let shown = tmux(&["capture-pane", "-p", "-J", "-S", "-"]).unwrap();
            let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
            if shown.contains(text) { Ok(shown) } else { Err(shown) }
        })
        .await
    };
    shows("test/model").await;
    tmux(&["send-keys", "-l", "say it"]).unwrap();
    tmux(&["send-keys", "Enter"]).unwrap();
    shows("completed ·").await;
    for columns in ["40", "120", "60"] {
        tmux(&["resize-window", "-x", columns, "-y", "24"]).unwrap();
        tmux(&["send-keys", "-l", "x"]).unwrap();
        shows("› x").await;
        tmux(&["send-keys", "BSpace"]).unwrap();
        shows("› \u{20}").await;
    }
    let shown = shows("completed ·").await;
    for part in ["› say it", "A line that", "completed ·", "test/model ·"] {
        assert_eq!(count(&shown, part), 1, "{part} in\n{shown}");
    }
}
