//! A client that speaks bytes: JSON-RPC in either framing, with nothing of ours in between.
//!
//! It has no task of its own. It reads when it is asked to, so a test decides when a client is
//! slow; what comes while it waits for something else is kept in order.
//!
//! Receives requests of tests; hands out responses and notifications as JSON.

use std::collections::VecDeque;
use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

use crate::wait;

/// The marker after which a subscription is live.
const JOINED: &str = "subscription.joined";

/// How messages are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// One message a line.
    Lines,
    /// `Content-Length` headers, as in LSP.
    Headers,
}

/// A connection.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<OwnedReadHalf>,
    writer: Option<OwnedWriteHalf>,
    framing: Framing,
    last_id: u64,
    responses: Vec<Value>,
    notifications: VecDeque<Value>,
}

impl Client {
    /// Connects.
    pub async fn connect(socket: &Path, framing: Framing) -> Self {
        let stream = UnixStream::connect(socket)
            .await
            .unwrap_or_else(|error| panic!("cannot connect to {}: {error}", socket.display()));
        let (reader, writer) = stream.into_split();
        Self {
            reader: BufReader::new(reader),
            writer: Some(writer),
            framing,
            last_id: 0,
            responses: Vec::new(),
            notifications: VecDeque::new(),
        }
    }

    /// Asks a daemon one thing, which may not be there yet.
    pub async fn ask(socket: &Path, method: &str) -> Result<Value, String> {
        let asked = async {
            let mut stream = BufReader::new(UnixStream::connect(socket).await?);
            let request = json!({ "jsonrpc": "2.0", "id": 0, "method": method });
            stream.write_all(&framed(Framing::Lines, &request)).await?;
            let mut line = String::new();
            stream.read_line(&mut line).await?;
            Ok::<_, std::io::Error>(serde_json::from_str(&line)?)
        };
        asked.await.map_err(|error| error.to_string())
    }

    /// Writes bytes as they are.
    pub async fn write(&mut self, bytes: &[u8]) {
        let writer = self.writer.as_mut().expect("the sending half is open");
        wait::within("the daemon to read", writer.write_all(bytes))
            .await
            .expect("the daemon keeps the connection");
    }

