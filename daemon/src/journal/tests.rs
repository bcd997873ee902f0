//! Tests of the journal, over a real store.

use agentd_protocol::event::Event;
use agentd_protocol::progress::{Marker, StreamMessage};
use serde_json::Value;

use super::{Journal, Subscription};
use crate::store::tests::fixture::{self, Hand, event, warning};

async fn next(subscription: &mut Subscription) -> StreamMessage {
    let line = subscription.next().await.expect("the session lives");
    let value: Value = serde_json::from_slice(&line).unwrap();
    serde_json::from_value(value["params"]["result"].clone()).unwrap()
}

async fn next_event(subscription: &mut Subscription) -> Event {
    match next(subscription).await {
        StreamMessage::Event(event) => *event,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn replay_then_joined_then_live() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let session_id = fixture::create(&store, "a").await;
    let journal = Journal::new(store.clone());
    let mut hand = Hand::new(&store, &session_id);
    let appended = journal.append(hand.next(vec![event(warning("one"))], vec![])).await.unwrap();
    (hand.head, hand.epoch) = (appended.head, Some(appended.epoch));
    let mut subscription = journal.subscribe(&session_id, Some(1), true).await.unwrap();
    assert_eq!(next_event(&mut subscription).await, appended.events[0]);
    match next(&mut subscription).await {
        StreamMessage::Marker(Marker::Joined { head_seq, session, .. }) => {
            assert_eq!(head_seq, 2);
            assert_eq!(*session, store.session(&session_id).await.unwrap());
        }
        other => panic!("{other:?}"),
    }
    let appended = journal.append(hand.next(vec![event(warning("two"))], vec![])).await.unwrap();
    assert_eq!(next_event(&mut subscription).await, appended.events[0]);
    store.close().await.unwrap();
}
