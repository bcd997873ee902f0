//! Turns played with the demo model, and what it reads of a request.

use agentd_protocol::id::{CallId, ItemId, TurnId};
use agentd_protocol::item::{
    AssistantItem, AssistantPart, AssistantStatus, Call, ItemBody, Origin, Part, ToolItem,
    ToolStatus,
};
use agentd_protocol::time::Time;
use futures_util::FutureExt;
use serde_json::{Value, json};

use super::*;

/// A session with the demo model, without the loop around it.
struct Play {
    demo: Demo,
    messages: Vec<Bytes>,
    tools: Bytes,
    items: u64,
    open: Vec<Call>,
}

/// One answer.
#[derive(Debug, Default)]
struct Said {
    text: String,
    reasoning: String,
    calls: Vec<(String, Value)>,
    usage: Usage,
    finish_reason: Option<String>,
}

impl Play {
    fn new(prompt: &str) -> Self {
        let demo = Demo::new(Clock::manual());
        let tools = demo.encode_tools(
            "demo",
            &["read", "list", "shell", "write", "grep"].map(|name| ToolDefinition {
                name: name.to_owned(),
                description: String::new(),
                input_schema: json!({}),
            }),
        );
        let mut play = Self { demo, messages: Vec::new(), tools, items: 0, open: Vec::new() };
        play.push(ItemBody::System { content: vec![Part::text("be good")] });
        play.user(prompt, Origin::User);
        play
    }

    fn push(&mut self, body: ItemBody) {
        self.items += 1;
        let item = Arc::new(Item {
            item_id: ItemId::from_unique(self.items),
            index: self.items,
            turn_id: TurnId::from_unique(1),
            created_at: Time::from_unix_millis(0),
            hidden_by: None,
            body,
        });
        let line = self.demo.encode("demo", None, &[item]);
        let separator = if self.messages.is_empty() { "" } else { self.demo.separator() };
        self.messages.push([separator.as_bytes(), &line].concat().into());
    }

    fn user(&mut self, text: &str, origin: Origin) {
        let content = vec![Part::text(text)];
        self.push(ItemBody::User { content, origin, submission_id: None });
    }

    fn request(&self) -> Request {
        Request {
            model: "demo".to_owned(),
            messages: self.messages.clone(),
            tools: self.tools.clone(),
            ..Request::default()
        }
    }

    /// The next answer, recorded as the loop would.
    fn answer(&mut self) -> Said {
        let events = self.demo.stream(self.request()).collect::<Vec<_>>().now_or_never();
        let said = said(events.expect("no pauses were asked for"));
        self.open = said
            .calls
            .iter()
            .enumerate()
            .map(|(n, (name, arguments))| Call {
                call_id: CallId::from_unique(format!("{}_{n}", self.items)),
                provider_call_id: None,
                name: name.clone(),
                arguments: arguments.clone(),
            })
            .collect();
        self.push(ItemBody::Assistant(AssistantItem {
            content: vec![AssistantPart::Text { text: said.text.clone() }],
            calls: self.open.clone(),
            status: AssistantStatus::Complete,
            model: "demo/demo".to_owned(),
            usage: said.usage,
            finish_reason: said.finish_reason.clone(),
        }));
        said
    }

    fn result(&mut self, status: ToolStatus, text: &str) {
        let call = self.open.remove(0);
        self.push(ItemBody::Tool(ToolItem {
            call_id: call.call_id,
            name: call.name,
            status,
            content: vec![Part::text(text)],
            full_output: None,
        }));
    }
}

fn said(events: Vec<Result<ModelEvent, crate::provider::ModelError>>) -> Said {
    let mut said = Said::default();
    for event in events {
        match event.expect("the demo does not fail") {
            ModelEvent::Text(text) => said.text.push_str(&text),
            ModelEvent::Reasoning(text) => said.reasoning.push_str(&text),
            ModelEvent::Call(call) => said.calls.push((call.name, call.arguments)),
            ModelEvent::Signature(_) => panic!("it signs nothing"),
            ModelEvent::Usage(usage) => said.usage = usage,
            ModelEvent::Warning { message, .. } => panic!("{message}"),
            ModelEvent::End { finish_reason, continues } => {
                assert!(!continues);
                said.finish_reason = finish_reason;
            }
        }
    }
    said
}

fn call(name: &str, arguments: Value) -> Vec<(String, Value)> {
    vec![(name.to_owned(), arguments)]
}

