//! What leaves a connection: one bounded queue and the one task that writes it.
//!
//! The write call is the cost, not the JSON, so the writer takes what is ready, up to 48 KiB, into
//! one call. Answers go first; notifications keep their order among themselves. Whoever has
//! something to say waits for room, and so a client that does not read holds up its own forwarders
//! and calls and nothing else.
//!
//! Invariants: at most [`QUEUE_MESSAGES`] messages and [`QUEUE_BYTES`] bytes wait or are being
//! written (a larger message has the queue to itself); what was queued is written before an
//! orderly end.
//!
//! Receives answers and notifications of a connection; hands bytes to its socket.

use std::future::Future;
use std::sync::{Arc, OnceLock};

use agentd_protocol::framing::{self, Framing};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// The most messages that wait: enough for a burst of deltas of a fast model.
pub const QUEUE_MESSAGES: usize = 1_024;
/// The most bytes that wait: a few large results, and a bound of what a stopped client costs.
pub const QUEUE_BYTES: usize = 4 * 1024 * 1024;
/// Bytes taken into one write: more gains nothing, less costs calls.
const WRITE_BYTES: usize = 48 * 1024;
/// What a message takes of the room at least, so that bytes alone bound the messages too.
const MIN_WEIGHT: usize = QUEUE_BYTES / QUEUE_MESSAGES;

/// The connection's writer is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the connection is closed")]
pub struct Closed;

/// Which messages go before which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Before all that waits.
    First,
    /// After all that waits.
    InOrder,
}

struct Queued {
    message: Bytes,
    room: OwnedSemaphorePermit,
}

/// The queue of a connection. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Outbound {
    // Both channels have room for every message that the semaphore lets in.
    first: mpsc::Sender<Queued>,
    in_order: mpsc::Sender<Queued>,
    room: Arc<Semaphore>,
    closed: CancellationToken,
}

impl std::fmt::Debug for Queued {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queued").field("bytes", &self.message.len()).finish_non_exhaustive()
    }
}

impl Outbound {
    /// A queue, and the task to run that writes it to `socket` in the framing that `framing` tells
    /// by then (lines, where the client said nothing). The task ends when `finish` is cancelled and all is written, or when the socket fails.
    pub fn new<W>(
        socket: W,
        framing: Arc<OnceLock<Framing>>,
        finish: CancellationToken,
    ) -> (Self, impl Future<Output = ()> + Send)
    where
        W: AsyncWrite + Unpin + Send,
    {
        let (first, first_rx) = mpsc::channel(QUEUE_MESSAGES);
        let (in_order, in_order_rx) = mpsc::channel(QUEUE_MESSAGES);
        let room = Arc::new(Semaphore::new(QUEUE_BYTES));
        let closed = CancellationToken::new();
        let writer = Writer { socket, framing, first: first_rx, in_order: in_order_rx };
        let outbound = Self { first, in_order, room: room.clone(), closed: closed.clone() };
        let run = async move {
            if let Err(error) = writer.run(finish).await {
                tracing::debug!(%error, "a connection cannot be written to any more");
            }
            room.close();
            closed.cancel();
        };
        (outbound, run)
    }

    /// Queues a message when there is room for it. Dropping the future before gives up the
    /// message and nothing else.
    pub async fn send(&self, lane: Lane, message: Bytes) -> Result<(), Closed> {
        let room = self.room.clone().acquire_many_owned(weight(&message)).await;
        self.queue(lane, message, room.map_err(|_| Closed)?)
    }

    /// Queues a message if there is room now, else gives it back.
    pub fn try_send(&self, lane: Lane, message: Bytes) -> Result<(), Bytes> {
        match self.room.clone().try_acquire_many_owned(weight(&message)) {
            Ok(room) => {
                // A closed queue loses the message, as it does with those that wait in it.
                let _ = self.queue(lane, message, room);
                Ok(())
            }
            Err(_) => Err(message),
        }
    }

    /// Ends when nothing can be written any more.
    pub async fn closed(&self) {
        self.closed.cancelled().await;
    }

    fn queue(&self, lane: Lane, message: Bytes, room: OwnedSemaphorePermit) -> Result<(), Closed> {
        let queue = match lane {
            Lane::First => &self.first,
            Lane::InOrder => &self.in_order,
        };
        queue.try_send(Queued { message, room }).map_err(|_| Closed)
    }
}

fn weight(message: &Bytes) -> u32 {
    u32::try_from(message.len().clamp(MIN_WEIGHT, QUEUE_BYTES)).expect("4 MiB is a u32")
}

struct Writer<W> {
    socket: W,
    framing: Arc<OnceLock<Framing>>,
    first: mpsc::Receiver<Queued>,
    in_order: mpsc::Receiver<Queued>,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    async fn run(mut self, finish: CancellationToken) -> std::io::Result<()> {
        let mut buffer = BytesMut::new();
        while let Some(message) = self.next(&finish).await {
            let framing = self.framing.get().copied().unwrap_or(Framing::Lines);
            framing::encode(framing, &message.message, &mut buffer);
            let mut room = message.room;
            while buffer.len() < WRITE_BYTES {
                let Some(more) = self.ready() else { break };
                framing::encode(framing, &more.message, &mut buffer);
                room.merge(more.room);
            }
            self.socket.write_all(&buffer).await?;
            drop(room);
            buffer.clear();
            if buffer.capacity() > 4 * WRITE_BYTES {
                buffer = BytesMut::new();
            }
        }
        self.socket.shutdown().await
    }

    /// The next message; after `finish`, what is queued and then none.
    async fn next(&mut self, finish: &CancellationToken) -> Option<Queued> {
        let message = tokio::select! {
            biased;
            message = self.first.recv() => message,
            message = self.in_order.recv() => message,
            () = finish.cancelled() => None,
        };
        message.or_else(|| self.ready())
    }

    fn ready(&mut self) -> Option<Queued> {
        self.first.try_recv().or_else(|_| self.in_order.try_recv()).ok()
    }
}

#[cfg(test)]
mod tests;
