//! Tests of the journal, over a real store: what watchers see, whenever they come, however slow
//! they are.

use agentd_protocol::event::{Event, EventBody};
use agentd_protocol::id::{ItemId, SessionId, TurnId};
use agentd_protocol::item::ItemBody;
use agentd_protocol::progress::{DeltaKind, InFlight, Marker, Progress, StreamMessage};
use agentd_protocol::session::Session;
use agentd_protocol::submission::Disposition;
use agentd_protocol::view::{in_flight, session};
use futures_util::FutureExt;
use proptest::prelude::*;
use serde_json::Value;
use tokio::sync::watch;

use super::{Journal, SubscribeError, Subscription};
use crate::store::tests::fixture::{self, Hand, accepted, event, input, turn_event, warning};
use crate::store::tests::life::{Life, Step, steps};
use crate::store::{Error, LeaseUse, Row, Store};

/// One message as a client reads it; `None` after the end.
async fn next(subscription: &mut Subscription) -> Option<StreamMessage> {
    let line = subscription.next().await?;
    let value: Value = serde_json::from_slice(&line).unwrap();
    assert_eq!(value["method"], "session/event");
    Some(serde_json::from_value(value["params"]["result"].clone()).unwrap())
}

/// What a client makes of a subscription, with every promise of the protocol checked.
#[derive(Default)]
struct Client {
    /// The last event.
    last: Option<u64>,
    /// Folded from `session.created` on, if the replay began there.
    session: Option<Session>,
    in_flight: InFlight,
    /// Live since the last marker, without a gap in what was in flight.
    joined: bool,
    events: Vec<u64>,
    /// It may fall behind, and be told without progress what it missed.
    lossy: bool,
}

impl Client {
    fn since(since: Option<u64>) -> Self {
        Self { last: since, ..Self::default() }
    }

    fn take(&mut self, message: StreamMessage) {
        match message {
            StreamMessage::Event(event) => self.event(&event),
            StreamMessage::Progress(progress) => {
                if self.joined {
                    in_flight::extend(&mut self.in_flight, &progress);
                }
            }
            StreamMessage::Marker(Marker::Joined { head_seq, session, in_flight, .. }) => {
                assert_eq!(self.last.unwrap_or(head_seq), head_seq, "nothing is left out");
                assert_eq!(session.head_seq, head_seq);
                self.last = Some(head_seq);
                if let Some(ours) = &mut self.session {
                    ours.lease.clone_from(&session.lease);
                    assert_eq!(*ours, *session, "the snapshot is the fold of the log");
                }
                self.in_flight = in_flight;
                self.joined = true;
            }
            StreamMessage::Marker(other) => panic!("{other:?}"),
        }
    }

    fn event(&mut self, event: &Event) {
        let last = self.last.expect("nothing comes before the join");
        assert_eq!(event.seq, last + 1, "dense, each once");
        self.last = Some(event.seq);
        self.events.push(event.seq);
        match (&mut self.session, &event.body) {
            (None, EventBody::SessionCreated { session, .. }) => {
                self.session = Some(Session::clone(session));
            }
            (Some(session), _) => session::apply(session, event),
            _ => {}
        }
        if let EventBody::MessageCompleted { item } = &event.body
            && let ItemBody::Assistant(answer) = &item.body
        {
            let ours = self.in_flight.item.as_ref().map_or("", |item| &item.text);
            if self.joined && !self.lossy {
                assert_eq!(ours, answer.text(), "joined at any point, the text is the same");
            } else {
                assert!(answer.text().starts_with(ours));
            }
        }
        in_flight::settle(&mut self.in_flight, event);
    }
}

/// Writes a session's life through the journal, and tells progress before it is kept.
struct Writer {
    journal: Journal,
    hand: Hand,
    life: Life,
    /// Pieces that no checkpoint holds yet.
    unkept: Vec<Row>,
}

impl Writer {
    async fn new(store: &Store, name: &str) -> Self {
        let session_id = fixture::create(store, name).await;
        Self {
            journal: Journal::new(store.clone()),
            hand: Hand::new(store, &session_id),
            life: Life::new(store.session(&session_id).await.unwrap()),
            unkept: Vec::new(),
        }
    }

