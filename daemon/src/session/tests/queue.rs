//! The queue: what waits, what goes first, what is held.

use agentd_protocol::event::{AbortReason, EventBody};
use agentd_protocol::id::SessionId;
use agentd_protocol::permission::Decision;
use agentd_protocol::submission::{Disposition, SubmitResult};
use serde_json::json;

use super::house::{Eyes, House};
use super::stubborn;
use crate::session::Error;

/// A session whose turn waits at a prompt.
async fn busy(house: &House) -> (SessionId, Eyes, agentd_protocol::id::PromptId) {
    let session = house.session(json!({})).await;
    let mut eyes = house.watch(&session.session_id).await;
    house.say(&session.session_id, "busy", "write b.txt with hello").await;
    let prompt_id = eyes.prompt().await;
    (session.session_id, eyes, prompt_id)
}

async fn deliver(
    house: &House,
    session_id: &SessionId,
    id: &str,
    delivery: &str,
) -> Result<SubmitResult, Error> {
    let op = json!({ "type": "user_input", "content": "think", "delivery": delivery });
    house.submit(session_id, id, op).await
}

async fn started(eyes: &mut Eyes) -> String {
    let event = eyes.until(|body| matches!(body, EventBody::TurnStarted { .. })).await;
    let EventBody::TurnStarted { submission_id, .. } = event.body else { unreachable!() };
    submission_id.to_string()
}

#[tokio::test]
async fn queued_inputs_run_after_the_turn_in_order() {
    let house = House::new();
    let (session_id, mut eyes, prompt_id) = busy(&house).await;
    for id in ["q1", "q2"] {
        let accepted = deliver(&house, &session_id, id, "queue").await.expect("queued");
        assert_eq!(accepted.disposition, Disposition::Queued);
    }
    let now = house.registry.get(&session_id).await.expect("the session");
    assert_eq!(now.queue.len(), 2);
    house.reply(&prompt_id, Decision::Allow).await.expect("accepted");
    assert_eq!(started(&mut eyes).await, "q1");
    assert_eq!(started(&mut eyes).await, "q2");
    eyes.end().await;
}

#[tokio::test]
async fn reject_is_refused_and_steer_goes_into_the_turn() {
    let house = House::new();
    let (session_id, mut eyes, prompt_id) = busy(&house).await;
    let refused = deliver(&house, &session_id, "r", "reject").await;
    assert!(matches!(refused, Err(Error::TurnActive(_))), "{refused:?}");
    let steered = deliver(&house, &session_id, "st", "auto").await.expect("steered");
    assert_eq!(steered.disposition, Disposition::Steered);
    house.reply(&prompt_id, Decision::Allow).await.expect("accepted");
    eyes.until(|body| matches!(body, EventBody::InputSteered { .. })).await;
    eyes.end().await;
}

#[tokio::test]
async fn replace_ends_the_turn_and_goes_before_the_queue() {
    let house = House::new();
    let (session_id, mut eyes, _) = busy(&house).await;
    deliver(&house, &session_id, "q", "queue").await.expect("queued");
    let replaced = deliver(&house, &session_id, "r", "replace").await.expect("replaced");
    assert_eq!(replaced.disposition, Disposition::Replaced);
    let end = eyes.end().await;
    assert!(
        matches!(end.body, EventBody::TurnAborted { reason: AbortReason::Replaced, .. }),
        "{end:?}"
    );
    let event = eyes.until(|body| matches!(body, EventBody::TurnStarted { .. })).await;
    assert_eq!(event.turn_id, replaced.turn_id, "the turn it was promised");
    assert_eq!(started(&mut eyes).await, "q");
}

#[tokio::test]
async fn an_interrupt_holds_the_queue_until_a_new_input() {
    let house = House::new();
    let (session_id, mut eyes, _) = busy(&house).await;
    deliver(&house, &session_id, "q", "queue").await.expect("queued");
    let stop = json!({ "type": "interrupt" });
    house.submit(&session_id, "i", stop).await.expect("applied");
    eyes.end().await;
    eyes.until(|body| matches!(body, EventBody::SessionState { .. })).await;
    let now = house.registry.get(&session_id).await.expect("the session");
    assert!(now.queue_held);
    assert_eq!(now.queue.len(), 1);
    let house = house.restart().await;
    let mut eyes = house.watch(&session_id).await;
    let now = house.registry.get(&session_id).await.expect("the session");
    assert!(now.queue_held, "also after a restart");
    deliver(&house, &session_id, "n", "auto").await.expect("started");
    while started(&mut eyes).await != "n" {}
    assert_eq!(started(&mut eyes).await, "q");
}

