//! A durable append: one event of 1 KiB, acknowledged when it would survive a power cut.
//!
//! Alone it is compared with one `fdatasync` of a page; from 64 sessions at once with as many
//! pages, each synced for itself.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use agentd::journal::Journal;
use agentd::store::{Append, LeaseUse, NewEvent, Store};
use agentd_protocol::event::EventBody;
use agentd_protocol::id::SessionId;
use agentd_protocol::time::Time;
use tokio::runtime::Runtime;

use crate::ground;
use crate::table::{ROUNDS, Table, median};

/// Appends of one round.
const APPENDS: usize = 300;
/// Sessions at once.
const SESSIONS: usize = 64;

pub(crate) fn measure(table: &mut Table) {
    let dir = ground::directory();
    let runtime = Runtime::new().expect("a runtime starts");
    let store = ground::store(&dir.path().join("state"));
    let journal = Journal::new(store.clone());
    let mut alone = Vec::new();
    let (mut syncs, mut rates) = (Vec::new(), Vec::new());
    let ids = runtime.block_on(async {
        let mut ids = Vec::new();
        for number in 0..SESSIONS {
            ids.push(ground::session(&store, &format!("s{number}")).await);
        }
        ids
    });
    for _ in 0..ROUNDS {
        syncs.push(sync_a_page(dir.path()));
        alone.push(runtime.block_on(one_writer(&journal, &store, &ids[0])));
        rates.push(runtime.block_on(many_writers(&journal, &store, &ids)));
    }
    let sync = median(syncs);
    table.time("durable append, one writer, p50", median(alone), ("fdatasync of 4 KiB", sync));
    let floor = ("one fdatasync each", 1.0 / sync.as_secs_f64());
    table.rate(&format!("durable appends, {SESSIONS} writers"), median(rates), floor);
    runtime.block_on(store.close()).expect("the store closes");
}

/// The median of writing a page at the end of a file and syncing it.
fn sync_a_page(dir: &Path) -> Duration {
    let file = File::create(dir.join("page")).expect("the directory can be written");
    let page = [7; 4_096];
    let samples = (0..APPENDS as u64).map(|number| {
        let start = Instant::now();
        file.write_all_at(&page, number * 4_096).expect("there is room");
        file.sync_data().expect("the disk works");
        start.elapsed()
    });
    median(samples.collect())
}

fn kilobyte(session_id: &SessionId, head: u64, lease: LeaseUse) -> Append {
    let body = EventBody::Warning { code: "bench".to_owned(), message: "x".repeat(900) };
    Append {
        session_id: session_id.clone(),
        expected_head: head,
        lease,
        release: false,
        events: vec![NewEvent { turn_id: None, time: Time::from_unix_millis(0), body }],
        rows: Vec::new(),
    }
}

/// Appends one after another; the median of how long each took.
async fn one_writer(journal: &Journal, store: &Store, session_id: &SessionId) -> Duration {
    let mut head = store.head(session_id).await.expect("the session is there");
    let mut lease = LeaseUse::Take { by_force: false };
    let mut samples = Vec::new();
    for _ in 0..APPENDS {
        let append = kilobyte(session_id, head, lease);
        let start = Instant::now();
        let appended = journal.append(append).await.expect("it is appended");
        samples.push(start.elapsed());
        (head, lease) = (appended.head, LeaseUse::Held { epoch: appended.epoch });
    }
    median(samples)
}

/// All sessions at once; appends by the second.
async fn many_writers(journal: &Journal, store: &Store, ids: &[SessionId]) -> f64 {
    let start = Instant::now();
    let writers: Vec<_> = ids
        .iter()
        .map(|session_id| {
            let (journal, store, id) = (journal.clone(), store.clone(), session_id.clone());
            tokio::spawn(async move { one_writer(&journal, &store, &id).await })
        })
        .collect();
    for writer in writers {
        writer.await.expect("a writer ends well");
    }
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let appends = (ids.len() * APPENDS) as f64;
    appends / start.elapsed().as_secs_f64()
}
