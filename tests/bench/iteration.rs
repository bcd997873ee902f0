//! An iteration: from the last byte of a model's answer to the arrival of the next request, with
//! a call in between, early and late in a long turn.
//!
//! The floor is a bare loop over the same server in the same run: read the answer, read a small
//! file (or run `bash -c true`), make two durable commits, send the grown conversation.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use harness::daemon::Daemon;
use rusqlite::Connection;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use tokio::runtime::Runtime;

use crate::ground;
use crate::table::{Table, median};

/// Where in the turn is measured.
const PLACES: [usize; 3] = [10, 1_000, 10_000];
/// Iterations that are measured at each place.
const SAMPLES: usize = 200;

/// An iteration with a tool that runs in the daemon.
pub(crate) fn measure_read(table: &mut Table) {
    measure(table, "read", Tool::Read);
}

/// An iteration with a tool that is a process of its own.
pub(crate) fn measure_shell(table: &mut Table) {
    measure(table, "shell", Tool::Shell);
}

fn measure(table: &mut Table, name: &str, tool: Tool) {
    let ours = daemon(tool);
    let floor = bare_loop(tool);
    for place in PLACES {
        table.time(
            &format!("iteration {place}, {name}, p50"),
            ours.at(place),
            ("bare loop, 2 commits", floor.at(place)),
        );
    }
    table.time(
        &format!("CPU of an iteration, {name}, mean"),
        ours.cpu,
        ("bare loop, 2 commits", floor.cpu),
    );
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tool {
    Read,
    Shell,
}

impl Tool {
    fn call(self, number: usize) -> (&'static str, String) {
        match self {
            // No two calls are the same: a duplicate would not run.
            Self::Read => ("read", json!({ "path": "a.txt", "limit": number }).to_string()),
            Self::Shell => ("shell", json!({ "command": format!("true {number}") }).to_string()),
        }
    }
}

/// How long each iteration took, and what CPU time one took on average.
struct Run {
    iterations: Vec<Duration>,
    cpu: Duration,
}

impl Run {
    fn at(&self, place: usize) -> Duration {
        median(self.iterations[place..place + SAMPLES].to_vec())
    }
}

fn last_iteration() -> usize {
    PLACES.iter().max().expect("there are places") + SAMPLES + 1
}

fn daemon(tool: Tool) -> Run {
    let server = Server::start(tool);
    let runtime = Runtime::new().expect("a runtime starts");
    runtime.block_on(async {
        let config = format!(
            "model = \"bench/model\"\n[providers.bench]\nwire = \"openai-chat\"\nbase_url = \
             \"http://{}/v1\"\n[limits]\nmax_iterations = {}\n[permission]\nmode = \"full\"\n",
            server.address,
            2 * last_iteration(),
        );
        let mut daemon = Daemon::start(&config).await;
        daemon.write_file("a.txt", "a line\n");
        let mut client = daemon.client().await;
        let session = client.create_session(&daemon.work_dir()).await;
        let before = cpu_of(daemon.pid().as_raw_nonzero().get());
        client.submit(&session, "s1", "Go on.").await;
        let server = tokio::task::spawn_blocking(move || server.ended());
        let server = server.await.expect("the server ends well");
        let used = cpu_of(daemon.pid().as_raw_nonzero().get()).saturating_sub(before);
        daemon.stop().await;
        let count = u32::try_from(last_iteration()).expect("some thousands");
        Run { iterations: server.iterations(), cpu: used / count }
    })
}

/// User and system time of a process so far.
fn cpu_of(pid: i32) -> Duration {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let fields = stat.rsplit_once(") ").expect("a name stands in parentheses").1;
    let ticks: u64 = fields.split(' ').skip(11).take(2).map(|n| n.parse().unwrap_or(0)).sum();
    Duration::from_millis(ticks * 1_000 / rustix::param::clock_ticks_per_second())
}

/// The least that does the same.
fn bare_loop(tool: Tool) -> Run {
    let server = Server::start(tool);
    let dir = ground::directory();
    std::fs::write(dir.path().join("a.txt"), "a line\n").expect("there is room");
    let store = record(&dir.path().join("bare.db"));
    let mut stream = TcpStream::connect(&server.address).expect("it listens");
    stream.set_nodelay(true).expect("a socket has options");
    let mut reader = BufReader::new(stream.try_clone().expect("there are descriptors"));
    let mut body = b"{\"messages\":[".to_vec();
    let started = thread_cpu();
    for _ in 0..=last_iteration() {
        let head = format!("POST /v1 HTTP/1.1\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(head.as_bytes()).expect("it reads");
        stream.write_all(&body).expect("it reads");
        let answer = read_answer(&mut reader);
        commit(&store, &answer);
        let result = match tool {
            Tool::Read => std::fs::read(dir.path().join("a.txt")).expect("it is there"),
            Tool::Shell => Command::new("bash").args(["-c", "true"]).output().expect("bash").stdout,
        };
        commit(&store, &result);
        body.extend_from_slice(&answer);
        body.extend_from_slice(&result);
    }
    let count = u32::try_from(last_iteration()).expect("some thousands");
    Run { iterations: server.iterations(), cpu: thread_cpu().saturating_sub(started) / count }
}

fn thread_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn record(path: &Path) -> Connection {
    let store = Connection::open(path).expect("a database opens");
    store
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE record (id INTEGER PRIMARY KEY, body BLOB);",
        )
        .expect("a table is made");
    store
}

fn commit(store: &Connection, body: &[u8]) {
    let mut insert =
        store.prepare_cached("INSERT INTO record (body) VALUES (?1)").expect("a statement");
    insert.execute([body]).expect("it commits");
}

/// Reads a chunked answer to its end.
fn read_answer(reader: &mut impl BufRead) -> Vec<u8> {
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        reader.read_line(&mut line).expect("it answers");
    }
    let mut answer = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).expect("it answers");
        let length = usize::from_str_radix(line.trim(), 16).expect("a chunk has a length");
        let mut chunk = vec![0; length + 2];
        reader.read_exact(&mut chunk).expect("it answers");
        if length == 0 {
            return answer;
        }
        answer.extend_from_slice(&chunk[..length]);
    }
}

