//! The door: accepts connections, refuses those that may not come in, counts the others.
//!
//! Invariants (*only the owner connects*): a connection is served after its peer was checked, and
//! nothing that a refused one writes is looked at. At
//! most `max_connections` are open; one more is told so. Running out of descriptors costs a wait,
//! never a busy loop, and never the listener.
//!
//! Receives a listening socket from `boot`; hands sockets to `connection`.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agentd_protocol::error::{ErrorData, RpcError};
use rustix::io::Errno;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::rpc::connection;
use crate::rpc::dispatch::Dispatch;
use crate::rpc::envelope::{Id, error_answer};
use crate::rpc::peer::{IsTool, Peer, parent_of};

/// How long accepting rests when the system has no descriptors or memory left.
const REST: Duration = Duration::from_millis(200);
/// What a client that found the house full is told to wait.
const RETRY_AFTER_MS: u64 = 1_000;

/// Refused clients that are told why at the same time; more of them are just closed.
const REFUSED: usize = 16;
/// How long a refused client may take to read why.
const FAREWELL: Duration = Duration::from_secs(1);

/// What the door keeper goes by.
pub struct Door {
    /// What connections are served with.
    pub dispatch: Dispatch,
    /// The user that may connect.
    pub owner: u32,
    /// Where tools start.
    pub is_tool: Arc<IsTool>,
    /// Connections at once.
    pub max_connections: usize,
    /// How many there are.
    pub count: watch::Sender<usize>,
}

/// Accepts until `stop_accepting`, then waits until `stop` has ended every connection.
pub async fn run(
    door: Door,
    listener: UnixListener,
    stop_accepting: CancellationToken,
    stop: CancellationToken,
) {
    let door = Arc::new(door);
    let connections = TaskTracker::new();
    let numbers = AtomicU64::new(1);
    let hall = Arc::new(Semaphore::new(REFUSED));
    let mut resting = false;
    while let Some(accepted) = stop_accepting.run_until_cancelled(listener.accept()).await {
        match accepted {
            Ok((stream, _)) => {
                resting = false;
                let number = numbers.fetch_add(1, Ordering::Relaxed);
                match door.admit(&stream, number) {
                    Ok(place) => {
                        let served =
                            connection::serve(stream, number, door.dispatch.clone(), stop.clone());
                        connections.spawn(async move {
                            served.await;
                            drop(place);
                        });
                    }
                    Err(refusal) => {
                        tracing::warn!(connection = number, "refused: {}", refusal.message);
                        if let Ok(place) = hall.clone().try_acquire_owned() {
                            connections.spawn(see_off(stream, refusal, place));
                        }
                    }
                }
            }
            Err(error) if is_shortage(&error) => {
                if !resting {
                    tracing::warn!(%error, "no connection can be accepted for now");
                    resting = true;
                }
                stop_accepting.run_until_cancelled(tokio::time::sleep(REST)).await;
            }
            // The client went away before it was accepted.
            Err(error) => tracing::debug!(%error, "a connection was not accepted"),
        }
    }
    drop(listener);
    connections.close();
    connections.wait().await;
}

/// One of the places for connections, free again when dropped.
struct Place(watch::Sender<usize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Door {
    fn admit(&self, stream: &UnixStream, number: u64) -> Result<Place, RpcError> {
        self.check(stream)?;
        let full = *self.count.borrow() >= self.max_connections;
        if full {
            let message = format!(
                "there are {} connections, which is the most: close one, or raise \
                 `server.max_connections`",
                self.max_connections
            );
            let data = ErrorData::Overloaded { retry_after_ms: RETRY_AFTER_MS };
            return Err(RpcError::new(data, message));
        }
        tracing::debug!(connection = number, "a connection begins");
        self.count.send_modify(|count| *count += 1);
        Ok(Place(self.count.clone()))
    }

    fn check(&self, stream: &UnixStream) -> Result<(), RpcError> {
        let forbidden = |message| RpcError::new(ErrorData::Forbidden { role: None }, message);
        let peer = Peer::of(stream).map_err(|error| {
            forbidden(format!("the system does not say whose connection this is: {error}"))
        })?;
        peer.check(self.owner, &*self.is_tool, parent_of)
            .map_err(|refusal| forbidden(refusal.to_string()))
    }
}

/// Tells a client why it is not served. It is not cut off while it writes, or it would hear of
/// that instead; nothing it writes is looked at.
async fn see_off(mut stream: UnixStream, refusal: RpcError, place: OwnedSemaphorePermit) {
    let mut line = error_answer(&Id::null(), &refusal).to_vec();
    line.push(b'\n');
    let farewell = async {
        stream.write_all(&line).await?;
        stream.shutdown().await?;
        tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
    };
    // It may be gone, or stay; either way it is over.
    let _ = tokio::time::timeout(FAREWELL, farewell).await;
    drop(place);
}

fn is_shortage(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

#[cfg(test)]
mod tests;
