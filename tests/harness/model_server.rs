//! A model server on loopback: real HTTP, in each of the wire formats, scripted by the test.
//!
//! It answers with what was pushed, in order, else with what a closure makes of the request, and
//! refuses every request that a real provider might refuse (`dialect`). A stream can stop at a
//! [`Gate`] until the test opens it, be cut off, or fall silent.
//!
//! Receives requests of the daemon under test; hands it answers, and the test what was asked.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Collected, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::dialect::{Dialect, Ending, Step};
use crate::wait;

/// Pieces of a stream on their way to the socket: one, so that the script does not run ahead.
const PIECES: usize = 1;
/// Characters of text or arguments in one piece.
const PIECE_CHARS: usize = 7;

/// One answer of the model.
#[derive(Debug, Clone)]
pub struct Answer {
    status: StatusCode,
    headers: Vec<(&'static str, String)>,
    steps: Vec<Act>,
    calls: usize,
    ending: Ending,
    ends: End,
    refusal: Option<String>,
}

#[derive(Debug, Clone)]
enum Act {
    Say(Step),
    Raw(String),
    Wait(Gate),
    Pause(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Done,
    Cut,
    CutAfterUsage,
    /// The connection is closed in order, before the answer's end.
    Closed,
    Garbled,
    Silence,
}

impl Answer {
    /// An answer that says nothing yet.
    pub fn new() -> Self {
        Self {
            status: StatusCode::OK,
            headers: Vec::new(),
            steps: Vec::new(),
            calls: 0,
            ending: Ending { finish_reason: "stop", usage: tokens(100, 10), pauses: false },
            ends: End::Done,
            refusal: None,
        }
    }

    /// An answer that is only text.
    pub fn saying(text: &str) -> Self {
        Self::new().text(text)
    }

    /// An answer that is only a call.
    pub fn calling(name: &str, arguments: &Value) -> Self {
        Self::new().call(name, arguments)
    }

    /// A refusal with this status.
    pub fn refusing(status: u16, message: &str) -> Self {
        Self {
            status: StatusCode::from_u16(status).expect("a status has three digits"),
            refusal: Some(message.to_owned()),
            ..Self::new()
        }
    }

    /// With this header.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }

    /// Then this text, in small pieces.
    #[must_use]
    pub fn text(mut self, text: &str) -> Self {
        self.steps.extend(pieces(text).map(|piece| Act::Say(Step::Text(piece))));
        self
    }

    /// Then this reasoning, in small pieces.
    #[must_use]
    pub fn reasoning(mut self, text: &str) -> Self {
        self.steps.extend(pieces(text).map(|piece| Act::Say(Step::Reasoning(piece))));
        self
    }

    /// Then this call, its arguments in small pieces.
    #[must_use]
    pub fn call(self, name: &str, arguments: &Value) -> Self {
        self.call_with_text(name, &arguments.to_string())
    }

    /// Then a call with these arguments as they are, JSON or not.
    #[must_use]
    pub fn call_with_text(mut self, name: &str, arguments: &str) -> Self {
        let index = self.calls;
        self.calls += 1;
        self.ending.finish_reason = "tool_calls";
        let first = Step::Call { index, name: name.to_owned() };
        let rest = pieces(arguments).map(|piece| Step::Arguments { index, piece });
        self.steps.extend([first].into_iter().chain(rest).map(Act::Say));
        self
    }

    /// Then nothing until the test opens the gate.
    #[must_use]
    pub fn wait(mut self, gate: &Gate) -> Self {
        self.steps.push(Act::Wait(gate.clone()));
        self
    }

    /// With this finish reason.
    #[must_use]
    pub fn finish_reason(mut self, reason: &'static str) -> Self {
        self.ending.finish_reason = reason;
        self
    }

    /// With this usage: tokens in and out.
    #[must_use]
    pub fn usage(self, input: u64, output: u64) -> Self {
        self.usage_report(tokens(input, output))
    }

