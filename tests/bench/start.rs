//! The start of `agentctl`: what a person waits for before anything can be typed.
//!
//! Both floors are another program: one that does nothing, alone and in front of a terminal.
//!
//! Receives the table; hands figures to it.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use agentd::store::{Append, LeaseUse, NewEvent};
use agentd_protocol::event::EventBody;
use agentd_protocol::item::{
    AssistantItem, AssistantPart, AssistantStatus, Item, ItemBody, Origin, Part,
};
use agentd_protocol::session::Usage;
use agentd_protocol::time::Time;
use harness::daemon::{Daemon, program};
use harness::{Terminal, wait};
use tokio::runtime::Runtime;

use crate::ground;
use crate::table::{Table, median};

/// Starts of each kind.
const STARTS: usize = 15;
/// Items of the session that is attached to.
const ITEMS: u64 = 10_000;
/// What its last item says.
const LAST: &str = "the last words";

pub(crate) fn measure(table: &mut Table) {
    let runtime = Runtime::new().expect("a runtime starts");
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        floor.push(took(&mut Command::new("true")));
        ours.push(took(Command::new(program("agentctl")).arg("--help")));
    }
    table.time("`agentctl --help`", median(ours), ("`true`", median(floor)));
    runtime.block_on(attach(table));
}

fn took(command: &mut Command) -> Duration {
    let start = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status();
    assert!(status.expect("the program is there").success());
    start.elapsed()
}

async fn attach(table: &mut Table) {
    let mut daemon = Daemon::world("");
    let session = fill(&daemon).await;
    daemon.spawn();
    daemon.ready().await;
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        let nothing = Command::new("true");
        let start = Instant::now();
        Terminal::start(&nothing, 100, 40).exit().await;
        floor.push(start.elapsed());
        let start = Instant::now();
        let terminal = daemon.agentctl_at_a_terminal(&["attach", &session], 100, 40);
        wait::until("the first screen", async || {
            let seen = terminal.seen();
            if seen.contains(LAST) && seen.contains("Ask, or") { Ok(()) } else { Err(seen) }
        })
        .await;
        ours.push(start.elapsed());
    }
    let what = format!("attach to {ITEMS} items, first screen");
    table.time(&what, median(ours), ("`true` in a terminal", median(floor)));
    daemon.stop().await;
}

/// A session of many turns' items, written as a daemon would have.
async fn fill(daemon: &Daemon) -> String {
    let store = ground::store(&daemon.path("state"));
    let session_id = ground::session(&store, "start").await;
    let time = Time::from_unix_millis(0);
    let event = |index| {
        let item = Box::new(Item {
            item_id: format!("item_{index}").as_str().into(),
            index,
            turn_id: "turn_1".into(),
            created_at: time,
            hidden_by: None,
            body: body(index),
        });
        NewEvent { turn_id: None, time, body: EventBody::MessageCompleted { item } }
    };
    let append = Append {
        session_id: session_id.clone(),
        expected_head: 1,
        lease: LeaseUse::Take { by_force: false },
        release: true,
        events: (1..=ITEMS).map(event).collect(),
        rows: Vec::new(),
    };
    store.append(append).await.expect("it is appended");
    store.close().await.expect("the store closes");
    session_id.to_string()
}

fn body(index: u64) -> ItemBody {
    if index % 2 == 1 {
        let content = vec![Part::text(format!("question {index}"))];
        return ItemBody::User { content, origin: Origin::User, submission_id: None };
    }
    let last = if index == ITEMS { LAST } else { "" };
    let text = format!("Answer {index} with a list:\n\n- `one`\n- **two**\n\n{last}");
    ItemBody::Assistant(AssistantItem {
        content: vec![AssistantPart::Text { text }],
        calls: Vec::new(),
        status: AssistantStatus::Complete,
        model: "m/m".to_owned(),
        usage: Usage::default(),
        finish_reason: None,
    })
}