    /// Writes bytes as they are, to a daemon that may close the connection.
    pub async fn try_write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        let writer = self.writer.as_mut().expect("the sending half is open");
        wait::within("the daemon to read or to close", writer.write_all(bytes)).await
    }

    /// Writes one message.
    pub async fn send(&mut self, message: &Value) {
        self.write(&framed(self.framing, message)).await;
    }

    /// Writes a request and gives its id.
    pub async fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// Closes the sending half.
    pub async fn half_close(&mut self) {
        if let Some(mut writer) = self.writer.take() {
            // It only fails where the daemon was faster.
            let _ = writer.shutdown().await;
        }
    }

    /// The next message, whatever it is; `None` at the end.
    pub async fn read(&mut self) -> Option<Value> {
        let framing = self.framing;
        wait::within("a message", async {
            match framing {
                Framing::Lines => self.read_line().await,
                Framing::Headers => self.read_headers().await,
            }
        })
        .await
    }

    async fn read_line(&mut self) -> Option<Value> {
        let mut line = Vec::new();
        // A daemon that was killed resets the connection, or leaves half a line: the end, too.
        self.reader.read_until(b'\n', &mut line).await.ok()?;
        line.ends_with(b"\n").then(|| parsed(&line))
    }

    async fn read_headers(&mut self) -> Option<Value> {
        let mut length = None;
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            assert!(line.ends_with("\r\n"), "a header ends with \\r\\n: {line:?}");
            match line.trim_end().split_once(": ") {
                Some(("Content-Length", value)) => length = value.parse::<usize>().ok(),
                Some(_) => {}
                None => break,
            }
        }
        let mut content = vec![0; length.expect("there is a Content-Length")];
        self.reader.read_exact(&mut content).await.ok()?;
        Some(parsed(&content))
    }

    /// The response to request `id`; notifications that come before it are kept.
    pub async fn response(&mut self, id: &Value) -> Value {
        if let Some(at) = self.responses.iter().position(|response| response["id"] == *id) {
            return self.responses.remove(at);
        }
        loop {
            let message = self.read().await;
            let message = message.unwrap_or_else(|| panic!("the connection ended before {id}"));
            if message.get("method").is_some() {
                self.notifications.push_back(message);
            } else if message["id"] == *id {
                return message;
            } else {
                self.responses.push(message);
            }
        }
    }

    /// Calls a method; `Err` is the error object.
    pub async fn try_call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.request(method, params).await;
        let mut response = self.response(&Value::from(id)).await;
        match response.get_mut("error") {
            Some(error) => Err(error.take()),
            None => Ok(response["result"].take()),
        }
    }

    /// Calls a method that must succeed.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let called = self.try_call(method, params.clone()).await;
        called.unwrap_or_else(|error| panic!("{method} {params} failed: {error}"))
    }

    /// The next notification; `None` at the end of the connection.
    pub async fn notification(&mut self) -> Option<Value> {
        if let Some(notification) = self.notifications.pop_front() {
            return Some(notification);
        }
        let message = self.read().await?;
        assert!(message.get("method").is_some(), "nobody waits for the response {message}");
        Some(message)
    }

    /// What a subscription says, message by message, up to the first that `is_last` is true for.
    pub async fn watch_until(&mut self, is_last: impl Fn(&Value) -> bool) -> Vec<Value> {
        let mut seen = Vec::new();
        let watched = tokio::time::timeout(wait::DEADLINE, async {
            loop {
                let Some(mut notification) = self.notification().await else {
                    return Err("the connection ended");
                };
                seen.push(notification["params"]["result"].take());
                if seen.last().is_some_and(&is_last) {
                    return Ok(());
                }
            }
        })
        .await;
        match watched.unwrap_or(Err("the deadline passed")) {
            Ok(()) => seen,
            Err(why) => panic!("{why}; seen:\n  {}", listed(&seen)),
        }
    }

    /// What a subscription says up to the first message of this type.
    pub async fn watch_until_type(&mut self, last: &str) -> Vec<Value> {
        self.watch_until(|message| message["type"] == last).await
    }

    /// What a subscription says until the text of its deltas, joined, holds `text`.
    pub async fn watch_until_text(&mut self, text: &str) -> Vec<Value> {
        let said = std::cell::RefCell::new(String::new());
        self.watch_until(|message| {
            let mut said = said.borrow_mut();
            said.push_str(message["delta"].as_str().unwrap_or_default());
            said.contains(text)
        })
        .await
    }

    /// Makes a session that works in `cwd`.
    pub async fn create_session(&mut self, cwd: &Path) -> String {
        let session = self.call("session/create", json!({ "cwd": cwd })).await;
        session["session_id"].as_str().expect("a session has an id").to_owned()
    }

    /// Submits an input.
    pub async fn submit(&mut self, session_id: &str, id: &str, text: &str) -> Value {
        self.call("session/submit", input(session_id, id, text)).await
    }

    /// Submits another op.
    pub async fn submit_op(&mut self, session_id: &str, id: &str, op: Value) -> Value {
        let submission = json!({ "id": id, "op": op });
        self.call("session/submit", json!({ "session_id": session_id, "submission": submission }))
            .await
    }

    /// Watches a session from event `since` on; without one, from now on. What was replayed and
    /// the marker of the join are kept for [`Client::notification`].
    pub async fn subscribe(&mut self, session_id: &str, since: Option<u64>) {
        let mut params = json!({ "session_id": session_id });
        if let Some(since) = since {
            params["since"] = since.into();
        }
        let joins = |client: &Self| {
            let of = |message: &&Value| message["params"]["result"]["type"] == JOINED;
            client.notifications.iter().filter(of).count()
        };
        let before = joins(self);
        self.call("session/subscribe", params).await;
        while joins(self) == before {
            let message = self.read().await.expect("the connection lasts");
            self.notifications.push_back(message);
        }
    }

    /// All events of a session, from its log.
    pub async fn events(&mut self, session_id: &str) -> Vec<Value> {
        let mut events = Vec::new();
        let mut after = json!(0);
        loop {
            let params = json!({ "session_id": session_id, "after": after });
            let mut page = self.call("session/events", params).await;
            if let Value::Array(page) = page["events"].take() {
                events.extend(page);
            }
            match page["next"].take() {
                Value::Null => return events,
                next => after = next,
            }
        }
    }
}

/// Parameters of `session/submit` for an input.
pub fn input(session_id: &str, id: &str, text: &str) -> Value {
    json!({
        "session_id": session_id,
        "submission": { "id": id, "op": { "type": "user_input", "content": text } },
    })
}

/// Whether a message of a subscription ends a turn.
pub fn is_turn_end(message: &Value) -> bool {
    matches!(
        message["type"].as_str(),
        Some("turn.completed" | "turn.exhausted" | "turn.aborted" | "turn.failed")
    )
}

/// The numbered events among messages of a subscription.
pub fn replay(messages: &[Value]) -> Vec<Value> {
    messages.iter().filter(|message| message.get("seq").is_some()).cloned().collect()
}

/// A message in bytes.
pub fn framed(framing: Framing, message: &Value) -> Vec<u8> {
    let text = message.to_string();
    match framing {
        Framing::Lines => format!("{text}\n").into_bytes(),
        Framing::Headers => format!("Content-Length: {}\r\n\r\n{text}", text.len()).into_bytes(),
    }
}

fn parsed(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| {
        panic!("the daemon sent no JSON ({error}): {}", String::from_utf8_lossy(bytes))
    })
}

fn listed(messages: &[Value]) -> String {
    messages.iter().map(Value::to_string).collect::<Vec<_>>().join("\n  ")
}