    /// With this report of usage, as it is.
    #[must_use]
    pub fn usage_report(mut self, report: Value) -> Self {
        self.ending.usage = report;
        self
    }

    /// Then it pauses: the provider says that its turn has not ended.
    #[must_use]
    pub fn pausing(mut self) -> Self {
        self.steps.push(Act::Say(Step::Pause));
        self.ending.pauses = true;
        self
    }

    /// Then this delta of Chat Completions, as it is.
    #[must_use]
    pub fn delta(self, delta: &Value) -> Self {
        let choices = json!([{ "index": 0, "delta": delta, "finish_reason": null }]);
        self.raw(&format!("data: {}\n\n", json!({ "choices": choices })))
    }

    /// Then these bytes of the stream, as they are.
    #[must_use]
    pub fn raw(mut self, bytes: &str) -> Self {
        self.steps.push(Act::Raw(bytes.to_owned()));
        self
    }

    /// Then nothing for so long, as a slow server would.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.steps.push(Act::Pause(pause));
        self
    }

    /// Then the connection is closed in order, as if all had been said.
    #[must_use]
    pub fn closed(mut self) -> Self {
        self.ends = End::Closed;
        self
    }

    /// Then bytes that mean nothing.
    #[must_use]
    pub fn garbled(mut self) -> Self {
        self.ends = End::Garbled;
        self
    }

    /// Then the connection is cut off.
    #[must_use]
    pub fn cut(mut self) -> Self {
        self.ends = End::Cut;
        self
    }

    /// Then its usage, and the connection is cut off.
    #[must_use]
    pub fn usage_before_cut(mut self) -> Self {
        self.ends = End::CutAfterUsage;
        self
    }

    /// Then silence for as long as the daemon listens.
    #[must_use]
    pub fn silence(mut self) -> Self {
        self.ends = End::Silence;
        self
    }
}

impl Default for Answer {
    fn default() -> Self {
        Self::new()
    }
}

fn tokens(input: u64, output: u64) -> Value {
    json!({ "prompt_tokens": input, "completion_tokens": output, "total_tokens": input + output })
}

fn pieces(text: &str) -> impl Iterator<Item = String> {
    let chars: Vec<char> = text.chars().collect();
    chars
        .chunks(PIECE_CHARS)
        .map(|piece| piece.iter().collect())
        .collect::<Vec<String>>()
        .into_iter()
}

/// A place in a stream where the server stops until the test lets it go on.
#[derive(Debug, Clone)]
pub struct Gate(watch::Sender<Passage>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Passage {
    Closed,
    Reached,
    Open,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self(watch::Sender::new(Passage::Closed))
    }

    /// Waits until a stream stands before it.
    pub async fn reached(&self) {
        self.at_least("a stream to reach the gate", Passage::Reached).await;
    }

    /// Lets all pass, now and later.
    pub fn open(&self) {
        self.0.send_replace(Passage::Open);
    }

    async fn pass(&self) {
        self.0.send_if_modified(|passage| {
            let was_closed = *passage == Passage::Closed;
            if was_closed {
                *passage = Passage::Reached;
            }
            was_closed
        });
        let mut passage = self.0.subscribe();
        // The sender lives in `self`.
        let _ = passage.wait_for(|passage| *passage == Passage::Open).await;
    }

    async fn at_least(&self, what: &str, least: Passage) {
        let mut passage = self.0.subscribe();
        let reached = passage.wait_for(|passage| *passage >= least);
        let _ = wait::within(what, reached).await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Its body, byte for byte.
    pub bytes: Bytes,
    /// Its body.
    pub body: Value,
    /// Its header `authorization`.
    pub authorization: Option<String>,
    /// Why it was refused, if it was.
    pub refusal: Option<String>,
}

type Improvise = Box<dyn Fn(&Value) -> Answer + Send + Sync>;

#[derive(Default)]
struct Script {
    dialect: Dialect,
    queue: Mutex<VecDeque<Answer>>,
    improvise: Mutex<Option<Improvise>>,
    asked: Mutex<Vec<Asked>>,
    /// Streams that the daemon left before their end.
    hangups: watch::Sender<u64>,
}

/// The server. It is gone when this is dropped.
pub struct ModelServer {
    address: SocketAddr,
    script: Arc<Script>,
    _tasks: JoinSet<()>,
}

impl fmt::Debug for ModelServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelServer").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ModelServer {
    /// Starts a server that speaks Chat Completions.
    pub async fn start() -> Self {
        Self::speaking(Dialect::Chat).await
    }

    /// Starts a server that speaks this.
    pub async fn speaking(dialect: Dialect) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let script = Arc::new(Script { dialect, ..Script::default() });
        let mut tasks = JoinSet::new();
        tasks.spawn(serve(listener, script.clone()));
        Self { address, script, _tasks: tasks }
    }

