//! Fan-out: pieces of a stream told to every watcher of a session, in this process.
//!
//! Compared with a bare broadcast of lines of the same length that are already made: what agentd
//! adds is making the line, extending what is in flight, and each watcher's own state.

use std::time::Instant;

use agentd::journal::Journal;
use agentd_protocol::id::{ItemId, SessionId};
use agentd_protocol::progress::{DeltaKind, Progress};
use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::sync::broadcast;

use crate::ground;
use crate::table::{ROUNDS, Table, median};

/// Pieces of one burst: fewer than the ring holds, so that nobody falls behind.
const BURST: u64 = 200;
/// Bursts of one round.
const BURSTS: u64 = 100;
/// A token or two.
const PIECE: &str = "some words of an answer, ";

pub(crate) fn measure(table: &mut Table) {
    let dir = ground::directory();
    let runtime = Runtime::new().expect("a runtime starts");
    let store = ground::store(&dir.path().join("state"));
    let journal = Journal::new(store.clone());
    let session_id = runtime.block_on(ground::session(&store, "a"));
    for watchers in [1, 64] {
        let (mut ours, mut floor) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            floor.push(runtime.block_on(bare(watchers)));
            let item = ItemId::from_unique(format!("{watchers}-{round}"));
            ours.push(runtime.block_on(told(&journal, &session_id, &item, watchers)));
        }
        table.rate(
            &format!("lines told to {watchers} watchers"),
            median(ours),
            ("bare broadcast", median(floor)),
        );
    }
    runtime.block_on(store.close()).expect("the store closes");
}

fn lines_per_second(watchers: usize, start: Instant) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "some millions")]
    let lines = (watchers as u64 * BURST * BURSTS) as f64;
    lines / start.elapsed().as_secs_f64()
}

async fn bare(watchers: usize) -> f64 {
    let (ring, _) = broadcast::channel::<Bytes>(256);
    let (done, mut dones) = tokio::sync::mpsc::channel(watchers);
    for _ in 0..watchers {
        let (mut entries, done) = (ring.subscribe(), done.clone());
        tokio::spawn(async move {
            for _ in 0..BURSTS {
                for _ in 0..BURST {
                    entries.recv().await.expect("nobody falls behind");
                }
                done.send(()).await.expect("the publisher waits");
            }
        });
    }
    let line = Bytes::from(vec![b'x'; 262]);
    let start = Instant::now();
    for _ in 0..BURSTS {
        for _ in 0..BURST {
            ring.send(line.clone()).expect("somebody listens");
        }
        for _ in 0..watchers {
            dones.recv().await.expect("the watchers live");
        }
    }
    lines_per_second(watchers, start)
}

async fn told(journal: &Journal, session_id: &SessionId, item: &ItemId, watchers: usize) -> f64 {
    let (done, mut dones) = tokio::sync::mpsc::channel(watchers);
    let mut tasks = Vec::new();
    for _ in 0..watchers {
        let watch = journal.subscribe(session_id, None, true).await;
        let (mut watch, done) = (watch.expect("the session is there"), done.clone());
        let task = tokio::spawn(async move {
            watch.next().await.expect("the join");
            done.send(()).await.expect("the publisher waits");
            for _ in 0..BURSTS {
                for _ in 0..BURST {
                    watch.next().await.expect("the session lives");
                }
                done.send(()).await.expect("the publisher waits");
            }
        });
        tasks.push(task);
    }
    for _ in 0..watchers {
        dones.recv().await.expect("the watchers live");
    }
    let mut offset = 0;
    let start = Instant::now();
    for _ in 0..BURSTS {
        for _ in 0..BURST {
            let progress = Progress::MessageDelta {
                item_id: item.clone(),
                attempt: 1,
                kind: DeltaKind::Text,
                offset,
                delta: PIECE.to_owned(),
            };
            offset += PIECE.len() as u64;
            journal.progress(session_id, progress);
        }
        for _ in 0..watchers {
            dones.recv().await.expect("the watchers live");
        }
    }
    let rate = lines_per_second(watchers, start);
    for task in tasks {
        task.await.expect("a watcher ends well");
    }
    rate
}
