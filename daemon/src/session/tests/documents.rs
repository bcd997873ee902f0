//! Copies: a session goes out as a document and comes back, forks, is found, is backed up.

use agentd_protocol::event::EventBody;
use agentd_protocol::id::SessionId;
use agentd_protocol::item::Item;
use agentd_protocol::session::{ExportFormat, ExportParams, ItemsParams, SearchParams, Session};
use serde_json::{Value, json};

use super::house::{House, text};
use crate::session::Error;

async fn items(house: &House, session_id: &SessionId) -> Vec<Item> {
    let session_id = session_id.clone();
    let params = ItemsParams { session_id, after: None, before: None, limit: None };
    house.registry.items(params).await.expect("items").items
}

/// A session of two turns that read a file.
async fn talked(house: &House) -> Session {
    house.write("a.txt", "the content of a");
    let session = house.session(json!({ "labels": { "k": "v" } })).await;
    let mut eyes = house.watch(&session.session_id).await;
    for (id, text) in [("s1", "read a.txt"), ("s2", "think of ```fences```")] {
        house.say(&session.session_id, id, text).await;
        eyes.until(|body| matches!(body, EventBody::TurnCompleted { .. })).await;
    }
    house.registry.get(&session.session_id).await.expect("the session")
}

async fn export(house: &House, session_id: &SessionId, format: ExportFormat) -> String {
    let params = ExportParams { session_id: session_id.clone(), format };
    house.registry.export(params).await.expect("a document").content
}

async fn import(house: &House, params: Value) -> Result<Session, Error> {
    house.registry.import(serde_json::from_value(params).expect("parameters")).await
}

async fn fork(house: &House, params: Value) -> Result<Session, Error> {
    house.registry.fork(serde_json::from_value(params).expect("parameters")).await
}

#[tokio::test]
async fn an_exported_session_comes_back_under_a_new_id_with_the_same_items() {
    let house = House::new();
    let session = talked(&house).await;
    let content = export(&house, &session.session_id, ExportFormat::Json).await;
    let params = json!({ "content": content, "key": "k" });
    let imported = import(&house, params.clone()).await.expect("a session");
    assert_ne!(imported.session_id, session.session_id);
    assert_eq!((&imported.title, &imported.cwd), (&session.title, &session.cwd));
    assert_eq!((&imported.labels, &imported.model), (&session.labels, &session.model));
    let before = items(&house, &session.session_id).await;
    assert_eq!(items(&house, &imported.session_id).await, before);
    assert_eq!(imported.item_count, before.len() as u64);
    let again = import(&house, params).await.expect("the same session");
    assert_eq!(again.session_id, imported.session_id, "the key makes it idempotent");
    // The log alone rebuilds it, and it goes on.
    let mut eyes = house.watch(&imported.session_id).await;
    house.say(&imported.session_id, "s1", "read a.txt").await;
    eyes.end().await;
    let shown = eyes.seen.iter().filter_map(|event| event.body.item()).count();
    assert!(shown > before.len(), "old items and new ones are in the log");
}

#[tokio::test]
async fn counts_of_a_document_that_nobody_can_have_end_no_turn() {
    let house = House::new();
    let session = talked(&house).await;
    let content = export(&house, &session.session_id, ExportFormat::Json).await;
    let mut document: Value = serde_json::from_str(&content).expect("JSON");
    for item in document["items"].as_array_mut().expect("items") {
        if item["role"] == "assistant" {
            for count in ["input", "output", "cache_read", "cache_write", "reasoning"] {
                item["usage"][count] = u64::MAX.into();
            }
        }
    }
    let params = json!({ "content": document.to_string() });
    let imported = import(&house, params).await.expect("a session");
    let mut eyes = house.watch(&imported.session_id).await;
    house.say(&imported.session_id, "s1", "think").await;
    let end = eyes.end().await;
    assert!(matches!(end.body, EventBody::TurnCompleted { .. }), "{end:?}");
}

#[tokio::test]
async fn what_is_no_document_makes_no_session() {
    let house = House::new();
    let session = talked(&house).await;
    let content = export(&house, &session.session_id, ExportFormat::Json).await;
    let gone = json!({ "content": content, "cwd": "/nonexistent" });
    for (params, field) in [(json!({ "content": "{}" }), "content"), (gone, "cwd")] {
        let refused = import(&house, params).await;
        let Err(Error::InvalidParams { field: named, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(named, field);
    }
}

#[tokio::test]
async fn a_transcript_has_all_that_was_said() {
    let house = House::new();
    let session = talked(&house).await;
    let text = export(&house, &session.session_id, ExportFormat::Markdown).await;
    assert!(text.starts_with("# read a.txt\n"), "{text}");
    for part in ["## User\n\nread a.txt", "Call of `read`", "Result of `read` (ok)", "demo/demo"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(text.contains("the content of a"), "{text}");
}

#[tokio::test]
async fn a_fork_has_the_items_up_to_there_and_goes_its_own_way() {
    let house = House::new();
    let session = talked(&house).await;
    let all = items(&house, &session.session_id).await;
    let id = &session.session_id;
    let whole = fork(&house, json!({ "session_id": id })).await.expect("a fork");
    assert_eq!(whole.parent_id.as_ref(), Some(id));
    assert_eq!(items(&house, &whole.session_id).await, all);
    let last = &all[1].item_id;
    let params = json!({ "session_id": id, "after_item": last, "cwd": text(&house.work()) });
    let short = fork(&house, params).await.expect("a fork");
    assert_eq!(items(&house, &short.session_id).await, all[..2]);
    let mut eyes = house.watch(&short.session_id).await;
    house.say(&short.session_id, "s1", "think").await;
    eyes.end().await;
    assert_eq!(items(&house, &session.session_id).await, all, "the origin stays as it is");
    let nowhere = fork(&house, json!({ "session_id": id, "after_item": "item_x" })).await;
    assert!(matches!(nowhere, Err(Error::ItemNotFound(_))), "{nowhere:?}");
}

#[tokio::test]
async fn titles_are_found() {
    let house = House::new();
    let session = talked(&house).await;
    let params = SearchParams { query: "READ a".to_owned(), limit: None };
    let found = house.registry.search(params).await.expect("matches").matches;
    assert!(found.iter().any(|found| found.session_id == session.session_id), "{found:?}");
}

#[tokio::test]
async fn a_backup_is_a_database_of_its_own_and_overwrites_nothing() {
    let house = House::new();
    talked(&house).await;
    let path = house.work().join("copy.db");
    let backup = |path: String| {
        house.registry.backup(serde_json::from_value(json!({ "path": path })).expect("parameters"))
    };
    let made = backup(text(&path)).await.expect("a copy");
    assert_eq!(made.bytes, std::fs::metadata(&path).expect("the file").len());
    let start = std::fs::read(&path).expect("the file");
    assert!(start.starts_with(b"SQLite format 3\0"));
    assert_eq!(house.registry.check().await.expect("it is read").damage, [""; 0]);
    let again = backup(text(&path)).await;
    assert!(matches!(again, Err(Error::Store(_))), "{again:?}");
    let relative = backup("copy.db".to_owned()).await;
    assert!(matches!(relative, Err(Error::InvalidParams { .. })), "{relative:?}");
}
