//! What one connection watches: at most one subscription per session, and one to the daemon.
//!
//! A subscription's id is the session's, so that all watchers share each line. A second
//! `session/subscribe` replaces the first once it has succeeded; which of two is the second is
//! settled when they arrive, not when they are answered.
//!
//! Invariants: the old forwarder has ended before the answer to its replacement or to the
//! unsubscription is queued; a forwarder starts after the answer to its subscription was queued.
//!
//! Receives subscriptions from `handlers`; hands their messages to `outbound`.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use agentd_protocol::id::SessionId;
use bytes::Bytes;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::rpc::outbound::{Lane, Outbound};

/// At the daemon's end a forwarder goes on until nothing came for this long: the last events are
/// committed by then and at most a read away.
const QUIET: Duration = Duration::from_millis(100);

/// What is watched.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Topic {
    /// A session.
    Session(SessionId),
    /// The daemon.
    Daemon,
}

/// A source of whole notifications.
pub trait Source: Send + 'static {
    /// The next one; `None` at the end. Cancel-safe.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

/// The subscriptions of a connection.
#[derive(Debug, Default)]
pub struct Subscriptions {
    topics: Mutex<Topics>,
    closing: CancellationToken,
}

#[derive(Debug, Default)]
struct Topics {
    by_topic: HashMap<Topic, Subscription>,
    last_claim: u64,
}

#[derive(Debug, Default)]
struct Subscription {
    /// The last claim, which is the one that counts.
    claim: u64,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    stop: CancellationToken,
    ended: CancellationToken,
}

impl Running {
    async fn end(self) {
        self.stop.cancel();
        self.ended.cancelled().await;
    }
}

/// A place in the order of requests for a topic.
#[derive(Debug)]
pub struct Claim {
    topic: Topic,
    number: u64,
}

/// The right to forward.
#[derive(Debug)]
pub struct Permit {
    stop: CancellationToken,
    closing: CancellationToken,
    _ended: DropGuard,
}

impl Subscriptions {
    /// Notes that a subscription is wanted. To be called when the request arrives.
    pub fn claim(&self, topic: Topic) -> Claim {
        let mut topics = self.lock();
        topics.last_claim += 1;
        let number = topics.last_claim;
        topics.by_topic.entry(topic.clone()).or_default().claim = number;
        Claim { topic, number }
    }

    /// Ends the former subscription and makes way for the new one; `None` if a later request
    /// replaced or ended it already.
    pub async fn start(&self, claim: Claim) -> Option<Permit> {
        let (stop, ended) = (CancellationToken::new(), CancellationToken::new());
        let running = Running { stop: stop.clone(), ended: ended.clone() };
        let former = {
            let mut topics = self.lock();
            let subscription = topics.by_topic.get_mut(&claim.topic)?;
            if subscription.claim != claim.number {
                return None;
            }
            subscription.running.replace(running)
        };
        let permit = Permit { stop, closing: self.closing.clone(), _ended: ended.drop_guard() };
        if let Some(former) = former {
            former.end().await;
        }
        Some(permit)
    }

    /// Takes back a claim that came to nothing; a former subscription goes on.
    pub fn give_up(&self, claim: &Claim) {
        let mut topics = self.lock();
        if topics
            .by_topic
            .get(&claim.topic)
            .is_some_and(|topic| topic.claim == claim.number && topic.running.is_none())
        {
            topics.by_topic.remove(&claim.topic);
        }
    }

    /// Ends a subscription; false if there was none.
    pub async fn end(&self, topic: &Topic) -> bool {
        let former = self.lock().by_topic.remove(topic);
        match former {
            None => false,
            Some(Subscription { running: None, .. }) => true,
            Some(Subscription { running: Some(running), .. }) => {
                let there = !running.ended.is_cancelled();
                running.end().await;
                there
            }
        }
    }

    /// Lets every forwarder pass on what is there and end.
    pub fn close(&self) {
        self.closing.cancel();
    }

    /// Ends every forwarder at once.
    pub fn abandon(&self) {
        for subscription in self.lock().by_topic.values() {
            if let Some(running) = &subscription.running {
                running.stop.cancel();
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Topics> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Passes messages on until the source, the subscription or the connection ends.
pub async fn forward<S: Source>(mut source: S, outbound: Outbound, permit: Permit) {
    let Permit { stop, closing, _ended } = permit;
    let pump = async {
        loop {
            let quiet = async {
                closing.cancelled().await;
                tokio::time::sleep(QUIET).await;
            };
            let message = tokio::select! {
                biased;
                message = source.next() => message,
                () = quiet => None,
            };
            let Some(message) = message else { return };
            if outbound.send(Lane::InOrder, message).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = pump => {}
    }
}

#[cfg(test)]
mod tests;