    /// The configuration of a daemon whose model `test/model` is this one.
    pub fn config(&self) -> String {
        format!(
            "model = \"test/model\"\n\
             [providers.test]\n\
             wire = \"{}\"\n\
             base_url = \"http://{}/v1\"\n\
             max_retries = 2\n\
             [providers.test.models.model]\n\
             context_window = 32768\n",
            self.script.dialect.wire(),
            self.address
        )
    }

    /// Answers the next request that has no answer yet with this.
    pub fn push(&self, answer: Answer) {
        lock(&self.script.queue).push_back(answer);
    }

    /// Answers requests for which nothing was pushed.
    pub fn improvise(&self, answer: impl Fn(&Value) -> Answer + Send + Sync + 'static) {
        *lock(&self.script.improvise) = Some(Box::new(answer));
    }

    /// All requests so far.
    pub fn asked(&self) -> Vec<Asked> {
        lock(&self.script.asked).clone()
    }

    /// Waits until the daemon left this many streams before their end.
    pub async fn hangups(&self, count: u64) {
        let mut hangups = self.script.hangups.subscribe();
        let reached = hangups.wait_for(|seen| *seen >= count);
        let _ = wait::within("the daemon to leave the stream", reached).await;
    }

    /// Fails if a request was not of the form that real providers demand.
    pub fn assert_all_taken(&self) {
        for (index, asked) in self.asked().iter().enumerate() {
            if let Some(refusal) = &asked.refusal {
                panic!("request {index} was refused: {refusal}\n{:#}", asked.body);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(listener: TcpListener, script: Arc<Script>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let script = script.clone();
        connections.spawn(async move {
            let service = service_fn(|request| answer(request, script.clone()));
            let connection = hyper::server::conn::http1::Builder::new();
            // A cut stream ends the connection with an error; that is its point.
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

type Body = BoxBody<Bytes, io::Error>;

async fn answer(
    request: Request<Incoming>,
    script: Arc<Script>,
) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let authorization = request
        .headers()
        .get("authorization")
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let bytes = request.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let checked = if path == script.dialect.path() {
        script.dialect.check(&body)
    } else {
        Err(format!("nothing is at {path}"))
    };
    let answer = match &checked {
        Ok(()) => next(&script, &body),
        Err(why) => Answer::refusing(400, why),
    };
    let whole = body.get("stream") == Some(&Value::Bool(false));
    lock(&script.asked).push(Asked { bytes, body, authorization, refusal: checked.err() });
    Ok(respond(answer, whole, script))
}

fn next(script: &Script, body: &Value) -> Answer {
    if let Some(answer) = lock(&script.queue).pop_front() {
        return answer;
    }
    match &*lock(&script.improvise) {
        Some(improvise) => improvise(body),
        None => Answer::refusing(400, "the test has no answer for this request"),
    }
}

fn respond(answer: Answer, whole: bool, script: Arc<Script>) -> Response<Body> {
    let mut response = Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(*name, value);
    }
    let body = if let Some(message) = &answer.refusal {
        response = response.header("content-type", "application/json");
        Full::new(Bytes::from(script.dialect.refusal(message).to_string()))
            .map_err(|never| match never {})
            .boxed()
    } else {
        let kind = if whole { "application/json" } else { "text/event-stream" };
        response = response.header("content-type", kind);
        let (sender, receiver) = mpsc::channel(PIECES);
        // It ends with the stream, at the latest when the daemon leaves.
        tokio::spawn(play(answer, whole, sender, script));
        let frames = stream::unfold(receiver, async |mut receiver| {
            receiver.recv().await.map(|frame| (frame, receiver))
        });
        BodyExt::boxed(StreamBody::new(frames))
    };
    response.body(body).expect("names and values of headers are right")
}

type Piece = Result<Frame<Bytes>, io::Error>;

async fn play(answer: Answer, whole: bool, sender: mpsc::Sender<Piece>, script: Arc<Script>) {
    let left = async { sender.closed().await };
    let dialect = script.dialect;
    let played = async {
        if whole {
            tell_whole(&answer, dialect, &sender).await
        } else {
            script_of(&answer, dialect, &sender).await
        }
    };
    let is_whole = tokio::select! {
        () = left => false,
        is_whole = played => is_whole,
    };
    if !is_whole {
        script.hangups.send_modify(|count| *count += 1);
    }
}

/// Says whether the daemon took all of it.
async fn script_of(answer: &Answer, dialect: Dialect, sender: &mpsc::Sender<Piece>) -> bool {
    let mut speaker = dialect.speak();
    let send = async |text: String| {
        text.is_empty() || sender.send(Ok(Frame::data(Bytes::from(text)))).await.is_ok()
    };
    if !send(speaker.begin()).await {
        return false;
    }
    for step in &answer.steps {
        match step {
            Act::Wait(gate) => gate.pass().await,
            Act::Pause(pause) => tokio::time::sleep(*pause).await,
            Act::Raw(bytes) => {
                if !send(bytes.clone()).await {
                    return false;
                }
            }
            Act::Say(step) => {
                if !send(speaker.step(step)).await {
                    return false;
                }
            }
        }
    }
    // Dropped by the server, this ends the connection in mid-stream.
    let broken = || Err(io::ErrorKind::ConnectionAborted.into());
    match answer.ends {
        End::Cut => sender.send(broken()).await.is_ok(),
        End::CutAfterUsage => {
            send(speaker.usage(&answer.ending)).await && sender.send(broken()).await.is_ok()
        }
        End::Silence => {
            sender.closed().await;
            false
        }
        End::Closed => true,
        End::Garbled => send("data: {\"choices\":[{\"del\u{fffd}\n\n".to_owned()).await,
        End::Done => send(speaker.end(&answer.ending)).await,
    }
}

/// The same answer for a client that asked for it as a whole.
async fn tell_whole(answer: &Answer, dialect: Dialect, sender: &mpsc::Sender<Piece>) -> bool {
    let mut steps = Vec::new();
    for step in &answer.steps {
        match step {
            Act::Wait(gate) => gate.pass().await,
            Act::Pause(pause) => tokio::time::sleep(*pause).await,
            Act::Say(step) => steps.push(step.clone()),
            Act::Raw(_) => {}
        }
    }
    let body = dialect.speak().whole(&steps, &answer.ending).to_string();
    let piece = |text: &str| Ok(Frame::data(Bytes::from(text.to_owned())));
    let half = &body[..body.len() / 2];
    match answer.ends {
        End::Done => sender.send(piece(&body)).await.is_ok(),
        End::Closed | End::Garbled => sender.send(piece(half)).await.is_ok(),
        End::Cut | End::CutAfterUsage => {
            let broken = Err(io::ErrorKind::ConnectionAborted.into());
            sender.send(piece(half)).await.is_ok() && sender.send(broken).await.is_ok()
        }
        End::Silence => {
            sender.closed().await;
            false
        }
    }
}
