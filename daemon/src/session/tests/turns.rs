//! Turns: from an input to its end.

use agentd_protocol::event::{AbortReason, EventBody};
use agentd_protocol::item::{ItemBody, Marker};
use agentd_protocol::session::SessionState;
use agentd_protocol::submission::Disposition;
use serde_json::json;

use super::house::House;
use crate::session::Error;

#[tokio::test]
async fn a_turn_reads_a_file_and_completes() {
    let house = House::new();
    house.write("a.txt", "the content of a");
    let session = house.session(json!({})).await;
    let mut eyes = house.watch(&session.session_id).await;
    let accepted = house.say(&session.session_id, "s1", "read a.txt").await;
    assert_eq!(accepted.disposition, Disposition::Started);
    let end = eyes.end().await;
    assert!(matches!(end.body, EventBody::TurnCompleted { .. }), "{end:?}");
    assert_eq!(end.turn_id, accepted.turn_id);
    let log = serde_json::to_string(&eyes.seen).expect("JSON");
    assert!(log.contains("the content of a"), "the result is on record");
    let seqs: Vec<u64> = eyes.seen.iter().map(|event| event.seq).collect();
    let dense: Vec<u64> = (1..=seqs.len() as u64).collect();
    assert_eq!(seqs, dense, "*dense numbering*");
    eyes.until(|body| matches!(body, EventBody::SessionState { .. })).await;
    let now = house.registry.get(&session.session_id).await.expect("the session");
    assert_eq!(now.state, SessionState::Idle);
    assert_eq!(now.title, "read a.txt");
    assert!(now.usage.output > 0);
    assert_eq!(now.lease, None, "given back when at rest");
}

#[tokio::test]
async fn a_submission_runs_once() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let first = house.say(&session.session_id, "s1", "think").await;
    let again = house.say(&session.session_id, "s1", "think").await;
    assert!(!first.replayed && again.replayed);
    assert_eq!(first.turn_id, again.turn_id);
    let op = json!({ "type": "user_input", "content": "something else" });
    let other = house.submit(&session.session_id, "s1", op).await;
    assert!(matches!(other, Err(Error::SubmissionConflict(_))), "{other:?}");
    let mut eyes = house.watch(&session.session_id).await;
    eyes.end().await;
    let started = eyes.names().iter().filter(|name| **name == "turn.started").count();
    assert_eq!(started, 1);
}

#[tokio::test]
async fn a_refusal_leaves_the_id_free() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let steer = json!({ "type": "user_input", "content": "x", "delivery": "steer" });
    let refused = house.submit(&session.session_id, "s1", steer).await;
    assert!(matches!(refused, Err(Error::NoActiveTurn)), "{refused:?}");
    let accepted = house.say(&session.session_id, "s1", "think").await;
    assert!(!accepted.replayed);
}

#[tokio::test]
async fn a_blank_input_and_an_unknown_session_are_refused() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let blank = json!({ "type": "user_input", "content": "  \n" });
    let refused = house.submit(&session.session_id, "s1", blank).await;
    assert!(matches!(refused, Err(Error::InvalidParams { .. })), "{refused:?}");
    let nobody = agentd_protocol::id::SessionId::from("ses_nobody");
    let op = json!({ "type": "user_input", "content": "x" });
    let refused = house.submit(&nobody, "s1", op).await;
    assert!(matches!(refused, Err(Error::SessionNotFound(_))), "{refused:?}");
}

#[tokio::test]
async fn an_unknown_model_is_refused_with_those_that_are_known() {
    let house = House::new();
    let params = serde_json::from_value(json!({
        "cwd": super::house::text(&house.work()),
        "model": "demo/other",
    }));
    let refused = house.registry.create(params.expect("parameters")).await;
    let Err(Error::UnknownModel { known_models, .. }) = refused else { panic!("{refused:?}") };
    assert!(known_models.contains(&"demo/demo".to_owned()));
    let session = house.session(json!({ "model": null })).await;
    let op = json!({ "type": "user_input", "content": "x" });
    let refused = house.submit(&session.session_id, "s1", op).await;
    assert!(matches!(refused, Err(Error::NoProvider { .. })), "{refused:?}");
}

#[tokio::test]
async fn an_interrupt_right_after_a_start_always_ends_the_turn() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let mut eyes = house.watch(&session.session_id).await;
    for round in 0..30 {
        let input =
            json!({ "type": "user_input", "content": "slowly think of it", "delivery": "reject" });
        let (start_id, stop_id) = (format!("s{round}"), format!("i{round}"));
        let start = house.submit(&session.session_id, &start_id, input);
        let stop = json!({ "type": "interrupt" });
        let stop = house.submit(&session.session_id, &stop_id, stop);
        let (started, stopped) = tokio::join!(biased; start, stop);
        let (started, stopped) = (started.expect("started"), stopped.expect("stopped"));
        assert_eq!(started.turn_id, stopped.turn_id);
        let end = eyes.end().await;
        assert!(
            matches!(end.body, EventBody::TurnAborted { reason: AbortReason::Interrupted, .. }),
            "{end:?}"
        );
        eyes.until(|body| matches!(body, EventBody::SessionState { .. })).await;
    }
}

#[tokio::test]
async fn resume_goes_on_with_an_interrupted_turn() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let mut eyes = house.watch(&session.session_id).await;
    house.say(&session.session_id, "s1", "write b.txt with hello").await;
    eyes.prompt().await;
    house.submit(&session.session_id, "i", json!({ "type": "interrupt" })).await.expect("applied");
    eyes.end().await;
    let resumed = house.submit(&session.session_id, "s2", json!({ "type": "resume" })).await;
    assert_eq!(resumed.expect("resumed").disposition, Disposition::Started);
    eyes.end().await;
}

#[tokio::test]
async fn resume_with_nothing_to_resume_is_invalid() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let refused = house.submit(&session.session_id, "s1", json!({ "type": "resume" })).await;
    assert!(matches!(refused, Err(Error::InvalidState { .. })), "{refused:?}");
}

#[tokio::test]
async fn the_demo_can_be_compacted_too() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let mut eyes = house.watch(&session.session_id).await;
    for id in ["s1", "s2", "s3"] {
        house.say(&session.session_id, id, "think about life").await;
        eyes.end().await;
    }
    let op = json!({ "type": "compact" });
    house.submit(&session.session_id, "c1", op).await.expect("accepted");
    assert!(matches!(eyes.end().await.body, EventBody::TurnCompleted { .. }));
    let summary = eyes.seen.iter().rev().find_map(|event| match &event.body.item()?.body {
        ItemBody::Marker { marker: Marker::Compaction { summary, .. } } => Some(summary.clone()),
        _ => None,
    });
    let summary = summary.expect("a summary");
    assert!(summary.contains("The last prompt was: think about life"), "{summary}");
    house.say(&session.session_id, "s4", "list").await;
    assert!(matches!(eyes.end().await.body, EventBody::TurnCompleted { .. }));
}
