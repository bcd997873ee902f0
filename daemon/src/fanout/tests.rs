//! Tests of the hubs: whatever the order of commits, publishing, reading and joining, a join is
//! one cut.

use std::collections::BTreeMap;

use agentd_protocol::event::{ContextSize, Event, EventBody};
use agentd_protocol::id::{CallId, ItemId, SessionId};
use agentd_protocol::permission::PermissionMode;
use agentd_protocol::progress::{DeltaKind, InFlightItem, Progress};
use agentd_protocol::session::{Limits, Session, SessionState, Usage};
use agentd_protocol::time::Time;
use agentd_protocol::view::session::apply;
use bytes::Bytes;
use proptest::prelude::*;
use proptest::test_runner::Config;

use super::{Entry, Hubs, Join, Joined, Seed, Seeding, Watch};

fn id() -> SessionId {
    SessionId::from("ses_a")
}

/// As it was made: its first event is in it.
fn session() -> Session {
    Session {
        session_id: id(),
        title: String::new(),
        cwd: "/".to_owned(),
        model: None,
        model_options: None,
        permission_mode: PermissionMode::Ask,
        state: SessionState::Idle,
        created_at: Time::from_unix_millis(0),
        updated_at: Time::from_unix_millis(0),
        head_seq: 1,
        item_count: 0,
        usage: Usage::default(),
        limits: Limits::default(),
        queue: Vec::new(),
        queue_held: false,
        roots: Vec::new(),
        prompts: Vec::new(),
        processes: Vec::new(),
        active_turn_id: None,
        lease: None,
        labels: BTreeMap::new(),
        parent_id: None,
        archived: false,
    }
}

/// An event that leaves its number in the session.
fn event(seq: u64) -> Event {
    let usage = Usage { input: seq, ..Usage::default() };
    let body =
        EventBody::UsageUpdated { turn: usage, session: usage, context: ContextSize::default() };
    let time = Time::from_unix_millis(i64::try_from(seq).unwrap());
    Event { seq, time, session_id: id(), turn_id: None, body }
}

fn at(head: u64) -> Session {
    let mut session = session();
    (2..=head).for_each(|seq| apply(&mut session, &event(seq)));
    session
}

fn seed_at(head: u64) -> Seed {
    Seed { session: at(head), streaming: None, running_calls: Vec::new() }
}

fn publish(hubs: &Hubs, seq: u64) {
    hubs.publish(&id(), &event(seq), || Some(Bytes::from(seq.to_string())));
}

fn joined(watch: &Watch) -> Joined {
    match watch.join() {
        Join::Joined(joined) => joined,
        other => panic!("{other:?}"),
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Commit,
    /// Another process commits: nothing is published here.
    CommitElsewhere,
    Publish,
    /// The log is read and what it has is published.
    Follow,
    BeginSeeding,
    /// The store is read now …
    Read,
    /// … and what was read is handed over now.
    HandOver,
    Join,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => Just(Step::Commit), 1 => Just(Step::CommitElsewhere), 4 => Just(Step::Publish),
        1 => Just(Step::Follow), 2 => Just(Step::BeginSeeding), 2 => Just(Step::Read),
        2 => Just(Step::HandOver), 3 => Just(Step::Join),
    ];
    proptest::collection::vec(step, 1..80)
}

proptest! {
    #![proptest_config(Config { cases: 128, failure_persistence: None, ..Config::default() })]

    #[test]
    fn a_join_is_one_cut_whatever_the_order(steps in steps()) {
        let hubs = Hubs::default();
        let watch = hubs.watch(&id());
        let mut head = 1;
        // Committed here, not published yet.
        let mut unpublished = std::collections::VecDeque::new();
        let mut read = None;
        let mut joins = Vec::new();
        for step in steps {
            match step {
                Step::Commit => {
                    head += 1;
                    unpublished.push_back(head);
                }
                Step::CommitElsewhere => head += 1,
                Step::Publish => {
                    unpublished.pop_front().into_iter().for_each(|seq| publish(&hubs, seq));
                }
                Step::Follow => {
                    if let Some(known) = watch.head() {
                        (known + 1..=head).for_each(|seq| publish(&hubs, seq));
                    }
                }
                Step::BeginSeeding => {
                    watch.begin_seeding();
                }
                Step::Read => read = Some(head),
                Step::HandOver => {
                    if let Some(read) = read.take() {
                        watch.seed(seed_at(read));
                    }
                }
                Step::Join => match watch.join() {
                    Join::Joined(joined) => joins.push(joined),
                    Join::Unseeded => {}
                    Join::Closed => panic!("nobody closed it"),
                },
            }
        }
        for mut joined in joins {
            prop_assert_eq!(&*joined.session, &at(joined.head));
            let mut last = joined.head;
            while let Ok(Entry::Event { seq, line }) = joined.entries.try_recv() {
                // A hole is another process's work, and shows as one.
                prop_assert!(seq > last);
                prop_assert!(line.is_none_or(|line| line == seq.to_string()));
                last = seq;
            }
            prop_assert_eq!(Some(last), watch.head());
        }
        // A seed that is as new as the log always works.
        watch.begin_seeding();
        prop_assert_eq!(watch.seed(seed_at(head)), Seeding::Done);
        prop_assert_eq!(&*joined(&watch).session, &at(watch.head().unwrap()));
        drop(watch);
        prop_assert!(hubs.is_empty());
    }
}

