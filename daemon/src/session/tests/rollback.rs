//! Going back: hidden items, files given back, and what cannot be.

use agentd_protocol::event::EventBody;
use agentd_protocol::id::SessionId;
use agentd_protocol::item::{Item, ItemBody};
use agentd_protocol::session::{ItemsParams, SessionState};
use agentd_protocol::submission::{Rollback, SubmitResult};
use serde_json::{Value, json};

use super::house::House;
use crate::session::Error;

async fn items(house: &House, session_id: &SessionId) -> Vec<Item> {
    let session_id = session_id.clone();
    let params = ItemsParams { session_id, after: None, before: None, limit: None };
    house.registry.items(params).await.expect("items").items
}

/// How many items the model sees.
async fn seen(house: &House, session_id: &SessionId) -> usize {
    let is_seen =
        |item: &&Item| item.hidden_by.is_none() && !matches!(item.body, ItemBody::Marker { .. });
    items(house, session_id).await.iter().filter(is_seen).count()
}

async fn session(house: &House, inputs: &[&str]) -> SessionId {
    let session = house.session(json!({ "permission_mode": "full" })).await;
    let mut eyes = house.watch(&session.session_id).await;
    for (number, text) in inputs.iter().enumerate() {
        house.say(&session.session_id, &format!("s{number}"), text).await;
        let end = eyes.end().await;
        assert!(matches!(end.body, EventBody::TurnCompleted { .. }), "{end:?}");
        eyes.until(|body| matches!(body, EventBody::SessionState { .. })).await;
    }
    session.session_id
}

async fn roll_back(house: &House, id: &SessionId, key: &str, fields: Value) -> SubmitResult {
    try_roll_back(house, id, key, fields).await.expect("accepted")
}

async fn try_roll_back(
    house: &House,
    id: &SessionId,
    key: &str,
    mut fields: Value,
) -> Result<SubmitResult, Error> {
    fields["type"] = json!("rollback");
    house.submit(id, key, fields).await
}

fn report(result: SubmitResult) -> Rollback {
    result.rollback.expect("a rollback says what it did")
}

#[tokio::test]
async fn the_last_turn_goes_with_its_files_and_comes_back() {
    let house = House::new();
    house.write("kept.txt", "before");
    let id = session(
        &house,
        &["read kept.txt", "read kept.txt, write kept.txt with after and write new.txt with new"],
    )
    .await;
    let whole = seen(&house, &id).await;
    let files = json!({ "restore_files": true });

    let head = house.registry.get(&id).await.expect("it").head_seq;
    let dry = json!({ "restore_files": true, "dry_run": true });
    let said = report(roll_back(&house, &id, "r", dry).await);
    assert_eq!((said.item_id, said.files.restored.len()), (None, 2));
    assert_eq!(house.registry.get(&id).await.expect("it").head_seq, head, "nothing is recorded");
    assert_eq!(house.read("kept.txt").as_deref(), Some("after"));

    // The same id is free: what was only said did not use it up.
    let done = roll_back(&house, &id, "r", files.clone()).await;
    let again = roll_back(&house, &id, "r", files.clone()).await;
    assert!(again.replayed && again.rollback == done.rollback, "it ran once");
    let done = report(done);
    assert_eq!(done.items, said.items);
    assert_eq!(done.files.restored, ["kept.txt", "new.txt"]);
    assert_eq!(house.read("kept.txt").as_deref(), Some("before"));
    assert_eq!(house.read("new.txt"), None);
    assert_eq!(seen(&house, &id).await, whole - done.items.len());
    assert!(items(&house, &id).await[0].hidden_by.is_none(), "instructions stay");

    let house = house.restart().await;
    assert_eq!(seen(&house, &id).await, whole - done.items.len(), "also after a restart");
    let marker = done.item_id.expect("a marker");
    let back = json!({ "undo": marker, "restore_files": true });
    let back = report(roll_back(&house, &id, "u", back).await);
    assert_eq!(back.items, done.items);
    assert_eq!(house.read("kept.txt").as_deref(), Some("after"));
    assert_eq!(house.read("new.txt").as_deref(), Some("new"));
    assert_eq!(seen(&house, &id).await, whole);
    let twice = try_roll_back(&house, &id, "u2", json!({ "undo": marker })).await;
    assert!(matches!(twice, Err(Error::InvalidParams { .. })), "{twice:?}");
    // The hidden turn goes again, and the one before it with it.
    let both = report(roll_back(&house, &id, "r2", json!({ "turns": 2 })).await);
    assert!(both.items.len() > done.items.len());
    assert_eq!(house.read("kept.txt").as_deref(), Some("after"), "files only when asked");
    let places: Vec<u64> = items(&house, &id).await.iter().map(|item| item.index).collect();
    assert_eq!(places, (1..=places.len() as u64).collect::<Vec<_>>());
    let mut eyes = house.watch(&id).await;
    house.say(&id, "on", "think").await;
    eyes.until(|body| matches!(body, EventBody::SessionRolledBack { .. })).await;
}

