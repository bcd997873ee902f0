//! A subscription that survives: lost connections, restarted daemons and its own slowness.
//!
//! Whatever happened, it subscribes again from the last event it handed out, so every event comes
//! once and in order. What is in flight comes with the join that follows.
//!
//! Invariants: events come with `seq`, `seq + 1` …; what does not continue the row belongs to a
//! subscription that is over and is left out; progress comes only after a join.
//!
//! Receives notifications from a connection; hands [`Received`] to its caller.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use agentd_protocol::error::ErrorData;
use agentd_protocol::id::SessionId;
use agentd_protocol::method::{SessionSubscribe, SessionUnsubscribe};
use agentd_protocol::progress::{Marker, StreamMessage};
use agentd_protocol::session::{SessionParams, SubscribeParams};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::client::{Client, Start};
use crate::connection::Params;
use crate::error::Error;
use crate::transport::Routes;

/// The first wait before a connection is tried again; it doubles.
const FIRST_WAIT: Duration = Duration::from_millis(50);
/// The longest wait before a connection is tried again.
const LONGEST_WAIT: Duration = Duration::from_secs(2);
/// How long a lost daemon is waited for before the watch gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// A message of a subscription.
#[derive(Debug)]
pub struct Received {
    /// As it came, for programs that pass it on.
    pub raw: Box<RawValue>,
    /// What it is.
    pub body: Body,
}

/// What a message is.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// One this client can read.
    Message(StreamMessage),
    /// The connection was lost, says this client itself; the watch goes on by itself when the
    /// daemon answers again, from the event after the last one.
    Lost,
    /// One of a newer daemon, or of a kind this client cannot read.
    Unknown {
        /// Its type.
        kind: String,
        /// Its number, if it is an event.
        seq: Option<u64>,
    },
}

/// How [`Body::Lost`] looks to programs that pass messages on.
const LOST: &str = r#"{"type":"subscription.lost"}"#;

/// Messages of one subscription on one connection.
struct Feed {
    queue: mpsc::Receiver<Box<RawValue>>,
    routes: Routes,
}

/// A watched session. Dropping it leaves the daemon's side to the end of the connection;
/// [`Watch::close`] ends it there too.
pub struct Watch {
    client: Client,
    session_id: SessionId,
    progress: bool,
    /// The last event that was handed out or not asked for; `None` before the first join of a
    /// watch without replay.
    seq: Option<u64>,
    source: Source,
    joined: bool,
    start: Start,
}

/// Where messages come from.
enum Source {
    /// Nowhere yet.
    None,
    /// A subscription that is being made; kept while a caller of `next` does something else.
    Subscribing(BoxFuture<'static, Result<Feed, Error>>),
    /// A subscription.
    Feed(Feed),
    /// Nothing will come.
    Over,
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut watch = f.debug_struct("Watch");
        watch.field("session_id", &self.session_id).field("seq", &self.seq).finish_non_exhaustive()
    }
}

impl Watch {
    pub(crate) fn new(
        client: Client,
        session_id: SessionId,
        since: Option<u64>,
        progress: bool,
    ) -> Self {
        Self {
            client,
            session_id,
            progress,
            seq: since,
            source: Source::None,
            joined: false,
            start: Start::Never,
        }
    }

    /// Lets this watch start the daemon again when it is gone, where the client's options allow
    /// that: for whoever waits for the end of a turn, which a new daemon tells after a crash.
    #[must_use]
    pub fn reviving(self) -> Self {
        Self { start: self.client.start(), ..self }
    }

    /// The last event that was handed out.
    pub fn seq(&self) -> Option<u64> {
        self.seq
    }