    fn session_id(&self) -> &SessionId {
        &self.hand.session_id
    }

    async fn step(&mut self, step: Step) {
        let (events, rows) = self.life.take(step);
        if let (Step::Text(_), [Row::Checkpoint { item_id, attempt, kind, offset, text }]) =
            (step, &rows[..])
        {
            let delta = text.clone();
            let (item_id, attempt, kind, offset) = (item_id.clone(), *attempt, *kind, *offset);
            let progress = Progress::MessageDelta { item_id, attempt, kind, offset, delta };
            self.journal.progress(&self.hand.session_id, progress);
            self.unkept.extend(rows);
            return;
        }
        if matches!(step, Step::Attempt | Step::Reset | Step::Answer | Step::EndTurn(_)) {
            self.unkept.clear();
        }
        if events.is_empty() && rows.is_empty() {
            return;
        }
        let rows = rows.into_iter().chain(self.unkept.drain(..)).collect();
        self.append(events, rows).await;
    }

    async fn append(&mut self, events: Vec<crate::store::NewEvent>, rows: Vec<Row>) {
        let appended = self.journal.append(self.hand.next(events, rows)).await.unwrap();
        for event in &appended.events {
            session::apply(&mut self.life.session, event);
        }
        (self.hand.head, self.hand.epoch) = (appended.head, Some(appended.epoch));
    }
}

/// How a watcher behaves.
#[derive(Debug, Clone)]
struct Manner {
    since: Option<u64>,
    progress: bool,
    /// Yields between two messages.
    slowness: u8,
    /// Messages after which it goes and comes back with its last number; at most so often.
    comes_back_after: Option<(u8, u8)>,
    /// Drops the future of a read that is not ready.
    impatient: bool,
    lossy: bool,
}

fn manners() -> impl Strategy<Value = Manner> {
    (
        prop_oneof![Just(None), Just(Some(0)), Just(Some(1))],
        any::<bool>(),
        0..4_u8,
        proptest::option::of((1..30_u8, 1..4_u8)),
        any::<bool>(),
    )
        .prop_map(|(since, progress, slowness, comes_back_after, impatient)| Manner {
            since,
            progress,
            slowness,
            comes_back_after,
            impatient,
            lossy: false,
        })
}

/// Watches until it has the last event, which `end` tells once it is known.
async fn watch(
    journal: Journal,
    session_id: SessionId,
    manner: Manner,
    end: watch::Receiver<Option<u64>>,
) -> Client {
    let mut client = Client { lossy: manner.lossy, ..Client::since(manner.since) };
    let mut subscription =
        journal.subscribe(&session_id, manner.since, manner.progress).await.unwrap();
    let mut left = manner.comes_back_after.map_or(0, |(_, times)| times);
    let mut seen = 0_u32;
    loop {
        for _ in 0..manner.slowness {
            tokio::task::yield_now().await;
        }
        if manner.impatient
            && let Some(message) = next(&mut subscription).now_or_never()
        {
            take(&mut client, message.unwrap(), &manner);
            continue;
        }
        let mut end = end.clone();
        let at_the_end = async {
            let end = *end.wait_for(Option::is_some).await.unwrap();
            if client.last != end {
                std::future::pending::<()>().await;
            }
        };
        let message = tokio::select! {
            message = next(&mut subscription) => message.unwrap(),
            () = at_the_end => return client,
        };
        take(&mut client, message, &manner);
        seen += 1;
        if let Some((after, _)) = manner.comes_back_after
            && left > 0
            && seen >= u32::from(after)
            && client.last.is_some()
        {
            (left, seen) = (left - 1, 0);
            client.joined = false;
            drop(subscription);
            subscription =
                journal.subscribe(&session_id, client.last, manner.progress).await.unwrap();
        }
    }
}

fn take(client: &mut Client, message: StreamMessage, manner: &Manner) {
    assert!(manner.progress || !matches!(message, StreamMessage::Progress(_)));
    client.take(message);
    // Without progress nothing is promised about text between events.
    client.joined &= manner.progress;
}

