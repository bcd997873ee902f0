//! Replay: the log of a session, read from the store and told to those who come with a number.
//!
//! Compared with the same lines out of memory through a bare channel.

use std::time::Instant;

use agentd::journal::Journal;
use agentd::store::{Append, LeaseUse, NewEvent, Store};
use agentd_protocol::event::EventBody;
use agentd_protocol::id::SessionId;
use agentd_protocol::time::Time;
use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::ground;
use crate::table::{ROUNDS, Table, median};

/// Events of the log, beside the first.
const EVENTS: usize = 20_000;

pub(crate) fn measure(table: &mut Table) {
    let dir = ground::directory();
    let runtime = Runtime::new().expect("a runtime starts");
    let store = ground::store(&dir.path().join("state"));
    let journal = Journal::new(store.clone());
    let session_id = runtime.block_on(write(&store));
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        floor.push(runtime.block_on(bare()));
        ours.push(runtime.block_on(replayed(&journal, &session_id)));
    }
    let floor = ("bare channel, lines in memory", median(floor));
    table.rate("events replayed from the log", median(ours), floor);
    runtime.block_on(store.close()).expect("the store closes");
}

async fn write(store: &Store) -> SessionId {
    let session_id = ground::session(store, "a").await;
    let body = EventBody::Warning { code: "bench".to_owned(), message: "x".repeat(200) };
    let event = NewEvent { turn_id: None, time: Time::from_unix_millis(0), body };
    let append = Append {
        session_id: session_id.clone(),
        expected_head: 1,
        lease: LeaseUse::Take { by_force: false },
        release: true,
        events: vec![event; EVENTS],
        rows: Vec::new(),
    };
    store.append(append).await.expect("it is appended");
    session_id
}

#[expect(clippy::cast_precision_loss, reason = "some thousands")]
fn per_second(start: Instant) -> f64 {
    EVENTS as f64 / start.elapsed().as_secs_f64()
}

async fn bare() -> f64 {
    let (sender, mut lines) = mpsc::channel(256);
    let line = Bytes::from(vec![b'x'; 380]);
    let start = Instant::now();
    let sending = tokio::spawn(async move {
        for _ in 0..EVENTS {
            sender.send(line.clone()).await.expect("somebody listens");
        }
    });
    while lines.recv().await.is_some() {}
    sending.await.expect("it ends well");
    per_second(start)
}

async fn replayed(journal: &Journal, session_id: &SessionId) -> f64 {
    let start = Instant::now();
    let watch = journal.subscribe(session_id, Some(1), false).await;
    let mut watch = watch.expect("the session is there");
    // And the marker of the join.
    for _ in 0..=EVENTS {
        watch.next().await.expect("the session lives");
    }
    per_second(start)
}
