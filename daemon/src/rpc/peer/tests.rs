//! Lines of descent, made up and real.

use std::cell::Cell;
use std::collections::HashMap;

use super::*;

const OWNER: u32 = 7;
const DAEMON: u32 = 100;

fn check(uid: u32, pid: Option<u32>, parent: impl Fn(u32) -> Option<u32>) -> Result<(), Refusal> {
    Peer { uid, pid }.check(OWNER, &|_, parent| parent == DAEMON, parent)
}

/// 1 → 50 (a shell) → 100 (the daemon) → 200 (a tool) → 300; 50 → 60 (a client).
fn family(pid: u32) -> Option<u32> {
    HashMap::from([(50, 1), (100, 50), (200, 100), (300, 200), (60, 50), (1, 0)]).get(&pid).copied()
}

#[test]
fn only_the_owner_connects_and_none_of_its_tools() {
    assert_eq!(check(OWNER, Some(60), family), Ok(()));
    assert_eq!(check(OWNER, Some(50), family), Ok(()));
    // The daemon itself, as in a test that holds both ends.
    assert_eq!(check(OWNER, Some(DAEMON), family), Ok(()));
    // From another namespace, where no tool of ours can be.
    assert_eq!(check(OWNER, None, family), Ok(()));
    assert_eq!(check(8, Some(60), family), Err(Refusal::OtherUser { uid: 8, owner: OWNER }));
    assert_eq!(check(0, Some(60), family), Err(Refusal::OtherUser { uid: 0, owner: OWNER }));
    assert_eq!(check(OWNER, Some(200), family), Err(Refusal::Tool { pid: 200 }));
    assert_eq!(check(OWNER, Some(300), family), Err(Refusal::Tool { pid: 300 }));
}

#[test]
fn who_cannot_be_traced_is_refused() {
    assert_eq!(check(OWNER, Some(400), family), Err(Refusal::Gone { pid: 400 }));
    // A loop of numbers that were given anew.
    assert_eq!(check(OWNER, Some(2), |pid| Some(5 - pid)), Err(Refusal::Gone { pid: 2 }));
    // An ancestor that lives and may not be seen is another user's.
    assert_eq!(check(OWNER, Some(2), |pid| (pid == 2).then_some(3)), Ok(()));
}

#[test]
fn an_ancestor_that_ends_meanwhile_hides_no_tool() {
    // 300 is a child of 250, which ends; then it is the tool's.
    let asked = Cell::new(0);
    let parent = |pid| match pid {
        300 => {
            asked.set(asked.get() + 1);
            Some(if asked.get() == 1 { 250 } else { 200 })
        }
        250 => None,
        other => family(other),
    };
    assert_eq!(check(OWNER, Some(300), parent), Err(Refusal::Tool { pid: 300 }));
}

#[cfg(target_os = "linux")]
#[test]
fn the_system_tells_parents() {
    assert_eq!(parent_of(std::process::id()), Some(std::os::unix::process::parent_id()));
    assert_eq!(parent_of(u32::MAX), None);
}
