//! Tests of the state and of what it looks like, without a terminal: events in, rows out.
//!
//! Receives nothing; hands nothing on.

use agentd_client::Body;
use agentd_client::protocol::daemon::Role;
use agentd_client::protocol::session::Usage;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::widgets::Paragraph;
use serde_json::{Value, json};

use super::*;
use crate::chat::draw;

const T: &str = "2026-01-01T00:00:00.000Z";
const START: u64 = 1_767_225_600_000;

/// A state that watches a session, and the number of its last event.
struct Stage {
    state: State,
    seq: u64,
    now: u64,
    effects: Vec<Effect>,
    /// What was to be kept for later runs.
    kept: Vec<String>,
}

fn session() -> Value {
    json!({
        "session_id": "ses_1", "title": "a title", "cwd": "/w", "permission_mode": "ask",
        "state": "running", "created_at": T, "updated_at": T, "head_seq": 0, "item_count": 0,
        "usage": Usage::default(), "limits": {}, "queue": [], "queue_held": false, "roots": [],
        "prompts": [], "labels": {}, "archived": false, "model": "m/m",
        "active_turn_id": "turn_1"
    })
}

impl Stage {
    fn new(width: u16, height: u16) -> Self {
        let setup = Setup {
            role: Role::Controller,
            size: (width, height),
            ids: "id".to_owned(),
            model: None,
            mode: None,
        };
        let state = State::new(setup, START);
        let mut stage = Self { state, seq: 0, now: START, effects: Vec::new(), kept: Vec::new() };
        let session: Session = serde_json::from_value(session()).unwrap();
        stage.event(Event::Opened(Box::new(session)));
        stage.message(json!({
            "type": "subscription.joined", "head_seq": 0, "session": self::session(),
            "in_flight": { "tools": [] }, "prompts": [], "queue": []
        }));
        stage
    }

    fn event(&mut self, event: Event) {
        for effect in self.state.update(event, self.now) {
            match effect {
                Effect::Keep(draft) => self.kept.push(draft.text),
                effect => self.effects.push(effect),
            }
        }
    }

    fn message(&mut self, message: Value) {
        let message = serde_json::from_value(message).unwrap();
        self.event(Event::Message(Box::new(Body::Message(message))));
    }

    /// A numbered event of the turn.
    fn fact(&mut self, mut fields: Value) {
        self.seq += 1;
        let envelope = json!({
            "seq": self.seq, "time": T, "session_id": "ses_1", "turn_id": "turn_1"
        });
        fields.as_object_mut().unwrap().extend(envelope.as_object().unwrap().clone());
        self.message(fields);
    }

    fn delta(&mut self, offset: usize, text: &str) {
        self.message(json!({
            "type": "message.delta", "item_id": "item_1", "attempt": 1, "kind": "text",
            "offset": offset, "delta": text
        }));
    }

    fn prompt(&mut self) {
        let rule = json!({ "tool": "shell", "match": "git push *", "action": "allow" });
        self.fact(json!({ "type": "permission.requested", "prompt": {
            "prompt_id": "prm_1", "session_id": "ses_1", "turn_id": "turn_1", "call_id": "call_1",
            "tool": "shell", "summary": "git push origin main", "risk": "execute",
            "arguments": { "command": "git push origin main" },
            "suggestions": [{ "scope": "always", "rule": rule }], "requested_at": T
        }}));
    }

    fn key(&mut self, code: KeyCode) {
        self.event(Event::Key(KeyEvent::new(code, KeyModifiers::NONE)));
    }

    fn control(&mut self, letter: char) {
        let key = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        self.event(Event::Key(key));
    }

    fn keys(&mut self, text: &str) {
        for c in text.chars() {
            self.key(KeyCode::Char(c));
        }
    }

    fn wait(&mut self, millis: u64) {
        self.now += millis;
        self.event(Event::Tick);
    }

    /// What is written for good since the last time.
    fn written(&mut self) -> String {
        let rows = self.state.entries();
        rows.iter().map(|row| row.to_string().trim_end().to_owned() + "\n").collect()
    }

