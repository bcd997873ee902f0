//! Faults: a store that fails, a panic, a tool that does not stop, a session that goes away.

use std::sync::atomic::Ordering;

use agentd_protocol::event::{AbortReason, EventBody, TurnErrorCode};
use agentd_protocol::progress::{Marker, StreamMessage};
use agentd_protocol::session::{Session, SessionState};
use serde_json::json;

use super::house::{Eyes, House};
use super::stubborn;
use crate::session::Error;
use crate::store::tests::fixture::fail_appends;

fn is_state(body: &EventBody, wanted: SessionState) -> bool {
    matches!(body, EventBody::SessionState { state, .. } if *state == wanted)
}

/// Lets the store fail under a call that runs.
async fn failed(house: &House, tool: &stubborn::Stubborn, session: &Session) -> Eyes {
    let mut eyes = house.watch(&session.session_id).await;
    house.say(&session.session_id, "s1", "run hang").await;
    eyes.until(|body| matches!(body, EventBody::ToolStarted { .. })).await;
    fail_appends(&house.store, true).await;
    tool.release.notify_one();
    while !matches!(eyes.message().await, StreamMessage::Marker(Marker::StoreFailed { .. })) {}
    eyes
}

#[tokio::test]
async fn a_store_that_fails_under_a_tool_fails_the_turn_once_it_works_again() {
    let (house, tool, _free) = stubborn::house();
    let session = stubborn::session(&house).await;
    let mut eyes = failed(&house, &tool, &session).await;
    let op = json!({ "type": "user_input", "content": "think" });
    let refused = house.submit(&session.session_id, "s2", op.clone()).await;
    assert!(matches!(refused, Err(Error::Store(_))), "{refused:?}");
    let refused = house.rename(&session.session_id, "renamed").await;
    assert!(matches!(refused, Err(Error::Store(_))), "{refused:?}");
    let now = house.registry.get(&session.session_id).await.expect("the session");
    assert_eq!(now.state, SessionState::Running, "the record is as it was");
    fail_appends(&house.store, false).await;
    let end = eyes.end().await;
    let EventBody::TurnFailed { error, .. } = &end.body else { panic!("{end:?}") };
    assert_eq!(error.code, TurnErrorCode::Store);
    let result = eyes.seen.iter().rev().find_map(|event| event.body.item());
    let result = serde_json::to_string(result.expect("the call's result")).expect("JSON");
    assert!(result.contains("may have taken effect"), "{result}");
    assert!(
        !eyes.seen.iter().any(|event| is_state(&event.body, SessionState::Idle)),
        "{:?}",
        eyes.names()
    );
    let accepted = house.submit(&session.session_id, "s2", op).await.expect("it works again");
    assert!(!accepted.replayed);
    let end = eyes.end().await;
    assert_eq!((end.turn_id, end.body.name()), (accepted.turn_id, "turn.completed"));
}

#[tokio::test]
async fn a_session_whose_store_failed_is_deleted_as_soon_as_the_store_works() {
    let (house, tool, _free) = stubborn::house();
    let session = stubborn::session(&house).await;
    failed(&house, &tool, &session).await;
    let refused = house.registry.delete(&session.session_id).await;
    assert!(matches!(refused, Err(Error::Store(_))), "{refused:?}");
    fail_appends(&house.store, false).await;
    house.registry.delete(&session.session_id).await.expect("deleted, at once");
    let gone = house.registry.get(&session.session_id).await;
    assert!(matches!(gone, Err(Error::SessionNotFound(_))), "{gone:?}");
}

#[tokio::test]
async fn a_panic_closes_the_turn_and_the_session_works_on() {
    let (house, tool, _free) = stubborn::house();
    let session = stubborn::session(&house).await;
    let mut eyes = house.watch(&session.session_id).await;
    tool.panics.store(true, Ordering::SeqCst);
    let accepted = house.say(&session.session_id, "s1", "think").await;
    let end = eyes.end().await;
    assert_eq!(end.turn_id, accepted.turn_id);
    assert!(
        matches!(end.body, EventBody::TurnAborted { reason: AbortReason::Crashed, .. }),
        "{end:?}"
    );
    tool.panics.store(false, Ordering::SeqCst);
    house.say(&session.session_id, "s2", "think").await;
    assert_eq!(eyes.end().await.body.name(), "turn.completed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_tool_that_blocks_its_thread_does_not_hold_up_an_interrupt() {
    let (house, _tool, free) = stubborn::house();
    let session = stubborn::session(&house).await;
    let mut eyes = house.watch(&session.session_id).await;
    house.say(&session.session_id, "s1", "run block").await;
    eyes.until(|body| matches!(body, EventBody::ToolStarted { .. })).await;
    let stop = json!({ "type": "interrupt" });
    house.submit(&session.session_id, "i", stop).await.expect("applied");
    assert_eq!(eyes.end().await.body.name(), "turn.aborted");
    drop(free);
}

#[tokio::test]
async fn what_comes_after_a_delete_finds_no_session() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let delete = house.registry.delete(&session.session_id);
    let op = json!({ "type": "user_input", "content": "think" });
    let late = house.submit(&session.session_id, "s1", op);
    let (deleted, late) = tokio::join!(biased; delete, late);
    deleted.expect("deleted");
    assert!(matches!(late, Err(Error::SessionNotFound(_))), "{late:?}");
}