    /// The next message; `None` when the session was deleted or after an error, which ends it.
    ///
    /// Cancel-safe. Waits for a daemon that is gone for half a minute.
    pub async fn next(&mut self) -> Option<Result<Received, Error>> {
        loop {
            match &mut self.source {
                Source::None => {
                    self.joined = false;
                    let (client, params) = (self.client.clone(), self.params());
                    let subscribing = subscribe(client, params, self.start).boxed();
                    self.source = Source::Subscribing(subscribing);
                }
                Source::Subscribing(subscribing) => match subscribing.await {
                    Ok(feed) => self.source = Source::Feed(feed),
                    Err(error) => {
                        self.source = Source::Over;
                        return Some(Err(error));
                    }
                },
                Source::Feed(feed) => {
                    if let Some(raw) = feed.queue.recv().await {
                        if let Some(received) = self.take(raw) {
                            return Some(Ok(received));
                        }
                        continue;
                    }
                    // It only lagged, unless the connection is over.
                    let lost = feed.routes.is_closed();
                    self.source = Source::None;
                    if lost {
                        return Some(Ok(lost_connection()));
                    }
                }
                Source::Over => return None,
            }
        }
    }

    fn params(&self) -> SubscribeParams {
        SubscribeParams {
            session_id: self.session_id.clone(),
            since: self.seq,
            progress: Some(self.progress),
        }
    }

    /// Ends the watch on the daemon's side too; whether there was one.
    pub async fn close(self) -> Result<bool, Error> {
        let params = SessionParams { session_id: self.session_id };
        Ok(self.client.call::<SessionUnsubscribe>(params).await?.unsubscribed)
    }

    /// Judges a message: what belongs to this subscription and was not handed out before.
    fn take(&mut self, raw: Box<RawValue>) -> Option<Received> {
        let head: Head<'_> = serde_json::from_str(raw.get()).ok()?;
        if let Some(seq) = head.seq {
            if self.seq.is_some_and(|known| seq != known + 1) {
                if self.joined && self.seq.is_some_and(|known| seq > known) {
                    self.source = Source::None;
                }
                return None;
            }
            self.seq = Some(seq);
        }
        let body = match read(&head, &raw) {
            Ok(message) => Body::Message(message),
            Err(_) => Body::Unknown { kind: head.kind.into_owned(), seq: head.seq },
        };
        match &body {
            Body::Message(StreamMessage::Marker(Marker::Joined { head_seq, .. })) => {
                if self.seq.is_some_and(|known| known != *head_seq) {
                    return None;
                }
                self.seq = Some(*head_seq);
                self.joined = true;
            }
            Body::Message(StreamMessage::Marker(Marker::Closed { .. })) => {
                self.source = Source::Over;
            }
            Body::Message(StreamMessage::Progress(_)) if !self.joined => return None,
            Body::Message(_) | Body::Lost | Body::Unknown { .. } => {}
        }
        Some(Received { raw, body })
    }
}

/// Subscribes, on a new connection if there has to be one, and waits for a daemon that is gone.
async fn subscribe(client: Client, params: SubscribeParams, start: Start) -> Result<Feed, Error> {
    let started_at = Instant::now();
    let mut wait = FIRST_WAIT;
    loop {
        match try_subscribe(&client, &params, start).await {
            Err(error) if is_passing(&error) && started_at.elapsed() < PATIENCE => {
                tracing::debug!(%error, "subscribing again");
                tokio::time::sleep(wait).await;
                wait = (2 * wait).min(LONGEST_WAIT);
            }
            outcome => return outcome,
        }
    }
}

async fn try_subscribe(
    client: &Client,
    params: &SubscribeParams,
    start: Start,
) -> Result<Feed, Error> {
    let connection = client.connection(start).await?;
    let routes = connection.routes().clone();
    let queue = routes.open(params.session_id.as_str());
    connection.call::<SessionSubscribe>(&Params::new(params)).await?;
    Ok(Feed { queue, routes })
}

fn lost_connection() -> Received {
    let raw = RawValue::from_string(LOST.to_owned()).expect("the constant is JSON");
    Received { raw, body: Body::Lost }
}

/// What tells messages apart before they are read.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(default)]
    seq: Option<u64>,
}

fn read(head: &Head<'_>, raw: &RawValue) -> Result<StreamMessage, serde_json::Error> {
    let text = raw.get();
    if head.seq.is_some() {
        serde_json::from_str(text).map(StreamMessage::Event)
    } else if head.kind.starts_with("subscription.") {
        serde_json::from_str(text).map(StreamMessage::Marker)
    } else {
        serde_json::from_str(text).map(StreamMessage::Progress)
    }
}

