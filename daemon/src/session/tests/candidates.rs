//! What a completed turn proposes to keep.

use agentd_protocol::event::EventBody;
use serde_json::json;

use super::house::House;

#[tokio::test]
async fn a_completed_turn_proposes_a_memory_and_a_skill() {
    let house = House::new();
    for name in ["a.txt", "b.txt"] {
        house.write(name, "text");
    }
    let session = house.session(json!({ "permission_mode": "full" })).await;
    let mut eyes = house.watch(&session.session_id).await;
    let asked = "Remember that the port is 8080. Read a.txt, read b.txt, list, search for text";
    let accepted = house.say(&session.session_id, "s1", asked).await;
    let end = eyes.end().await;
    assert!(matches!(end.body, EventBody::TurnCompleted { .. }), "{end:?}");
    let memory = eyes.until(|body| matches!(body, EventBody::MemoryCandidate { .. })).await;
    assert_eq!(memory.turn_id, accepted.turn_id);
    let EventBody::MemoryCandidate { text, .. } = memory.body else { unreachable!() };
    assert_eq!(text, "the port is 8080");
    let skill = eyes.until(|body| matches!(body, EventBody::SkillCandidate { .. })).await;
    let EventBody::SkillCandidate { steps, .. } = skill.body else { unreachable!() };
    assert_eq!(steps.len(), 4, "{steps:?}");
    // The lease it took for that is given back.
    let now = house.registry.get(&session.session_id).await.expect("the session");
    assert!(now.lease.is_none());
}

#[tokio::test]
async fn a_turn_that_is_cut_off_proposes_nothing() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let mut eyes = house.watch(&session.session_id).await;
    house.say(&session.session_id, "s1", "Remember that x. write b.txt with hello").await;
    eyes.prompt().await;
    let op = json!({ "type": "interrupt" });
    house.submit(&session.session_id, "i", op).await.expect("accepted");
    eyes.end().await;
    house.say(&session.session_id, "s2", "think").await;
    let next = eyes.until(|body| body.is_terminal() || is_candidate(body)).await;
    assert!(matches!(next.body, EventBody::TurnCompleted { .. }), "{next:?}");
}

fn is_candidate(body: &EventBody) -> bool {
    matches!(body, EventBody::MemoryCandidate { .. } | EventBody::SkillCandidate { .. })
}
