//! Commands in the background, and live output, through the real launcher.
//!
//! Receives nothing; hands verdicts to the test runner.

use agentd::permission::Verdict;
use agentd::tools::ToolOutput;
use agentd_protocol::id::SessionId;
use agentd_protocol::item::ToolStatus;
use agentd_protocol::permission::PermissionMode;
use agentd_protocol::process::{Process, ProcessEnd, ProcessExit};
use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::shell::{impatient, lives, until};
use crate::workspace::{Workspace, error, ok, text};

impl Workspace {
    /// Starts a command that goes on.
    async fn background(&self, command: &str) -> Process {
        let arguments = json!({ "command": command, "background": true });
        let output = self.call("shell", &arguments).await;
        let process = output.background.clone().unwrap_or_else(|| panic!("{}", text(&output)));
        let id = &process.process_id;
        assert!(
            ok(&output).starts_with(&format!("running in the background as {id}\n")),
            "{}",
            text(&output)
        );
        assert_eq!(process.command, command);
        process
    }

    async fn of(&self, tool: &str, process: &Process) -> ToolOutput {
        self.call(tool, &json!({ "process_id": process.process_id })).await
    }

    /// Looks until the command has written or become this.
    async fn look_until(&self, process: &Process, wanted: &str) -> String {
        let mut seen = String::new();
        loop {
            let output = self.of("shell_output", process).await;
            seen.push_str(ok(&output));
            seen.push('\n');
            if seen.contains(wanted) {
                return seen;
            }
        }
    }

    async fn exit(&self, process: &Process) -> ProcessExit {
        let recorded = std::slice::from_ref(process);
        self.tools.background().exited(&self.context.session_id, recorded).await
    }

    fn pid(&self) -> String {
        String::from_utf8(self.get("pid")).expect("a number").trim().to_owned()
    }
}

#[tokio::test]
async fn a_command_runs_on_and_is_looked_at() {
    let ws = Workspace::new();
    // Each line when it is asked for, so that no look comes between two of them by chance.
    let command = "echo $$ >pid; echo one; until [ -e two ]; do sleep 0.01; done; echo two >&2; \
                   until [ -e end ]; do sleep 0.01; done; printf end; exit 3";
    let process = ws.background(command).await;
    assert!(lives(&ws.pid()));
    // What was there at once stands in the result of the call, and is not told again.
    ws.put("two", "");
    let id = &process.process_id;
    let seen = ws.look_until(&process, "two\n").await;
    assert_eq!(
        seen.replace("[no new output]\n", ""),
        format!("{id} is running\n[stderr]\ntwo\n\n")
    );
    assert!(ws.tools.background().is_busy(&ws.context.session_id));
    ws.put("end", "");
    let seen = ws.look_until(&process, "exited").await;
    // Its last words came with a look before its end, or with this one.
    assert!(seen.contains(&format!("{id} exited with code 3\n")), "{seen}");
    assert_eq!(seen.matches("\nend\n").count(), 1, "{seen}");
    let again = ws.of("shell_output", &process).await;
    assert_eq!(ok(&again), format!("{id} exited with code 3\n[no new output]"));
    let exit = ws.exit(&process).await;
    assert_eq!((exit.exit, exit.signal, exit.reason), (Some(3), None, ProcessEnd::Exited));
    assert_eq!((&exit.process_id, exit.command.as_str()), (id, command));
    assert!(!ws.tools.background().is_busy(&ws.context.session_id));
    // It is taken once.
    assert!(ws.exit(&process).now_or_never().is_none());
}

#[tokio::test]
async fn what_fails_at_once_is_told_at_once() {
    let ws = Workspace::new();
    let arguments = json!({ "command": "no-such-program", "background": true });
    let output = ws.call("shell", &arguments).await;
    assert!(error(&output).starts_with("exit code 127\n"), "{}", text(&output));
    assert!(text(&output).contains("not found"), "{}", text(&output));
    assert_eq!(output.background, None);
    let output = ws.call("shell", &json!({ "command": "echo hi", "background": true })).await;
    assert_eq!(ok(&output), "exit code 0\nhi\n");
    assert_eq!(output.background, None);
}