/// A model server that answers at once with one call, and at the end with a word.
struct Server {
    address: String,
    asked: Arc<Mutex<Asked>>,
    end: Receiver<()>,
}

/// What was asked so far, on whichever connection.
#[derive(Default)]
struct Asked {
    number: usize,
    answered: Option<Instant>,
    times: Vec<Duration>,
}

impl Server {
    fn start(tool: Tool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound").to_string();
        let asked = Arc::new(Mutex::new(Asked::default()));
        let noted = Arc::clone(&asked);
        let (ended, end) = channel();
        // Ends with the bench, and each connection's with it.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (noted, ended) = (Arc::clone(&noted), ended.clone());
                std::thread::spawn(move || serve(stream, tool, &noted, &ended));
            }
        });
        Self { address, asked, end }
    }

    /// Waits until the last answer is given.
    fn ended(self) -> Self {
        self.end.recv().expect("it serves to the end");
        self
    }

    fn iterations(&self) -> Vec<Duration> {
        lock(&self.asked).times.clone()
    }
}

fn lock(asked: &Mutex<Asked>) -> MutexGuard<'_, Asked> {
    asked.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(stream: TcpStream, tool: Tool, asked: &Mutex<Asked>, ended: &Sender<()>) {
    stream.set_nodelay(true).expect("a socket has options");
    let mut writer = stream.try_clone().expect("there are descriptors");
    let mut reader = BufReader::new(stream);
    while let Some(length) = read_head(&mut reader) {
        let number = {
            let mut asked = lock(asked);
            if let Some(answered) = asked.answered {
                asked.times.push(answered.elapsed());
            }
            asked.number += 1;
            asked.number
        };
        let read = std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink());
        read.expect("it writes what it said");
        if writer.write_all(answer(tool, number).as_bytes()).is_err() {
            return;
        }
        lock(asked).answered = Some(Instant::now());
        if number > last_iteration() {
            // Nobody may be waiting.
            let _ = ended.send(());
        }
    }
}

/// Reads a request's head; the length of its body.
fn read_head(reader: &mut impl BufRead) -> Option<u64> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            return Some(length);
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
}

fn answer(tool: Tool, number: usize) -> String {
    let delta = if number > last_iteration() {
        json!({ "content": "Done." })
    } else {
        let (name, arguments) = tool.call(number);
        let function = json!({ "name": name, "arguments": arguments });
        json!({ "tool_calls": [{ "index": 0, "id": format!("k{number}"), "function": function }] })
    };
    let events: String = [
        json!({ "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] }).to_string(),
        json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "stop" }] }).to_string(),
        json!({ "choices": [], "usage": { "prompt_tokens": 9, "completion_tokens": 3 } })
            .to_string(),
        "[DONE]".to_owned(),
    ]
    .map(|data| format!("data: {data}\n\n"))
    .concat();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: \
         chunked\r\n\r\n{:x}\r\n{events}\r\n0\r\n\r\n",
        events.len()
    )
}
