//! Several processes and one database: kill -9 at random moments, contention, and a holder that
//! was stopped for longer than its lease lives.
//!
//! A child is this test program again, told by its environment to play a part.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use agentd_protocol::id::{SessionId, TurnId};
use agentd_protocol::session::EventsParams;
use agentd_protocol::submission::Disposition;
use rustix::process::{Pid, Signal, kill_process};

use super::fixture::{self, Hand, accepted, event, input, options, submission_id, warning};
use crate::clock::Clock;
use crate::store::{Error, LeaseUse, Options, Store};

const PART: &str = "AGENTD_TEST_PART";
const DIR: &str = "AGENTD_TEST_DIR";
const NAME: &str = "AGENTD_TEST_NAME";
/// Long enough for a busy machine not to lose it by accident.
const LEASE: Duration = Duration::from_millis(300);

/// A child and what it says. Killed when dropped.
struct Actor {
    child: Child,
    says: BufReader<ChildStdout>,
    hears: ChildStdin,
}

impl Actor {
    fn start(part: &str, dir: &Path, name: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::processes::child", "--ignored", "--nocapture"])
            .envs([(PART, part), (NAME, name)])
            .env(DIR, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (says, hears) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
        Self { child, says: BufReader::new(says), hears }
    }

    /// The next line that is for us; `None` when it has no more to say.
    fn line(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.says.read_line(&mut line).unwrap() == 0 || !line.ends_with('\n') {
                return None;
            }
            // The test runner's own lines stand around ours.
            if let Some((_, said)) = line.trim_end().split_once("> ") {
                return Some(said.to_owned());
            }
        }
    }

    fn expect(&mut self, said: &str) {
        assert_eq!(self.line().as_deref(), Some(said));
    }

