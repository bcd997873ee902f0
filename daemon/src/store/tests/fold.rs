//! The rows are a projection of the log: after every append, folding its events over the session
//! gives the session's row; and what is replayed is byte for byte what was sent.

use agentd_protocol::process::ProcessExit;
use agentd_protocol::view::session::apply;
use proptest::prelude::*;

use super::fixture::{self, Hand};
use super::life::{Life, Step, steps};
use crate::store::Store;

proptest! {
    #![proptest_config(fixture::cases(24))]

    #[test]
    fn the_fold_of_the_log_is_the_row(steps in steps(1..60)) {
        tokio::runtime::Runtime::new().unwrap().block_on(live(steps));
    }
}

async fn live(steps: Vec<Step>) {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let session_id = fixture::create(&store, "a").await;
    let mut hand = Hand::new(&store, &session_id);
    let mut life = Life::new(store.session(&session_id).await.unwrap());
    let mut sent = Vec::new();
    for step in steps {
        let (events, rows) = life.take(step);
        if events.is_empty() && rows.is_empty() {
            continue;
        }
        for event in hand.write(events, rows).await.unwrap().events {
            apply(&mut life.session, &event);
            sent.push(serde_json::to_string(&event).unwrap());
        }
        compare(&store, &life).await;
    }
    let lines = store.event_lines(&session_id, (1, u64::MAX), (10_000, usize::MAX)).await.unwrap();
    let replayed: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    assert_eq!(replayed, sent);
    store.close().await.unwrap();
}

async fn compare(store: &Store, life: &Life) {
    let loaded = store.load(&life.session_id).await.unwrap();
    let mut row = loaded.session;
    row.lease = None;
    assert_eq!(row, life.session);
    let queue: Vec<_> =
        loaded.queue.iter().map(|input| input.params.submission.id.clone()).collect();
    assert_eq!(queue, life.queue);
    let steered: Vec<_> =
        loaded.steered.iter().map(|params| params.submission.id.clone()).collect();
    assert_eq!(steered, life.steered);
    let by_id = |exits: &[ProcessExit]| {
        let mut exits = exits.to_vec();
        exits.sort_by(|a, b| a.process_id.cmp(&b.process_id));
        exits
    };
    assert_eq!(by_id(&loaded.exited), by_id(&life.exited));
    assert_eq!(loaded.next_item_index, life.next_index);
    assert_eq!(loaded.open_turn.as_ref().map(|turn| turn.turn_id.clone()), life.turn);
    let kept = loaded.open_turn.and_then(|turn| turn.in_flight).map(|item| item.text);
    let text = life.streaming.as_ref().map(|(_, _, _, text)| text.clone());
    // After a reset nothing streams until the next attempt does.
    assert_eq!(kept.unwrap_or_default(), text.unwrap_or_default());
}
