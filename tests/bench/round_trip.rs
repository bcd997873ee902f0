//! A request and its answer over the socket, with the daemon as a process of its own.
//!
//! Compared with a bare echo of as many bytes by another process. `model/list` needs no store;
//! `session/get` is a read of one.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use harness::daemon::Daemon;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;

use crate::table::{ROUNDS, Table, median};

/// Says that this process is to be the echo.
pub(crate) const ECHO: &str = "echo";
/// Requests of one round.
const REQUESTS: usize = 2_000;

pub(crate) fn measure(table: &mut Table) {
    let runtime = Runtime::new().expect("a runtime starts");
    let mut daemon = runtime.block_on(Daemon::start(""));
    let echo = Echo::start(&daemon.path("run").join("echo.sock"));
    let mut client = Line::connect(&daemon.socket());
    let work = daemon.work_dir();
    let session = client.call("session/create", &json!({ "cwd": work }));
    let get = json!({ "session_id": session["result"]["session_id"] });
    let requests = [("model/list", json!({})), ("session/get", get)];
    for (method, params) in requests {
        let request = request(method, &params);
        let answer = client.exchange(&request).len();
        let mut bare = Line::connect(&echo.socket);
        // As many bytes there and back.
        let word = format!("{}\n", "x".repeat(usize::midpoint(request.len(), answer)));
        let (mut ours, mut floor) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            floor.push(p50(&mut bare, &word));
            ours.push(p50(&mut client, &request));
        }
        table.time(
            &format!("`{method}` over the socket, p50"),
            median(ours),
            ("echo of as many bytes", median(floor)),
        );
    }
    runtime.block_on(daemon.stop());
}

fn p50(line: &mut Line, request: &str) -> Duration {
    let samples = (0..REQUESTS).map(|_| {
        let start = Instant::now();
        line.exchange(request);
        start.elapsed()
    });
    median(samples.collect())
}

fn request(method: &str, params: &Value) -> String {
    format!("{}\n", json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
}

/// A blocking client, so that no runtime's wake-up is measured but the daemon's.
struct Line {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl Line {
    fn connect(socket: &Path) -> Self {
        let writer = UnixStream::connect(socket).expect("it listens");
        let reader = BufReader::new(writer.try_clone().expect("there are descriptors"));
        Self { reader, writer }
    }

    fn exchange(&mut self, request: &str) -> String {
        self.writer.write_all(request.as_bytes()).expect("it reads");
        let mut answer = String::new();
        self.reader.read_line(&mut answer).expect("it answers");
        answer
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        let answer = self.exchange(&request(method, params));
        serde_json::from_str(&answer).expect("an answer is JSON")
    }
}

/// The echo's process; ended when dropped.
struct Echo {
    child: Child,
    socket: std::path::PathBuf,
}

impl Echo {
    fn start(socket: &Path) -> Self {
        let program = std::env::current_exe().expect("a program knows its own path");
        let child = Command::new(program).arg(ECHO).arg(socket).spawn().expect("it starts");
        while UnixStream::connect(socket).is_err() {
            std::thread::yield_now();
        }
        Self { child, socket: socket.to_owned() }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        // It has no other end than this.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Answers every byte with itself until it is killed.
pub(crate) fn echo(socket: &str) {
    let runtime = Runtime::new().expect("a runtime starts");
    runtime.block_on(async {
        let listener = UnixListener::bind(socket).expect("the place is free");
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut bytes = vec![0; 64 << 10];
                while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                    if stream.write_all(&bytes[..count]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
}