/// Whether waiting may help: the daemon is being restarted, or too busy.
fn is_passing(error: &Error) -> bool {
    match error {
        Error::NoDaemon { .. } | Error::Disconnected { .. } | Error::Connect { .. } => true,
        error => {
            matches!(error.data(), Some(ErrorData::Overloaded { .. } | ErrorData::ShuttingDown))
        }
    }
}

#[cfg(test)]
mod tests {
    use agentd_protocol::daemon::NoParams;
    use agentd_protocol::method::GetDaemonStatus;
    use serde_json::{Value, json};

    use super::*;
    use crate::fake::{Fake, Peer, event, joined};

    /// Answers a subscription that begins after `since`.
    async fn subscribed(peer: &mut Peer, since: Option<u64>) {
        let (params, request) = peer.expect("session/subscribe").await;
        assert_eq!(params["since"], json!(since));
        peer.answer(&request, json!("ses_1")).await;
    }

    /// The next message in a word: an event's number, `joined 3`, or its type.
    async fn next(watch: &mut Watch) -> String {
        let received = watch.next().await.expect("it goes on").expect("no error");
        let value: Value = serde_json::from_str(received.raw.get()).unwrap();
        match (&value["seq"], &value["head_seq"]) {
            (Value::Number(seq), _) => seq.to_string(),
            (_, Value::Number(head)) => format!("joined {head}"),
            _ => value["type"].as_str().unwrap().to_owned(),
        }
    }

    fn delta() -> Value {
        json!({
            "type": "message.delta", "item_id": "item_1", "attempt": 1, "kind": "text",
            "offset": 0, "delta": "a"
        })
    }

    #[tokio::test]
    async fn it_goes_on_from_the_last_event_on_a_new_connection() {
        let fake = Fake::new();
        let (client, mut peer) = fake.client().await;
        let mut watch = client.watch("ses_1".into(), Some(0), true);
        let daemon = async {
            subscribed(&mut peer, Some(0)).await;
            for message in [event(1), joined(1), event(2), delta(), event(3)] {
                peer.notify(message).await;
            }
            drop(peer);
            let mut peer = fake.accept().await;
            subscribed(&mut peer, Some(3)).await;
            // What it has seen, and progress of before the join, are left out.
            for message in [event(3), delta(), event(4), joined(4), delta()] {
                peer.notify(message).await;
            }
            peer
        };
        let seen = async {
            let mut seen = Vec::new();
            for _ in 0..9 {
                seen.push(next(&mut watch).await);
            }
            seen
        };
        let (_peer, seen) = tokio::join!(daemon, seen);
        let before = ["1", "joined 1", "2", "message.delta", "3", "subscription.lost"];
        let expected = [&before[..], &["4", "joined 4", "message.delta"]].concat();
        assert_eq!(seen, expected);
        assert_eq!(watch.seq(), Some(4));
    }

    #[tokio::test]
    async fn without_replay_it_begins_at_the_join() {
        let fake = Fake::new();
        let (client, mut peer) = fake.client().await;
        let mut watch = client.watch("ses_1".into(), None, true);
        let daemon = async {
            subscribed(&mut peer, None).await;
            peer.notify(joined(7)).await;
            drop(peer);
            let mut peer = fake.accept().await;
            subscribed(&mut peer, Some(7)).await;
            peer.notify(event(8)).await;
            peer
        };
        let (_peer, seen) = tokio::join!(daemon, async {
            [next(&mut watch).await, next(&mut watch).await, next(&mut watch).await]
        });
        assert_eq!(seen, ["joined 7", "subscription.lost", "8"]);
    }

    #[tokio::test]
    async fn a_caller_that_looks_away_misses_nothing_and_subscribes_once() {
        let fake = Fake::new();
        let (client, mut peer) = fake.client().await;
        let mut watch = client.watch("ses_1".into(), Some(0), true);
        let request = tokio::select! {
            _ = watch.next() => panic!("nothing was sent yet"),
            (_, request) = peer.expect("session/subscribe") => request,
        };
        peer.answer(&request, json!("ses_1")).await;
        peer.notify(joined(0)).await;
        peer.notify(event(1)).await;
        assert_eq!([next(&mut watch).await, next(&mut watch).await], ["joined 0", "1"]);
        let (_, ()) = tokio::join!(client.call::<GetDaemonStatus>(NoParams {}), async {
            let (_, request) = peer.expect("daemon/status").await;
            peer.answer(&request, json!(null)).await;
        });
    }

