//! Leases: one writer at a time, and nobody kept out by the dead.

use std::path::Path;
use std::time::Duration;

use agentd_protocol::id::SessionId;

use super::fixture::{self, event, options, warning};
use crate::clock::Clock;
use crate::store::{Append, Error, Holder, LeaseUse, Options, Store};

/// A second holder in the same database, as another daemon would be.
fn open(dir: &Path, holder: Holder, clock: &Clock) -> Store {
    let options = Options { shared: true, holder, ..options("") };
    Store::open(dir, options, clock.clone()).unwrap()
}

fn holder(owner: &str) -> Holder {
    Holder::this_process(owner)
}

fn write(session_id: &SessionId, head: u64, lease: LeaseUse) -> Append {
    Append { lease, ..fixture::append(session_id, head, vec![event(warning("x"))]) }
}

const TAKE: LeaseUse = LeaseUse::Take { by_force: false };

/// *single writer*: whoever lost the lease cannot write a byte, however it lost it.
#[tokio::test]
async fn single_writer() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::manual();
    let one = open(dir.path(), holder("one"), &clock);
    let two = open(dir.path(), holder("two"), &clock);
    let id = fixture::create(&one, "a").await;

    assert_eq!(one.append(write(&id, 1, TAKE)).await.unwrap().epoch, 1);
    match two.append(write(&id, 2, TAKE)).await {
        Err(Error::LeaseHeld(lease)) => {
            assert_eq!((lease.owner.as_str(), lease.epoch), ("one", 1));
            assert_eq!(lease.expires_in_ms, 15_000);
            assert_eq!(lease.pid, std::process::id());
        }
        other => panic!("{other:?}"),
    }
    // Renewed in time it stays; late too, as long as nobody took it.
    clock.advance(Duration::from_secs(10));
    one.renew_lease(&id, 1).await.unwrap();
    clock.advance(Duration::from_secs(10));
    assert!(matches!(two.append(write(&id, 2, TAKE)).await, Err(Error::LeaseHeld(_))));
    clock.advance(Duration::from_mins(10));
    assert!(two.session(&id).await.unwrap().lease.is_none());
    one.append(write(&id, 2, LeaseUse::Held { epoch: 1 })).await.unwrap();
    one.renew_lease(&id, 1).await.unwrap();
    // Taken after it expired: the old holder is fenced out.
    clock.advance(Duration::from_mins(10));
    assert_eq!(two.append(write(&id, 3, TAKE)).await.unwrap().epoch, 2);
    for _ in 0..2 {
        let stale = one.append(write(&id, 4, LeaseUse::Held { epoch: 1 })).await;
        assert!(matches!(stale, Err(Error::LeaseLost)));
        assert!(matches!(one.renew_lease(&id, 1).await, Err(Error::LeaseLost)));
        one.release_lease(&id, 1).await.unwrap();
    }
    assert_eq!(one.session(&id).await.unwrap().lease.unwrap().owner, "two");
    // On purpose, from a live holder; then the first release is in the transaction itself.
    let force = LeaseUse::Take { by_force: true };
    assert_eq!(one.append(write(&id, 4, force)).await.unwrap().epoch, 3);
    let last = Append { release: true, ..write(&id, 5, LeaseUse::Held { epoch: 3 }) };
    one.append(last).await.unwrap();
    assert!(one.session(&id).await.unwrap().lease.is_none());
    assert_eq!(one.load(&id).await.unwrap().epoch, None);
    // The epoch never falls.
    assert_eq!(two.append(write(&id, 6, TAKE)).await.unwrap().epoch, 4);
    assert_eq!(two.load(&id).await.unwrap().epoch, Some(4));
    one.close().await.unwrap();
    two.close().await.unwrap();
}

/// e16 and its kind: which leases are void before they expire.
#[tokio::test]
async fn e16_leases_of_the_dead_are_free_at_once() {
    let ours = holder("new");
    let dead = {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    };
    let other = |change: &dyn Fn(&mut Holder)| {
        let mut holder = holder("old");
        change(&mut holder);
        holder
    };
    let table = [
        ("a live process", other(&|_| ()), false),
        ("another boot", other(&|old| old.boot_id = "before".to_owned()), true),
        ("a process that is gone", other(&|old| old.pid = dead), true),
        ("another process of that number", other(&|old| old.process_started += 1), true),
        (
            "a number of another namespace",
            other(&|old| (old.pid, old.pid_namespace) = (dead, "pid:[1]".to_owned())),
            false,
        ),
        (
            "a process of another machine",
            other(&|old| (old.pid, old.host) = (dead, "elsewhere".to_owned())),
            false,
        ),
    ];
    for (what, old, free) in table {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::manual();
        let before = open(dir.path(), old, &clock);
        let id = fixture::create(&before, "a").await;
        before.append(write(&id, 1, TAKE)).await.unwrap();
        let after = open(dir.path(), ours.clone(), &clock);
        assert_eq!(after.session(&id).await.unwrap().lease.is_none(), free, "{what}");
        assert_eq!(after.append(write(&id, 2, TAKE)).await.is_ok(), free, "{what}");
        before.close().await.unwrap();
        after.close().await.unwrap();
        // Whoever has the state directory alone knows that no other holder lives.
        let options = Options { holder: holder("alone"), ..options("") };
        let alone = Store::open(dir.path(), options, clock.clone()).unwrap();
        let found = alone.load(&id).await.unwrap();
        assert!(found.session.lease.is_none() && !found.rival_lives, "{what}");
        let head = found.session.head_seq;
        assert!(alone.append(write(&id, head, TAKE)).await.is_ok(), "{what}");
        alone.close().await.unwrap();
    }
}

#[tokio::test]
async fn a_session_that_another_process_runs_is_not_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Clock::manual();
    let one = open(dir.path(), holder("one"), &clock);
    let two = open(dir.path(), holder("two"), &clock);
    let id = fixture::create(&one, "a").await;
    one.append(write(&id, 1, TAKE)).await.unwrap();
    assert!(matches!(two.delete_session(&id).await, Err(Error::LeaseHeld(_))));
    one.delete_session(&id).await.unwrap();
    assert!(matches!(two.session(&id).await, Err(Error::SessionNotFound(_))));
    one.close().await.unwrap();
    two.close().await.unwrap();
}
