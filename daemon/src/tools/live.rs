//! Live output: what people see of a call while it runs.
//!
//! It is a tail that is never waited for: what the session does not take in time stays here and
//! goes with what comes next, and of too much only the end is kept. A piece says where in the whole
//! output it stands, so a gap is seen as one.
//!
//! Receives text where it is collected; hands pieces to the session.

use std::pin::pin;
use std::time::Duration;

use agentd_protocol::id::CallId;
use tokio::time::MissedTickBehavior;

use super::command::{Command, End};
use super::{OutputChunk, Run};

/// What is kept of output that was not handed on yet, in bytes; up to twice that before the older
/// part goes.
const TAIL_BYTES: usize = 16 * 1024;

/// Between two pieces of one call: as often as eyes can follow.
const EVERY: Duration = Duration::from_millis(50);

/// The end of an output, as far as nobody took it.
#[derive(Debug, Default)]
pub(super) struct Tail {
    /// Bytes of the output before `text`.
    offset: u64,
    text: String,
}

impl Tail {
    pub(super) fn push(&mut self, text: &str) {
        self.text.push_str(text);
        if self.text.len() > 2 * TAIL_BYTES {
            let over = self.text.ceil_char_boundary(self.text.len() - TAIL_BYTES);
            self.text.drain(..over);
            self.offset += over as u64;
        }
    }

    /// What is there, and how many bytes were before it.
    pub(super) fn take(&mut self) -> Option<(u64, String)> {
        if self.text.is_empty() {
            return None;
        }
        let offset = self.offset;
        self.offset += self.text.len() as u64;
        Some((offset, std::mem::take(&mut self.text)))
    }
}

/// Waits for a command's end, at most for so long, and hands its live output on; a cancel ends the
/// command. Nothing: it still runs.
pub(super) async fn attend(
    command: &Command,
    call_id: &CallId,
    run: &Run,
    at_most: Option<Duration>,
) -> Option<Result<End, String>> {
    let mut status = command.watch();
    let mut enough = pin!(tokio::time::sleep(at_most.unwrap_or(Duration::MAX)));
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut cancelled, mut handed_on) = (false, 0);
    loop {
        let bytes = {
            let now = status.borrow_and_update();
            if let Some(end) = &now.end {
                return Some(end.clone());
            }
            now.bytes
        };
        tokio::select! {
            changed = status.changed() => if changed.is_err() {
                return Some(Err(super::command::FAULT.to_owned()));
            },
            _ = tick.tick(), if handed_on < bytes => {
                if hand_on(command, call_id, run) {
                    handed_on = bytes;
                }
            }
            () = run.cancel.cancelled(), if !cancelled => {
                cancelled = true;
                command.cancel();
            }
            () = &mut enough, if !cancelled => return None,
        }
    }
}

/// Hands on what there is; false: there is no room for it now.
fn hand_on(command: &Command, call_id: &CallId, run: &Run) -> bool {
    let Ok(place) = run.output.try_reserve() else { return false };
    if let Some((offset, chunk)) = command.live() {
        place.send(OutputChunk { call_id: call_id.clone(), offset, chunk });
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_is_bounded_and_knows_what_is_missing() {
        let mut tail = Tail::default();
        assert_eq!(tail.take(), None);
        tail.push("ab");
        tail.push("é");
        assert_eq!(tail.take(), Some((0, "abé".to_owned())));
        tail.push("c");
        assert_eq!(tail.take(), Some((4, "c".to_owned())));
        let mut whole = 5;
        for _ in 0..1_000 {
            tail.push("ééé");
            whole += 6;
            assert!(tail.text.len() <= 2 * TAIL_BYTES);
        }
        for _ in 0..TAIL_BYTES {
            tail.push("é");
            whole += 2;
        }
        let (offset, text) = tail.take().unwrap();
        assert!(offset > 5 && text.len() >= TAIL_BYTES);
        assert_eq!(offset + text.len() as u64, whole, "it ends where the output does");
        tail.push(&"x".repeat(5 * TAIL_BYTES));
        assert_eq!(tail.take(), Some((whole + 4 * TAIL_BYTES as u64, "x".repeat(TAIL_BYTES))));
    }
}
