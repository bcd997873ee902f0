//! A model server on loopback that answers by a script, piece by piece.
//!
//! Receives requests of the provider under test; hands it scripted answers, and the test what was
//! asked.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// A part of an answer's body.
#[derive(Debug, Clone)]
pub(in crate::provider) enum Step {
    Send(String),
    /// The connection is cut off.
    Break,
    /// Nothing comes any more, and the connection stays open.
    Hang,
}

/// An answer.
#[derive(Debug, Clone)]
pub(in crate::provider) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    steps: Vec<Step>,
}

impl Reply {
    /// Status 200 and a stream of these pieces.
    pub(in crate::provider) fn stream(steps: impl IntoIterator<Item = Step>) -> Self {
        Self { status: 200, headers: Vec::new(), steps: steps.into_iter().collect() }
            .header("content-type", "text/event-stream")
    }

    /// This body as one piece.
    pub(in crate::provider) fn body(status: u16, content_type: &str, body: &str) -> Self {
        Self { status, headers: Vec::new(), steps: vec![Step::Send(body.to_owned())] }
            .header("content-type", content_type)
    }

    pub(in crate::provider) fn header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((name, value.to_owned()));
        self
    }
}

/// A request as it came.
#[derive(Debug)]
pub(in crate::provider) struct Asked {
    pub(in crate::provider) path: String,
    pub(in crate::provider) headers: HeaderMap,
    pub(in crate::provider) body: Bytes,
}

/// The server; ends when it is dropped.
#[derive(Debug)]
pub(in crate::provider) struct Server {
    pub(in crate::provider) address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    script: Mutex<VecDeque<Reply>>,
    asked: Mutex<Vec<Asked>>,
    connections: watch::Sender<usize>,
    /// Bodies that were dropped, at their end or before.
    dropped: watch::Sender<usize>,
}

impl Server {
    /// A server that gives these answers in order.
    pub(in crate::provider) async fn start(script: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            script: Mutex::new(script.into_iter().collect()),
            asked: Mutex::default(),
            connections: watch::Sender::new(0),
            dropped: watch::Sender::new(0),
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, task }
    }

    /// The requests so far.
    pub(in crate::provider) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(in crate::provider) fn connections(&self) -> usize {
        *self.shared.connections.borrow()
    }

    /// Waits until a body was dropped.
    pub(in crate::provider) async fn body_dropped(&self) {
        let mut dropped = self.shared.dropped.subscribe();
        dropped.wait_for(|count| *count > 0).await.expect("the server lives");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        shared.connections.send_modify(|count| *count += 1);
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            let service = service_fn(|request| answer(request, Arc::clone(&shared)));
            let connection = hyper::server::conn::http1::Builder::new();
            // A client that goes away is what some tests are about.
            let _ = connection.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

/// Counts when a body is dropped.
struct Dropped(Arc<Shared>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.dropped.send_modify(|count| *count += 1);
    }
}

type Body = StreamBody<stream::BoxStream<'static, io::Result<Frame<Bytes>>>>;

async fn answer(
    request: Request<Incoming>,
    shared: Arc<Shared>,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.expect("the whole request").to_bytes();
    let asked = Asked { path: head.uri.to_string(), headers: head.headers, body };
    shared.asked.lock().unwrap_or_else(PoisonError::into_inner).push(asked);
    let reply = shared.script.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let reply = reply.unwrap_or_else(|| Reply::body(500, "text/plain", "the script is over"));
    let mut response = Response::builder().status(reply.status);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    let start = (VecDeque::from(reply.steps), Dropped(shared));
    let steps = stream::unfold(start, |(mut steps, dropped)| async move {
        let piece = match steps.pop_front()? {
            Step::Send(text) => Ok(Frame::data(Bytes::from(text))),
            Step::Break => {
                // What was sent before leaves while this waits.
                tokio::task::yield_now().await;
                Err(io::Error::other("broken by the script"))
            }
            Step::Hang => std::future::pending().await,
        };
        Some((piece, (steps, dropped)))
    });
    let body = StreamBody::new(futures_util::StreamExt::boxed(steps));
    Ok(response.body(body).expect("the script's headers are proper"))
}
