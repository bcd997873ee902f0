//! Group commit: each operation has its own fate, and nothing is told that is not durable.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use agentd_protocol::id::SessionId;
use agentd_protocol::session::EventsParams;
use futures_util::future;
use proptest::prelude::*;
use rusqlite::Connection;

use super::fixture::{self, event, warning};
use crate::store::{Error, Store};

/// Holds the writer inside of a group until told to go on, so that what is sent meanwhile makes
/// one group.
struct Gate {
    open: mpsc::Sender<()>,
    passed: tokio::task::JoinHandle<Result<(), Error>>,
}

async fn hold(store: &Store) -> Gate {
    let (open, opened) = mpsc::channel();
    let (entered, is_in) = tokio::sync::oneshot::channel();
    let mut entered = Some(entered);
    let store = store.clone();
    let passed = tokio::spawn(async move {
        store
            .write("hold", move |_| {
                entered.take().map(|entered| entered.send(()));
                // The test's end opens it too.
                let _ = opened.recv();
                Ok(())
            })
            .await
    });
    is_in.await.unwrap();
    Gate { open, passed }
}

/// What an operation of a group does.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Act {
    Succeed,
    /// An error of its own.
    Fail,
    /// SQLite gives the whole transaction up over it.
    LoseTransaction,
    /// The transaction cannot be committed with it.
    SpoilCommit,
    Panic,
}

fn act(conn: &Connection, act: Act, number: usize) -> Result<usize, Error> {
    conn.execute("INSERT INTO probe VALUES (?1)", [number])?;
    match act {
        Act::Succeed => {}
        Act::Fail => return Err(Error::Inconsistent("asked to".to_owned())),
        Act::LoseTransaction => {
            conn.execute_batch("ROLLBACK")?;
            return Err(Error::Inconsistent("lost".to_owned()));
        }
        Act::SpoilCommit => {
            conn.execute_batch(
                "PRAGMA defer_foreign_keys = ON; INSERT INTO usage (session, turn_id, input,
                     output, cache_read, cache_write, reasoning) VALUES (99, 't', 0, 0, 0, 0, 0)",
            )?;
        }
        Act::Panic => panic!("asked to"),
    }
    Ok(number)
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let one = prop_oneof![
        6 => Just(Act::Succeed),
        2 => Just(Act::Fail),
        1 => Just(Act::LoseTransaction),
        1 => Just(Act::SpoilCommit),
        1 => Just(Act::Panic),
    ];
    proptest::collection::vec(one, 1..24)
}

proptest! {
    #![proptest_config(fixture::cases(24))]

    /// *durable before visible*: whatever fails in a group, what is published is committed, in
    /// order, before its caller hears of it; each caller gets its own result, and each success is
    /// written once.
    #[test]
    fn durable_before_visible(acts in acts()) {
        // Panics are part of the schedule: their reports would only hide a real one.
        std::panic::set_hook(Box::new(|_| ()));
        tokio::runtime::Runtime::new().unwrap().block_on(run_group(acts));
        let _ = std::panic::take_hook();
    }
}

