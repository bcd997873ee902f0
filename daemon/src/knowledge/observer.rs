//! The observer: what of a turn may be worth keeping.
//!
//! It follows a turn's events and, when the turn completed, makes candidates of what it saw: the
//! user's own request to remember something ([`memory`]), and a run of calls that did something
//! ([`workflow`]). It only proposes: a person accepts or rejects, and nothing else depends on it. A
//! turn that did not complete leaves nothing, nor do calls of an attempt that broke off.
//!
//! Receives committed events from `session`; hands it candidates after a turn's end.

use agentd_protocol::event::{Event, EventBody};
use agentd_protocol::id::{CallId, MemoryId, SkillId};
use agentd_protocol::item::{ItemBody, Origin, Part, ToolStatus};
use serde_json::Value;

use super::{memory, workflow};

/// Calls of a turn that are looked at; a longer run is no workflow that a person would keep.
const MAX_CALLS: usize = 64;

/// A call of the turn.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    pub(super) call_id: CallId,
    pub(super) tool: String,
    pub(super) arguments: Value,
    /// Absent while it runs.
    pub(super) status: Option<ToolStatus>,
}

/// What was seen of the running turn.
#[derive(Debug, Default)]
pub struct Observer {
    texts: Vec<String>,
    calls: Vec<Seen>,
}

impl Observer {
    /// Follows the turn; candidates when it completed.
    pub fn see(&mut self, event: &Event) -> Vec<EventBody> {
        match &event.body {
            EventBody::TurnStarted { .. } => *self = Self::default(),
            EventBody::MessageCompleted { item } => {
                if let ItemBody::User { content, origin: Origin::User | Origin::Steer, .. } =
                    &item.body
                {
                    self.texts.extend(content.iter().filter_map(text_of));
                }
            }
            EventBody::ToolCalled { call_id, name, arguments, .. }
                if self.calls.len() < MAX_CALLS =>
            {
                let (call_id, tool) = (call_id.clone(), name.clone());
                self.calls.push(Seen { call_id, tool, arguments: arguments.clone(), status: None });
            }
            EventBody::MessageReset { discarded, .. } => {
                self.calls.retain(|call| !discarded.contains(&call.call_id));
            }
            EventBody::ToolCompleted { call_id, status, .. } => {
                if let Some(call) = self.calls.iter_mut().find(|call| call.call_id == *call_id) {
                    call.status = Some(*status);
                }
            }
            EventBody::TurnCompleted { .. } => return std::mem::take(self).candidates(),
            body if body.is_terminal() => *self = Self::default(),
            _ => {}
        }
        Vec::new()
    }

    fn candidates(self) -> Vec<EventBody> {
        let unique = || uuid::Uuid::now_v7().simple();
        let memories = self.texts.iter().flat_map(|text| memory::requests(text)).map(|text| {
            EventBody::MemoryCandidate { memory_id: MemoryId::from_unique(unique()), text }
        });
        let asked = self.texts.first().map(String::as_str).unwrap_or_default();
        let skill = workflow::of(asked, &self.calls).map(|workflow| EventBody::SkillCandidate {
            skill_id: SkillId::from_unique(unique()),
            name: workflow.name,
            description: workflow.description,
            steps: workflow.steps,
        });
        memories.chain(skill).collect()
    }
}

fn text_of(part: &Part) -> Option<String> {
    match part {
        Part::Text { text } => Some(text.clone()),
        Part::Image { .. } | Part::File { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use agentd_protocol::event::TurnTotals;
    use agentd_protocol::id::{ItemId, SessionId};
    use agentd_protocol::session::Usage;
    use agentd_protocol::time::Time;
    use serde_json::json;

    use super::*;

    fn seen(observer: &mut Observer, body: EventBody) -> Vec<EventBody> {
        let (time, session_id) = (Time::from_unix_millis(0), SessionId::from("ses_1"));
        observer.see(&Event { seq: 1, time, session_id, turn_id: None, body })
    }

    fn called(call_id: &str, name: &str) -> EventBody {
        let (call_id, item_id) = (CallId::from(call_id), ItemId::from("item_1"));
        EventBody::ToolCalled { call_id, item_id, name: name.to_owned(), arguments: json!({}) }
    }

    fn completed(call_id: &str) -> EventBody {
        let item = json!({
            "item_id": "item_2", "index": 1, "turn_id": "turn_1", "role": "tool",
            "created_at": "2026-01-01T00:00:00.000Z", "call_id": call_id, "name": "read",
            "status": "ok", "content": [],
        });
        let event = json!({
            "type": "tool.completed", "call_id": call_id, "item": item, "status": "ok",
            "duration_ms": 1,
        });
        serde_json::from_value(event).expect("an event")
    }

    #[test]
    fn calls_of_an_attempt_that_broke_off_part_no_run() {
        let mut observer = Observer::default();
        for (call_id, name) in [("call_1", "read"), ("call_2", "read")] {
            seen(&mut observer, called(call_id, name));
            seen(&mut observer, completed(call_id));
        }
        seen(&mut observer, called("call_3", "read"));
        let discarded = vec![CallId::from("call_3")];
        let item_id = ItemId::from("item_1");
        seen(&mut observer, EventBody::MessageReset { item_id, attempt: 1, discarded });
        for (call_id, name) in [("call_4", "grep"), ("call_5", "read")] {
            seen(&mut observer, called(call_id, name));
            seen(&mut observer, completed(call_id));
        }
        let totals = TurnTotals { usage: Usage::default(), iterations: 5, duration_ms: 1 };
        let candidates = seen(&mut observer, EventBody::TurnCompleted { totals });
        let [EventBody::SkillCandidate { steps, .. }] = &candidates[..] else {
            panic!("{candidates:?}");
        };
        assert_eq!(steps.len(), 4);
    }
}
