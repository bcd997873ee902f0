//! The fold of progress and events into [`InFlight`]: the text and output that no event holds yet.
//!
//! The daemon's hub keeps one per watched session and sends it in the join; a client's view keeps
//! its own by the same fold, so both have the same whoever watched since when.
//!
//! Invariants: text is never shown twice (a piece whose offset lies below the end adds only what
//! is new); text of an item beyond the end is left out until a marker or an event heals it, output
//! of a tool beyond it begins the kept part anew, and how much was missed is told; what an event
//! shows complete or takes back is no longer in flight; the output kept of a tool is bounded.
//!
//! Receives progress and events in their order; hands out what is in flight.

use crate::event::{Event, EventBody};
use crate::id::{CallId, ItemId};
use crate::progress::{DeltaKind, InFlight, InFlightItem, InFlightTool, Progress};

/// How much of a running tool's output is kept, in bytes: 16 KiB. Up to twice that is held before
/// the older part goes, so that a piece costs its own length only.
pub const OUTPUT_TAIL_BYTES: usize = 16 * 1024;

/// What a piece added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Added<'p> {
    /// Bytes between the end so far and what was added: output that nobody was told.
    pub missed: u64,
    /// The part of the piece that was new.
    pub text: &'p str,
}

/// Adds a piece of text or output.
pub fn extend<'p>(in_flight: &mut InFlight, progress: &'p Progress) -> Added<'p> {
    match progress {
        Progress::MessageDelta { item_id, attempt, kind, offset, delta } => {
            let Some(item) = item_at(in_flight, item_id, *attempt) else {
                return Added::default();
            };
            let text = match kind {
                DeltaKind::Text => &mut item.text,
                DeltaKind::Reasoning => &mut item.reasoning,
            };
            let added = unseen(text.len() as u64, *offset, delta);
            text.push_str(added);
            Added { missed: 0, text: added }
        }
        Progress::ToolOutput { call_id, offset, chunk } => {
            let tool = tool_of(in_flight, call_id);
            let end = tool.offset + tool.output.len() as u64;
            let missed = offset.saturating_sub(end);
            if missed > 0 {
                tool.output.clear();
                tool.offset = *offset;
            }
            let added = unseen(end + missed, *offset, chunk);
            tool.output.push_str(added);
            cut(tool);
            Added { missed, text: added }
        }
    }
}

/// Takes out what `event` shows complete, takes back or ends.
pub fn settle(in_flight: &mut InFlight, event: &Event) {
    match &event.body {
        EventBody::ItemStarted { .. } => in_flight.item = None,
        EventBody::MessageCompleted { item } => forget_item(in_flight, &item.item_id),
        EventBody::MessageReset { item_id, discarded, .. } => {
            forget_item(in_flight, item_id);
            in_flight.tools.retain(|tool| !discarded.contains(&tool.call_id));
        }
        EventBody::ToolCompleted { call_id, .. } => {
            in_flight.tools.retain(|tool| tool.call_id != *call_id);
        }
        body if body.is_terminal() => *in_flight = InFlight::default(),
        _ => {}
    }
}

/// The item that a delta belongs to; `None` for one of an attempt that is over.
fn item_at<'a>(
    in_flight: &'a mut InFlight,
    item_id: &ItemId,
    attempt: u32,
) -> Option<&'a mut InFlightItem> {
    let fresh = || InFlightItem {
        item_id: item_id.clone(),
        attempt,
        text: String::new(),
        reasoning: String::new(),
    };
    let item = in_flight.item.get_or_insert_with(fresh);
    if item.item_id != *item_id || item.attempt < attempt {
        *item = fresh();
    }
    (item.attempt == attempt).then_some(item)
}

/// The tool's entry.
fn tool_of<'a>(in_flight: &'a mut InFlight, call_id: &CallId) -> &'a mut InFlightTool {
    let known = in_flight.tools.iter().position(|tool| tool.call_id == *call_id);
    let index = known.unwrap_or(in_flight.tools.len());
    if known.is_none() {
        let tool = InFlightTool { call_id: call_id.clone(), output: String::new(), offset: 0 };
        in_flight.tools.push(tool);
    }
    &mut in_flight.tools[index]
}

