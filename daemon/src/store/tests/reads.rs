//! Pages, lists, prompts, rules, search and deletion.

use agentd_protocol::event::{EventBody, Resolved};
use agentd_protocol::id::{CallId, ItemId, PromptId, SessionId, TurnId};
use agentd_protocol::permission::{Action, Prompt, Resolution, Risk, Rule, Scope};
use agentd_protocol::process::{Process, ProcessEnd, ProcessExit};
use agentd_protocol::session::{
    Archived, EventsParams, ItemsParams, ListParams, SearchParams, SessionState,
};
use agentd_protocol::submission::Disposition;
use rusqlite::Connection;

use super::fixture::{self, Hand, accepted, event, input, turn_event, warning};
use crate::store::{Error, NewSession, Store};

/// A session whose conversation has these texts.
async fn conversation(store: &Store, name: &str, texts: &[&str]) -> SessionId {
    let session_id = fixture::create(store, name).await;
    let mut hand = Hand::new(store, &session_id);
    let turn = TurnId::from_unique(name);
    let rows = vec![accepted(input(&session_id, "s1", "go"), Disposition::Started, &turn)];
    let mut events = vec![turn_event(&turn, fixture::turn_started("s1"))];
    for (text, index) in texts.iter().zip(1..) {
        let item = ItemId::from_unique(format!("{name}{index}"));
        events.push(turn_event(&turn, fixture::user_item(&item, index, &turn, text)));
    }
    events.push(turn_event(&turn, fixture::turn_completed()));
    hand.write(events, rows).await.unwrap();
    session_id
}

#[tokio::test]
async fn pages_of_items_go_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let session_id = conversation(&store, "a", &["1", "2", "3", "4", "5"]).await;
    let table = [
        (None, None, None, vec![1, 2, 3, 4, 5], None),
        (None, None, Some(2), vec![1, 2], Some(2)),
        (Some(2), None, Some(2), vec![3, 4], Some(4)),
        (Some(4), None, Some(2), vec![5], None),
        (None, Some(6), Some(2), vec![4, 5], Some(4)),
        (None, Some(4), Some(3), vec![1, 2, 3], None),
        (Some(1), Some(5), Some(2), vec![2, 3], Some(3)),
        (Some(9), None, None, vec![], None),
        (None, Some(1), None, vec![], None),
        (Some(u64::MAX), None, None, vec![], None),
    ];
    for (after, before, limit, expected, next) in table {
        let params = ItemsParams { session_id: session_id.clone(), after, before, limit };
        let page = store.items(params.clone()).await.unwrap();
        let indexes: Vec<u64> = page.items.iter().map(|item| item.index).collect();
        assert_eq!((indexes, page.next, page.seq), (expected, next, 8), "{params:?}");
    }
    for limit in [0, 1_001] {
        let params = ItemsParams {
            session_id: session_id.clone(),
            after: None,
            before: None,
            limit: Some(limit),
        };
        let refused = store.items(params).await;
        assert!(matches!(refused, Err(Error::InvalidParams { field: "limit", .. })));
    }
    store.close().await.unwrap();
}

#[tokio::test]
async fn pages_of_events_are_cut_by_number_and_size() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let session_id = fixture::create(&store, "a").await;
    let mut hand = Hand::new(&store, &session_id);
    let big = "x".repeat(3 << 20);
    for _ in 0..4 {
        hand.write(vec![event(warning(&big))], vec![]).await.unwrap();
    }
    let page = |after, limit| {
        let params = EventsParams { session_id: session_id.clone(), after, limit };
        let store = store.clone();
        async move {
            let page = store.events(params).await.unwrap();
            (page.events.iter().map(|event| event.seq).collect::<Vec<_>>(), page.next)
        }
    };
    assert_eq!(page(None, Some(2)).await, (vec![1, 2], Some(2)));
    assert_eq!(page(None, None).await, (vec![1, 2, 3, 4], Some(4)));
    assert_eq!(page(Some(4), None).await, (vec![5], None));
    assert_eq!(page(Some(5), None).await, (vec![], None));
    store.close().await.unwrap();
}