#[tokio::test]
async fn a_kill_ends_all_of_it_and_tells_its_last_words() {
    let ws = impatient();
    let command = "trap 'echo bye; exit 0' TERM; setsid sh -c 'echo $$ >pid; exec sleep 300' & \
                   wait";
    let process = ws.background(command).await;
    until(|| ws.at("pid").exists() && !ws.get("pid").is_empty()).await;
    let id = &process.process_id;
    let output = ws.of("shell_kill", &process).await;
    assert_eq!(ok(&output), format!("{id} was ended\nbye\n"));
    assert!(!lives(&ws.pid()));
    assert_eq!(ws.exit(&process).await.reason, ProcessEnd::Killed);
    // Again: it is as it was.
    let output = ws.of("shell_kill", &process).await;
    assert_eq!(ok(&output), format!("{id} was ended\n[no new output]"));
}

#[tokio::test]
async fn its_time_may_be_bounded_and_is_not_if_nothing_is_said() {
    let ws = impatient().with(|context| {
        let mut config = (*context.config).clone();
        config.shell.timeout = std::time::Duration::from_millis(600);
        context.config = std::sync::Arc::new(config);
    });
    let endless = ws.background("sleep 300").await;
    let arguments = json!({ "command": "sleep 300", "background": true, "timeout_ms": 700 });
    let bounded = ws.call("shell", &arguments).await.background.expect("it runs");
    assert_eq!(ws.exit(&bounded).await.reason, ProcessEnd::TimedOut);
    let output = ws.of("shell_output", &bounded).await;
    assert!(ok(&output).contains("was ended, since its time was up"), "{}", text(&output));
    // The time of commands in the foreground is over, and this one goes on.
    let output = ws.of("shell_output", &endless).await;
    assert!(ok(&output).contains("is running"), "{}", text(&output));
}

#[tokio::test]
async fn a_session_may_have_so_many_and_none_is_ended_for_another() {
    let ws = Workspace::new();
    let mut running = Vec::new();
    for _ in 0..15 {
        let left = "sleep 300 >&- 2>&- & echo $! >pid";
        let output = ws.call("shell", &json!({ "command": left })).await;
        assert!(ok(&output).contains("still running in the background as proc_"));
        running.push(ws.pid());
    }
    let last = ws.background("echo $$ >pid; exec sleep 300").await;
    running.push(ws.pid());
    let arguments = json!({ "command": "sleep 301", "background": true });
    let output = ws.call("shell", &arguments).await;
    let listed = format!("{} (echo $$ >pid; exec sleep 300)", last.process_id);
    assert!(error(&output).contains("16 commands run in the background"), "{}", text(&output));
    assert!(text(&output).contains(&listed), "{}", text(&output));
    // What a command in the foreground leaves behind then goes with it, and that is said.
    let left = "sleep 300 >&- 2>&- & echo $! >pid";
    let output = ws.call("shell", &json!({ "command": left })).await;
    assert!(ok(&output).contains("still running and was ended: 16 commands"), "{}", text(&output));
    let ended = ws.pid();
    until(|| !lives(&ended)).await;
    assert!(running.iter().all(|pid| lives(pid)));
    // Another session has its own room, and sees none of these.
    let tools = ws.tools.clone();
    let mut other =
        Workspace::new().with(|context| context.session_id = SessionId::from("ses_other"));
    other.tools = tools;
    let output = other.of("shell_output", &last).await;
    assert!(error(&output).contains("no background command"), "{}", text(&output));
    assert!(text(&output).contains("None runs"), "{}", text(&output));
    assert!(text(&output).contains("stopped or restarted"), "{}", text(&output));
    assert_eq!(other.of("shell_kill", &last).await.status, ToolStatus::Error);
    other.background("sleep 300").await;
    // One that ended makes room.
    assert_eq!(ws.of("shell_kill", &last).await.status, ToolStatus::Ok);
    ws.background("sleep 300").await;
    let unknown = Process { process_id: "proc_x".into(), ..last };
    let output = ws.of("shell_output", &unknown).await;
    assert!(error(&output).contains("These run: proc_"), "{}", text(&output));
}

