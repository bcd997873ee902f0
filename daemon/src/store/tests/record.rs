//! What an append writes, and what is read back.

use agentd_protocol::id::{CallId, ItemId, TurnId};
use agentd_protocol::progress::DeltaKind;
use agentd_protocol::session::{EventsParams, ItemsParams};
use agentd_protocol::submission::Disposition;

use super::fixture::{self, Hand, accepted, event, input, turn_event, warning};
use crate::store::{Error, Row};

fn events_of(session_id: &agentd_protocol::id::SessionId) -> EventsParams {
    EventsParams { session_id: session_id.clone(), after: None, limit: Some(1_000) }
}

#[tokio::test]
async fn a_turn_is_read_back_as_it_was_written() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let session_id = fixture::create(&store, "a").await;
    let mut hand = Hand::new(&store, &session_id);
    let turn = TurnId::from("turn_1");
    let (user, assistant, tool) =
        (ItemId::from("item_1"), ItemId::from("item_2"), ItemId::from("item_3"));
    let call = CallId::from("call_1");
    let mut written = Vec::new();
    let params = input(&session_id, "s1", "read it");
    let rows = vec![accepted(params.clone(), Disposition::Started, &turn)];
    let started = vec![
        turn_event(&turn, fixture::turn_started("s1")),
        turn_event(&turn, fixture::user_item(&user, 1, &turn, "read \"item\":null it")),
        turn_event(&turn, fixture::item_started(&assistant, 1)),
    ];
    written.extend(hand.write(started, rows).await.unwrap().events);
    let piece = Row::Checkpoint {
        item_id: assistant.clone(),
        attempt: 1,
        kind: DeltaKind::Text,
        offset: 0,
        text: "I re".to_owned(),
    };
    hand.write(Vec::new(), vec![piece]).await.unwrap();

    let loaded = store.load(&session_id).await.unwrap();
    let open = loaded.open_turn.unwrap();
    assert_eq!(open.params, params);
    assert_eq!(open.events, written);
    assert_eq!(open.in_flight.unwrap().text, "I re");
    assert_eq!(loaded.session.active_turn_id, Some(turn.clone()));
    assert_eq!(loaded.next_item_index, 3);
    assert_eq!(loaded.epoch, Some(1));

    let rest = vec![
        turn_event(&turn, fixture::assistant_item(&assistant, 2, &turn, "I read")),
        turn_event(&turn, fixture::tool_completed(&call, &tool, 3, &turn, "text")),
        turn_event(&turn, fixture::turn_completed()),
    ];
    written.extend(hand.write(rest, Vec::new()).await.unwrap().events);

    let page = store.events(events_of(&session_id)).await.unwrap();
    assert_eq!(page.events[1..], written);
    assert_eq!(page.next, None);
    let items =
        ItemsParams { session_id: session_id.clone(), after: None, before: None, limit: None };
    let items = store.items(items).await.unwrap();
    let shown: Vec<_> = written.iter().filter_map(|event| event.body.item()).collect();
    assert_eq!(items.items.iter().collect::<Vec<_>>(), shown);
    let loaded = store.load(&session_id).await.unwrap();
    assert!(loaded.open_turn.is_none());
    assert_eq!((loaded.session.item_count, loaded.session.head_seq), (3, 7));
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_moved_head_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let session_id = fixture::create(&store, "a").await;
    let late = fixture::append(&session_id, 0, vec![event(warning("late"))]);
    let refused = store.append(late).await;
    assert!(matches!(refused, Err(Error::HeadMoved { expected: 0, actual: 1 })), "{refused:?}");
    assert_eq!(store.events(events_of(&session_id)).await.unwrap().events.len(), 1);
    store.close().await.unwrap();
}
