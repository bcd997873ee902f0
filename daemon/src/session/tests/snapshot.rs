//! What a session is, told three ways that never differ: its row, the fold of its events, and
//! what a joiner is given.

use std::collections::BTreeSet;

use agentd_protocol::event::{Event, EventBody};
use agentd_protocol::permission::Decision;
use agentd_protocol::progress::{Marker, StreamMessage};
use agentd_protocol::session::{Lease, Session, SessionState};
use agentd_protocol::submission::Disposition;
use agentd_protocol::view::session::apply;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::house::House;
use super::stubborn;

#[derive(Debug, Clone)]
enum Move {
    Say(&'static str, &'static str, Option<u32>),
    Op(Value),
    Dequeue(u8),
    Answer(bool),
    Rename,
    Settle,
    Release,
}

const WORDS: [&str; 4] = ["think", "run hang", "run it", "read a.txt"];
const DELIVERIES: [&str; 4] = ["auto", "queue", "replace", "steer"];

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let say = (0..WORDS.len(), 0..DELIVERIES.len(), prop::option::weighted(0.3, 0u32..3));
    let one = prop_oneof![
        8 => say.prop_map(|(w, d, limit)| Move::Say(WORDS[w], DELIVERIES[d], limit)),
        1 => Just(Move::Op(json!({ "type": "interrupt" }))),
        1 => Just(Move::Op(json!({ "type": "interrupt", "drop_queue": true }))),
        1 => Just(Move::Op(json!({ "type": "resume" }))),
        1 => Just(Move::Op(json!({ "type": "configure", "limits": { "max_iterations": 5 } }))),
        1 => (0u8..20).prop_map(Move::Dequeue),
        2 => any::<bool>().prop_map(Move::Answer),
        1 => Just(Move::Rename),
        2 => Just(Move::Settle),
        3 => Just(Move::Release),
    ];
    prop::collection::vec(one, 1..25)
}

/// The session's events and what the store says of it, as of the same moment.
async fn record(house: &House, session: &Session) -> (Vec<Event>, Session) {
    loop {
        let params = serde_json::from_value(json!({
            "session_id": session.session_id, "limit": 1000,
        }));
        let page = house.registry.events(params.expect("parameters")).await.expect("events");
        let now = house.registry.get(&session.session_id).await.expect("the session");
        if page.events.last().map(|last| last.seq) == Some(now.head_seq) {
            return (page.events, now);
        }
    }
}

fn without_time(session: &Session) -> Session {
    let lease = session.lease.clone().map(|lease| Lease { expires_in_ms: 0, ..lease });
    Session { lease, ..session.clone() }
}

/// The row is the fold of the events, and a joiner is given the same.
async fn compare(house: &House, session: &Session) {
    let (events, now) = record(house, session).await;
    let mut folded = Session { head_seq: 0, ..now.clone() };
    for event in &events {
        apply(&mut folded, event);
    }
    assert_eq!(without_time(&folded), without_time(&now), "the fold is the row");
    let mut eyes = house.watch(&session.session_id).await;
    let mut last = 0;
    let joined = loop {
        match eyes.message().await {
            StreamMessage::Event(event) => {
                last += 1;
                assert_eq!(event.seq, last);
            }
            StreamMessage::Marker(Marker::Joined { session, .. }) => break session,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(joined.head_seq, last);
    let (_, then) = record(house, session).await;
    if then.head_seq == joined.head_seq {
        assert_eq!(without_time(&joined), without_time(&then), "the joiner is given the row");
    }
}

/// Nothing runs and nothing could start.
fn check_rest(events: &[Event], now: &Session) {
    assert_eq!(now.lease, None, "given back at rest");
    assert!(now.queue.is_empty() || now.queue_held, "what waits is held");
    assert_eq!(now.active_turn_id, None);
    assert_eq!(now.prompts, []);
    let mut open = BTreeSet::new();
    let mut waiting = BTreeSet::new();
    for event in events {
        match &event.body {
            EventBody::TurnStarted { submission_id, .. } => {
                assert!(open.is_empty(), "one turn at a time");
                open.insert(event.turn_id.clone());
                waiting.remove(submission_id);
            }
            EventBody::InputQueued { submission_id, .. }
            | EventBody::SubmissionAccepted {
                submission_id,
                disposition: Disposition::Steered,
                ..
            } => {
                waiting.insert(submission_id.clone());
            }
            EventBody::InputDropped { submission_id, .. }
            | EventBody::InputSteered { submission_id, .. } => {
                waiting.remove(submission_id);
            }
            body if body.is_terminal() => {
                assert!(open.remove(&event.turn_id), "a turn ends once");
            }
            _ => {}
        }
    }
    assert_eq!(open.len(), 0, "every turn ends");
    let queued: BTreeSet<_> = now.queue.iter().map(|entry| entry.submission_id.clone()).collect();
    assert_eq!(waiting, queued, "no input vanishes");
    let mut places = events.iter().filter_map(|event| event.body.item()).map(|item| item.index);
    let mut seen: Vec<u64> = places.by_ref().collect();
    seen.sort_unstable();
    assert_eq!(seen, (1..=now.item_count).collect::<Vec<_>>(), "items are dense");
}

async fn play(moves: Vec<Move>) {
    let (house, tool, _free) = stubborn::house();
    let session = house.session(json!({})).await;
    let id = &session.session_id;
    for (step, played) in moves.into_iter().enumerate() {
        let name = format!("s{step}");
        match played {
            Move::Say(text, delivery, max_iterations) => {
                let op = json!({ "type": "user_input", "content": text, "delivery": delivery });
                let limits = max_iterations.map(|max| json!({ "max_iterations": max }));
                let extra = limits.map_or(json!({}), |limits| json!({ "limits": limits }));
                let _ = house.submit_with(id, &name, op, extra).await;
            }
            Move::Op(op) => drop(house.submit(id, &name, op).await),
            Move::Dequeue(which) => {
                let op = json!({ "type": "dequeue", "submission_id": format!("s{which}") });
                let _ = house.submit(id, &name, op).await;
            }
            Move::Answer(allow) => {
                let now = house.registry.get(id).await.expect("the session");
                if let Some(prompt) = now.prompts.first() {
                    let decision = if allow { Decision::Allow } else { Decision::Deny };
                    let _ = house.reply(&prompt.prompt_id, decision).await;
                }
            }
            Move::Rename => drop(house.rename(id, &name).await.expect("renamed")),
            Move::Settle => tokio::task::yield_now().await,
            Move::Release => tool.release.notify_one(),
        }
        compare(&house, &session).await;
    }
    come_to_rest(&house, &session).await;
    compare(&house, &session).await;
    let (events, now) = record(&house, &session).await;
    check_rest(&events, &now);
}

/// Interrupts whatever runs and waits until nothing does.
async fn come_to_rest(house: &House, session: &Session) {
    let mut eyes = house.watch(&session.session_id).await;
    let id = &session.session_id;
    house.submit(id, "rest", json!({ "type": "interrupt" })).await.expect("applied");
    let rests = |now: &Session| {
        now.active_turn_id.is_none()
            && !matches!(now.state, SessionState::Running | SessionState::Waiting)
            && (now.queue.is_empty() || now.queue_held)
    };
    loop {
        let now = house.registry.get(id).await.expect("the session");
        if rests(&now) {
            return;
        }
        eyes.after(now.head_seq).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("AGENTD_SOAK").map_or(24, |_| 500),
        ..ProptestConfig::default()
    })]

    #[test]
    fn row_fold_and_join_never_differ(moves in moves()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(play(moves));
    }
}
