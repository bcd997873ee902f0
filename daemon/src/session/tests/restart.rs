//! Orderly stops: never worse than a crash.

use agentd_protocol::daemon::ShutdownMode;
use agentd_protocol::event::{AbortReason, EventBody};
use agentd_protocol::permission::Decision;
use agentd_protocol::session::SessionState;
use serde_json::json;

use super::house::{House, builtin, passing};
use super::stubborn;
use crate::clock::Clock;
use crate::session::Error;

#[tokio::test]
async fn a_turn_that_runs_is_ended_as_shutdown_and_can_be_resumed() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let mut eyes = house.watch(&session.session_id).await;
    house
        .say(
            &session.session_id,
            "s1",
            "slowly think about everything there is to think about, and then list",
        )
        .await;
    eyes.until(|body| matches!(body, EventBody::ItemStarted { .. })).await;
    house.registry.start_draining(ShutdownMode::Now);
    let end = eyes.end().await;
    assert!(
        matches!(end.body, EventBody::TurnAborted { reason: AbortReason::Shutdown, .. }),
        "{end:?}"
    );
    let refused = house
        .submit(&session.session_id, "s2", json!({ "type": "user_input", "content": "x" }))
        .await;
    assert!(matches!(refused, Err(Error::ShuttingDown)), "{refused:?}");
    drop(eyes);
    let house = house.restart().await;
    let now = house.registry.get(&session.session_id).await.expect("the session");
    assert_eq!(now.state, SessionState::Interrupted);
    house.submit(&session.session_id, "s3", json!({ "type": "resume" })).await.expect("resumed");
}

#[tokio::test]
async fn an_update_is_an_event_and_a_deleted_session_is_gone() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let params = serde_json::from_value(json!({
        "session_id": session.session_id,
        "title": "named",
        "archived": true,
    }));
    let updated = house.registry.update(params.expect("parameters")).await.expect("updated");
    assert_eq!((updated.title.as_str(), updated.archived), ("named", true));
    house.registry.delete(&session.session_id).await.expect("deleted");
    let gone = house.registry.get(&session.session_id).await;
    assert!(matches!(gone, Err(Error::SessionNotFound(_))), "{gone:?}");
}

#[tokio::test]
async fn tools_work_where_the_session_was_moved_to() {
    let (house, _tool, _free) = stubborn::house();
    let session = stubborn::session(&house).await;
    house.say(&session.session_id, "s1", "run it").await;
    let mut eyes = house.watch(&session.session_id).await;
    eyes.end().await;
    let there = house.work().join("there");
    std::fs::create_dir(&there).expect("a directory");
    let params = json!({ "session_id": session.session_id, "cwd": there });
    let params = serde_json::from_value(params).expect("parameters");
    house.registry.update(params).await.expect("moved");
    house.say(&session.session_id, "s2", "run it").await;
    let done = eyes.until(|body| matches!(body, EventBody::ToolCompleted { .. })).await;
    let result = serde_json::to_string(&done).expect("JSON");
    assert!(result.contains(&super::house::text(&there)), "{result}");
}

#[tokio::test]
async fn a_submitter_that_does_not_come_back_after_a_restart_is_gone() {
    let clock = Clock::manual();
    let house = House::with(clock.clone(), builtin());
    let session = house.session(json!({})).await;
    let mut eyes = house.watch(&session.session_id).await;
    let op = json!({ "type": "user_input", "content": "write b.txt with hello" });
    let extra = json!({ "on_disconnect": "interrupt" });
    house.submit_with(&session.session_id, "s1", op, extra).await.expect("accepted");
    eyes.prompt().await;
    drop(eyes);
    let house = passing(&clock, house.restart()).await;
    let mut eyes = house.watch(&session.session_id).await;
    let end = passing(&clock, eyes.end()).await;
    assert!(
        matches!(end.body, EventBody::TurnAborted { reason: AbortReason::Disconnected, .. }),
        "{end:?}"
    );
}

#[tokio::test]
async fn an_answer_after_the_stop_began_does_not_hold_it_up() {
    let (house, _tool, _free) = stubborn::house();
    let session = house.session(json!({})).await;
    let mut eyes = house.watch(&session.session_id).await;
    house.say(&session.session_id, "s1", "run hang").await;
    let prompt_id = eyes.prompt().await;
    house.registry.start_draining(ShutdownMode::Drain);
    house.reply(&prompt_id, Decision::Allow).await.expect("answers are served");
    eyes.until(|body| matches!(body, EventBody::ToolStarted { .. })).await;
    house.registry.start_draining(ShutdownMode::Now);
    let end = eyes.end().await;
    assert!(
        matches!(end.body, EventBody::TurnAborted { reason: AbortReason::Shutdown, .. }),
        "{end:?}"
    );
    house.registry.shutdown().await;
}