#[tokio::test]
async fn what_somebody_else_changed_is_left_alone_and_commands_are_listed() {
    let house = House::new();
    let id = session(&house, &["write a.txt with one, write b.txt with two and run `touch c.txt`"])
        .await;
    house.write("a.txt", "mine");
    std::fs::remove_file(house.work().join("b.txt")).expect("it was written");
    let done = report(roll_back(&house, &id, "r", json!({ "restore_files": true })).await).files;
    assert_eq!(done.conflicts, ["a.txt"]);
    assert_eq!(done.restored, ["b.txt"], "it is not there, as before");
    assert_eq!(done.not_undoable.len(), 1, "{done:?}");
    assert!(done.not_undoable[0].contains("touch c.txt"), "{done:?}");
    assert_eq!(house.read("a.txt").as_deref(), Some("mine"));
}

#[tokio::test]
async fn a_running_turn_and_a_session_without_turns_refuse() {
    let house = House::new();
    let id = session(&house, &[]).await;
    for fields in [json!({}), json!({ "turns": 0 })] {
        let none = try_roll_back(&house, &id, "r", fields).await;
        assert!(matches!(none, Err(Error::InvalidParams { .. })), "{none:?}");
    }
    let nothing = try_roll_back(&house, &id, "r", json!({ "undo": "item_x" })).await;
    assert!(matches!(nothing, Err(Error::ItemNotFound(_))), "{nothing:?}");
    let asking = house.session(json!({})).await.session_id;
    let mut eyes = house.watch(&asking).await;
    house.say(&asking, "s", "write a.txt with one").await;
    eyes.prompt().await;
    let refused = try_roll_back(&house, &asking, "r", json!({})).await;
    assert!(matches!(refused, Err(Error::TurnActive(_))), "{refused:?}");
}

/// A session whose only turn was interrupted at a prompt.
async fn interrupted(house: &House) -> SessionId {
    let id = house.session(json!({})).await.session_id;
    let mut eyes = house.watch(&id).await;
    house.say(&id, "s", "write a.txt with one").await;
    eyes.prompt().await;
    house.submit(&id, "i", json!({ "type": "interrupt" })).await.expect("applied");
    eyes.end().await;
    id
}

#[tokio::test]
async fn after_it_there_is_nothing_to_resume() {
    let house = House::new();
    let id = interrupted(&house).await;
    roll_back(&house, &id, "r", json!({})).await;
    let resume = json!({ "type": "resume" });
    let refused = house.submit(&id, "c", resume.clone()).await;
    assert!(matches!(refused, Err(Error::InvalidState { .. })), "{refused:?}");
    let house = house.restart().await;
    let refused = house.submit(&id, "c", resume).await;
    assert!(matches!(refused, Err(Error::InvalidState { .. })), "{refused:?}");
    assert_eq!(house.registry.get(&id).await.expect("it").state, SessionState::Idle);
}

#[tokio::test]
async fn a_turn_s_resumes_go_with_it() {
    let house = House::new();
    let id = interrupted(&house).await;
    let mut eyes = house.watch(&id).await;
    let resumed = house.submit(&id, "c", json!({ "type": "resume" })).await.expect("started");
    eyes.until(EventBody::is_terminal).await;
    eyes.end().await;
    assert_eq!(eyes.seen.last().expect("an end").turn_id, resumed.turn_id);
    roll_back(&house, &id, "r", json!({})).await;
    let users = items(&house, &id).await;
    let users = users.iter().filter(|item| matches!(item.body, ItemBody::User { .. }));
    assert!(users.clone().count() > 1 && users.clone().all(|item| item.hidden_by.is_some()));
}