    /// The panel as a terminal of ratatui shows it.
    fn panel(&mut self) -> String {
        let rows = draw::panel(&self.state);
        let height = u16::try_from(rows.len()).unwrap();
        let backend = TestBackend::new(self.state.setup.size.0, height);
        let mut terminal = Terminal::new(backend).unwrap();
        terminal.draw(|frame| frame.render_widget(Paragraph::new(rows), frame.area())).unwrap();
        terminal.backend().to_string()
    }

    /// The texts that were sent, and what goes along.
    fn sent(&self) -> Vec<(String, Vec<String>)> {
        let sent = self.effects.iter().filter_map(|effect| match effect {
            Effect::Submit { op: Op::UserInput { content, .. }, attachments, .. } => {
                let parts = content.clone().into_parts();
                let text = agentd_client::protocol::item::parts_text(&parts);
                let names = attachments.iter().map(|name| name.display().to_string());
                Some((text, names.collect()))
            }
            _ => None,
        });
        sent.collect()
    }

    fn replies(&self) -> Vec<&Effect> {
        self.effects.iter().filter(|effect| matches!(effect, Effect::Reply(_))).collect()
    }
}

#[test]
fn a_key_that_could_not_mean_it_never_answers() {
    let mut stage = Stage::new(80, 24);
    stage.prompt();
    stage.keys("y");
    assert_eq!(stage.replies(), Vec::<&Effect>::new(), "it was not readable yet");
    assert_eq!(stage.state.editor.text(), "y", "it goes to what is being written");
    stage.wait(1000);
    stage.keys("yes");
    assert_eq!(stage.replies(), Vec::<&Effect>::new(), "something is being written");
    stage.control('c');
    stage.keys("a");
    assert_eq!(stage.replies(), Vec::<&Effect>::new(), "the rule has to be shown");
    assert!(stage.panel().contains("Allow `shell: git push *` always and everywhere?"));
    stage.keys("x");
    assert!(stage.panel().contains("y once"));
    stage.keys("y");
    let [Effect::Reply(reply)] = stage.replies()[..] else { panic!("one answer") };
    assert_eq!(reply.rule, None, "only this once");
}

#[test]
fn a_session_rule_is_not_offered_where_none_is_safe() {
    let mut stage = Stage::new(80, 24);
    stage.prompt();
    stage.wait(1000);
    stage.keys("s");
    assert!(stage.written().contains("can only be allowed once"));
    stage.keys("e");
    let explained = stage.written();
    assert!(
        explained.contains("runs a program") && explained.contains("git push *"),
        "{explained}"
    );
    stage.fact(json!({
        "type": "permission.resolved", "prompt_id": "prm_1", "decision": "deny",
        "message": "no", "by": { "client": { "name": "other", "version": "1" }, "connection": 2 }
    }));
    assert!(!stage.panel().contains("y once"), "answered elsewhere, it is gone");
    assert!(stage.written().contains("denied by other, elsewhere: no"));
}

#[test]
fn the_panel_at_three_widths() {
    for width in [40, 80, 200] {
        let mut stage = Stage::new(width, 30);
        stage.fact(json!({
            "type": "turn.started", "submission_id": "other", "model": "m/m", "limits": {}
        }));
        stage.fact(json!({ "type": "session.state", "state": "running" }));
        stage.fact(json!({
            "type": "tool.called", "call_id": "call_1", "item_id": "item_0", "name": "shell",
            "arguments": { "command": "cargo test" }
        }));
        stage.fact(json!({
            "type": "tool.started", "call_id": "call_1", "summary": "run cargo test --workspace",
            "risk": "execute"
        }));
        stage.message(json!({
            "type": "tool.output", "call_id": "call_1", "offset": 0,
            "chunk": "   Compiling a\n   Compiling b\n\u{1b}[32mtest\u{1b}[0m it ... ok\n"
        }));
        stage.delta(0, "Some **text** with a list:\n\n- one\n- two");
        stage.fact(json!({
            "type": "input.queued", "submission_id": "q", "content": "and then this", "position": 1
        }));
        stage.keys("a first line that is longer than forty columns, surely");
        stage.key(KeyCode::Tab);
        stage.wait(65_000);
        insta::assert_snapshot!(format!("panel_{width}"), stage.panel());
    }
}