#[test]
fn a_turn_of_two_steps() {
    let mut play = Play::new("read a.txt and then write b.txt with hello");
    let first = play.answer();
    assert!(first.text.contains("demo"), "{}", first.text);
    assert_eq!(first.calls, call("read", json!({ "path": "a.txt" })));
    assert_eq!(first.finish_reason.as_deref(), Some("tool_calls"));
    play.result(ToolStatus::Ok, "     1\tone\n     2\ttwo");
    let second = play.answer();
    assert_eq!(second.calls, call("write", json!({ "path": "b.txt", "content": "hello" })));
    assert!(second.usage.input > first.usage.input && second.usage.output > 0);
    play.result(ToolStatus::Ok, "created b.txt");
    let last = play.answer();
    assert_eq!(last.calls, []);
    assert_eq!(last.finish_reason.as_deref(), Some("stop"));
    assert_eq!(
        last.text,
        "In short, says the demo model:\n\
         - read `a.txt`: done, 2 lines, the first one is `one`\n\
         - write `b.txt`: done, `created b.txt`\n\n\
         All done."
    );
}

#[test]
fn every_kind_of_step_has_its_call() {
    let mut play = Play::new("list; list src; run true; search a.b; think about x; read c");
    let expected = [
        call("list", json!({})),
        call("list", json!({ "path": "src" })),
        call("shell", json!({ "command": "true" })),
        call("grep", json!({ "pattern": r"a\.b" })),
        call("read", json!({ "path": "c" })),
    ];
    for calls in expected {
        let said = play.answer();
        assert_eq!(said.calls, calls);
        assert_eq!(said.reasoning.is_empty(), calls[0].0 != "read", "{calls:?}");
        play.result(ToolStatus::Ok, "r");
    }
    assert!(play.answer().text.ends_with("All done."));
}

#[test]
fn denied_and_failed_calls_are_acknowledged() {
    let mut play = Play::new("run rm -r x, then read y");
    play.answer();
    play.result(ToolStatus::Denied, "Denied by the user: no");
    let second = play.answer();
    assert!(second.text.contains("was denied"), "{}", second.text);
    play.result(ToolStatus::Error, "Tool failed: no such file");
    let last = play.answer();
    for part in ["Denied by the user: no", "failed (`Tool failed: no such file`)", "Not all"] {
        assert!(last.text.contains(part), "{part} in {}", last.text);
    }
}

#[test]
fn a_prompt_that_is_not_understood_is_answered_with_help() {
    let said = Play::new("what is the meaning of life?").answer();
    assert!(said.text.contains("demo model") && said.text.contains("write FILE with TEXT"));
    assert_eq!(said.calls, []);
}

#[test]
fn steered_requests_are_appended() {
    let mut play = Play::new("read a");
    play.answer();
    play.result(ToolStatus::Ok, "r");
    play.user("also read b", Origin::Steer);
    assert_eq!(play.answer().calls, call("read", json!({ "path": "b" })));
}

#[test]
fn earlier_turns_are_not_looked_at() {
    let mut play = Play::new("read a");
    play.answer();
    play.result(ToolStatus::Ok, "r");
    play.answer();
    // What comes before the prompt need not even be readable.
    play.messages.insert(0, Bytes::from_static(b"{\n"));
    play.user("read b", Origin::User);
    assert_eq!(play.answer().calls, call("read", json!({ "path": "b" })));
}

#[test]
fn a_resumed_turn_goes_on() {
    let mut play = Play::new("read a and read b");
    play.answer();
    play.result(ToolStatus::Interrupted, "Tool execution was interrupted");
    play.user("Go on with the work of the last turn: it was interrupted.", Origin::Agentd);
    let said = play.answer();
    assert!(said.text.contains("was interrupted"), "{}", said.text);
    assert_eq!(said.calls, call("read", json!({ "path": "b" })));
}

#[test]
fn the_last_step_is_a_summary() {
    let mut play = Play::new("read a and read b");
    play.answer();
    play.result(ToolStatus::Ok, "r");
    play.user("This is the last step: report what is done and what is left.", Origin::Agentd);
    let said = play.answer();
    assert_eq!(said.calls, []);
    assert!(said.text.contains("read `b`: not done"), "{}", said.text);
}

#[test]
fn without_tools_nothing_is_called() {
    let mut play = Play::new("read a");
    play.tools = Bytes::new();
    let said = play.answer();
    assert_eq!(said.calls, []);
    assert!(said.text.contains("no tool for that"), "{}", said.text);
}

#[test]
fn text_comes_word_by_word_and_the_same_each_time() {
    let play = Play::new("think about words");
    let events = || play.demo.stream(play.request()).collect::<Vec<_>>().now_or_never();
    let words = events().expect("no pauses were asked for");
    assert!(words.len() > 30);
    assert_eq!(Some(words), events());
}

#[test]
fn slowly_waits_before_each_word() {
    let play = Play::new("slowly read a");
    let mut stream = play.demo.stream(play.request());
    for _ in 0..3 {
        assert!(stream.next().now_or_never().is_none());
        play.demo.clock.advance(PAUSE);
        assert!(matches!(stream.next().now_or_never(), Some(Some(Ok(ModelEvent::Text(_))))));
    }
}
