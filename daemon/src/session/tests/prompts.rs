//! Prompts: asked, answered once, durable.

use agentd_protocol::daemon::Role;
use agentd_protocol::event::EventBody;
use agentd_protocol::permission::{Decision, Resolution};
use agentd_protocol::session::SessionState;
use serde_json::json;

use super::house::{House, caller};
use crate::session::Error;

#[tokio::test]
async fn an_allowed_write_happens_and_a_denied_one_does_not() {
    for (decision, expected) in [(Decision::Allow, Some("hello")), (Decision::Deny, None)] {
        let house = House::new();
        let session = house.session(json!({})).await;
        let mut eyes = house.watch(&session.session_id).await;
        house.say(&session.session_id, "s1", "write b.txt with hello").await;
        let prompt_id = eyes.prompt().await;
        let state = eyes.until(|body| matches!(body, EventBody::SessionState { .. })).await;
        assert!(matches!(state.body, EventBody::SessionState { state: SessionState::Waiting, .. }));
        assert_eq!(house.read("b.txt"), None, "*judged before run*");
        house.reply(&prompt_id, decision).await.expect("the first answer");
        let late = house.reply(&prompt_id, Decision::Allow).await;
        assert!(matches!(late, Err(Error::PromptResolved { .. })), "{late:?}");
        let end = eyes.end().await;
        assert!(matches!(end.body, EventBody::TurnCompleted { .. }), "{end:?}");
        assert_eq!(house.read("b.txt").as_deref().map(str::trim), expected);
    }
}

#[tokio::test]
async fn of_two_answers_at_once_one_wins_and_the_other_is_told() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let mut eyes = house.watch(&session.session_id).await;
    house.say(&session.session_id, "s1", "write b.txt with hello").await;
    let prompt_id = eyes.prompt().await;
    let (one, two) = tokio::join!(
        house.reply(&prompt_id, Decision::Allow),
        house.reply(&prompt_id, Decision::Deny)
    );
    assert!(one.is_ok() != two.is_ok(), "{one:?} {two:?}");
    let resolved = eyes.until(|body| matches!(body, EventBody::PermissionResolved(_))).await;
    let EventBody::PermissionResolved(resolved) = resolved.body else { unreachable!() };
    let won = if one.is_ok() { Resolution::Allow } else { Resolution::Deny };
    assert_eq!(resolved.decision, won);
    let lost = one.err().or(two.err());
    let Some(Error::PromptResolved { decision, .. }) = lost else { panic!("{lost:?}") };
    assert_eq!(decision, won);
}

#[tokio::test]
async fn an_update_is_answered_with_the_lease_that_is_held() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let mut eyes = house.watch(&session.session_id).await;
    house.say(&session.session_id, "s1", "write b.txt with hello").await;
    eyes.prompt().await;
    let renamed = house.rename(&session.session_id, "renamed").await.expect("updated");
    assert!(renamed.lease.is_some(), "{renamed:?}");
}

#[tokio::test]
async fn nobody_is_asked_about_a_write_that_would_fail_all_the_same() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let mut eyes = house.watch(&session.session_id).await;
    house.write("b.txt", "unread");
    house.say(&session.session_id, "s1", "write b.txt with hello").await;
    eyes.end().await;
    assert!(!eyes.names().contains(&"permission.requested"), "{:?}", eyes.names());
    let said = serde_json::to_string(&eyes.seen).expect("JSON");
    assert!(said.contains("Tool failed: b.txt exists and was not read"), "{said}");
    assert_eq!(house.read("b.txt").as_deref(), Some("unread"));
    // What nobody may know without being allowed is asked about as before.
    house.write(".env", "SECRET=1");
    house.say(&session.session_id, "s2", "write .env with hello").await;
    eyes.prompt().await;
}

#[tokio::test]
async fn an_unknown_prompt_is_an_error() {
    let house = House::new();
    let reply = house.reply(&"prm_nothing".into(), Decision::Allow).await;
    assert!(matches!(reply, Err(Error::PromptNotFound(_))), "{reply:?}");
}

