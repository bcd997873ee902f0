//! Submitters that go away: what is theirs ends with them, what is others' goes on.

use agentd_protocol::event::{AbortReason, EventBody};
use agentd_protocol::permission::Decision;
use serde_json::json;

use super::house::{Eyes, House, builtin, caller, passing};
use crate::clock::Clock;
use crate::session::Caller;

/// A turn that asks twice, the second time when the steered input is in it; whose sender goes with
/// its turn.
struct Steered {
    house: House,
    clock: Clock,
    eyes: Eyes,
    session_id: agentd_protocol::id::SessionId,
    sender: Caller,
}

impl Steered {
    async fn new() -> Self {
        let clock = Clock::manual();
        let house = House::with(clock.clone(), builtin());
        let session_id = house.session(json!({})).await.session_id;
        let eyes = house.watch(&session_id).await;
        let sender = caller(5);
        Self { house, clock, eyes, session_id, sender }
    }

    async fn steer(&self, what: &str) {
        let op = json!({ "type": "user_input", "content": what, "delivery": "steer" });
        let extra = json!({ "on_disconnect": "interrupt" });
        let sent = self.house.submit_as(&self.sender, &self.session_id, "st", op, extra).await;
        sent.expect("steered");
    }

    /// Has the steered input taken into the turn, which asks about what it wants.
    async fn taken(&mut self) {
        self.house.say(&self.session_id, "s1", "write a.txt with one").await;
        let prompt_id = self.eyes.prompt().await;
        self.steer("write b.txt with two").await;
        self.house.reply(&prompt_id, Decision::Allow).await.expect("accepted");
        self.eyes.until(|body| matches!(body, EventBody::InputSteered { .. })).await;
        self.eyes.prompt().await;
    }
}

fn is_disconnected(body: &EventBody) -> bool {
    matches!(body, EventBody::TurnAborted { reason: AbortReason::Disconnected, .. })
}

#[tokio::test]
async fn an_input_that_no_iteration_took_is_dropped_and_the_turn_goes_on() {
    let mut scene = Steered::new().await;
    scene.house.say(&scene.session_id, "s1", "write a.txt with one").await;
    let prompt_id = scene.eyes.prompt().await;
    scene.steer("think").await;
    scene.sender.gone.cancel();
    let is_dropped = |body: &EventBody| matches!(body, EventBody::InputDropped { .. });
    let event = passing(&scene.clock, scene.eyes.until(is_dropped)).await;
    let EventBody::InputDropped { submission_id, reason } = event.body else { unreachable!() };
    assert_eq!((submission_id.as_str(), reason.as_str()), ("st", "disconnected"));
    scene.house.reply(&prompt_id, Decision::Allow).await.expect("accepted");
    assert_eq!(scene.eyes.end().await.body.name(), "turn.completed");
    assert!(!scene.eyes.names().contains(&"input.steered"));
}

#[tokio::test]
async fn an_input_that_is_in_the_turn_ends_it_with_its_sender() {
    let mut scene = Steered::new().await;
    scene.taken().await;
    scene.sender.gone.cancel();
    let end = passing(&scene.clock, scene.eyes.end()).await;
    assert!(is_disconnected(&end.body), "{end:?}");
}

#[tokio::test]
async fn so_it_does_when_its_sender_does_not_come_back_after_a_restart() {
    let mut scene = Steered::new().await;
    scene.taken().await;
    let Steered { house, clock, eyes, session_id, .. } = scene;
    drop(eyes);
    let house = passing(&clock, house.restart()).await;
    let mut eyes = house.watch(&session_id).await;
    let end = passing(&clock, eyes.end()).await;
    assert!(is_disconnected(&end.body), "{end:?}");
}