    fn tell(&mut self) {
        writeln!(self.hears).unwrap();
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Waits for its end; whether it went well.
    fn end(mut self) -> bool {
        while self.line().is_some() {}
        self.child.wait().unwrap().success()
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(text: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "> {text}").unwrap();
    out.flush().unwrap();
}

fn wait_to_be_told() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// The child's parts. Not a test of its own.
#[tokio::test]
#[ignore = "a part that another test starts"]
async fn child() {
    let Ok(part) = std::env::var(PART) else { return };
    let dir = std::path::PathBuf::from(std::env::var(DIR).unwrap());
    let name = std::env::var(NAME).unwrap();
    match part.as_str() {
        "writer" => write_until_killed(&dir).await,
        "neighbour" => write_beside_others(&dir, &name).await,
        "stopped" => hold_and_be_stopped(&dir).await,
        other => panic!("no part {other}"),
    }
}

fn open_shared(dir: &Path, owner: &str, lease_ttl: Duration) -> Store {
    let options = Options { shared: true, lease_ttl, ..options(owner) };
    Store::open(dir, options, Clock::system()).unwrap()
}

/// Appends to several sessions at once, and says what was acknowledged.
async fn write_until_killed(dir: &Path) {
    let store = Store::open(dir, options("dmn_child"), Clock::system()).unwrap();
    let tasks = ["a", "b", "c"].map(|name| {
        let store = store.clone();
        tokio::spawn(async move {
            let id = SessionId::from_unique(name);
            let mut hand = Hand::new(&store, &id);
            hand.head = store.head(&id).await.unwrap();
            loop {
                let number = hand.head;
                let key = format!("{name}{number}");
                let turn = TurnId::from_unique(&key);
                let rows = vec![accepted(input(&id, &key, "x"), Disposition::Applied, &turn)];
                let events = vec![event(warning(&key)), event(warning(&key))];
                let appended = hand.write(events, rows).await.unwrap();
                say(format_args!("{name} {} {key}", appended.head));
            }
        })
    });
    // They go on until the process is killed, or one fails.
    let (ended, _, _) = futures_util::future::select_all(tasks).await;
    ended.unwrap();
}

/// *dense numbering* and durability: whenever the process is killed, the numbers are 1, 2, 3 …
/// without a hole, and all that was acknowledged is there, with its submission.
#[tokio::test]
async fn dense_numbering_and_nothing_acknowledged_is_lost_by_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let store = fixture::open(dir.path());
    for name in ["a", "b", "c"] {
        fixture::create(&store, name).await;
    }
    store.close().await.unwrap();
    let mut acknowledged: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
    for _ in 0..6 {
        let mut writer = Actor::start("writer", dir.path(), "");
        for _ in 0..fastrand::usize(1..40) {
            hear(&mut acknowledged, &writer.line().unwrap());
        }
        writer.signal(Signal::KILL);
        while let Some(line) = writer.line() {
            hear(&mut acknowledged, &line);
        }
        drop(writer);
        check(dir.path(), &acknowledged).await;
    }
}

fn hear(acknowledged: &mut BTreeMap<String, Vec<(u64, String)>>, line: &str) {
    let mut words = line.split(' ');
    let mut word = || words.next().unwrap().to_owned();
    let (name, head, key) = (word(), word().parse().unwrap(), word());
    acknowledged.entry(name).or_default().push((head, key));
}

async fn check(dir: &Path, acknowledged: &BTreeMap<String, Vec<(u64, String)>>) {
    let store = Store::open(dir, options("dmn_check"), Clock::system()).unwrap();
    assert_eq!(store.notices(), [""; 0]);
    for (name, acknowledged) in acknowledged {
        let id = SessionId::from_unique(name);
        let head = store.head(&id).await.unwrap();
        let lines = store.event_lines(&id, (0, u64::MAX), (100_000, usize::MAX)).await.unwrap();
        assert!(lines.iter().map(|(seq, _)| *seq).eq(1..=head));
        for (seq, key) in acknowledged {
            let (_, line) = &lines[usize::try_from(*seq - 1).unwrap()];
            assert!(line.contains(key), "{line} of {key}");
            assert!(store.submission(&id, &submission_id(key)).await.unwrap().is_some());
        }
    }
    store.close().await.unwrap();
}

/// e9: writes beside other processes, into its own session and into one that all share.
async fn write_beside_others(dir: &Path, name: &str) {
    let store = open_shared(dir, name, Duration::from_secs(15));
    let own = fixture::create(&store, name).await;
    let mut hand = Hand::new(&store, &own);
    say("ready");
    wait_to_be_told();
    for number in 0..20 {
        hand.write(vec![event(warning(&number.to_string()))], vec![]).await.unwrap();
        write_to_shared(&store, name).await;
    }
    store.close().await.unwrap();
}

/// One event into the session of all, however long it takes to get its lease.
async fn write_to_shared(store: &Store, name: &str) {
    let all = SessionId::from_unique("all");
    loop {
        let head = store.head(&all).await.unwrap();
        let mut append = fixture::append(&all, head, vec![event(warning(name))]);
        append.release = true;
        match store.append(append).await {
            Ok(_) => return,
            Err(Error::HeadMoved { .. } | Error::LeaseHeld(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn e9_processes_that_write_at_once_all_complete() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_shared(dir.path(), "parent", Duration::from_secs(15));
    let all = fixture::create(&store, "all").await;
    let names = ["p1", "p2", "p3", "p4"];
    let mut children = names.map(|name| Actor::start("neighbour", dir.path(), name));
    for child in &mut children {
        child.expect("ready");
        child.tell();
    }
    for child in children {
        assert!(child.end());
    }
    for (name, count) in names.map(|name| (name, 21)).into_iter().chain([("all", 81)]) {
        let id = SessionId::from_unique(name);
        let params = EventsParams { session_id: id, after: None, limit: Some(1_000) };
        let events = store.events(params).await.unwrap().events;
        assert!(events.iter().map(|event| event.seq).eq(1..=count), "{name}");
    }
    assert_eq!(store.session(&all).await.unwrap().lease, None);
    store.close().await.unwrap();
}

/// Takes a lease, is stopped, and tries to write as if nothing had been.
async fn hold_and_be_stopped(dir: &Path) {
    let store = open_shared(dir, "child", LEASE);
    let mut hand = Hand::new(&store, &SessionId::from_unique("a"));
    hand.write(vec![event(warning("mine"))], vec![]).await.unwrap();
    say("holding");
    wait_to_be_told();
    let epoch = hand.epoch.unwrap();
    let write = hand.write(vec![event(warning("still mine?"))], vec![]).await;
    assert!(matches!(write, Err(Error::LeaseLost)), "{write:?}");
    let renewal = store.renew_lease(&hand.session_id, epoch).await;
    assert!(matches!(renewal, Err(Error::LeaseLost)), "{renewal:?}");
    store.close().await.unwrap();
}

/// A holder that is stopped past its lease's end and goes on later cannot write a byte; and one
/// that is killed is known to be gone at once.
#[tokio::test]
async fn a_stopped_holder_is_fenced_out_and_a_dead_one_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let store = open_shared(dir.path(), "parent", LEASE);
    let id = fixture::create(&store, "a").await;
    let mut child = Actor::start("stopped", dir.path(), "");
    child.expect("holding");
    child.signal(Signal::STOP);
    let take = || {
        let mut append = fixture::append(&id, 2, vec![event(warning("taken"))]);
        append.lease = LeaseUse::Take { by_force: false };
        store.append(append)
    };
    let taken = loop {
        match take().await {
            Ok(taken) => break taken,
            Err(Error::LeaseHeld(_)) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(taken.epoch, 2);
    child.tell();
    child.signal(Signal::CONT);
    assert!(child.end());
    let release = store.release_lease(&id, 2).await;
    release.unwrap();

    let dir = tempfile::tempdir().unwrap();
    let store = open_shared(dir.path(), "parent", Duration::from_hours(1));
    let id = fixture::create(&store, "a").await;
    let mut child = Actor::start("stopped", dir.path(), "");
    child.expect("holding");
    child.signal(Signal::KILL);
    child.child.wait().unwrap();
    let append = fixture::append(&id, 2, vec![event(warning("taken"))]);
    assert_eq!(store.append(append).await.unwrap().epoch, 2);
    store.close().await.unwrap();
}