#[tokio::test]
async fn what_was_left_behind_can_be_ended_by_its_id() {
    let ws = impatient();
    let output = ws.call("shell", &json!({ "command": "sleep 300 & echo $! >pid" })).await;
    let (_, rest) = ok(&output).split_once("in the background as ").expect("it is told");
    let (id, _) = rest.split_once(';').expect("an id");
    assert_eq!(output.background, None, "it is nothing for the record");
    let looked = ws.call("shell_output", &json!({ "process_id": id })).await;
    assert!(ok(&looked).contains("what its command left behind"), "{}", text(&looked));
    let killed = ws.call("shell_kill", &json!({ "process_id": id })).await;
    assert!(ok(&killed).starts_with(&format!("{id} is gone")), "{}", text(&killed));
    assert!(!lives(&ws.pid()));
    // A command in the background whose shell is gone has ended, though not all of it is gone.
    let command = "sleep 300 >&- 2>&- & echo $! >pid; sleep 0.8; exit 4";
    let process = ws.background(command).await;
    assert_eq!(ws.exit(&process).await.exit, Some(4));
    let looked = ws.of("shell_output", &process).await;
    assert!(ok(&looked).contains("what it left behind still runs"), "{}", text(&looked));
    assert!(lives(&ws.pid()));
    assert_eq!(ws.of("shell_kill", &process).await.status, ToolStatus::Ok);
    assert!(!lives(&ws.pid()));
}

#[tokio::test]
async fn much_output_between_two_looks_is_cut_and_kept() {
    let ws = Workspace::new();
    let command = "until [ -e go ]; do sleep 0.01; done; seq 1 100000; echo last; sleep 300";
    let process = ws.background(command).await;
    ws.put("go", "");
    let mut all = String::new();
    loop {
        let output = ws.of("shell_output", &process).await;
        assert!(ok(&output).len() <= 51 * 1024);
        if let Some(full) = &output.full_output {
            all.push_str(&std::fs::read_to_string(&full.path).expect("it is kept"));
        } else {
            let (_, text) = ok(&output).split_once('\n').expect("a first line");
            all.push_str(text.trim_start_matches("[no new output]"));
        }
        if all.ends_with("last\n") {
            break;
        }
    }
    assert!(all == numbers(100_000) + "last\n", "all of it was shown or kept, in order");
}

#[tokio::test]
async fn the_record_and_the_table_are_brought_together() {
    let ws = impatient();
    let session_id = &ws.context.session_id;
    let known = ws.background("sleep 300").await;
    let unknown = ws.background("echo $$ >pid; exec sleep 300").await;
    let pid = ws.pid();
    let gone = Process { process_id: "proc_gone".into(), ..known.clone() };
    let lost = ws.tools.background().reconcile(session_id, &[known.clone(), gone.clone()]);
    let [exit] = lost.as_slice() else { panic!("one is gone, not {lost:?}") };
    assert_eq!((&exit.process_id, exit.reason), (&gone.process_id, ProcessEnd::Stopped));
    until(|| !lives(&pid)).await;
    assert_eq!(ws.of("shell_output", &unknown).await.status, ToolStatus::Error);
    // An end that was taken and not recorded is told again.
    assert_eq!(ws.of("shell_kill", &known).await.status, ToolStatus::Ok);
    assert_eq!(ws.exit(&known).await.reason, ProcessEnd::Killed);
    assert!(ws.exit(&known).now_or_never().is_none());
    let recorded = std::slice::from_ref(&known);
    assert_eq!(ws.tools.background().reconcile(session_id, recorded), []);
    assert_eq!(ws.exit(&known).await.reason, ProcessEnd::Killed);
    // A stop ends what runs, and says what became of all of it.
    let runs = ws.background("echo $$ >pid; exec sleep 300").await;
    let exits = ws.tools.background().end(session_id).await;
    let [exit] = exits.as_slice() else { panic!("one is untold, not {exits:?}") };
    assert_eq!((&exit.process_id, exit.reason), (&runs.process_id, ProcessEnd::Stopped));
    assert!(!lives(&ws.pid()));
}