#[test]
fn a_long_answer_moves_up_block_by_block_and_is_written_once() {
    let mut stage = Stage::new(40, 20);
    stage.fact(json!({
        "type": "item.started", "item_id": "item_1", "role": "assistant", "attempt": 1
    }));
    let paragraphs: Vec<String> = (0..40).map(|n| format!("Paragraph {n}.\n\n")).collect();
    let text = paragraphs.concat();
    let (mut offset, mut written) = (0, String::new());
    for piece in text.split_inclusive(' ') {
        stage.delta(offset, piece);
        offset += piece.len();
        written.push_str(&stage.written());
        assert!(draw::panel(&stage.state).len() < 20, "the panel stays on the screen");
    }
    assert!(written.contains("Paragraph 20."), "most of it is up there by now");
    stage.fact(json!({ "type": "message.completed", "item": {
        "item_id": "item_1", "index": 1, "turn_id": "turn_1", "created_at": T,
        "role": "assistant", "content": [{ "type": "text", "text": text }], "calls": [],
        "status": "complete", "model": "m/m", "usage": Usage::default()
    }}));
    written.push_str(&stage.written());
    for n in 0..40 {
        assert_eq!(written.matches(&format!("Paragraph {n}.")).count(), 1, "{n} in {written}");
    }
}

#[test]
fn an_answer_that_breaks_off_is_said_to() {
    let mut stage = Stage::new(40, 20);
    stage.delta(0, "half of");
    stage.fact(json!({
        "type": "message.reset", "item_id": "item_1", "attempt": 1, "discarded": []
    }));
    assert!(stage.written().contains("broke off"));
    assert!(!stage.panel().contains("half of"));
}

#[test]
fn an_input_that_is_refused_goes_back() {
    let mut stage = Stage::new(80, 24);
    stage.keys("do it");
    stage.key(KeyCode::Enter);
    let [Effect::Submit { id, .. }] = &stage.effects[..] else { panic!("it is sent") };
    let id = id.clone();
    assert!(stage.panel().contains("sending: do it"));
    let lost = agentd_client::Error::Disconnected { cause: "gone".to_owned() };
    stage.event(Event::Submitted(id, Err(lost)));
    assert_eq!(stage.state.editor.text(), "do it");
    assert!(stage.written().contains("the connection to agentd was lost"));
}

#[test]
fn commands_of_the_slash() {
    let mut stage = Stage::new(80, 24);
    for (line, expected) in [
        ("/compact", Some(Op::Compact {})),
        ("/continue", Some(Op::Resume {})),
        ("/drop", None),
        ("/nonsense", None),
        ("/help", None),
        ("/usage", None),
    ] {
        stage.effects.clear();
        stage.keys(line);
        stage.key(KeyCode::Enter);
        let op = stage.effects.iter().find_map(|effect| match effect {
            Effect::Submit { op, .. } => Some(op.clone()),
            _ => None,
        });
        assert_eq!(op, expected, "{line}");
    }
    let written = stage.written();
    assert!(written.contains("no command /nonsense") && written.contains("Keys and commands"));
    stage.keys("/usr/bin is a path");
    stage.key(KeyCode::Enter);
    assert!(matches!(&stage.effects[..], [Effect::Submit { .. }]), "{:?}", stage.effects);
}

#[test]
fn control_c_leaves_when_it_is_meant() {
    let mut stage = Stage::new(80, 24);
    stage.keys("text");
    stage.control('c');
    assert!(stage.state.editor.is_empty());
    stage.control('c');
    stage.keys("x");
    stage.control('c');
    stage.control('c');
    assert_eq!(stage.effects, vec![]);
    stage.control('c');
    assert_eq!(stage.effects, vec![Effect::Leave]);
}

