//! What an iteration of a turn costs the database: pages that its two commits write to the log, which
//! is the most of what they cost beside the wait for the disk. And what an older schema had in
//! indexes is found without them.

use std::path::Path;

use agentd_protocol::event::{ContextSize, EventBody};
use agentd_protocol::id::{CallId, ItemId, SessionId, TurnId};
use agentd_protocol::permission::Risk;
use agentd_protocol::progress::DeltaKind;
use agentd_protocol::session::Usage;
use agentd_protocol::submission::Disposition;
use rusqlite::Connection;
use serde_json::json;

use super::fixture::{self, Hand, accepted, input, turn_event};
use crate::store::{NewEvent, Row, Store};

/// Pages of both commits, on average. Each changes the session, the events with their index, the
/// items, the calls and the sessions' order; one of them the calls' index, the other both indexes of
/// the items.
const MAX_PAGES: u64 = 17;

const FRAME: u64 = 4_096 + 24;

fn item(number: u32, what: &str) -> ItemId {
    ItemId::from_unique(format!("{number:06}{what}"))
}

fn call(number: u32) -> CallId {
    CallId::from_unique(format!("{number:06}"))
}

/// A turn that has booked its first answer.
async fn turn(store: &Store) -> (Hand, TurnId) {
    let session_id = fixture::create(store, "a").await;
    let mut hand = Hand::new(store, &session_id);
    let turn = TurnId::from_unique("turn");
    let rows = vec![accepted(input(&session_id, "s1", "go"), Disposition::Started, &turn)];
    let events = vec![
        turn_event(&turn, fixture::turn_started("s1")),
        turn_event(&turn, fixture::user_item(&item(0, "u"), 1, &turn, "go")),
        turn_event(
            &turn,
            EventBody::IterationStarted { index: 1, limit: 50, permission_mode: None },
        ),
        turn_event(&turn, fixture::item_started(&item(0, "a"), 1)),
    ];
    hand.write(events, rows).await.unwrap();
    (hand, turn)
}

/// What the first commit of an iteration says: the answer is whole, its call starts.
fn answered(number: u32, turn: &TurnId) -> Vec<NewEvent> {
    let (call_id, item_id) = (call(number), item(number, "a"));
    let index = u64::from(number) * 2 + 2;
    let usage = Usage { input: u64::from(number), ..Usage::default() };
    let arguments = json!({ "path": "notes.txt", "limit": number });
    let context = ContextSize { tokens: 1, window: 2 };
    [
        EventBody::ToolCalled {
            call_id: call_id.clone(),
            item_id: item_id.clone(),
            name: "read".to_owned(),
            arguments,
        },
        fixture::assistant_item(&item_id, index, turn, "Let me look."),
        EventBody::UsageUpdated { turn: usage, session: usage, context },
        EventBody::ToolStarted {
            call_id,
            summary: "read notes.txt".to_owned(),
            risk: Risk::Read,
            arguments: None,
        },
    ]
    .map(|body| turn_event(turn, body))
    .into()
}

/// And the second: its result, and the next answer is booked.
fn done(number: u32, turn: &TurnId) -> Vec<NewEvent> {
    let index = u64::from(number) * 2 + 3;
    [
        fixture::tool_completed(&call(number), &item(number, "t"), index, turn, "     1\ta line\n"),
        EventBody::IterationStarted { index: number + 2, limit: 50, permission_mode: None },
        fixture::item_started(&item(number + 1, "a"), 1),
    ]
    .map(|body| turn_event(turn, body))
    .into()
}

/// Pages in the log so far.
fn pages(dir: &Path) -> u64 {
    std::fs::metadata(dir.join("agentd.db-wal")).unwrap().len() / FRAME
}

#[tokio::test]
async fn an_iteration_writes_few_pages() {
    const WARM: u32 = 10;
    const COUNTED: u32 = 25;
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let (mut hand, turn) = turn(&store).await;
    let seen = |number: u32| Row::FileSeen { path: "/srv/a".into(), sha256: format!("{number}") };
    let mut before = 0;
    for number in 0..WARM + COUNTED {
        if number == WARM {
            before = pages(dir.path());
        }
        hand.write(answered(number, &turn), vec![]).await.unwrap();
        // A file that did not change since it was seen last is the usual case.
        hand.write(done(number, &turn), vec![seen(0)]).await.unwrap();
    }
    let written = pages(dir.path()) - before;
    assert!(written > 0, "the log was not begun anew on the way");
    assert!(written <= MAX_PAGES * u64::from(COUNTED), "{written} pages in {COUNTED} iterations");
    store.close().await.unwrap();
}

async fn check_found(store: &Store, session_id: &SessionId) {
    let snapshot = store.snapshot(session_id).await.unwrap();
    assert_eq!(snapshot.running_calls, [call(1)]);
    let streaming = store.load(session_id).await.unwrap().open_turn.unwrap().in_flight.unwrap();
    assert_eq!((streaming.item_id, streaming.text), (item(1, "a"), "Let".to_owned()));
}

#[tokio::test]
async fn what_runs_and_streams_is_found_also_in_a_database_of_an_older_schema() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let (mut hand, turn) = turn(&store).await;
    hand.write(answered(0, &turn), vec![]).await.unwrap();
    hand.write(done(0, &turn), vec![]).await.unwrap();
    // A call that starts while its answer streams.
    let mut early = answered(1, &turn);
    early.remove(1);
    let text = Row::Checkpoint {
        item_id: item(1, "a"),
        attempt: 1,
        kind: DeltaKind::Text,
        offset: 0,
        text: "Let".to_owned(),
    };
    hand.write(early, vec![text]).await.unwrap();
    check_found(&store, &hand.session_id).await;
    store.close().await.unwrap();
    let older = Connection::open(dir.path().join("agentd.db")).unwrap();
    older
        .execute_batch(
            "DROP TABLE processes;
             ALTER TABLE calls ADD COLUMN arguments TEXT NOT NULL DEFAULT '{}';
             ALTER TABLE sessions DROP COLUMN booked;
             CREATE INDEX calls_running ON calls (session) WHERE state = 'started';
             CREATE INDEX items_streaming ON items (session, item_index)
                 WHERE status = 'streaming';
             PRAGMA user_version = 2",
        )
        .unwrap();
    drop(older);
    let store = fixture::open(dir.path());
    check_found(&store, &hand.session_id).await;
    store.close().await.unwrap();
}

/// A damaged database may be older than the program that saves it.
#[tokio::test]
async fn rows_of_an_older_schema_are_saved_from_a_damaged_database() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let (hand, _) = turn(&store).await;
    store.close().await.unwrap();
    let path = dir.path().join("agentd.db");
    let older = Connection::open(&path).unwrap();
    older
        .execute_batch(
            "DROP TABLE processes; ALTER TABLE sessions DROP COLUMN booked;
             PRAGMA user_version = 2",
        )
        .unwrap();
    let salvaged =
        crate::store::salvage::salvage(&path, crate::store::Synchronous::Normal).unwrap();
    assert!(salvaged.notice.contains("all of its rows could be read"), "{}", salvaged.notice);
    let row: (String, Option<u64>) = salvaged
        .conn
        .query_row("SELECT session_id, booked FROM sessions", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert_eq!(row, (hand.session_id.to_string(), Some(2)));
}
