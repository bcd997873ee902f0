//! Messages over a stream for jsonrpsee's client, with notifications led past it.
//!
//! jsonrpsee ends a subscription that lags and unsubscribes with parameters by position, and it
//! would give a subscription's messages to a caller who sends the next request too late to see
//! what it missed. So `session/event` goes straight from the socket to the [`Routes`], and only
//! answers go to jsonrpsee.
//!
//! Invariants: reading never waits for a watcher, so answers are never stuck behind events; a
//! watcher that does not keep up loses its route and knows it.
//!
//! Receives a connected stream; hands answers to jsonrpsee and notifications to watchers.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agentd_protocol::framing::{self, Decoder, Frame, Framing};
use agentd_protocol::method::SESSION_EVENT;
use bytes::BytesMut;
use jsonrpsee::core::client::{ReceivedMessage, TransportReceiverT, TransportSenderT};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;

/// What a client takes at most: four times what a daemon sends unless it is configured to send
/// more, so that the daemon's limit is the one that counts.
const MAX_MESSAGE_BYTES: usize = 4 * framing::DEFAULT_MAX_MESSAGE_BYTES;
/// Messages that wait for a watcher. More and it lags: it reads the rest from the log, which
/// costs a request but no event. As many as the daemon keeps for a connection.
const WAITING_MESSAGES: usize = 1024;
/// Bytes asked of the socket at once.
const READ_BYTES: usize = 64 * 1024;

/// Where notifications go: one queue a subscription.
#[derive(Debug, Clone, Default)]
pub(crate) struct Routes(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    queues: HashMap<String, mpsc::Sender<Box<RawValue>>>,
    /// The connection is over, and so is every queue.
    closed: bool,
}

impl Routes {
    /// Leads what comes for `subscription` into a new queue; a former one ends.
    pub(crate) fn open(&self, subscription: &str) -> mpsc::Receiver<Box<RawValue>> {
        let (sender, receiver) = mpsc::channel(WAITING_MESSAGES);
        let mut table = self.lock();
        if !table.closed {
            table.queues.insert(subscription.to_owned(), sender);
        }
        receiver
    }

    /// Whether a queue ended because the connection did.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Ends every queue.
    fn close(&self) {
        *self.lock() = Table { queues: HashMap::new(), closed: true };
    }

    fn deliver(&self, subscription: &str, message: Box<RawValue>) {
        let queues = &mut self.lock().queues;
        if queues.get(subscription).is_some_and(|queue| queue.try_send(message).is_err()) {
            queues.remove(subscription);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Both ends of a stream, as jsonrpsee wants them.
pub(crate) fn split(stream: UnixStream, routes: Routes) -> (Sender, Receiver) {
    let (read, write) = stream.into_split();
    let decoder = Decoder::with_framing(MAX_MESSAGE_BYTES, Framing::Lines);
    let buffer = BytesMut::new();
    (Sender { write, buffer: BytesMut::new() }, Receiver { read, decoder, buffer, routes })
}

/// The sending end.
#[derive(Debug)]
pub(crate) struct Sender {
    write: OwnedWriteHalf,
    buffer: BytesMut,
}

impl TransportSenderT for Sender {
    type Error = io::Error;

    async fn send(&mut self, message: String) -> Result<(), io::Error> {
        self.buffer.clear();
        framing::encode(Framing::Lines, message.as_bytes(), &mut self.buffer);
        self.write.write_all(&self.buffer).await
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.write.shutdown().await
    }
}

/// The receiving end.
#[derive(Debug)]
pub(crate) struct Receiver {
    read: OwnedReadHalf,
    decoder: Decoder,
    buffer: BytesMut,
    routes: Routes,
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.routes.close();
    }
}

impl TransportReceiverT for Receiver {
    type Error = io::Error;

    async fn receive(&mut self) -> Result<ReceivedMessage, io::Error> {
        loop {
            match self.decoder.decode(&mut self.buffer) {
                Some(Frame::Message(message)) => {
                    if !notified(&self.routes, &message) {
                        return Ok(ReceivedMessage::Bytes(message.to_vec()));
                    }
                }
                Some(Frame::Oversize { .. }) => {
                    let text = format!("agentd sent more than {MAX_MESSAGE_BYTES} bytes at once");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
                Some(Frame::Fatal(fault)) => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, fault));
                }
                None => {
                    self.buffer.reserve(READ_BYTES);
                    if self.read.read_buf(&mut self.buffer).await? == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
            }
        }
    }
}

#[derive(Deserialize)]
struct Notification<'a> {
    #[serde(borrow)]
    method: Cow<'a, str>,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    subscription: Cow<'a, str>,
    result: Box<RawValue>,
}

/// Delivers a notification of a session; `false` for any other message.
fn notified(routes: &Routes, message: &[u8]) -> bool {
    let Ok(notification) = serde_json::from_slice::<Notification<'_>>(message) else {
        return false;
    };
    if notification.method != SESSION_EVENT {
        return false;
    }
    routes.deliver(&notification.params.subscription, notification.params.result);
    true
}
