//! What is in flight: text and output that no event holds yet.
//!
//! Invariants: an item's text starts with its first byte; of a tool's output the end is kept. What
//! is in flight goes with the event that holds it, or takes it back.
//!
//! Receives events and progress from the hub; hands what a joiner is shown to it.

use agentd_protocol::event::{Event, EventBody, Role};
use agentd_protocol::id::CallId;
use agentd_protocol::progress::{DeltaKind, InFlight, InFlightItem, InFlightTool, Progress};

/// Bytes of a tool's output that are kept, at least; twice as many before they are cut.
const OUTPUT_TAIL_BYTES: usize = 64 << 10;

/// Adds passing news.
pub(super) fn extend(in_flight: &mut InFlight, progress: &Progress) {
    match progress {
        Progress::MessageDelta { item_id, attempt, kind, offset, delta } => {
            let item = in_flight
                .item
                .take_if(|item| item.item_id == *item_id && item.attempt == *attempt)
                .unwrap_or_else(|| InFlightItem {
                    item_id: item_id.clone(),
                    attempt: *attempt,
                    text: String::new(),
                    reasoning: String::new(),
                });
            let item = in_flight.item.insert(item);
            let text = match kind {
                DeltaKind::Text => &mut item.text,
                DeltaKind::Reasoning => &mut item.reasoning,
            };
            if text.len() as u64 == *offset {
                text.push_str(delta);
            }
        }
        Progress::ToolOutput { call_id, offset, chunk } => {
            let tool = tool(in_flight, call_id);
            if tool.offset + tool.output.len() as u64 != *offset {
                // A piece was lost on the way here: what follows it is what can be shown.
                tool.output.clear();
                tool.offset = *offset;
            }
            tool.output.push_str(chunk);
            cut(tool);
        }
    }
}

fn tool<'a>(in_flight: &'a mut InFlight, call_id: &CallId) -> &'a mut InFlightTool {
    let place = in_flight.tools.iter().position(|tool| tool.call_id == *call_id);
    let place = place.unwrap_or_else(|| {
        let output = String::new();
        in_flight.tools.push(InFlightTool { call_id: call_id.clone(), output, offset: 0 });
        in_flight.tools.len() - 1
    });
    &mut in_flight.tools[place]
}

/// Drops the start of an output that has grown long.
fn cut(tool: &mut InFlightTool) {
    if tool.output.len() <= 2 * OUTPUT_TAIL_BYTES {
        return;
    }
    let mut start = tool.output.len() - OUTPUT_TAIL_BYTES;
    while !tool.output.is_char_boundary(start) {
        start += 1;
    }
    tool.output.drain(..start);
    tool.offset += start as u64;
}

/// Takes out what an event holds or takes back.
pub(super) fn settle(in_flight: &mut InFlight, event: &Event) {
    match &event.body {
        EventBody::ItemStarted { item_id, role: Role::Assistant, attempt } => {
            in_flight.item = Some(InFlightItem {
                item_id: item_id.clone(),
                attempt: *attempt,
                text: String::new(),
                reasoning: String::new(),
            });
        }
        EventBody::MessageCompleted { item } => {
            in_flight.item.take_if(|streaming| streaming.item_id == item.item_id);
        }
        EventBody::MessageReset { item_id, discarded, .. } => {
            in_flight.item.take_if(|streaming| streaming.item_id == *item_id);
            in_flight.tools.retain(|tool| !discarded.contains(&tool.call_id));
        }
        EventBody::ToolCompleted { call_id, .. } => {
            in_flight.tools.retain(|tool| tool.call_id != *call_id);
        }
        EventBody::TurnCompleted { .. }
        | EventBody::TurnExhausted { .. }
        | EventBody::TurnAborted { .. }
        | EventBody::TurnFailed { .. } => clear(in_flight),
        EventBody::SessionCreated { .. }
        | EventBody::SessionUpdated { .. }
        | EventBody::SessionState { .. }
        | EventBody::SubmissionAccepted { .. }
        | EventBody::InputQueued { .. }
        | EventBody::InputSteered { .. }
        | EventBody::InputDropped { .. }
        | EventBody::TurnStarted { .. }
        | EventBody::IterationStarted { .. }
        | EventBody::ItemStarted { .. }
        | EventBody::ToolCalled { .. }
        | EventBody::ToolStarted { .. }
        | EventBody::PermissionRequested { .. }
        | EventBody::QuestionRequested { .. }
        | EventBody::PermissionResolved(_)
        | EventBody::QuestionResolved(_)
        | EventBody::UsageUpdated { .. }
        | EventBody::RetryScheduled { .. }
        | EventBody::ContextPruned { .. }
        | EventBody::ContextCompacted { .. }
        | EventBody::PlanUpdated { .. }
        | EventBody::HookRan { .. }
        | EventBody::ProcessStarted { .. }
        | EventBody::ProcessExited { .. }
        | EventBody::MemoryCandidate { .. }
        | EventBody::SkillCandidate { .. }
        | EventBody::SessionRolledBack { .. }
        | EventBody::Warning { .. } => {}
    }
}

/// Nothing is in flight any more.
pub(super) fn clear(in_flight: &mut InFlight) {
    in_flight.item = None;
    in_flight.tools.clear();
}

/// Whether nothing is in flight.
pub(super) fn is_empty(in_flight: &InFlight) -> bool {
    in_flight.item.is_none() && in_flight.tools.is_empty()
}
