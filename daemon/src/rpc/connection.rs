//! One connection: it reads, hands calls over in the order of arrival, and sees to its own end.
//!
//! The reader waits for bytes, for one of the connection's permits for calls, and while many answers
//! wait to be read. So a client that sends without reading its answers is not read any further, and
//! one that waits for a slow call can still ask for other things.
//!
//! An end of input is not the end: what was asked is answered first (for at most [`DRAIN`]), then
//! the subscriptions end, then what is queued is written, then the socket is closed.
//!
//! Invariants: nothing is handed over before what came before it; every call and forwarder has
//! ended when [`serve`] returns.
//!
//! Receives a socket from `listener`; hands entries to `dispatch`.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use agentd_protocol::error::{ErrorData, RpcError};
use agentd_protocol::framing::{Decoder, Fault, Frame, Framing};
use bytes::BytesMut;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::rpc::batch::{Part, gather};
use crate::rpc::context::Context;
use crate::rpc::dispatch::{Answer, Begun, Dispatch, failed, is_page};
use crate::rpc::envelope::{self, Entry, Id, Incoming};
use crate::rpc::outbound::Outbound;

/// Calls that one connection may have running, answers that wait for room included: more would
/// only wait for the store.
pub const MAX_CALLS: usize = 256;
/// Answers of one connection that may wait for room. Each of them is whole in memory, so a client
/// that does not read them is not asked for more.
pub const MAX_UNREAD: usize = 16;
/// Calls of one connection whose answers may be as large as a message, from their start until the
/// answer is queued. They take their time of the store's readers, which others need too.
pub const MAX_PAGES: usize = 2;
/// How long an end of input waits for answers, and answers for a client that does not read.
const DRAIN: Duration = Duration::from_secs(30);
/// How long a stopping daemon waits for a client that does not read.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Bytes asked of the socket at once.
const READ_BYTES: usize = 16 * 1024;

/// Why a connection is no longer read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// The client will send nothing more.
    Input,
    /// Nothing can be written any more.
    Lost,
    /// The daemon stops.
    Stopping,
}

/// Serves a connection to its end.
pub async fn serve(stream: UnixStream, number: u64, dispatch: Dispatch, stop: CancellationToken) {
    let (socket, write) = stream.into_split();
    let framing = Arc::new(OnceLock::new());
    let finish = CancellationToken::new();
    let (outbound, writer) = Outbound::new(write, framing.clone(), finish.clone());
    let mut writer = tokio::spawn(writer);
    let gone = CancellationToken::new();
    let _gone = gone.clone().drop_guard();
    let context = Arc::new(Context::new(number, outbound, gone));
    let reader = Reader {
        socket,
        framing,
        decoder: Decoder::new(dispatch.max_message_bytes),
        calls: Arc::new(Semaphore::new(MAX_CALLS)),
        unread: Arc::new(Semaphore::new(MAX_UNREAD)),
        pages: Arc::new(Semaphore::new(MAX_PAGES)),
        dispatch,
        context: context.clone(),
    };
    let end = tokio::select! {
        biased;
        () = context.outbound.closed() => End::Lost,
        () = stop.cancelled() => End::Stopping,
        () = reader.run() => End::Input,
    };
    tracing::debug!(connection = number, ?end, "a connection ends");
    let patience = Patience { stop };
    close(&context, &patience).await;
    finish.cancel();
    if patience.with(&mut writer).await.is_none() {
        writer.abort();
        let _ = writer.await;
    }
}

/// Waits for calls, then for forwarders, and ends those that do not end by themselves.
async fn close(context: &Context, patience: &Patience) {
    context.calls.close();
    tokio::select! {
        ended = patience.with(context.calls.wait()) => if ended.is_none() {
            tracing::warn!(connection = context.connection, "calls were still running at its end");
        },
        () = context.outbound.closed() => {}
    }
    context.abandon.cancel();
    context.calls.wait().await;
    context.subscriptions.close();
    context.forwarders.close();
    if patience.with(context.forwarders.wait()).await.is_none() {
        context.subscriptions.abandon();
        context.forwarders.wait().await;
    }
}

/// How long a connection waits for its own end: less when the daemon stops.
struct Patience {
    stop: CancellationToken,
}

impl Patience {
    /// The future's outcome; `None` if it takes too long.
    async fn with<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let last_words = async {
            self.stop.cancelled().await;
            sleep(LAST_WORDS).await;
        };
        tokio::select! {
            biased;
            outcome = future => Some(outcome),
            () = sleep(DRAIN) => None,
            () = last_words => None,
        }
    }
}

/// What a call holds until its answer is queued.
struct Permit {
    _call: OwnedSemaphorePermit,
    _page: Option<OwnedSemaphorePermit>,
}

struct Reader {
    socket: OwnedReadHalf,
    framing: Arc<OnceLock<Framing>>,
    decoder: Decoder,
    calls: Arc<Semaphore>,
    unread: Arc<Semaphore>,
    pages: Arc<Semaphore>,
    dispatch: Dispatch,
    context: Arc<Context>,
}

