//! A client for the transport's own tests: it writes bytes, reads lines, and waits for states.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agentd_protocol::framing::DEFAULT_MAX_MESSAGE_BYTES;
use jsonrpsee::core::server::RpcModule;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::rpc::connection;
use crate::rpc::dispatch::Dispatch;

/// Methods that do what a test wants.
#[derive(Debug, Default, Clone)]
pub(super) struct Lab(pub Arc<LabState>);

#[derive(Debug)]
pub(super) struct LabState {
    /// What was handed over, in order.
    pub arrived: Mutex<Vec<Value>>,
    /// A permit for each call of `wait` that may end.
    pub gate: Semaphore,
    /// How often `big` ran.
    pub big: AtomicUsize,
}

impl Default for LabState {
    fn default() -> Self {
        Self { arrived: Mutex::default(), gate: Semaphore::new(0), big: AtomicUsize::new(0) }
    }
}

impl Lab {
    pub(super) fn arrived(&self) -> Vec<Value> {
        self.0.arrived.lock().unwrap().clone()
    }

    pub(super) fn dispatch(&self, max_message_bytes: usize) -> Dispatch {
        let mut module = RpcModule::new(self.clone());
        module.register_method("ping", |_, _, _| "pong").unwrap();
        module.register_method("panic", |_, _, _| -> bool { panic!("as asked") }).unwrap();
        module
            .register_method("big", |params, lab, _| {
                lab.0.big.fetch_add(1, Ordering::Relaxed);
                "x".repeat(params.parse::<Vec<usize>>().unwrap()[0])
            })
            .unwrap();
        module
            .register_async_method("late_panic", |_, _, _| async {
                tokio::task::yield_now().await;
                assert!(std::hint::black_box(false), "as asked");
            })
            .unwrap();
        module
            .register_async_method("session/items", |_, lab, _| async move {
                lab.0.arrived.lock().unwrap().push(Value::Null);
                lab.0.gate.acquire().await.unwrap().forget();
                "page"
            })
            .unwrap();
        module
            .register_async_method("wait", |params, lab, _| async move {
                let params: Value = params.parse().unwrap();
                lab.0.arrived.lock().unwrap().push(params.clone());
                lab.0.gate.acquire().await.unwrap().forget();
                params
            })
            .unwrap();
        Dispatch { methods: module.into(), max_message_bytes }
    }
}

/// A connection's other end.
pub(super) struct Client {
    read: BufReader<OwnedReadHalf>,
    write: OwnedWriteHalf,
    pub served: JoinHandle<()>,
    pub stop: CancellationToken,
}

impl Client {
    pub(super) fn of(dispatch: Dispatch) -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let stop = CancellationToken::new();
        let served = tokio::spawn(connection::serve(theirs, 1, dispatch, stop.clone()));
        let (read, write) = ours.into_split();
        Self { read: BufReader::new(read), write, served, stop }
    }

    pub(super) fn to(lab: &Lab) -> Self {
        Self::of(lab.dispatch(DEFAULT_MAX_MESSAGE_BYTES))
    }

    pub(super) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.write.write_all(bytes.as_ref()).await.unwrap();
    }

    /// Writes what the other end may not want any more.
    pub(super) async fn write_or_closed(&mut self, bytes: &[u8]) {
        let _ = self.write.write_all(bytes).await;
    }

    /// The next line as JSON; `None` at the end.
    pub(super) async fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.read.read_line(&mut line).await.unwrap();
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
    }

    /// All lines up to the end.
    pub(super) async fn rest(&mut self) -> Vec<Value> {
        let mut lines = Vec::new();
        while let Some(line) = self.line().await {
            lines.push(line);
        }
        lines
    }

    pub(super) async fn exactly(&mut self, bytes: usize) -> String {
        let mut buffer = vec![0; bytes];
        self.read.read_exact(&mut buffer).await.unwrap();
        String::from_utf8(buffer).unwrap()
    }

    /// Says that nothing more will be sent.
    pub(super) async fn half_close(&mut self) {
        self.write.shutdown().await.unwrap();
    }

    /// Goes away.
    pub(super) fn leave(self) -> JoinHandle<()> {
        self.served
    }
}

/// Waits for a state that other tasks bring about.
pub(super) async fn until(mut state: impl FnMut() -> bool) {
    while !state() {
        tokio::task::yield_now().await;
    }
}
