//! A daemon, its model server and one client with a session: where most tests of a turn begin.
//!
//! [`Scene::check`] holds for whatever happened in it: *stable prefix* (each request's body extends
//! the one before, byte for byte, up to the closing), *every call has one result* (in each request
//! by the server's own strictness, and in the log), *every turn ends* exactly once.
//!
//! Receives answers of the model; hands out what the client saw and what the model was asked.

use harness::client::{input, is_turn_end};
use harness::{Client, Daemon, ModelServer, wait};
use serde_json::{Value, json};

/// What ends a request's body, after its last message.
const CLOSING: &[u8] = b"]}";

/// Everything is allowed without a question.
pub const FULL: &str = "[permission]\nmode = \"full\"\n";

pub struct Scene {
    pub model: ModelServer,
    pub daemon: Daemon,
    pub client: Client,
    pub session: String,
}

impl Scene {
    /// Starts with the model's configuration and this after it. The client watches.
    pub async fn start(more: &str) -> Self {
        let model = ModelServer::start().await;
        let config = format!("{}{more}", model.config());
        Self::with(model, &config).await
    }

    /// Starts with this model and this configuration.
    pub async fn with(model: ModelServer, config: &str) -> Self {
        let daemon = Daemon::start(config).await;
        let mut client = daemon.client().await;
        let session = client.create_session(&daemon.work_dir()).await;
        client.subscribe(&session, Some(0)).await;
        Self { model, daemon, client, session }
    }

    pub async fn submit(&mut self, id: &str, text: &str) -> Value {
        self.client.submit(&self.session, id, text).await
    }

    /// Submits an input with this delivery.
    pub async fn deliver(&mut self, id: &str, text: &str, delivery: &str) -> Value {
        let mut params = input(&self.session, id, text);
        params["submission"]["op"]["delivery"] = json!(delivery);
        self.client.call("session/submit", params).await
    }

    pub async fn op(&mut self, id: &str, op: Value) -> Value {
        self.client.submit_op(&self.session, id, op).await
    }

    /// What is seen up to the end of a turn, with that end.
    pub async fn end(&mut self) -> Vec<Value> {
        self.client.watch_until(is_turn_end).await
    }

    /// A turn from its input to its end.
    pub async fn turn(&mut self, id: &str, text: &str) -> Vec<Value> {
        self.submit(id, text).await;
        self.end().await
    }

    /// Waits for the first message of this type and gives it.
    pub async fn until(&mut self, kind: &str) -> Value {
        self.client.watch_until_type(kind).await.pop().unwrap()
    }

    /// Answers a prompt.
    pub async fn reply(&mut self, prompt: &Value, mut reply: Value) {
        reply["prompt_id"] = prompt["prompt_id"].clone();
        self.client.call("permission/reply", reply).await;
    }

    pub async fn state(&mut self) -> Value {
        self.client.call("session/get", json!({ "session_id": self.session })).await
    }

    /// Kills the daemon, starts the next one, and watches from the first event on.
    pub async fn crash(&mut self) {
        self.daemon.kill();
        self.daemon.restart().await;
        self.client = self.daemon.client().await;
        self.client.subscribe(&self.session, Some(0)).await;
    }

    /// Waits for this many requests to have come.
    pub async fn asked(&self, count: usize) {
        wait::until("a request", async || {
            let asked = self.model.asked().len();
            if asked >= count { Ok(()) } else { Err(asked) }
        })
        .await;
    }

    /// The messages of a request, the first being 0.
    pub fn messages(&self, request: usize) -> Vec<Value> {
        let asked = self.model.asked();
        let asked = asked.get(request).unwrap_or_else(|| panic!("no request {request}"));
        asked.body["messages"].as_array().unwrap().clone()
    }

    /// The last message of a request: its role and its text.
    pub fn last_message(&self, request: usize) -> (String, String) {
        said(self.messages(request).last().unwrap())
    }

    /// The texts of the results in a request, in order.
    pub fn results(&self, request: usize) -> Vec<String> {
        let messages = self.messages(request);
        messages.iter().filter(|m| m["role"] == "tool").map(|message| said(message).1).collect()
    }

    /// All that must hold of any scene without an open turn.
    pub async fn check(&mut self) {
        self.model.assert_all_taken();
        self.assert_stable_prefix();
        let events = self.client.events(&self.session).await;
        let started = of_type(&events, "turn.started").len();
        let ended = events.iter().filter(|event| is_turn_end(event)).count();
        assert_eq!(ended, started, "every turn ends once");
        let discarded: Vec<&Value> = of_type(&events, "message.reset")
            .into_iter()
            .flat_map(|event| event["discarded"].as_array().into_iter().flatten())
            .collect();
        for called in of_type(&events, "tool.called") {
            let id = &called["call_id"];
            let results = events
                .iter()
                .filter(|event| event["type"] == "tool.completed" && event["call_id"] == *id);
            let expected = usize::from(!discarded.contains(&id));
            assert_eq!(results.count(), expected, "every call has one result: {called}");
        }
    }

    /// Each request extends the one before, whatever lies between them.
    pub fn assert_stable_prefix(&self) {
        for (index, pair) in self.model.asked().windows(2).enumerate() {
            let before = pair[0].bytes.strip_suffix(CLOSING).expect("a body ends with its closing");
            let shared = before.iter().zip(&pair[1].bytes).take_while(|(a, b)| a == b).count();
            assert!(
                shared == before.len(),
                "request {} leaves the prefix after {shared} bytes:\n{}\n{}",
                index + 1,
                String::from_utf8_lossy(&pair[0].bytes[shared.saturating_sub(200)..]),
                String::from_utf8_lossy(&pair[1].bytes[shared.saturating_sub(200)..]),
            );
        }
    }
}

/// The messages of this type.
pub fn of_type<'a>(seen: &'a [Value], kind: &str) -> Vec<&'a Value> {
    seen.iter().filter(|message| message["type"] == kind).collect()
}

/// Where the first message of this type is.
pub fn place(seen: &[Value], kind: &str) -> usize {
    seen.iter().position(|message| message["type"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

/// The statuses of the results, in order.
pub fn statuses(seen: &[Value]) -> Vec<&str> {
    of_type(seen, "tool.completed").into_iter().map(|e| e["status"].as_str().unwrap()).collect()
}

/// A message's role and text.
pub fn said(message: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&message["role"]), text(&message["content"]))
}

/// The type of the last message, which ends a turn.
pub fn end_of(seen: &[Value]) -> &Value {
    &seen.last().unwrap()["type"]
}
