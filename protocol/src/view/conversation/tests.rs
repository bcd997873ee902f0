//! A made-up daemon plays random turns; watchers that come, go and lag must see the same.
//!
//! Receives choices from proptest; hands nothing on.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::progress::{DeltaKind, InFlightTool};

const T: &str = "2026-01-01T00:00:00.000Z";

/// A daemon's side of one session: its log, and what its hub would say at a join.
struct Daemon {
    session: Session,
    in_flight: InFlight,
    /// What was sent, and what a join would have said right after it.
    sent: Vec<(StreamMessage, Marker)>,
    item: Option<(u64, u32, String)>,
    items: u64,
    calls: Vec<u64>,
    prompts: Vec<u64>,
    outputs: BTreeMap<u64, u64>,
    unique: u64,
}

impl Daemon {
    fn new() -> Self {
        let usage = Usage::default();
        let session = json!({
            "session_id": "ses_1", "title": "", "cwd": "/w", "permission_mode": "ask",
            "state": "idle", "created_at": T, "updated_at": T, "head_seq": 0, "item_count": 0,
            "usage": usage, "limits": {}, "queue": [], "queue_held": false, "roots": [],
            "prompts": [], "labels": {}, "archived": false
        });
        let mut daemon = Self {
            session: serde_json::from_value(session.clone()).unwrap(),
            in_flight: InFlight::default(),
            sent: Vec::new(),
            item: None,
            items: 0,
            calls: Vec::new(),
            prompts: Vec::new(),
            outputs: BTreeMap::new(),
            unique: 0,
        };
        daemon.event(json!({ "type": "session.created", "session": session, "changed": [] }));
        daemon
    }

    fn join(&self) -> Marker {
        Marker::Joined {
            head_seq: self.session.head_seq,
            session: Box::new(self.session.clone()),
            in_flight: self.in_flight.clone(),
            prompts: self.session.prompts.clone(),
            queue: self.session.queue.clone(),
            watchers: Watchers::default(),
        }
    }

    fn event(&mut self, mut fields: Value) {
        let envelope = fields.as_object_mut().unwrap();
        envelope.insert("seq".to_owned(), (self.session.head_seq + 1).into());
        envelope.insert("time".to_owned(), T.into());
        envelope.insert("session_id".to_owned(), "ses_1".into());
        envelope.insert("turn_id".to_owned(), "turn_1".into());
        let event: Event = serde_json::from_value(fields).unwrap();
        session::apply(&mut self.session, &event);
        in_flight::settle(&mut self.in_flight, &event);
        let join = self.join();
        self.sent.push((StreamMessage::Event(Box::new(event)), join));
    }

    fn progress(&mut self, fields: Value) {
        let progress: Progress = serde_json::from_value(fields).unwrap();
        in_flight::extend(&mut self.in_flight, &progress);
        let join = self.join();
        self.sent.push((StreamMessage::Progress(progress), join));
    }

    fn next(&mut self) -> u64 {
        self.unique += 1;
        self.unique
    }

    fn item(index: u64, body: &Value) -> Value {
        let mut item = json!({
            "item_id": format!("item_{index}"), "index": index, "turn_id": "turn_1",
            "created_at": T
        });
        item.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        item
    }

    fn start_item(&mut self, index: u64, attempt: u32) {
        let id = format!("item_{index}");
        self.event(json!({
            "type": "item.started", "item_id": id, "role": "assistant", "attempt": attempt
        }));
        self.item = Some((index, attempt, String::new()));
    }

    /// One thing that may happen now, by a random choice.
    fn act(&mut self, choice: u8, text: &str) {
        match (choice % 12, self.item.clone()) {
            (0, None) if self.calls.is_empty() => {
                self.event(json!({
                    "type": "turn.started", "submission_id": "s", "model": "m/m", "limits": {}
                }));
                self.items += 1;
                self.start_item(self.items, 1);
            }
            (1..=3, Some((index, attempt, so_far))) => {
                self.progress(json!({
                    "type": "message.delta", "item_id": format!("item_{index}"),
                    "attempt": attempt, "kind": "text", "offset": so_far.len(), "delta": text
                }));
                self.item = Some((index, attempt, so_far + text));
            }
            (4, Some((index, attempt, _))) => {
                self.event(json!({
                    "type": "message.reset", "item_id": format!("item_{index}"),
                    "attempt": attempt, "discarded": []
                }));
                self.event(json!({
                    "type": "retry.scheduled", "attempt": attempt + 1, "max_attempts": 6,
                    "delay_ms": 1, "cause": { "code": "rate_limited", "message": "m" }
                }));
                self.start_item(index, attempt + 1);
            }
            (5, Some((index, _, so_far))) => self.complete(index, &so_far, text),
            (6, None) => self.output(text),
            (7, None) => self.finish_call(text),
            (8, _) => self.ask_or_answer(),
            (9, _) => {
                let id = format!("s{}", self.next());
                self.event(json!({
                    "type": "input.queued", "submission_id": id, "content": text, "position": 1
                }));
            }
            (10, None) if self.calls.is_empty() => self.end(),
            (11, _) => self.event(json!({ "type": "warning", "code": "c", "message": text })),
            _ => {}
        }
    }

