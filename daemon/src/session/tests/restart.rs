//! Orderly stops: never worse than a crash.

use agentd_protocol::daemon::ShutdownMode;
use agentd_protocol::event::{AbortReason, EventBody};
use agentd_protocol::session::SessionState;
use serde_json::json;

use super::house::House;
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
