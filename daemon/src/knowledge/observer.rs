//! The observer: what of a turn may be worth keeping.
//!
//! It follows a turn's events and, when the turn completed, makes candidates of what it saw: the
//! user's own request to remember something ([`memory`]), and a run of calls that did something
//! ([`workflow`]). It only proposes: a person accepts or rejects, and nothing else depends on it. A
//! turn that did not complete leaves nothing.
//!
//! Receives committed events from `session`; hands it candidates after a turn's end.

use std::collections::HashMap;

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
    /// Where each of them stands.
    places: HashMap<CallId, usize>,
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
                self.places.insert(call_id.clone(), self.calls.len());
                let (tool, arguments) = (name.clone(), arguments.clone());
                self.calls.push(Seen { tool, arguments, status: None });
            }
            EventBody::ToolCompleted { call_id, status, .. } => {
                if let Some(place) = self.places.get(call_id) {
                    self.calls[*place].status = Some(*status);
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