    fn complete(&mut self, index: u64, so_far: &str, rest: &str) {
        let call = self.next();
        let call_id = format!("call_{call}");
        let item = Self::item(
            index,
            &json!({
                "role": "assistant", "content": [{ "type": "text", "text": so_far.to_owned() + rest }],
                "calls": [{ "call_id": call_id, "name": "shell", "arguments": {} }],
                "status": "complete", "model": "m/m", "usage": Usage::default()
            }),
        );
        self.event(json!({
            "type": "tool.called", "call_id": call_id, "item_id": format!("item_{index}"),
            "name": "shell", "arguments": {}
        }));
        self.event(json!({ "type": "message.completed", "item": item }));
        self.event(json!({
            "type": "tool.started", "call_id": call_id, "summary": "run", "risk": "execute"
        }));
        self.calls.push(call);
        self.item = None;
    }

    fn output(&mut self, text: &str) {
        let Some(&call) = self.calls.last() else { return };
        let offset = self.outputs.entry(call).or_default();
        let fields = json!({
            "type": "tool.output", "call_id": format!("call_{call}"), "offset": *offset,
            "chunk": text
        });
        *offset += text.len() as u64;
        self.progress(fields);
    }

    fn finish_call(&mut self, text: &str) {
        let Some(call) = self.calls.pop() else { return };
        let call_id = format!("call_{call}");
        self.items += 1;
        let item = Self::item(
            self.items,
            &json!({
                "role": "tool", "call_id": call_id, "name": "shell", "status": "ok",
                "content": [{ "type": "text", "text": text }]
            }),
        );
        self.event(json!({
            "type": "tool.completed", "call_id": call_id, "item": item, "status": "ok",
            "duration_ms": 1
        }));
    }

    fn ask_or_answer(&mut self) {
        if let Some(prompt) = self.prompts.pop() {
            return self.event(json!({
                "type": "permission.resolved", "prompt_id": format!("prm_{prompt}"),
                "decision": "allow"
            }));
        }
        let prompt = self.next();
        self.prompts.push(prompt);
        let prompt = json!({
            "prompt_id": format!("prm_{prompt}"), "session_id": "ses_1", "turn_id": "turn_1",
            "call_id": "call_1", "tool": "shell", "summary": "run", "risk": "execute",
            "arguments": {}, "suggestions": [], "requested_at": T
        });
        self.event(json!({ "type": "permission.requested", "prompt": prompt }));
    }

    fn end(&mut self) {
        self.event(json!({
            "type": "turn.completed", "usage": Usage::default(), "iterations": 1,
            "duration_ms": 1
        }));
    }
}

fn play(choices: &[(u8, String)]) -> Vec<(StreamMessage, Marker)> {
    let mut daemon = Daemon::new();
    daemon.act(0, "");
    for (choice, text) in choices {
        daemon.act(*choice, text);
    }
    daemon.sent
}

/// What a terminal would have on its page.
#[derive(Debug, Default, PartialEq)]
struct Page(BTreeMap<String, String>);

impl Page {
    fn add(&mut self, changes: Vec<Change>) {
        for change in changes {
            match change {
                Change::Text { item_id, text, .. } => {
                    self.0.entry(item_id.to_string()).or_default().push_str(&text);
                }
                Change::Withdrawn { item_id } => {
                    let shown = self.0.remove(item_id.as_str());
                    assert!(shown.is_some(), "{item_id} was not shown");
                }
                Change::Output { .. } => {}
            }
        }
    }
}

fn whole_texts(view: &View) -> BTreeMap<String, String> {
    let answers = view.items.values().filter_map(|item| match &item.body {
        ItemBody::Assistant(answer) => Some((item.item_id.to_string(), answer.text())),
        _ => None,
    });
    let in_flight = view.in_flight.item.iter();
    answers
        .chain(in_flight.map(|item| (item.item_id.to_string(), item.text.clone())))
        .filter(|(_, text)| !text.is_empty())
        .collect()
}

fn choices() -> impl Strategy<Value = Vec<(u8, String)>> {
    prop::collection::vec((any::<u8>(), "[aé]{1,3}"), 0..80)
}