    #[tokio::test]
    async fn one_that_lags_reads_the_rest_from_the_log() {
        let fake = Fake::new();
        let (client, mut peer) = fake.client().await;
        let mut watch = client.watch("ses_1".into(), Some(0), true);
        let (first, ()) = tokio::join!(watch.next(), async {
            subscribed(&mut peer, Some(0)).await;
            peer.notify(joined(0)).await;
        });
        first.unwrap().unwrap();
        // More than a queue holds; the answer that follows shows that all of it was read.
        let (_, ()) = tokio::join!(client.call::<GetDaemonStatus>(NoParams {}), async {
            for seq in 1..=3000 {
                peer.notify(event(seq)).await;
            }
            let (_, request) = peer.expect("daemon/status").await;
            peer.answer(&request, json!(null)).await;
        });
        let daemon = async {
            let (params, request) = peer.expect("session/subscribe").await;
            let since = params["since"].as_u64().unwrap();
            assert!((1..3000).contains(&since), "{since}");
            // What was on its way for the former subscription does not tear a hole.
            peer.notify(event(3001)).await;
            peer.answer(&request, json!("ses_1")).await;
            peer.notify(event(3002)).await;
            for seq in since + 1..=3002 {
                peer.notify(event(seq)).await;
            }
            peer.notify(joined(3002)).await;
        };
        let (seen, ()) = tokio::join!(
            async {
                let mut seen = Vec::new();
                while seen.last().is_none_or(|last| last != "joined 3002") {
                    seen.push(next(&mut watch).await);
                }
                seen
            },
            daemon
        );
        let mut expected: Vec<_> = (1..=3002).map(|seq| seq.to_string()).collect();
        expected.push("joined 3002".to_owned());
        assert_eq!(seen, expected);
    }

    #[tokio::test]
    async fn what_it_cannot_read_is_passed_on() {
        let fake = Fake::new();
        let (client, mut peer) = fake.client().await;
        let mut watch = client.watch("ses_1".into(), Some(0), true);
        let mut strange = event(1);
        strange["type"] = json!("of.the.future");
        let mut wrong = event(2);
        wrong["code"] = json!(7);
        let (received, ()) = tokio::join!(
            async { [watch.next().await.unwrap().unwrap(), watch.next().await.unwrap().unwrap()] },
            async {
                subscribed(&mut peer, Some(0)).await;
                peer.notify(strange.clone()).await;
                peer.notify(wrong).await;
            }
        );
        let kind = "of.the.future".to_owned();
        assert_eq!(received[0].body, Body::Unknown { kind, seq: Some(1) });
        assert_eq!(serde_json::from_str::<Value>(received[0].raw.get()).unwrap(), strange);
        let kind = "warning".to_owned();
        assert_eq!(received[1].body, Body::Unknown { kind, seq: Some(2) });
    }

    #[tokio::test]
    async fn a_deleted_session_ends_it_and_so_does_a_refusal() {
        let fake = Fake::new();
        let (client, mut peer) = fake.client().await;
        let mut watch = client.watch("ses_1".into(), None, true);
        let (_, ()) = tokio::join!(watch.next(), async {
            subscribed(&mut peer, None).await;
            let closed = json!({ "type": "subscription.closed", "reason": "deleted" });
            peer.notify(closed).await;
        });
        assert!(watch.next().await.is_none());

        let mut watch = client.watch("ses_1".into(), None, true);
        let (refused, ()) = tokio::join!(watch.next(), async {
            let (_, request) = peer.expect("session/subscribe").await;
            let data = json!({ "kind": "session_not_found", "session_id": "ses_1" });
            let error = json!({ "code": -32001, "message": "no session", "data": data });
            peer.refuse(&request, error).await;
        });
        assert!(matches!(refused, Some(Err(Error::Refused(_)))));
        assert!(watch.next().await.is_none());
    }
}