#[test]
fn a_seed_older_than_what_was_kept_is_read_again() {
    let hubs = Hubs::default();
    let watch = hubs.watch(&id());
    publish(&hubs, 5);
    assert!(watch.begin_seeding());
    assert_eq!(watch.seed(seed_at(4)), Seeding::Again);
    assert!(watch.begin_seeding());
    publish(&hubs, 6);
    assert_eq!(watch.seed(seed_at(5)), Seeding::Done);
    assert!(!watch.begin_seeding());
    assert_eq!(joined(&watch).head, 6);
}

#[test]
fn more_events_than_are_kept_while_reading_mean_reading_again() {
    let hubs = Hubs::default();
    let watch = hubs.watch(&id());
    publish(&hubs, 2);
    watch.begin_seeding();
    (3..400).for_each(|seq| publish(&hubs, seq));
    assert_eq!(watch.seed(seed_at(2)), Seeding::Again);
    watch.begin_seeding();
    assert_eq!(watch.seed(seed_at(399)), Seeding::Done);
}

fn delta(item: &ItemId, text: &str) -> Progress {
    Progress::MessageDelta {
        item_id: item.clone(),
        attempt: 1,
        kind: DeltaKind::Text,
        offset: 0,
        delta: text.to_owned(),
    }
}

/// What the hub has of an item and what the store kept of it: the longer of the same attempt, and
/// nothing that is over.
#[test]
fn text_in_flight_is_the_hubs_own_unless_the_store_knows_better() {
    let kept = |item: &str, attempt, text: &str| InFlightItem {
        item_id: ItemId::from(item),
        attempt,
        text: text.to_owned(),
        reasoning: String::new(),
    };
    let table = [
        (Some("told"), Some(kept("item_1", 1, "to")), Some("told")),
        (Some("told"), Some(kept("item_1", 2, "new")), Some("new")),
        (Some("told"), Some(kept("item_1", 2, "")), None),
        (Some("told"), Some(kept("item_2", 1, "other")), Some("other")),
        (Some("told"), None, None),
        (None, Some(kept("item_1", 1, "kept")), Some("kept")),
        (None, Some(kept("item_1", 1, "")), None),
        (None, None, None),
    ];
    for (ours, streaming, expected) in table {
        let hubs = Hubs::default();
        let watch = hubs.watch(&id());
        if let Some(text) = ours {
            hubs.progress(&id(), &delta(&ItemId::from("item_1"), text), Bytes::new);
        }
        watch.begin_seeding();
        watch.seed(Seed { streaming: streaming.clone(), ..seed_at(3) });
        let item = joined(&watch).in_flight.item.map(|item| item.text);
        assert_eq!(item.as_deref(), expected, "{ours:?} {streaming:?}");
    }
}

#[test]
fn output_of_calls_that_ended_unseen_is_not_in_flight() {
    let hubs = Hubs::default();
    let watch = hubs.watch(&id());
    for call in ["call_1", "call_2"] {
        let output =
            Progress::ToolOutput { call_id: CallId::from(call), offset: 0, chunk: "x".to_owned() };
        hubs.progress(&id(), &output, Bytes::new);
    }
    watch.begin_seeding();
    watch.seed(Seed { running_calls: vec![CallId::from("call_2")], ..seed_at(3) });
    let tools = joined(&watch).in_flight.tools;
    assert_eq!(tools.len(), 1);
    assert_eq!(tools[0].call_id.as_str(), "call_2");
}

/// Hubs come and go under many hands; nobody is left with one that is no longer in the map.
#[test]
fn hubs_come_and_go_without_losing_anybody() {
    let hubs = Hubs::default();
    let item = ItemId::from("item_1");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let watch = hubs.watch(&id());
                    if watch.begin_seeding() {
                        watch.seed(seed_at(1));
                    }
                    hubs.progress(&id(), &delta(&item, "x"), Bytes::new);
                    assert!(hubs.is_watched(&id()));
                    assert!(!matches!(watch.join(), Join::Closed));
                }
            });
        }
    });
    let over = EventBody::MessageReset { item_id: item, attempt: 1, discarded: Vec::new() };
    hubs.publish(&id(), &Event { body: over, ..event(2) }, || None);
    assert!(hubs.is_empty());
}