#[tokio::test]
async fn lists_filter_and_go_on_where_they_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    for name in ["a", "b", "c", "d"] {
        let id = fixture::create(&store, name).await;
        let mut hand = Hand::new(&store, &id);
        let mut session = store.session(&id).await.unwrap();
        session.title = format!("Ärger {name}");
        session.cwd = if name == "b" { "/b".to_owned() } else { "/work".to_owned() };
        session.archived = name == "c";
        let session = Box::new(session);
        let updated = EventBody::SessionUpdated { session, changed: vec!["title".to_owned()] };
        let state = EventBody::SessionState { state: SessionState::Failed, queue_held: None };
        let mut events = vec![event(updated)];
        events.extend((name == "d").then(|| event(state)));
        hand.write(events, vec![]).await.unwrap();
    }
    let list = |params: ListParams| {
        let store = store.clone();
        async move {
            let result = store.list(params).await.unwrap();
            let titles = result.sessions.iter().map(|session| session.title.clone());
            (titles.collect::<Vec<_>>().join(","), result.next_cursor)
        }
    };
    let plain = ListParams::default();
    let table = [
        (plain.clone(), "Ärger d,Ärger b,Ärger a"),
        (ListParams { archived: Some(Archived::Only(true)), ..plain.clone() }, "Ärger c"),
        (
            ListParams { archived: Some(Archived::All), ..plain.clone() },
            "Ärger d,Ärger c,Ärger b,Ärger a",
        ),
        (ListParams { cwd: Some("/b".to_owned()), ..plain.clone() }, "Ärger b"),
        (ListParams { query: Some("ÄRGER A".to_owned()), ..plain.clone() }, "Ärger a"),
        (ListParams { query: Some("%".to_owned()), ..plain.clone() }, ""),
        (ListParams { state: Some(SessionState::Failed), ..plain.clone() }, "Ärger d"),
    ];
    for (params, expected) in table {
        assert_eq!(list(params.clone()).await, (expected.to_owned(), None), "{params:?}");
    }
    let mut cursor = None;
    let mut seen = Vec::new();
    loop {
        let params = ListParams { limit: Some(1), cursor: cursor.take(), ..plain.clone() };
        let (titles, next) = list(params).await;
        seen.push(titles);
        match next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, ["Ärger d", "Ärger b", "Ärger a"]);
    let wrong = ListParams { cursor: Some("x".to_owned()), ..plain };
    assert!(matches!(store.list(wrong).await, Err(Error::InvalidParams { field: "cursor", .. })));
    let counts = store.counts_by_state().await.unwrap();
    assert_eq!(counts, [("failed".to_owned(), 1), ("idle".to_owned(), 3)].into());
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_key_makes_one_session() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let keyed = |name: &str, digest: &str| NewSession {
        key: Some("k".to_owned()),
        digest: digest.to_owned(),
        ..fixture::new_session(name)
    };
    let first = store.create_session(keyed("a", "same")).await.unwrap();
    assert!(!first.replayed);
    let again = store.create_session(keyed("b", "same")).await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.session, first.session);
    let other = store.create_session(keyed("c", "other")).await;
    assert!(matches!(other, Err(Error::KeyConflict(key)) if key == "k"));
    store.delete_session(&first.session.session_id).await.unwrap();
    assert!(!store.create_session(keyed("d", "other")).await.unwrap().replayed);
    store.close().await.unwrap();
}

fn prompt(session_id: &SessionId, id: &str) -> Box<Prompt> {
    Box::new(Prompt {
        prompt_id: PromptId::from(id),
        session_id: session_id.clone(),
        turn_id: TurnId::from("turn_1"),
        call_id: CallId::from("call_1"),
        tool: "shell".to_owned(),
        summary: "run ls".to_owned(),
        risk: Risk::Execute,
        arguments: serde_json::json!({ "command": "ls" }),
        preview: None,
        suggestions: Vec::new(),
        requested_at: fixture::time(),
        expires_at: None,
    })
}