#[tokio::test]
async fn whoever_started_it_may_look_and_end_it_without_a_question() {
    let mut ws = Workspace::new();
    let id = json!({ "process_id": "proc_1" });
    let start = json!({ "command": "make", "background": true });
    let is = |ws: &Workspace, tool: &str, arguments: &Value| match ws.judge(tool, arguments) {
        Verdict::Allow(_) => "allow",
        Verdict::Ask { .. } => "ask",
        Verdict::Deny { .. } => "deny",
    };
    for (mode, starts, looks, kills) in [
        (PermissionMode::Plan, "deny", "allow", "deny"),
        (PermissionMode::Ask, "ask", "allow", "allow"),
        (PermissionMode::AutoEdit, "ask", "allow", "allow"),
        (PermissionMode::Full, "allow", "allow", "allow"),
    ] {
        ws.mode = mode;
        assert_eq!(is(&ws, "shell", &start), starts, "{mode:?}");
        assert_eq!(is(&ws, "shell_output", &id), looks, "{mode:?}");
        assert_eq!(is(&ws, "shell_kill", &id), kills, "{mode:?}");
    }
    // Looking twice, and starting what has exited, is no repeat.
    for (tool, arguments) in [("shell", &start), ("shell_output", &id), ("shell_kill", &id)] {
        assert!(ws.prepare(tool, arguments).expect("a call").prepared.polls, "{tool}");
    }
    let foreground = json!({ "command": "make", "background": false });
    assert!(!ws.prepare("shell", &foreground).expect("a call").prepared.polls);
}

#[tokio::test]
async fn an_interrupt_ends_what_is_only_looked_at_for_a_moment() {
    let ws = impatient();
    let arguments = json!({ "command": "echo $$ >pid; echo up; sleep 300", "background": true });
    let prepare = ws.prepare("shell", &arguments).expect("a call");
    let approved = ws.approve(&prepare);
    let cancel = CancellationToken::new();
    let (run, mut live) = ws.start(&cancel);
    let canceller = async {
        let chunk = live.recv().await.expect("live output");
        assert_eq!((chunk.offset, chunk.chunk.as_str()), (0, "up\n"));
        cancel.cancel();
    };
    let (output, ()) = tokio::join!(prepare.tool.run(&approved, run), canceller);
    assert_eq!((output.status, &output.background), (ToolStatus::Interrupted, &None));
    assert!(!lives(&ws.pid()));
}

/// What `seq` writes.
fn numbers(last: u32) -> String {
    let numbers: Vec<String> = (1..=last).map(|number| number.to_string()).collect();
    numbers.join("\n") + "\n"
}

/// Whoever does not take live output in time gets the end of it, with a gap that can be seen; and
/// it goes on while the command runs.
#[tokio::test]
async fn live_output_has_offsets_and_gaps_and_goes_on() {
    let ws = Workspace::new();
    let command = "seq 1 200000; until [ -e go ]; do sleep 0.01; done; echo é; \
                   until [ -e end ]; do sleep 0.01; done";
    let prepare = ws.prepare("shell", &json!({ "command": command })).expect("a call");
    let approved = ws.approve(&prepare);
    let (run, mut live) = ws.start(&CancellationToken::new());
    let numbers = numbers(200_000);
    let watcher = async {
        let (mut end, mut missed) = (0, 0);
        let mut goes_on = false;
        while let Some(chunk) = live.recv().await {
            assert!(chunk.offset >= end, "nothing comes twice");
            missed += chunk.offset - end;
            end = chunk.offset + chunk.chunk.len() as u64;
            let whole = numbers.len() as u64;
            if let Some(wanted) = usize::try_from(chunk.offset)
                .ok()
                .and_then(|from| numbers.get(from..numbers.len().min(from + chunk.chunk.len())))
            {
                assert!(chunk.chunk.starts_with(wanted), "a piece stands where it says");
            }
            if end == whole {
                ws.put("go", "");
            } else if end > whole {
                goes_on = chunk.chunk.ends_with("é\n");
                ws.put("end", "");
                break;
            }
        }
        (missed, goes_on)
    };
    let (output, (missed, goes_on)) = tokio::join!(prepare.tool.run(&approved, run), watcher);
    assert_eq!(output.status, ToolStatus::Ok);
    assert!(missed > 0, "more than a tail was written between two pieces");
    assert!(goes_on);
}
