//! A damaged database is set aside, and what can be read of it goes on in a new one.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

use agentd_protocol::event::EventBody;
use agentd_protocol::id::{ItemId, SessionId, TurnId};
use agentd_protocol::session::EventsParams;
use agentd_protocol::submission::Disposition;

use super::fixture::{self, Hand, accepted, event, input, turn_event, warning};
use crate::store::Store;

const PAGE: u64 = 4_096;

async fn events(store: &Store, session_id: &SessionId) -> Vec<EventBody> {
    let params = EventsParams { session_id: session_id.clone(), after: None, limit: Some(1_000) };
    let page = store.events(params).await.unwrap();
    let dense = page.events.iter().zip(1..).all(|(event, seq)| event.seq == seq);
    assert!(dense, "numbers stay dense");
    page.events.into_iter().map(|event| event.body).collect()
}

/// A database with a session of 200 events and a turn that runs; unclean, as a crash leaves it.
async fn write(dir: &Path) -> SessionId {
    let store = fixture::open(dir);
    let session_id = fixture::create(&store, "a").await;
    let mut hand = Hand::new(&store, &session_id);
    let turn = TurnId::from("turn_1");
    let rows = vec![accepted(input(&session_id, "s1", "go"), Disposition::Started, &turn)];
    let item = ItemId::from("item_1");
    let start = vec![
        turn_event(&turn, fixture::turn_started("s1")),
        turn_event(&turn, fixture::user_item(&item, 1, &turn, &"go ".repeat(400))),
    ];
    hand.write(start, rows).await.unwrap();
    for number in 0..200 {
        let text = format!("{number} {}", "x".repeat(300));
        hand.write(vec![event(warning(&text))], vec![]).await.unwrap();
    }
    store.close().await.unwrap();
    // As if the last holder had died.
    fs::write(dir.join("agentd.lock"), "somebody\n").unwrap();
    session_id
}

fn overwrite(dir: &Path, page: u64, pages: u64) {
    let file = fs::OpenOptions::new().write(true).open(dir.join("agentd.db")).unwrap();
    let noise = vec![0xA5; usize::try_from(PAGE * pages).unwrap()];
    file.write_all_at(&noise, page * PAGE).unwrap();
}

/// Whatever page is lost: the store opens, numbers are dense, the session can be taken up, and
/// both files are named.
#[tokio::test]
async fn any_lost_page_leaves_a_store_that_keeps_its_promises() {
    let sample = tempfile::tempdir().unwrap();
    let session_id = write(sample.path()).await;
    let pages = fs::metadata(sample.path().join("agentd.db")).unwrap().len() / PAGE;
    let mut saved_somewhere = 0;
    for page in (1..pages).step_by(3) {
        let dir = tempfile::tempdir().unwrap();
        for file in ["agentd.db", "agentd.lock"] {
            fs::copy(sample.path().join(file), dir.path().join(file)).unwrap();
        }
        overwrite(dir.path(), page, 1);
        let store = fixture::open(dir.path());
        if let [notice] = store.notices() {
            assert!(notice.contains("agentd.db.damaged-1"), "{notice}");
            assert!(dir.path().join("agentd.db.damaged-1").exists());
        } else {
            // An empty or unused page: nothing was lost.
            assert_eq!(store.notices(), [""; 0]);
        }
        if let Ok(loaded) = store.load(&session_id).await {
            let log = events(&store, &session_id).await;
            assert_eq!(log.len() as u64, loaded.session.head_seq);
            saved_somewhere += 1;
            let mut hand = Hand::new(&store, &session_id);
            hand.head = loaded.session.head_seq;
            hand.write(vec![event(warning("goes on"))], vec![]).await.unwrap();
        }
        store.close().await.unwrap();
        // What was mended needs no mending.
        let store = fixture::open(dir.path());
        assert_eq!(store.notices(), [""; 0]);
        store.close().await.unwrap();
    }
    assert!(saved_somewhere > 20, "{saved_somewhere} of {pages} pages");
}

#[tokio::test]
async fn what_is_no_database_is_set_aside_too() {
    let dir = tempfile::tempdir().unwrap();
    let session_id = write(dir.path()).await;
    overwrite(dir.path(), 0, 1);
    let store = fixture::open(dir.path());
    assert!(store.notices()[0].contains("0 rows"), "{:?}", store.notices());
    assert!(store.session(&session_id).await.is_err());
    fixture::create(&store, "b").await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn after_an_orderly_stop_the_database_is_not_checked() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path()).await;
    fs::write(dir.path().join("agentd.lock"), "closed\n").unwrap();
    let pages = fs::metadata(dir.path().join("agentd.db")).unwrap().len() / PAGE;
    overwrite(dir.path(), pages - 1, 1);
    let store = fixture::open(dir.path());
    assert_eq!(store.notices(), [""; 0]);
    store.close().await.unwrap();
}