#[test]
fn a_list_is_narrowed_and_taken_from() {
    let mut stage = Stage::new(60, 24);
    stage.keys("/mode");
    stage.key(KeyCode::Enter);
    insta::assert_snapshot!("picker", stage.panel());
    stage.keys("edit");
    stage.key(KeyCode::Enter);
    let Some(Effect::Submit { op: Op::Configure { permission_mode, .. }, .. }) =
        stage.effects.last()
    else {
        panic!("it is configured: {:?}", stage.effects);
    };
    assert_eq!(*permission_mode, Some(PermissionMode::AutoEdit));
}

#[test]
fn who_else_watches_is_in_the_status_line() {
    let mut stage = Stage::new(80, 24);
    assert!(!stage.panel().contains("watch"), "an older daemon says nothing about it");
    for (clients, expected) in [
        (json!([["agentctl", 1]]), ""),
        (json!([["agentctl", 1], ["vim", 1]]), "· 1 other watches: vim"),
        (json!([["agentctl", 2]]), "· 1 other watches: agentctl"),
        (json!([["agentctl", 2], ["vim\u{1b}", 3]]), "· 4 others watch: agentctl, vim\u{fffd}"),
    ] {
        let clients = clients.as_array().unwrap();
        let count: u64 = clients.iter().map(|client| client[1].as_u64().unwrap()).sum();
        let named = |client: &Value| json!({ "name": client[0], "count": client[1] });
        let clients: Vec<_> = clients.iter().map(named).collect();
        let message =
            json!({ "type": "subscription.watchers", "count": count, "clients": clients });
        stage.message(message);
        let panel = stage.panel();
        assert!(panel.contains(expected), "{expected} in {panel}");
        assert_eq!(panel.contains("watch"), !expected.is_empty(), "{panel}");
    }
}

/// A paste goes along whole wherever its mark stands: from the history, with a command, after a
/// refusal.
#[test]
fn a_folded_paste_is_sent_whole_however_it_is_sent() {
    let mut stage = Stage::new(80, 24);
    let long = "a line of @it\n".repeat(20);
    let id = |stage: &Stage| match stage.effects.last() {
        Some(Effect::Submit { id, .. }) => id.clone(),
        other => panic!("it is sent: {other:?}"),
    };
    stage.keys("see @a.rs ");
    stage.event(Event::Paste(long.clone()));
    stage.key(KeyCode::Enter);
    let refused = agentd_client::Error::Disconnected { cause: "gone".to_owned() };
    let first = id(&stage);
    stage.event(Event::Submitted(first, Err(refused)));
    stage.key(KeyCode::Enter);
    let second = id(&stage);
    stage.fact(json!({ "type": "message.completed", "item": {
        "item_id": "item_1", "index": 1, "turn_id": "turn_1", "created_at": T, "role": "user",
        "content": [{ "type": "text", "text": "see it" }], "origin": "user",
        "submission_id": second.as_str(),
    }}));
    stage.key(KeyCode::Up);
    stage.key(KeyCode::Enter);
    let once = (format!("see @a.rs {long}"), vec!["a.rs".to_owned()]);
    assert_eq!(stage.sent(), vec![once.clone(), once.clone(), once]);
    stage.effects.clear();
    stage.keys("/queue and ");
    stage.event(Event::Paste(long.clone()));
    stage.key(KeyCode::Enter);
    assert_eq!(stage.sent(), [(format!("and {long}"), vec![])]);
    stage.keys("!cat ");
    stage.event(Event::Paste(long.clone()));
    stage.key(KeyCode::Enter);
    assert_eq!(stage.effects.last(), Some(&Effect::Run(format!("cat {}", long.trim()))));
}

/// What was typed in the session before is in the history whole, not as it is shown.
#[test]
fn the_history_has_whole_inputs_of_others() {
    let mut stage = Stage::new(80, 24);
    let long = "a line\n".repeat(40);
    stage.fact(json!({ "type": "message.completed", "item": {
        "item_id": "item_1", "index": 1, "turn_id": "turn_1", "created_at": T, "role": "user",
        "content": [
            { "type": "text", "text": long },
            { "type": "text", "text": "\n\nI ran a command here: ls\nREADME.md\n(exit 0)" },
        ],
        "origin": "user",
    }}));
    assert!(stage.written().contains("26 more lines (Ctrl-O)"));
    stage.key(KeyCode::Up);
    assert_eq!(stage.state.editor.text(), "[paste 1: 40 lines]");
    stage.key(KeyCode::Enter);
    assert_eq!(stage.sent(), [(long, vec![])]);
}

