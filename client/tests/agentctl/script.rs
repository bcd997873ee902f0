//! A daemon that plays a script: it answers every method plainly, remembers what it was asked,
//! and tells the watcher what the test wants it to tell.
//!
//! Receives requests; hands back answers and events.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};
use tempfile::TempDir;

const T: &str = "2026-01-01T00:00:00.000Z";

#[derive(Default)]
struct Shared {
    script: Mutex<Script>,
    asked: Mutex<Vec<(String, Value)>>,
    news: Condvar,
}

#[derive(Default, Clone)]
struct Script {
    replay: Vec<Value>,
    submit: Vec<Value>,
    reply: Vec<Value>,
    interrupt: Vec<Value>,
    refusals: HashMap<String, Value>,
    answers: HashMap<String, Value>,
}

/// A daemon in a thread; its connections end with their clients.
pub struct Daemon {
    _dir: TempDir,
    socket: PathBuf,
    shared: Arc<Shared>,
}

impl Daemon {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("s");
        let listener = UnixListener::bind(&socket).expect("a socket");
        let shared = Arc::new(Shared::default());
        let served = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let served = Arc::clone(&served);
                std::thread::spawn(move || serve(&stream, &served));
            }
        });
        Self { _dir: dir, socket, shared }
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What a watcher is told before the join.
    pub fn replay(&self, messages: Vec<Value>) {
        self.shared.script.lock().expect("no panic").replay = messages;
    }

    /// What happens when an input is submitted.
    pub fn after_submit(&self, messages: Vec<Value>) {
        self.shared.script.lock().expect("no panic").submit = messages;
    }

    /// What happens when a prompt is answered.
    pub fn after_reply(&self, messages: Vec<Value>) {
        self.shared.script.lock().expect("no panic").reply = messages;
    }

    /// What happens when the turn is interrupted.
    pub fn after_interrupt(&self, messages: Vec<Value>) {
        self.shared.script.lock().expect("no panic").interrupt = messages;
    }

    /// Answers a method with an error.
    pub fn refuse(&self, method: &str, error: Value) {
        self.shared.script.lock().expect("no panic").refusals.insert(method.to_owned(), error);
    }

    /// Answers a method in another way than the script does.
    pub fn answer(&self, method: &str, result: Value) {
        self.shared.script.lock().expect("no panic").answers.insert(method.to_owned(), result);
    }

    /// The parameters of the last call of this method.
    pub fn last(&self, method: &str) -> Value {
        let asked = self.shared.asked.lock().expect("no panic");
        let last = asked.iter().rev().find(|(name, _)| name == method);
        last.unwrap_or_else(|| panic!("{method} was not called")).1.clone()
    }

    /// Waits until this method was called.
    pub fn wait_for(&self, method: &str) {
        let asked = self.shared.asked.lock().expect("no panic");
        let is_missing =
            |asked: &mut Vec<(String, Value)>| !asked.iter().any(|(name, _)| name == method);
        drop(self.shared.news.wait_while(asked, is_missing).expect("no panic"));
    }
}

fn serve(stream: &UnixStream, shared: &Shared) {
    let mut watch = Watch { stream, log: Vec::new(), waiting: Vec::new(), joined: false };
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let request: Value = serde_json::from_str(&line).expect("JSON");
        let method = request["method"].as_str().expect("a method").to_owned();
        let params = request["params"].clone();
        let script = shared.script.lock().expect("no panic").clone();
        let outcome = match script.refusals.get(&method) {
            Some(error) => ("error", error.clone()),
            None => match script.answers.get(&method) {
                Some(answer) => ("result", answer.clone()),
                None => ("result", result(&method)),
            },
        };
        watch.send(&json!({ "jsonrpc": "2.0", "id": request["id"], outcome.0: outcome.1 }));
        match method.as_str() {
            "session/subscribe" => watch.join(params["since"].as_u64(), &script.replay),
            "session/submit" if outcome.0 == "error" => {}
            "session/submit" if params["submission"]["op"]["type"] == "interrupt" => {
                watch.tell(&script.interrupt);
            }
            "session/submit" => watch.tell(&script.submit),
            "permission/reply" => watch.tell(&script.reply),
            _ => {}
        }
        shared.asked.lock().expect("no panic").push((method, params));
        shared.news.notify_all();
    }
}

/// A connection's view of the one session: the events that were told, and what is told right
/// after the join.
struct Watch<'a> {
    stream: &'a UnixStream,
    log: Vec<Value>,
    waiting: Vec<Value>,
    joined: bool,
}

