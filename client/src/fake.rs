//! A daemon of a few lines for the tests of this crate: the test plays its part.
//!
//! Receives what a client sends; hands back what the test says.

use agentd_protocol::method::SESSION_EVENT;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};

use crate::client::{Client, Options, Start};

/// A listening socket in a directory of its own.
pub(crate) struct Fake {
    pub(crate) dir: TempDir,
    listener: UnixListener,
}

impl Fake {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let listener = UnixListener::bind(dir.path().join("s")).expect("a socket");
        Self { dir, listener }
    }

    /// Options that lead here.
    pub(crate) fn options(&self) -> Options {
        let socket = Some(self.dir.path().join("s"));
        Options { socket, start: Start::Never, ..Options::new("test", "1") }
    }

    /// The next connection, its handshake done.
    pub(crate) async fn accept(&self) -> Peer {
        let (stream, _) = self.listener.accept().await.expect("a client");
        let mut peer = Peer::new(stream);
        let request = peer.request().await;
        assert_eq!(request["method"], "initialize");
        peer.answer(&request, server()).await;
        peer
    }

    /// A client and the daemon's side of its connection.
    pub(crate) async fn client(&self) -> (Client, Peer) {
        let (client, peer) = tokio::join!(Client::connect(self.options()), self.accept());
        (client.expect("a client"), peer)
    }
}

fn server() -> Value {
    json!({
        "protocol": 1, "server": { "name": "fake", "version": "1" },
        "daemon": { "id": "dmn_1", "pid": 1, "started_at": "2026-01-01T00:00:00.000Z" },
        "capabilities": {},
        "limits": {
            "max_message_bytes": 1000, "max_connections": 1, "max_batch": 1, "max_calls": 1
        }
    })
}

/// The daemon's side of a connection.
pub(crate) struct Peer {
    lines: Lines<BufReader<OwnedReadHalf>>,
    write: OwnedWriteHalf,
}

impl Peer {
    pub(crate) fn new(stream: UnixStream) -> Self {
        let (read, write) = stream.into_split();
        Self { lines: BufReader::new(read).lines(), write }
    }

    /// The next message of the client.
    pub(crate) async fn request(&mut self) -> Value {
        let line = self.lines.next_line().await.expect("the client is there").expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    /// The next message, which calls this method; its parameters, with the request.
    pub(crate) async fn expect(&mut self, method: &str) -> (Value, Value) {
        let request = self.request().await;
        assert_eq!(request["method"], method);
        (request["params"].clone(), request)
    }

    pub(crate) async fn answer(&mut self, request: &Value, result: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await;
    }

    pub(crate) async fn refuse(&mut self, request: &Value, error: Value) {
        self.send(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).await;
    }

    /// A notification of session `ses_1`.
    pub(crate) async fn notify(&mut self, result: Value) {
        let params = json!({ "subscription": "ses_1", "result": result });
        self.send(json!({ "jsonrpc": "2.0", "method": SESSION_EVENT, "params": params })).await;
    }

    async fn send(&mut self, message: Value) {
        let line = message.to_string() + "\n";
        self.write.write_all(line.as_bytes()).await.expect("the client reads");
    }
}

/// An event that says nothing but its number.
pub(crate) fn event(seq: u64) -> Value {
    json!({
        "seq": seq, "time": "2026-01-01T00:00:00.000Z", "session_id": "ses_1",
        "type": "warning", "code": "c", "message": seq.to_string()
    })
}

/// The marker that replay met live here.
pub(crate) fn joined(head_seq: u64) -> Value {
    json!({
        "type": "subscription.joined", "head_seq": head_seq, "in_flight": { "tools": [] },
        "prompts": [], "queue": [],
        "session": {
            "session_id": "ses_1", "title": "", "cwd": "/", "permission_mode": "ask",
            "state": "idle", "created_at": "2026-01-01T00:00:00.000Z",
            "updated_at": "2026-01-01T00:00:00.000Z", "head_seq": head_seq, "item_count": 0,
            "usage": {
                "input": 0, "output": 0, "cache_read": 0, "cache_write": 0, "reasoning": 0
            },
            "limits": {}, "queue": [], "queue_held": false, "roots": [], "prompts": [],
            "labels": {}, "archived": false
        }
    })
}