#[test]
fn a_command_that_can_do_nothing_says_why() {
    for (command, why) in [
        ("/hlep", "there is no command /hlep: /help lists all"),
        ("/rename", "the title is missing: /rename TITLE"),
        ("/retry", "nothing waits to be tried again"),
    ] {
        let mut stage = Stage::new(80, 24);
        stage.keys(command);
        stage.key(KeyCode::Enter);
        assert!(stage.written().contains(why), "{command}: {}", stage.written());
        assert_eq!(stage.effects, [], "{command}");
    }
}

#[test]
fn what_is_kept_for_later_runs() {
    let mut stage = Stage::new(80, 24);
    for text in ["hello", " not this", "!ls", "/usage"] {
        stage.keys(text);
        stage.key(KeyCode::Enter);
    }
    // An answer to a question may be anything.
    stage.fact(json!({ "type": "question.requested", "prompt": {
        "prompt_id": "prm_1", "session_id": "ses_1", "turn_id": "turn_1", "call_id": "call_1",
        "tool": "ask_user", "summary": "Which?", "risk": "read", "arguments": {},
        "suggestions": [], "requested_at": T
    }}));
    stage.keys("the answer");
    stage.key(KeyCode::Enter);
    assert_eq!(stage.kept, ["hello", "!ls", "/usage"]);
}

#[test]
fn files_are_sought_anew_with_each_word() {
    let mut stage = Stage::new(80, 24);
    let sought = |stage: &mut Stage| -> Vec<String> {
        let parts = stage.effects.drain(..).filter_map(|effect| match effect {
            Effect::FindFiles(part) => Some(part),
            _ => None,
        });
        parts.collect()
    };
    let found = |part: &str, names: &[&str]| Event::Files {
        part: part.to_owned(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
    };
    stage.keys("see @m");
    assert_eq!(sought(&mut stage), ["", "m"]);
    stage.event(found("", &["a.rs", "main.rs"]));
    assert_eq!(sought(&mut stage), ["m"], "that was for another part");
    assert!(stage.panel().contains("▸ @main.rs"), "but is better than nothing");
    stage.event(found("m", &["main.rs", "my file.rs"]));
    assert_eq!(sought(&mut stage), Vec::<String>::new());
    assert!(stage.panel().contains("@\"my file.rs\""));
    stage.key(KeyCode::Tab);
    assert_eq!(stage.state.editor.text(), "see @main.rs ");
    stage.keys("@m");
    assert_eq!(sought(&mut stage), ["", "m"]);
}

/// A block of code that is longer than the screen goes up line by line, so that a picture costs
/// what is on the screen, and the colours go on where they were.
#[test]
fn a_long_block_of_code_goes_up_as_it_comes() {
    let mut stage = Stage::new(40, 20);
    let lines: Vec<String> = (0..40).map(|n| format!("let line_{n} = 1;\n")).collect();
    let text = format!("Look:\n\n```rust\n{}```\n\nThat is it.\n", lines.concat());
    let (mut offset, mut written) = (0, String::new());
    for piece in text.split_inclusive('\n') {
        stage.delta(offset, piece);
        offset += piece.len();
        written.push_str(&stage.written());
        let live = stage.state.live_text().lines().count();
        assert!(live <= 12, "{live} lines are drawn at once");
        assert!(draw::panel(&stage.state).len() < 20, "the panel stays on the screen");
    }
    stage.fact(json!({ "type": "message.completed", "item": {
        "item_id": "item_1", "index": 1, "turn_id": "turn_1", "created_at": T,
        "role": "assistant", "content": [{ "type": "text", "text": text }], "calls": [],
        "status": "complete", "model": "m/m", "usage": Usage::default()
    }}));
    written.push_str(&stage.written());
    let whole = lines.join("  ");
    assert_eq!(written, format!("Look:\n\n  {whole}\nThat is it.\n"));
}