proptest! {
    #![proptest_config(fixture::cases(12))]

    /// *replay meets live once*: whoever comes whenever, with or without a number, slow or fast,
    /// sees every event once and in order, and the same text.
    #[test]
    fn replay_meets_live_once(
        // Fewer messages than the ring holds, so that nobody is behind.
        steps in steps(20..100),
        manners in proptest::collection::vec((0..100_usize, manners()), 1..12),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(stream(steps, manners));
    }
}

async fn stream(steps: Vec<Step>, mut manners: Vec<(usize, Manner)>) {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let mut writer = Writer::new(&store, "a").await;
    let (tell_end, end) = watch::channel(None);
    manners.sort_by_key(|(at, _)| *at);
    let mut manners = manners.into_iter().peekable();
    let mut watchers = Vec::new();
    for (at, step) in steps.into_iter().enumerate() {
        while let Some((_, manner)) = manners.next_if(|(joins_at, _)| *joins_at <= at) {
            let (journal, session_id) = (writer.journal.clone(), writer.session_id().clone());
            watchers.push((
                manner.clone(),
                tokio::spawn(watch(journal, session_id, manner, end.clone())),
            ));
        }
        writer.step(step).await;
    }
    // So that there is an event after everybody's join.
    writer.append(vec![event(warning("end"))], vec![]).await;
    tell_end.send(Some(writer.hand.head)).unwrap();
    for (manner, watcher) in watchers {
        let client = watcher.await.unwrap();
        if let Some(since) = manner.since {
            assert!(client.events.iter().copied().eq(since + 1..=writer.hand.head));
        }
    }
    // Nobody watches any more; only what is in flight keeps a hub.
    let hubs = &writer.journal.0.shared.hubs;
    assert_eq!(hubs.len(), usize::from(!hubs.is_empty() && writer.life.streaming.is_some()));
    store.close().await.unwrap();
}

/// *a slow client hurts only itself*: of 64 watchers some read late, some reconnect, and nobody
/// misses an event or sees one twice; the writer never waits for them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_watchers_slow_and_reconnecting_miss_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let mut writer = Writer::new(&store, "a").await;
    let (tell_end, end) = watch::channel(None);
    let watchers: Vec<_> = (0..64_u8)
        .map(|number| {
            let manner = Manner {
                since: Some(0),
                progress: number % 3 != 0,
                slowness: if number % 4 == 0 { 100 } else { 0 },
                comes_back_after: (number % 5 == 0).then_some((40, 20)),
                impatient: false,
                lossy: true,
            };
            let (journal, session_id) = (writer.journal.clone(), writer.session_id().clone());
            tokio::spawn(watch(journal, session_id, manner, end.clone()))
        })
        .collect();
    // One that never reads.
    let stalled = writer.journal.subscribe(writer.session_id(), None, true).await.unwrap();
    writer.step(Step::StartTurn).await;
    for round in 0..16 {
        writer.step(Step::Item).await;
        for length in 0..30 {
            writer.step(Step::Text(length)).await;
        }
        writer.step(Step::Answer).await;
        // More than the ring holds, and some that are too long for it.
        let long = if round % 8 == 0 { 20_000 } else { 10 };
        writer.append(vec![event(warning(&"x".repeat(long))); 8], vec![]).await;
    }
    tell_end.send(Some(writer.hand.head)).unwrap();
    for watcher in watchers {
        let client = watcher.await.unwrap();
        assert!(client.events.iter().copied().eq(1..=writer.hand.head));
    }
    drop(stalled);
    assert!(writer.journal.0.shared.hubs.is_empty());
    store.close().await.unwrap();
}

async fn joined(subscription: &mut Subscription) -> (u64, InFlight) {
    loop {
        if let Some(StreamMessage::Marker(Marker::Joined { head_seq, in_flight, .. })) =
            next(subscription).await
        {
            return (head_seq, in_flight);
        }
    }
}