#[tokio::test]
async fn where_nobody_can_be_asked_the_call_is_denied_at_once() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let mut eyes = house.watch(&session.session_id).await;
    let op = json!({ "type": "user_input", "content": "write b.txt with hello" });
    let extra = json!({ "on_prompt": "deny" });
    house.submit_with(&session.session_id, "s1", op, extra).await.expect("accepted");
    let resolved = eyes.until(|body| matches!(body, EventBody::PermissionResolved(_))).await;
    let EventBody::PermissionResolved(resolved) = resolved.body else { unreachable!() };
    assert_eq!((resolved.decision, resolved.by), (Resolution::Deny, None));
    let end = eyes.end().await;
    assert!(matches!(end.body, EventBody::TurnCompleted { .. }), "{end:?}");
    assert_eq!(house.read("b.txt"), None);
}

#[tokio::test]
async fn a_prompt_survives_a_restart_and_its_answer_goes_on_with_the_turn() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let mut eyes = house.watch(&session.session_id).await;
    let accepted = house.say(&session.session_id, "s1", "write b.txt with hello").await;
    let prompt_id = eyes.prompt().await;
    drop(eyes);
    let house = house.restart().await;
    let now = house.registry.get(&session.session_id).await.expect("the session");
    assert_eq!(now.state, SessionState::Waiting);
    assert_eq!(now.active_turn_id, accepted.turn_id);
    house.reply(&prompt_id, Decision::Allow).await.expect("accepted");
    let end = house.watch(&session.session_id).await.end().await;
    assert!(matches!(end.body, EventBody::TurnCompleted { .. }), "{end:?}");
    assert_eq!(end.turn_id, accepted.turn_id);
    assert_eq!(house.read("b.txt").as_deref().map(str::trim), Some("hello"));
}

#[tokio::test]
async fn an_interrupt_resolves_the_prompt_as_cancelled() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let mut eyes = house.watch(&session.session_id).await;
    house.say(&session.session_id, "s1", "write b.txt with hello").await;
    let prompt_id = eyes.prompt().await;
    let stop = json!({ "type": "interrupt" });
    house.submit(&session.session_id, "s2", stop).await.expect("accepted");
    eyes.end().await;
    let late = house.reply(&prompt_id, Decision::Allow).await;
    let Err(Error::PromptResolved { decision, .. }) = late else { panic!("{late:?}") };
    assert_eq!(decision, Resolution::Cancelled);
}

#[tokio::test]
async fn the_submitter_itself_is_nobody_to_ask_also_for_a_queued_input() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let id = &session.session_id;
    let mut eyes = house.watch_as(id, &caller(1), Role::Controller).await;
    house.say(id, "s1", "slowly think").await;
    for (name, op) in [
        (
            "q",
            json!({ "type": "user_input", "content": "write b.txt with hello", "delivery": "queue" }),
        ),
        (
            "r",
            json!({ "type": "user_input", "content": "write c.txt with hello", "delivery": "replace" }),
        ),
    ] {
        house.submit_with(id, name, op, json!({ "on_prompt": "deny" })).await.expect("accepted");
    }
    for _ in ["r", "q"] {
        let resolved = eyes.until(|body| matches!(body, EventBody::PermissionResolved(_))).await;
        let EventBody::PermissionResolved(resolved) = resolved.body else { unreachable!() };
        assert_eq!(resolved.decision, Resolution::Deny);
    }
}

#[tokio::test]
async fn a_watcher_that_watches_anew_can_still_be_asked() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let id = &session.session_id;
    let first = house.watch_as(id, &caller(3), Role::Controller).await;
    let mut second = house.watch_as(id, &caller(3), Role::Controller).await;
    drop(first);
    let op = json!({ "type": "user_input", "content": "write b.txt with hello" });
    house.submit_with(id, "s1", op, json!({ "on_prompt": "deny" })).await.expect("accepted");
    let prompt_id = second.prompt().await;
    house.reply(&prompt_id, Decision::Allow).await.expect("it waits for the answer");
    assert_eq!(second.end().await.body.name(), "turn.completed");
}