/// What of a piece at `offset` lies past `end`; nothing where it does not fit.
fn unseen(end: u64, offset: u64, piece: &str) -> &str {
    let Some(known) = end.checked_sub(offset) else { return "" };
    usize::try_from(known).ok().and_then(|known| piece.get(known..)).unwrap_or("")
}

fn cut(tool: &mut InFlightTool) {
    if tool.output.len() <= 2 * OUTPUT_TAIL_BYTES {
        return;
    }
    let cut = tool.output.len() - OUTPUT_TAIL_BYTES;
    let from = (cut..=tool.output.len()).find(|&at| tool.output.is_char_boundary(at));
    let from = from.expect("the end is a boundary");
    tool.output.drain(..from);
    tool.offset += from as u64;
}

fn forget_item(in_flight: &mut InFlight, item_id: &ItemId) {
    if in_flight.item.as_ref().is_some_and(|item| item.item_id == *item_id) {
        in_flight.item = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(item: &str, attempt: u32, offset: u64, text: &str) -> Progress {
        Progress::MessageDelta {
            item_id: item.into(),
            attempt,
            kind: DeltaKind::Text,
            offset,
            delta: text.into(),
        }
    }

    fn text(pieces: &[Progress]) -> String {
        let mut in_flight = InFlight::default();
        for piece in pieces {
            extend(&mut in_flight, piece);
        }
        in_flight.item.map(|item| item.text).unwrap_or_default()
    }

    #[test]
    fn pieces_add_up_once() {
        for (pieces, expected) in [
            (vec![delta("i", 1, 0, "ab"), delta("i", 1, 2, "c")], "abc"),
            (vec![delta("i", 1, 0, "ab"), delta("i", 1, 0, "ab")], "ab"),
            (vec![delta("i", 1, 0, "ab"), delta("i", 1, 1, "bc")], "abc"),
            (vec![delta("i", 1, 0, "ab"), delta("i", 1, 3, "d")], "ab"),
            (vec![delta("i", 1, 0, "é"), delta("i", 1, 1, "xy")], "éy"),
            (vec![delta("i", 1, 0, "a"), delta("i", 1, 0, "éa")], "a"),
            (vec![delta("i", 1, 0, "ab"), delta("i", 2, 0, "c")], "c"),
            (vec![delta("i", 2, 0, "ab"), delta("i", 1, 2, "c")], "ab"),
            (vec![delta("i", 1, 0, "ab"), delta("j", 1, 0, "c")], "c"),
        ] {
            assert_eq!(text(&pieces), expected, "{pieces:?}");
        }
    }

    #[test]
    fn the_output_kept_is_bounded_and_whole_characters() {
        let mut in_flight = InFlight::default();
        let chunk = "é".repeat(700);
        let mut offset = 0;
        for _ in 0..100 {
            let output = Progress::ToolOutput { call_id: "c".into(), offset, chunk: chunk.clone() };
            extend(&mut in_flight, &output);
            offset += chunk.len() as u64;
            let tool = &in_flight.tools[0];
            assert_eq!(tool.offset + tool.output.len() as u64, offset);
            assert!(tool.output.len() <= 2 * OUTPUT_TAIL_BYTES);
        }
        assert!(in_flight.tools[0].output.len() >= OUTPUT_TAIL_BYTES);
    }

    #[test]
    fn output_that_was_missed_is_told_and_the_rest_goes_on() {
        let mut in_flight = InFlight::default();
        let output = |offset, chunk: &str| Progress::ToolOutput {
            call_id: "c".into(),
            offset,
            chunk: chunk.to_owned(),
        };
        for (offset, chunk, missed, text, kept) in [
            (0, "ab", 0, "ab", (0, "ab")),
            (2, "c", 0, "c", (0, "abc")),
            (1, "bcd", 0, "d", (0, "abcd")),
            (10, "x", 6, "x", (10, "x")),
            (3, "old", 0, "", (10, "x")),
            (11, "y", 0, "y", (10, "xy")),
        ] {
            let piece = output(offset, chunk);
            assert_eq!(extend(&mut in_flight, &piece), Added { missed, text }, "{piece:?}");
            let tool = &in_flight.tools[0];
            assert_eq!((tool.offset, tool.output.as_str()), kept, "{piece:?}");
        }
        // Who comes in the middle knows that there was a beginning.
        let mut late = InFlight::default();
        assert_eq!(extend(&mut late, &output(7, "z")), Added { missed: 7, text: "z" });
    }
}