/// A turn that runs, with text and output in flight.
async fn busy(store: &Store) -> (Journal, Hand, ItemId) {
    let session_id = fixture::create(store, "a").await;
    let mut hand = Hand::new(store, &session_id);
    let journal = Journal::new(store.clone());
    let (turn, item) = (TurnId::from("turn_1"), ItemId::from("item_1"));
    let rows = vec![accepted(input(&session_id, "s1", "go"), Disposition::Started, &turn)];
    let events = vec![
        turn_event(&turn, fixture::turn_started("s1")),
        turn_event(&turn, fixture::item_started(&item, 1)),
    ];
    let appended = journal.append(hand.next(events, rows)).await.unwrap();
    (hand.head, hand.epoch) = (appended.head, Some(appended.epoch));
    (journal, hand, item)
}

fn delta(item: &ItemId, offset: u64, text: &str) -> Progress {
    Progress::MessageDelta {
        item_id: item.clone(),
        attempt: 1,
        kind: DeltaKind::Text,
        offset,
        delta: text.to_owned(),
    }
}

#[tokio::test]
async fn text_told_before_anybody_watched_is_in_the_join() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let (journal, mut hand, item) = busy(&store).await;
    journal.progress(&hand.session_id, delta(&item, 0, "Hello"));
    let kept = Row::Checkpoint {
        item_id: item.clone(),
        attempt: 1,
        kind: DeltaKind::Text,
        offset: 0,
        text: "Hel".to_owned(),
    };
    hand.write(vec![], vec![kept]).await.unwrap();
    let mut watcher = journal.subscribe(&hand.session_id, None, true).await.unwrap();
    assert_eq!(joined(&mut watcher).await.1.item.unwrap().text, "Hello");
    // Another process, or this one after a restart, has what was kept.
    let later = Journal::new(store.clone());
    let mut watcher = later.subscribe(&hand.session_id, None, true).await.unwrap();
    assert_eq!(joined(&mut watcher).await.1.item.unwrap().text, "Hel");
    store.close().await.unwrap();
}

#[tokio::test]
async fn markers_tell_what_no_event_can() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let (journal, hand, item) = busy(&store).await;
    let id = hand.session_id.clone();
    assert!(!journal.is_watched(&id));
    let mut watcher = journal.subscribe(&id, None, false).await.unwrap();
    assert!(journal.is_watched(&id));
    joined(&mut watcher).await;
    journal.store_failed(&id, "the disk is full");
    let mut late = journal.subscribe(&id, None, true).await.unwrap();
    joined(&mut late).await;
    for watcher in [&mut watcher, &mut late] {
        match next(watcher).await {
            Some(StreamMessage::Marker(Marker::StoreFailed { cause })) => {
                assert_eq!(cause, "the disk is full");
            }
            other => panic!("{other:?}"),
        }
    }
    journal.progress(&id, delta(&item, 0, "Hello"));
    journal.deleted(&id);
    // The one without progress is told nothing of it.
    let closed = next(&mut watcher).await;
    assert!(matches!(closed, Some(StreamMessage::Marker(Marker::Closed { .. }))));
    assert!(next(&mut watcher).await.is_none());
    store.close().await.unwrap();
}

/// A lost session says so once, and before what its new holder writes; what is still told of the
/// old holder's work reaches nobody.
#[tokio::test]
async fn a_lost_session_says_so_once_and_first() {
    let dir = tempfile::tempdir().unwrap();
    let open = |owner: &str| {
        let options = crate::store::Options { shared: true, ..fixture::options(owner) };
        Store::open(dir.path(), options, crate::clock::Clock::system()).unwrap()
    };
    let (here, there) = (open("here"), open("there"));
    let id = fixture::create(&here, "a").await;
    let journal = Journal::new(here.clone());
    let ours = Hand::new(&here, &id).next(vec![event(warning("ours"))], vec![]);
    let appended = journal.append(ours).await.unwrap();
    let mut watcher = journal.subscribe(&id, None, true).await.unwrap();
    assert_eq!(joined(&mut watcher).await.0, appended.head);
    let mut taken = fixture::append(&id, appended.head, vec![event(warning("theirs"))]);
    taken.lease = LeaseUse::Take { by_force: true };
    let taken = there.append(taken).await.unwrap();
    match next(&mut watcher).await {
        Some(StreamMessage::Marker(Marker::Detached { holder, .. })) => {
            assert_eq!(holder.unwrap().owner, "there");
        }
        other => panic!("{other:?}"),
    }
    journal.detached(&id, None);
    journal.progress(&id, delta(&ItemId::from_unique("ghost"), 0, "Hello"));
    match next(&mut watcher).await {
        Some(StreamMessage::Event(event)) => assert_eq!(event.seq, taken.head),
        other => panic!("{other:?}"),
    }
    journal.deleted(&id);
    let closed = next(&mut watcher).await;
    assert!(matches!(closed, Some(StreamMessage::Marker(Marker::Closed { .. }))), "{closed:?}");
    here.close().await.unwrap();
    there.close().await.unwrap();
}