async fn run_group(acts: Vec<Act>) {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    store
        .write("prepare", |conn| Ok(conn.execute_batch("CREATE TABLE probe (number)")?))
        .await
        .unwrap();
    let gate = hold(&store).await;
    let published = Arc::new(Mutex::new(Vec::new()));
    let callers = acts.iter().copied().enumerate().map(|(number, what)| {
        let (seen, heard) = (Arc::clone(&published), Arc::clone(&published));
        let (store, path) = (store.clone(), dir.path().join("agentd.db"));
        async move {
            let apply = move |conn: &Connection| act(conn, what, number);
            let publish = move |number: &usize| {
                // Another connection sees it: it is committed.
                let other = Connection::open(path).unwrap();
                let row = "SELECT count(*) FROM probe WHERE number = ?1";
                let count: u32 = other.query_row(row, [number], |row| row.get(0)).unwrap();
                assert_eq!(count, 1);
                seen.lock().unwrap().push(*number);
            };
            let result = store.write_then("act", 1, apply, publish).await;
            let heard = heard.lock().unwrap().contains(&number);
            assert_eq!(heard, result.is_ok(), "published before the caller hears: {result:?}");
            result.is_ok()
        }
    });
    // The first poll queues them all, in order; then the gate opens.
    let open = async { gate.open.send(()).unwrap() };
    let (succeeded, ()) = future::join(future::join_all(callers), open).await;
    gate.passed.await.unwrap().unwrap();
    assert_eq!(succeeded, acts.iter().map(|act| *act == Act::Succeed).collect::<Vec<_>>());
    let expected: Vec<usize> =
        (0..acts.len()).filter(|number| acts[*number] == Act::Succeed).collect();
    assert_eq!(*published.lock().unwrap(), expected);
    let written: Vec<usize> = store
        .write("look", |conn| {
            let mut rows = conn.prepare("SELECT number FROM probe ORDER BY rowid")?;
            let numbers = rows.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
            Ok(numbers)
        })
        .await
        .unwrap();
    assert_eq!(written, expected);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_lost_append_fails_those_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let session_id = fixture::create(&store, "a").await;
    let gate = hold(&store).await;
    // The second names a head that only the first could have made.
    let lost = store.append(fixture::append(&session_id, 7, vec![event(warning("lost"))]));
    let behind = store.append(fixture::append(&session_id, 8, vec![event(warning("behind"))]));
    let fine = store.append(fixture::append(&session_id, 1, vec![event(warning("fine"))]));
    let open = async { gate.open.send(()).unwrap() };
    let (results, ()) = future::join(future::join3(lost, behind, fine), open).await;
    assert!(matches!(results.0, Err(Error::HeadMoved { expected: 7, actual: 1 })));
    assert!(matches!(results.1, Err(Error::HeadMoved { expected: 8, actual: 1 })));
    assert_eq!(results.2.unwrap().head, 2);
    gate.passed.await.unwrap().unwrap();
    store.close().await.unwrap();
}

async fn messages(store: &Store, session_id: &SessionId) -> Vec<u64> {
    let params = EventsParams { session_id: session_id.clone(), after: Some(1), limit: None };
    store.events(params).await.unwrap().events.iter().map(|event| event.seq).collect()
}

/// The disk is full for a while: nothing of what failed is written or told, reads go on, and with
/// room again so do writes.
#[tokio::test]
async fn disk_full_loses_nothing_and_passes() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let session_id = fixture::create(&store, "a").await;
    let pages = |pages: u32| {
        move |conn: &Connection| Ok(conn.pragma_update(None, "max_page_count", pages)?)
    };
    store.write("fill the disk", pages(1)).await.unwrap();
    let big = warning(&"x".repeat(100_000));
    let full = store.append(fixture::append(&session_id, 1, vec![event(big.clone())])).await;
    match full {
        Err(Error::Failed { cause, path, .. }) => {
            assert_eq!(cause, "the disk is full");
            assert!(path.ends_with("agentd.db"), "{path}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(messages(&store, &session_id).await, Vec::<u64>::new());
    store.write("make room", pages(1_000_000)).await.unwrap();
    store.append(fixture::append(&session_id, 1, vec![event(big)])).await.unwrap();
    assert_eq!(messages(&store, &session_id).await, [2]);
    store.close().await.unwrap();
}

/// e10: another process holds the database for longer than a moment. Nothing is lost or written
/// twice, and the one async thread goes on meanwhile.
#[tokio::test]
async fn e10_a_foreign_lock_is_waited_for_off_the_async_threads() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let session_id = fixture::create(&store, "a").await;
    let foreign = Connection::open(dir.path().join("agentd.db")).unwrap();
    foreign.execute_batch("BEGIN IMMEDIATE").unwrap();
    let append = store.append(fixture::append(&session_id, 1, vec![event(warning("one"))]));
    let meanwhile = async {
        // Runs on the same thread while the append waits; reads are served too.
        for _ in 0..20 {
            assert_eq!(store.head(&session_id).await.unwrap(), 1);
        }
        foreign.execute_batch("COMMIT").unwrap();
    };
    let (appended, ()) = future::join(append, meanwhile).await;
    assert_eq!(appended.unwrap().head, 2);
    assert_eq!(messages(&store, &session_id).await, [2]);
    store.close().await.unwrap();
}

#[tokio::test]
async fn after_close_every_call_fails_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    store.close().await.unwrap();
    let refused = store.create_session(fixture::new_session("late")).await;
    assert!(refused.unwrap_err().to_string().contains("the store is closed"));
}
