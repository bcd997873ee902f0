//! Two daemons over one database (`store.shared`), and one conversation.
//!
//! Receives the harness; hands out the requests that each of them makes.

use harness::client::is_turn_end;
use harness::{Answer, Client};
use serde_json::json;

use crate::scene::{Scene, end_of};

async fn turn(client: &mut Client, session: &str, id: &str) -> serde_json::Value {
    client.submit(session, id, &format!("Input {id}.")).await;
    client.watch_until(is_turn_end).await.pop().unwrap()
}

/// A session that went on elsewhere goes on here from there: nothing is missing in the request.
#[tokio::test]
async fn turns_in_two_daemons_are_one_conversation() {
    let mut scene = Scene::start("[store]\nshared = true\n").await;
    scene.model.improvise(|_| Answer::saying("Yes."));
    let mut sibling = scene.daemon.sibling("other");
    sibling.spawn();
    sibling.ready().await;
    let mut other = sibling.client().await;
    other.subscribe(&scene.session, Some(0)).await;
    for round in 0..2 {
        let seen = scene.turn(&format!("a{round}"), "Here.").await;
        assert_eq!(end_of(&seen), "turn.completed");
        other.watch_until(is_turn_end).await;
        let end = turn(&mut other, &scene.session, &format!("b{round}")).await;
        assert_eq!(end["type"], "turn.completed");
        assert_eq!(end_of(&scene.end().await), "turn.completed");
    }
    let said: Vec<_> = scene.messages(3)[1..].iter().map(|m| m["content"].clone()).collect();
    assert_eq!(
        json!(said),
        json!(["Here.", "Yes.", "Input b0.", "Yes.", "Here.", "Yes.", "Input b1."])
    );
    scene.check().await;
}