fn allow(prompt: &str, scope: Scope, pattern: &str) -> EventBody {
    EventBody::PermissionResolved(Resolved {
        prompt_id: PromptId::from(prompt),
        decision: Resolution::Allow,
        scope: Some(scope),
        rule: Some(Rule {
            tool: "shell".to_owned(),
            pattern: Some(pattern.to_owned()),
            action: Action::Allow,
        }),
        message: None,
        by: None,
    })
}

#[tokio::test]
async fn the_first_answer_stands_and_its_rule_is_remembered() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let (a, b) = (fixture::create(&store, "a").await, fixture::create(&store, "b").await);
    let mut hand = Hand::new(&store, &a);
    let scopes = [Scope::Once, Scope::Session, Scope::Project, Scope::Always, Scope::Always];
    for (number, scope) in scopes.into_iter().enumerate() {
        let id = format!("prm_{number}");
        let asked = EventBody::PermissionRequested { prompt: prompt(&a, &id) };
        hand.write(vec![event(asked)], vec![]).await.unwrap();
        assert_eq!(store.open_prompts(Some(&a)).await.unwrap().len(), 1);
        assert_eq!(store.open_prompts(Some(&b)).await.unwrap().len(), 0);
        assert_eq!(store.open_prompts(None).await.unwrap()[0].prompt_id.as_str(), id);
        let pattern = format!("{scope:?}");
        hand.write(vec![event(allow(&id, scope, &pattern))], vec![]).await.unwrap();
        let second = hand.write(vec![event(allow(&id, scope, &pattern))], vec![]).await;
        assert!(matches!(second, Err(Error::Inconsistent(_))), "{second:?}");
        let record = store.prompt(&PromptId::from(id)).await.unwrap().unwrap();
        assert_eq!(record.resolved.unwrap().decision, Resolution::Allow);
    }
    assert_eq!(store.prompt(&PromptId::from("prm_no")).await.unwrap(), None);
    let patterns = |rules: Vec<agentd_protocol::permission::RuleInForce>| {
        rules.into_iter().map(|rule| rule.rule.pattern.unwrap()).collect::<Vec<_>>()
    };
    let all = store.rules(Some(&a)).await.unwrap();
    let always = all.last().unwrap().rule_id.clone();
    assert_eq!(patterns(all), ["Session", "Project", "Always"]);
    assert_eq!(patterns(store.rules(Some(&b)).await.unwrap()), ["Project", "Always"]);
    assert_eq!(patterns(store.rules(None).await.unwrap()), ["Always"]);
    assert!(store.forget_rule(&always).await.unwrap());
    assert!(!store.forget_rule(&always).await.unwrap());
    assert_eq!(store.rules(None).await.unwrap(), []);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_start_looks_after_open_turns_and_queues_that_may_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    conversation(&store, "ended", &["x"]).await;
    let mut expected = Vec::new();
    for name in ["open", "process", "exited", "queued", "held"] {
        let id = fixture::create(&store, name).await;
        let mut hand = Hand::new(&store, &id);
        let turn = TurnId::from_unique(name);
        if name == "open" {
            let rows = vec![accepted(input(&id, "s1", "go"), Disposition::Started, &turn)];
            let started = turn_event(&turn, fixture::turn_started("s1"));
            hand.write(vec![started], rows).await.unwrap();
        } else if ["process", "exited"].contains(&name) {
            let process = Process {
                process_id: "proc_1".into(),
                call_id: "call_1".into(),
                command: "npm run dev".to_owned(),
            };
            let exit = ProcessExit {
                process_id: "proc_1".into(),
                call_id: "call_1".into(),
                command: "npm run dev".to_owned(),
                exit: None,
                signal: None,
                reason: ProcessEnd::Lost,
            };
            hand.write(vec![event(EventBody::ProcessStarted(process))], vec![]).await.unwrap();
            if name == "exited" {
                hand.write(vec![event(EventBody::ProcessExited(exit))], vec![]).await.unwrap();
            }
        } else {
            let params = input(&id, "s1", "go");
            let queued = EventBody::InputQueued {
                submission_id: params.submission.id.clone(),
                content: agentd_protocol::item::Content::Text("go".to_owned()),
                position: 1,
            };
            let state = EventBody::SessionState {
                state: SessionState::Failed,
                queue_held: Some(name == "held"),
            };
            let rows = vec![accepted(params, Disposition::Queued, &turn)];
            hand.write(vec![event(queued), event(state)], rows).await.unwrap();
        }
        expected.extend((!["exited", "held"].contains(&name)).then_some(id));
    }
    assert_eq!(store.unfinished_sessions().await.unwrap(), expected);
    store.close().await.unwrap();
}

