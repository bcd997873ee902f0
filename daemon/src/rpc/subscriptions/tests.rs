//! Subscriptions with sources that the tests fill.

use std::sync::{Arc, OnceLock};

use tokio::io::{AsyncReadExt, DuplexStream, duplex};
use tokio::sync::mpsc;

use super::*;

impl Source for mpsc::Receiver<Bytes> {
    async fn next(&mut self) -> Option<Bytes> {
        self.recv().await
    }
}

fn topic() -> Topic {
    Topic::Session("ses_1".into())
}

fn outbound(room: usize) -> (Outbound, DuplexStream) {
    let (ours, theirs) = duplex(room);
    let (outbound, writer) =
        Outbound::new(ours, Arc::new(OnceLock::new()), CancellationToken::new());
    tokio::spawn(writer);
    (outbound, theirs)
}

async fn read(stream: &mut DuplexStream, bytes: usize) -> String {
    let mut buffer = vec![0; bytes];
    stream.read_exact(&mut buffer).await.unwrap();
    String::from_utf8(buffer).unwrap()
}

#[tokio::test]
async fn the_later_request_wins_whichever_is_ready_first() {
    let subscriptions = Subscriptions::default();
    let first = subscriptions.claim(topic());
    let second = subscriptions.claim(topic());
    assert!(subscriptions.start(second).await.is_some());
    assert!(subscriptions.start(first).await.is_none());
}

#[tokio::test]
async fn a_replaced_forwarder_has_ended_before_the_new_one_may_start() {
    let subscriptions = Subscriptions::default();
    let (outbound, mut socket) = outbound(1_024);
    let (source, events) = mpsc::channel(10);
    let permit = subscriptions.start(subscriptions.claim(topic())).await.unwrap();
    let forwarder = tokio::spawn(forward(events, outbound.clone(), permit));
    source.send("1".into()).await.unwrap();
    assert_eq!(read(&mut socket, 2).await, "1\n");
    let permit = subscriptions.start(subscriptions.claim(topic())).await.unwrap();
    assert!(forwarder.is_finished());
    assert!(source.send("2".into()).await.is_err());
    let (source, events) = mpsc::channel(10);
    tokio::spawn(forward(events, outbound, permit));
    source.send("3".into()).await.unwrap();
    assert_eq!(read(&mut socket, 2).await, "3\n");
}

#[tokio::test]
async fn a_claim_that_comes_to_nothing_leaves_the_former_subscription() {
    let subscriptions = Subscriptions::default();
    let _permit = subscriptions.start(subscriptions.claim(topic())).await.unwrap();
    let failed = subscriptions.claim(topic());
    subscriptions.give_up(&failed);
    let former = subscriptions.lock().by_topic.contains_key(&topic());
    assert!(former);
    let other = Topic::Daemon;
    let failed = subscriptions.claim(other.clone());
    subscriptions.give_up(&failed);
    assert!(!subscriptions.end(&other).await);
}

#[tokio::test]
async fn an_end_is_told_once_and_also_before_the_start() {
    let subscriptions = Subscriptions::default();
    assert!(!subscriptions.end(&topic()).await);
    let (outbound, _socket) = outbound(1_024);
    let (_source, events) = mpsc::channel(10);
    let permit = subscriptions.start(subscriptions.claim(topic())).await.unwrap();
    let forwarder = tokio::spawn(forward(events, outbound, permit));
    assert!(subscriptions.end(&topic()).await);
    forwarder.await.unwrap();
    assert!(!subscriptions.end(&topic()).await);
    // The request to end it arrived while it was being made.
    let claim = subscriptions.claim(topic());
    assert!(subscriptions.end(&topic()).await);
    assert!(subscriptions.start(claim).await.is_none());
    // Its session was deleted, which ended it by itself.
    let permit = subscriptions.start(subscriptions.claim(topic())).await.unwrap();
    drop(permit);
    assert!(!subscriptions.end(&topic()).await);
}

#[tokio::test]
async fn at_the_end_what_is_there_is_still_passed_on() {
    let subscriptions = Subscriptions::default();
    let (outbound, mut socket) = outbound(1_024);
    let (source, events) = mpsc::channel(10);
    let permit = subscriptions.start(subscriptions.claim(topic())).await.unwrap();
    let forwarder = tokio::spawn(forward(events, outbound, permit));
    source.send("1".into()).await.unwrap();
    subscriptions.close();
    source.send("2".into()).await.unwrap();
    assert_eq!(read(&mut socket, 4).await, "1\n2\n");
    forwarder.await.unwrap();
}

#[tokio::test]
async fn a_slow_client_hurts_only_itself() {
    // A session that tells both watchers the same and waits for neither: what a watcher does not
    // take stays with the source, which for a session is the log.
    struct Counter(u32);
    impl Source for Counter {
        async fn next(&mut self) -> Option<Bytes> {
            self.0 += 1;
            (self.0 <= 10_000).then(|| format!("{:05}", self.0).into())
        }
    }
    let subscriptions = Subscriptions::default();
    let (slow, mut slow_socket) = outbound(1_024);
    let (fast, mut fast_socket) = outbound(1_024);
    let permit = subscriptions.start(subscriptions.claim(topic())).await.unwrap();
    let stalled = tokio::spawn(forward(Counter(0), slow.clone(), permit));
    let permit = subscriptions.start(subscriptions.claim(Topic::Daemon)).await.unwrap();
    tokio::spawn(forward(Counter(0), fast, permit));
    let expected: String =
        (1..=10_000).flat_map(|n| [format!("{n:05}"), "\n".to_owned()]).collect();
    assert_eq!(read(&mut fast_socket, expected.len()).await, expected);
    // The one that does not read holds a bounded number, and has lost nothing.
    assert!(!stalled.is_finished());
    assert!(slow.try_send(Lane::InOrder, "x".into()).is_err());
    assert_eq!(read(&mut slow_socket, expected.len()).await, expected);
    stalled.await.unwrap();
}