#[tokio::test]
async fn a_number_past_the_head_is_refused_and_an_unknown_session_too() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let id = fixture::create(&store, "a").await;
    let journal = Journal::new(store.clone());
    let ahead = journal.subscribe(&id, Some(2), true).await;
    assert!(matches!(ahead, Err(SubscribeError::CursorAhead { head: 1 })));
    let unknown = journal.subscribe(&SessionId::from("ses_no"), None, true).await;
    assert!(matches!(unknown, Err(SubscribeError::Store(Error::SessionNotFound(_)))));
    assert!(journal.0.shared.hubs.is_empty());
    store.close().await.unwrap();
}

#[tokio::test]
async fn long_pieces_are_told_in_parts_that_fit() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let (journal, hand, item) = busy(&store).await;
    let mut watcher = journal.subscribe(&hand.session_id, None, true).await.unwrap();
    joined(&mut watcher).await;
    let long = "é\u{1}".repeat(10_000);
    journal.progress(&hand.session_id, delta(&item, 0, &long));
    let mut in_flight = InFlight::default();
    while in_flight.item.as_ref().is_none_or(|item| item.text.len() < long.len()) {
        let line = watcher.next().await.unwrap();
        assert!(line.len() <= super::line::MAX_RING_LINE_BYTES);
        let value: Value = serde_json::from_slice(&line).unwrap();
        let progress = serde_json::from_value(value["params"]["result"].clone()).unwrap();
        in_flight::extend(&mut in_flight, &progress);
    }
    assert_eq!(in_flight.item.unwrap().text, long);
    store.close().await.unwrap();
}

/// With a shared database a watcher here follows what another daemon writes, and a number it
/// learned elsewhere is good here at once.
#[tokio::test]
async fn a_session_that_runs_elsewhere_is_followed_from_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let open = |owner: &str| {
        let options = crate::store::Options { shared: true, ..fixture::options(owner) };
        Store::open(dir.path(), options, crate::clock::Clock::system()).unwrap()
    };
    let (here, there) = (open("here"), open("there"));
    let id = fixture::create(&there, "a").await;
    let mut hand = Hand::new(&there, &id);
    let journal = Journal::new(here.clone());
    let mut watcher = journal.subscribe(&id, Some(0), true).await.unwrap();
    let mut client = Client::since(Some(0));
    for number in 0..5 {
        hand.write(vec![event(warning(&number.to_string())); 3], vec![]).await.unwrap();
        // Seen elsewhere, asked for here before it was noticed here.
        let mut late = journal.subscribe(&id, Some(hand.head), true).await.unwrap();
        assert_eq!(joined(&mut late).await.0, hand.head);
        while client.last != Some(hand.head) {
            client.take(next(&mut watcher).await.unwrap());
        }
    }
    drop(watcher);
    let mut watcher = journal.subscribe(&id, None, true).await.unwrap();
    assert_eq!(joined(&mut watcher).await.0, hand.head);
    hand.write(vec![event(warning("alone"))], vec![]).await.unwrap();
    // Nobody else asks now: the follower finds it.
    match next(&mut watcher).await {
        Some(StreamMessage::Event(event)) => assert_eq!(event.seq, hand.head),
        other => panic!("{other:?}"),
    }
    here.close().await.unwrap();
    there.close().await.unwrap();
}