#[tokio::test]
async fn dropped_inputs_say_so() {
    let house = House::new();
    let (session_id, mut eyes, _) = busy(&house).await;
    deliver(&house, &session_id, "q1", "queue").await.expect("queued");
    deliver(&house, &session_id, "q2", "queue").await.expect("queued");
    let op = json!({ "type": "dequeue", "submission_id": "q1" });
    house.submit(&session_id, "d", op).await.expect("applied");
    let stop = json!({ "type": "interrupt", "drop_queue": true });
    house.submit(&session_id, "i", stop).await.expect("applied");
    eyes.end().await;
    let dropped: Vec<_> = eyes
        .seen
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::InputDropped { submission_id, reason } => {
                Some((submission_id.to_string(), reason.as_str()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(dropped, [("q1".to_owned(), "dequeued"), ("q2".to_owned(), "interrupted")]);
}

#[tokio::test]
async fn another_turn_than_the_expected_one_is_a_mismatch() {
    let house = House::new();
    let (session_id, _eyes, _) = busy(&house).await;
    let op = json!({ "type": "interrupt", "expected_turn_id": "turn_other" });
    let refused = house.submit(&session_id, "i", op).await;
    assert!(matches!(refused, Err(Error::TurnMismatch { active: Some(_) })), "{refused:?}");
}

/// A session whose turn runs a tool that is slow to stop.
async fn hanging() -> (House, SessionId, Eyes) {
    let (house, _tool, _free) = stubborn::house();
    let session = stubborn::session(&house).await;
    let mut eyes = house.watch(&session.session_id).await;
    house.say(&session.session_id, "hang", "run hang").await;
    eyes.until(|body| matches!(body, EventBody::ToolStarted { .. })).await;
    (house, session.session_id, eyes)
}

#[tokio::test]
async fn an_input_after_an_interrupt_starts_though_the_turn_is_still_stopping() {
    for delivery in ["auto", "replace", "queue"] {
        let (house, session_id, mut eyes) = hanging().await;
        let stop = json!({ "type": "interrupt" });
        house.submit(&session_id, "i", stop).await.expect("applied");
        let accepted = deliver(&house, &session_id, "n", delivery).await.expect("accepted");
        let event = eyes.until(|body| matches!(body, EventBody::TurnStarted { .. })).await;
        assert_eq!(event.turn_id, accepted.turn_id, "{delivery}");
        assert_eq!(eyes.end().await.body.name(), "turn.completed");
    }
}

#[tokio::test]
async fn an_interrupt_after_a_replace_holds_what_replaces() {
    let (house, session_id, mut eyes) = hanging().await;
    deliver(&house, &session_id, "r", "replace").await.expect("replaced");
    let stop = json!({ "type": "interrupt" });
    house.submit(&session_id, "i", stop).await.expect("applied");
    eyes.end().await;
    eyes.until(|body| matches!(body, EventBody::SessionState { .. })).await;
    let now = house.registry.get(&session_id).await.expect("the session");
    assert!(now.queue_held && now.queue.len() == 1, "{now:?}");
}

#[tokio::test]
async fn what_was_steered_stays_behind_what_replaces_its_turn() {
    let (house, session_id, mut eyes) = hanging().await;
    deliver(&house, &session_id, "st", "steer").await.expect("steered");
    deliver(&house, &session_id, "q", "queue").await.expect("queued");
    deliver(&house, &session_id, "r", "replace").await.expect("replaced");
    eyes.end().await;
    for id in ["r", "st", "q"] {
        assert_eq!(started(&mut eyes).await, id);
    }
}

#[tokio::test]
async fn of_two_inputs_that_replace_a_turn_the_last_is_meant() {
    let (house, session_id, mut eyes) = hanging().await;
    deliver(&house, &session_id, "q", "queue").await.expect("queued");
    deliver(&house, &session_id, "r1", "replace").await.expect("replaced");
    let last = deliver(&house, &session_id, "r2", "replace").await.expect("replaced");
    assert_eq!(last.disposition, Disposition::Replaced);
    eyes.end().await;
    for id in ["r2", "q"] {
        assert_eq!(started(&mut eyes).await, id);
    }
    eyes.end().await;
    let dropped = eyes.seen.iter().find_map(|event| match &event.body {
        EventBody::InputDropped { submission_id, reason } => {
            Some((submission_id.as_str(), reason.as_str()))
        }
        _ => None,
    });
    assert_eq!(dropped, Some(("r1", "replaced")), "and whoever sent the first is told");
    let again = deliver(&house, &session_id, "r1", "replace").await.expect("the first outcome");
    assert!(again.replayed, "it does not run after all: {again:?}");
}

#[tokio::test]
async fn inputs_whose_limits_let_nothing_through_do_not_stop_the_queue() {
    let (house, session_id, mut eyes) = hanging().await;
    for id in ["q1", "q2"] {
        let op = json!({ "type": "user_input", "content": "think", "delivery": "queue" });
        let extra = json!({ "limits": { "max_iterations": 0 } });
        house.submit_with(&session_id, id, op, extra).await.expect("queued");
    }
    deliver(&house, &session_id, "r", "replace").await.expect("replaced");
    eyes.end().await;
    for name in ["turn.completed", "turn.exhausted", "turn.exhausted"] {
        assert_eq!(eyes.end().await.body.name(), name);
    }
    eyes.until(|body| matches!(body, EventBody::SessionState { .. })).await;
    let now = house.registry.get(&session_id).await.expect("the session");
    assert_eq!((now.queue.len(), now.lease), (0, None));
}