proptest! {
    /// Where a watcher breaks off and comes back makes no difference, nor what progress it missed.
    #[test]
    fn replay_and_join_at_any_point_give_the_same_view(
        choices in choices(),
        breaks in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        lost in prop::collection::vec(any::<bool>(), 80),
    ) {
        let sent = play(&choices);
        let (mut left, mut back) = (breaks.0.index(sent.len()), breaks.1.index(sent.len()));
        if left > back {
            std::mem::swap(&mut left, &mut back);
        }
        let (mut watched, mut page) = (View::default(), Page::default());
        let (mut returned, mut other_page) = (View::default(), Page::default());
        for (at, (message, join)) in sent.iter().enumerate() {
            page.add(watched.apply(message));
            let is_event = matches!(message, StreamMessage::Event(_));
            let lost = lost.get(at).copied().unwrap_or(false);
            if at <= left || at > back || is_event || !lost {
                other_page.add(returned.apply(message));
            }
            if at == back {
                other_page.add(returned.apply(&StreamMessage::Marker(join.clone())));
            }
            if at >= back {
                prop_assert_eq!(&returned, &watched);
                prop_assert_eq!(&other_page, &page);
            }
            prop_assert_eq!(&page.0, &whole_texts(&watched));
        }
    }

    /// Replaying what was seen changes nothing.
    #[test]
    fn what_comes_twice_counts_once(choices in choices(), at in any::<prop::sample::Index>()) {
        let sent = play(&choices);
        let mut once = View::default();
        for (message, _) in &sent {
            once.apply(message);
        }
        let mut twice = once.clone();
        let (message, _) = &sent[at.index(sent.len())];
        if matches!(message, StreamMessage::Event(_)) {
            prop_assert_eq!(twice.apply(message), vec![]);
            prop_assert_eq!(twice, once);
        }
    }
}

#[test]
fn a_watcher_without_replay_has_what_is_in_flight() {
    let mut daemon = Daemon::new();
    daemon.act(0, "");
    daemon.act(1, "hello");
    let join = StreamMessage::Marker(daemon.join());
    let mut view = View::default();
    let text =
        Change::Text { item_id: "item_1".into(), kind: DeltaKind::Text, text: "hello".into() };
    assert_eq!(view.apply(&join), vec![text]);
    assert_eq!(view.seq, daemon.session.head_seq);
    daemon.act(8, "");
    let (asked, _) = daemon.sent.last().unwrap();
    view.apply(asked);
    assert_eq!(view.prompts().len(), 1);
}

#[test]
fn what_a_crash_took_back_is_withdrawn() {
    let mut daemon = Daemon::new();
    daemon.act(0, "");
    daemon.act(1, "hello");
    let mut view = View::default();
    for (message, _) in &daemon.sent {
        view.apply(message);
    }
    daemon.in_flight.item.as_mut().unwrap().text = "hel".into();
    let changes = view.apply(&StreamMessage::Marker(daemon.join()));
    let item_id = ItemId::from("item_1");
    let text = Change::Text { item_id: item_id.clone(), kind: DeltaKind::Text, text: "hel".into() };
    assert_eq!(changes, vec![Change::Withdrawn { item_id }, text]);
}

#[test]
fn who_watches_is_told_at_the_join_and_after() {
    let company = |names: &[(&str, u64)]| {
        let client = |(name, count): &(&str, u64)| WatchingClient {
            name: (*name).to_owned(),
            count: *count,
        };
        let count = names.iter().map(|(_, count)| count).sum();
        Watchers { count, clients: names.iter().map(client).collect() }
    };
    let mut view = View::default();
    assert_eq!(view.other_watchers("vim"), (0, vec![]));
    let Marker::Joined { head_seq, session, in_flight, prompts, queue, .. } = Daemon::new().join()
    else {
        panic!("a join");
    };
    let watchers = company(&[("emacs", 1), ("vim", 1)]);
    let join = Marker::Joined { head_seq, session, in_flight, prompts, queue, watchers };
    view.apply(&StreamMessage::Marker(join));
    assert_eq!(view.other_watchers("vim"), (1, vec!["emacs"]));
    let seq = view.seq;
    view.apply(&StreamMessage::Marker(Marker::Watchers(company(&[("vim", 3)]))));
    assert_eq!((view.other_watchers("vim"), view.seq), ((2, vec!["vim"]), seq));
    view.apply(&StreamMessage::Marker(Marker::Watchers(company(&[("vim", 1)]))));
    assert_eq!(view.other_watchers("vim"), (0, vec![]));
}

#[test]
fn output_that_was_missed_is_told() {
    let mut daemon = Daemon::new();
    daemon.act(0, "");
    daemon.complete(1, "", "");
    let mut view = View::default();
    for (message, _) in &daemon.sent {
        view.apply(message);
    }
    let call_id = CallId::from("call_1");
    let piece = |offset, chunk: &str| {
        let chunk = chunk.to_owned();
        StreamMessage::Progress(Progress::ToolOutput { call_id: call_id.clone(), offset, chunk })
    };
    let output = |missed, text: &str| {
        vec![Change::Output { call_id: call_id.clone(), missed, text: text.to_owned() }]
    };
    assert_eq!(view.apply(&piece(0, "ab")), output(0, "ab"));
    assert_eq!(view.apply(&piece(5, "fg")), output(3, "fg"));
    // The same at a join: what is known there begins later than what is shown.
    let known = InFlightTool { call_id: call_id.clone(), output: "xyz".to_owned(), offset: 20 };
    daemon.in_flight.tools = vec![known];
    assert_eq!(view.apply(&StreamMessage::Marker(daemon.join())), output(13, "xyz"));
}