impl Watch<'_> {
    fn join(&mut self, since: Option<u64>, replay: &[Value]) {
        if !self.joined {
            self.log = replay.to_vec();
            self.log.iter_mut().zip(1..).for_each(|(event, seq)| event["seq"] = json!(seq));
        }
        let head = self.log.len();
        let since = since.map_or(head, |since| usize::try_from(since).expect("a small number"));
        for event in self.log.clone().iter().skip(since) {
            self.notify(event);
        }
        let mut session = session();
        session["head_seq"] = json!(head);
        self.notify(&json!({
            "type": "subscription.joined", "head_seq": head, "in_flight": { "tools": [] },
            "prompts": [], "queue": [], "session": session
        }));
        self.joined = true;
        let waiting = std::mem::take(&mut self.waiting);
        self.tell(&waiting);
    }

    fn tell(&mut self, messages: &[Value]) {
        if !self.joined {
            self.waiting.extend_from_slice(messages);
            return;
        }
        for message in messages {
            let mut message = message.clone();
            if message.get("seq").is_some() {
                message["seq"] = json!(self.log.len() + 1);
                self.log.push(message.clone());
            }
            self.notify(&message);
        }
    }

    fn notify(&mut self, result: &Value) {
        let params = json!({ "subscription": "ses_1", "result": result });
        self.send(&json!({ "jsonrpc": "2.0", "method": "session/event", "params": params }));
    }

    /// A client that is gone hears no more.
    fn send(&mut self, message: &Value) {
        let _ = self.stream.write_all(format!("{message}\n").as_bytes());
    }
}

/// What a daemon of this version says of itself.
pub fn server(version: &str) -> Value {
    json!({
        "protocol": 1, "server": { "name": "script", "version": version },
        "daemon": { "id": "dmn_1", "pid": 1, "started_at": T }, "capabilities": {},
        "limits": { "max_message_bytes": 1, "max_connections": 1, "max_batch": 1, "max_calls": 1 }
    })
}

fn result(method: &str) -> Value {
    match method {
        "initialize" => server("99.0.0"),
        "session/create" | "session/get" => session(),
        "session/list" => json!({ "sessions": [session()] }),
        "session/delete" => json!({ "deleted": true }),
        "session/subscribe" => json!("ses_1"),
        "session/submit" => json!({
            "submission_id": "s", "disposition": "started", "turn_id": "turn_1", "seq": 0,
            "replayed": false
        }),
        "permission/reply" => json!({ "outcome": "accepted" }),
        other => panic!("{other} is not in the script"),
    }
}

fn session() -> Value {
    json!({
        "session_id": "ses_1", "title": "A title", "cwd": "/w", "permission_mode": "ask",
        "state": "idle", "created_at": T, "updated_at": T, "head_seq": 0, "item_count": 0,
        "usage": usage(), "limits": {}, "queue": [], "queue_held": false, "roots": [],
        "prompts": [], "labels": {}, "archived": false
    })
}

fn usage() -> Value {
    json!({ "input": 1, "output": 1, "cache_read": 0, "cache_write": 0, "reasoning": 0 })
}

/// An event of the turn; its number is given when it is told.
pub fn event(fields: Value) -> Value {
    let mut event = json!({ "seq": 0, "time": T, "session_id": "ses_1", "turn_id": "turn_1" });
    let Value::Object(fields) = fields else { panic!("an event is an object") };
    event.as_object_mut().expect("an object").extend(fields);
    event
}

pub fn started() -> Value {
    event(json!({ "type": "turn.started", "submission_id": "s", "model": "m/m", "limits": {} }))
}

/// Text of the first item as it comes.
pub fn streamed(offset: u64, text: &str) -> Value {
    json!({
        "type": "message.delta", "item_id": "item_1", "attempt": 1, "kind": "text",
        "offset": offset, "delta": text
    })
}

/// The stream broke.
pub fn reset() -> Value {
    event(json!({ "type": "message.reset", "item_id": "item_1", "attempt": 1, "discarded": [] }))
}

pub fn answer(index: u64, text: &str) -> Value {
    event(json!({ "type": "message.completed", "item": {
        "item_id": format!("item_{index}"), "index": index, "turn_id": "turn_1", "created_at": T,
        "role": "assistant", "content": [{ "type": "text", "text": text }], "calls": [],
        "status": "complete", "model": "m/m", "usage": usage()
    } }))
}

pub fn asked(tool: &str, arguments: &Value) -> Value {
    event(json!({ "type": "permission.requested", "prompt": {
        "prompt_id": "prm_1", "session_id": "ses_1", "turn_id": "turn_1", "call_id": "call_1",
        "tool": tool, "summary": "a call", "risk": "execute", "arguments": arguments,
        "suggestions": [], "requested_at": T
    } }))
}

/// Denied because nobody could be asked.
pub fn denied() -> Value {
    event(json!({ "type": "permission.resolved", "prompt_id": "prm_1", "decision": "deny" }))
}

/// A terminal event of this type with these fields more.
pub fn ended(kind: &str, fields: Value) -> Value {
    let mut end = event(fields);
    end["type"] = json!(kind);
    end["usage"] = usage();
    end["iterations"] = json!(1);
    end["duration_ms"] = json!(1500);
    end
}