/// All rows that name a session, in every table there is.
fn rows_of_sessions(path: &std::path::Path) -> u64 {
    let conn = Connection::open(path).unwrap();
    let tables: Vec<String> = conn
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%session%'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(tables.len() > 12);
    let count = |table: &String| -> u64 {
        let sql = format!("SELECT count(*) FROM {table}");
        conn.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    let index: u64 =
        conn.query_row("SELECT count(*) FROM text_index_docsize", [], |row| row.get(0)).unwrap();
    tables.iter().map(count).sum::<u64>() + index
}

/// Search finds what was said, just now too; a deleted session leaves nothing.
#[tokio::test]
async fn what_was_said_is_found_and_what_is_deleted_is_gone() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let path = dir.path().join("agentd.db");
    let texts = ["the quick brown fox", "a \"quoted\" AND word", "žluťoučký kůň"];
    let (a, b) = (
        conversation(&store, "a", &texts).await,
        conversation(&store, "b", &["another fox"]).await,
    );
    let outputs = store.outputs_dir(&a);
    std::fs::create_dir_all(&outputs).unwrap();
    std::fs::write(outputs.join("output"), "long").unwrap();
    let search = |query: &str| {
        let (store, query) = (store.clone(), query.to_owned());
        async move {
            let found = store.search(SearchParams { query, limit: None }).await.unwrap();
            found.matches
        }
    };
    for (query, hits) in [
        ("quick fox", 1),
        ("fox", 2),
        ("\"quoted\" and", 1),
        ("zlutoucky", 1),
        ("Session A", 1),
        ("  ", 2),
        ("NEAR(", 0),
        ("*", 0),
        ("quick\0fox", 1),
        ("\0", 0),
    ] {
        assert_eq!(search(query).await.len(), hits, "{query}");
    }
    assert!(search("fox").await[0].snippet.contains("fox"));

    store.delete_session(&a).await.unwrap();
    assert!(!outputs.exists());
    assert!(matches!(store.session(&a).await, Err(Error::SessionNotFound(_))));
    assert_eq!(search("quick").await, []);
    assert_eq!(search("fox").await.len(), 1);
    // New words get indexed although rows were given out again.
    store.write("upkeep", super::upkeep_all).await.unwrap();
    conversation(&store, "c", &["a third fox"]).await;
    assert_eq!(search("fox").await.len(), 2);
    for id in [b, SessionId::from_unique("c")] {
        store.delete_session(&id).await.unwrap();
    }
    store.write("upkeep", super::upkeep_all).await.unwrap();
    store.close().await.unwrap();
    assert_eq!(rows_of_sessions(&path), 0);
}

/// Whoever lists pages holds no snapshot between them, so the log can start over under a reader
/// that takes its time.
#[tokio::test]
async fn e13_the_log_stays_small_while_somebody_reads() {
    const EVENTS: u64 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    let session_id = fixture::create(&store, "a").await;
    let mut hand = Hand::new(&store, &session_id);
    let message = "x".repeat(2_000);
    let (mut after, mut largest) = (0, 0);
    for _ in 0..EVENTS / 200 {
        let page =
            EventsParams { session_id: session_id.clone(), after: Some(after), limit: Some(50) };
        let page = store.events(page).await.unwrap();
        after = page.next.unwrap_or(after);
        hand.write((0..200).map(|_| event(warning(&message))).collect(), Vec::new()).await.unwrap();
        let log = dir.path().join("agentd.db-wal").metadata().unwrap().len();
        largest = largest.max(log);
    }
    assert!(after > 0, "it read");
    assert!(largest < 24 << 20, "the log came to {largest} bytes");
}