impl Reader {
    /// Reads to the end of input, or to a fault after which nothing can be read.
    async fn run(mut self) {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(READ_BYTES);
            let read = match self.socket.read_buf(&mut buffer).await {
                Ok(read) => read,
                Err(error) => {
                    tracing::debug!(%error, "a connection cannot be read any more");
                    0
                }
            };
            loop {
                let frame = match read {
                    0 => self.decoder.decode_eof(&mut buffer),
                    _ => self.decoder.decode(&mut buffer),
                };
                if let Some(framing) = self.decoder.framing() {
                    self.framing.get_or_init(|| framing);
                }
                match frame {
                    None => break,
                    // It was told when its message passed the limit.
                    Some(Frame::Fatal(Fault::Endless { .. })) => return,
                    Some(Frame::Fatal(fault)) => {
                        let error = RpcError::new(
                            ErrorData::InvalidRequest,
                            format!("{fault}: the connection is closed"),
                        );
                        return self.answer_one(Id::null(), &error).await;
                    }
                    Some(frame) => self.frame(frame).await,
                }
            }
            if read == 0 {
                return;
            }
        }
    }

    async fn frame(&self, frame: Frame) {
        match frame {
            Frame::Message(message) => match envelope::parse(&message) {
                Incoming::Single(entry) => self.single(entry).await,
                Incoming::Batch(entries) => self.batch(entries).await,
                Incoming::Broken(error) => self.answer_one(Id::null(), &error).await,
            },
            Frame::Oversize { head } => {
                let error = RpcError::new(
                    ErrorData::InvalidRequest,
                    format!(
                        "the message is larger than {} bytes and was skipped: send less at once, \
                         or raise `server.max_message_bytes`",
                        self.dispatch.max_message_bytes
                    ),
                );
                self.answer_one(envelope::peek_id(&head), &error).await;
            }
            Frame::Fatal(_) => {}
        }
    }

    async fn single(&self, entry: Entry<'_>) {
        let permit = self.permit(&entry).await;
        match self.dispatch.begin(&self.context, entry) {
            Begun::Done(None) => {}
            Begun::Done(Some(answer)) => self.queue(answer, permit).await,
            Begun::Pending(call) => self.spawn_answer(call, permit),
        }
    }

    async fn batch(&self, entries: Vec<Entry<'_>>) {
        let mut parts = Vec::with_capacity(entries.len());
        for entry in entries {
            let permit = self.permit(&entry).await;
            parts.push(match self.dispatch.begin(&self.context, entry) {
                Begun::Done(answer) => Part::Ready(answer),
                Begun::Pending(call) => Part::Running(self.spawn(async move {
                    let answer = call.await;
                    drop(permit);
                    answer
                })),
            });
        }
        let permit = self.any_permit().await;
        self.spawn_answer(gather(parts, self.dispatch.max_message_bytes), permit);
    }

    async fn answer_one(&self, id: Id, error: &RpcError) {
        let permit = self.any_permit().await;
        self.queue(failed(id, error), permit).await;
    }

    /// Queues an answer now, or leaves the waiting to a task once few wait already.
    async fn queue(&self, answer: Answer, permit: Permit) {
        let Answer { id, json, lane, queued } = answer;
        match self.context.outbound.try_send(lane, json) {
            Ok(()) => queued.tell(),
            Err(json) => {
                let answer = Answer { id, json, lane, queued };
                let place = place(self.unread.clone()).await;
                let outbound = self.context.outbound.clone();
                self.spawn(async move {
                    send(&outbound, answer).await;
                    drop((place, permit));
                    None
                });
            }
        }
    }

    /// Leave to begin a call: not too many run, and not too many answers wait to be read.
    async fn permit(&self, entry: &Entry<'_>) -> Permit {
        let page = match entry {
            Entry::Request(request) if is_page(&request.method) => {
                Some(place(self.pages.clone()).await)
            }
            _ => None,
        };
        Permit { _page: page, ..self.any_permit().await }
    }

    async fn any_permit(&self) -> Permit {
        drop(place(self.unread.clone()).await);
        Permit { _call: place(self.calls.clone()).await, _page: None }
    }

    /// Runs a call, or the waiting of its answer, until the connection has waited long enough.
    fn spawn(
        &self,
        call: impl Future<Output = Option<Answer>> + Send + 'static,
    ) -> JoinHandle<Option<Answer>> {
        let abandon = self.context.abandon.clone();
        self.context
            .calls
            .spawn(async move { abandon.run_until_cancelled_owned(call).await.flatten() })
    }

    /// As [`Self::spawn`], and queues the answer.
    fn spawn_answer(
        &self,
        call: impl Future<Output = Option<Answer>> + Send + 'static,
        permit: Permit,
    ) {
        let (outbound, unread) = (self.context.outbound.clone(), self.unread.clone());
        self.spawn(async move {
            if let Some(Answer { id, json, lane, queued }) = call.await {
                match outbound.try_send(lane, json) {
                    Ok(()) => queued.tell(),
                    Err(json) => {
                        let place = place(unread).await;
                        send(&outbound, Answer { id, json, lane, queued }).await;
                        drop(place);
                    }
                }
            }
            drop(permit);
            None
        });
    }
}

async fn place(among: Arc<Semaphore>) -> OwnedSemaphorePermit {
    among.acquire_owned().await.expect("it is never closed")
}

async fn send(outbound: &Outbound, answer: Answer) {
    // A client that is gone misses its answer.
    if outbound.send(answer.lane, answer.json).await.is_ok() {
        answer.queued.tell();
    }
}

#[cfg(test)]
mod tests;
