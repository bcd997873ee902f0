//! The fold of a whole subscription into what a client shows.
//!
//! A client feeds every message it gets, in order, and shows what [`View`] holds or only the
//! [`Change`]s, as a terminal does. Where a subscription begins or breaks makes no difference:
//! replay and join at any point give the same view as watching from the start.
//!
//! Invariants: an event at or below `seq` changes nothing; text is shown once, or taken back by
//! [`Change::Withdrawn`] before other text comes in its place.
//!
//! Receives events, progress and markers; hands out items, text in flight, calls, prompts and
//! who answered them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::event::{ContextSize, Event, EventBody, PlanEntry, Resolved, RetryCause};
use crate::id::{CallId, ItemId, PromptId, TurnId};
use crate::item::{Item, ItemBody, Marker as ItemMarker};
use crate::permission::{Prompt, Risk};
use crate::process::Process;
use crate::progress::{
    InFlight, InFlightItem, Marker, Progress, StreamMessage, Watchers, WatchingClient,
};
use crate::session::{Lease, QueueEntry, Session, Usage};
use crate::view::in_flight;
use crate::view::session;

mod change;
#[cfg(test)]
mod tests;

pub use self::change::Change;
use self::change::{difference, growth, is_empty, whole};

/// A call without a result yet.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenCall {
    /// The call.
    pub call_id: CallId,
    /// The assistant item it stands in.
    pub item_id: ItemId,
    /// The tool's name.
    pub name: String,
    /// The arguments: the model's, or a hook's.
    pub arguments: Value,
    /// One line for a person and the risk; absent until the tool started.
    pub started: Option<(String, Risk)>,
}

/// A wait before a request is tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryWait {
    /// The attempt that the wait leads to.
    pub attempt: u32,
    /// Attempts at most.
    pub max_attempts: u32,
    /// How long, from the event's time on.
    pub delay_ms: u64,
    /// Why.
    pub cause: RetryCause,
}

/// The turn that runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RunningTurn {
    /// The turn.
    pub turn_id: Option<TurnId>,
    /// The model, `provider/name`.
    pub model: String,
    /// The iteration and how many there may be.
    pub iteration: Option<(u32, u32)>,
    /// What it used so far.
    pub usage: Usage,
}

/// What a client shows of a session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct View {
    /// The last event that was seen.
    pub seq: u64,
    /// The session, once `session.created` or a join told it; with prompts and queue.
    pub session: Option<Session>,
    /// The complete items by their index.
    pub items: BTreeMap<u64, Item>,
    /// Text and output that no event holds yet.
    pub in_flight: InFlight,
    /// Calls without a result, in the order they were made.
    pub calls: Vec<OpenCall>,
    /// The turn that runs, as far as its events were seen.
    pub turn: Option<RunningTurn>,
    /// The wait before a request is tried again.
    pub retry: Option<RetryWait>,
    /// Who answered which prompt and how.
    pub answers: BTreeMap<PromptId, Resolved>,
    /// The plan of the model.
    pub plan: Vec<PlanEntry>,
    /// How full the window is.
    pub context: ContextSize,
    /// Warnings, code and message, in order.
    pub warnings: Vec<(String, String)>,
    /// Who watches, oneself included.
    pub watchers: Watchers,
    /// Another process runs the session; who, if it is known.
    pub detached: Option<Option<Lease>>,
    /// Why the store cannot be written.
    pub store_failed: Option<String>,
    /// Why nothing will follow.
    pub closed: Option<String>,
}

impl View {
    /// Takes in the next message; what to add to or take from a page.
    pub fn apply(&mut self, message: &StreamMessage) -> Vec<Change> {
        match message {
            StreamMessage::Event(event) => self.event(event),
            StreamMessage::Progress(progress) => self.progress(progress),
            StreamMessage::Marker(marker) => self.marker(marker),
        }
    }

    /// Takes note of an event that this client cannot read.
    pub fn pass_over(&mut self, seq: u64) {
        self.seq = self.seq.max(seq);
    }

    /// The open prompts, oldest first.
    pub fn prompts(&self) -> &[Prompt] {
        self.session.as_ref().map_or(&[], |session| &session.prompts)
    }

    /// The inputs that wait.
    pub fn queue(&self) -> &[QueueEntry] {
        self.session.as_ref().map_or(&[], |session| &session.queue)
    }

    /// The background commands that run, oldest first.
    pub fn processes(&self) -> &[Process] {
        self.session.as_ref().map_or(&[], |session| &session.processes)
    }

    /// The call of this id, while it is open.
    pub fn call(&self, call_id: &CallId) -> Option<&OpenCall> {
        self.calls.iter().find(|call| call.call_id == *call_id)
    }

    /// The watchers beside oneself, who is one of those named `own`: how many, and their names.
    pub fn other_watchers(&self, own: &str) -> (u64, Vec<&str>) {
        let others = |client: &&WatchingClient| client.count > u64::from(client.name == own);
        let clients = self.watchers.clients.iter().filter(others);
        (
            self.watchers.count.saturating_sub(1),
            clients.map(|client| client.name.as_str()).collect(),
        )
    }

    fn event(&mut self, event: &Event) -> Vec<Change> {
        if event.seq <= self.seq {
            return Vec::new();
        }
        self.seq = event.seq;
        self.store_failed = None;
        let changes = self.text_changes(&event.body);
        in_flight::settle(&mut self.in_flight, event);
        match (&mut self.session, &event.body) {
            (Some(session), _) => session::apply(session, event),
            (none, EventBody::SessionCreated { session, .. }) => {
                let mut session = Session::clone(session);
                session.head_seq = event.seq;
                session.updated_at = event.time;
                *none = Some(session);
            }
            _ => {}
        }
        self.fold(event);
        changes
    }

    /// What an event that completes or resets an item does to the text shown of it.
    fn text_changes(&self, body: &EventBody) -> Vec<Change> {
        let shown =
            |item_id: &ItemId| self.in_flight.item.as_ref().filter(|item| item.item_id == *item_id);
        match body {
            EventBody::MessageCompleted { item } => match &item.body {
                ItemBody::Assistant(answer) => {
                    growth(shown(&item.item_id), &whole(&item.item_id, answer))
                }
                _ => Vec::new(),
            },
            EventBody::MessageReset { item_id, .. } => {
                let shown = shown(item_id).filter(|item| !is_empty(item));
                shown.map(|_| Change::Withdrawn { item_id: item_id.clone() }).into_iter().collect()
            }
            _ => Vec::new(),
        }
    }

    fn fold(&mut self, event: &Event) {
        match &event.body {
            EventBody::TurnStarted { model, .. } => {
                self.turn = Some(RunningTurn {
                    turn_id: event.turn_id.clone(),
                    model: model.clone(),
                    iteration: None,
                    usage: Usage::default(),
                });
            }
            EventBody::IterationStarted { index, limit, .. } => {
                self.retry = None;
                if let Some(turn) = &mut self.turn {
                    turn.iteration = Some((*index, *limit));
                }
            }
            EventBody::ItemStarted { .. } => self.retry = None,
            EventBody::MessageCompleted { item } => self.completed(item),
            EventBody::MessageReset { discarded, .. } => {
                self.retry = None;
                self.calls.retain(|call| !discarded.contains(&call.call_id));
            }
            EventBody::ToolCalled { call_id, item_id, name, arguments } => {
                self.calls.push(OpenCall {
                    call_id: call_id.clone(),
                    item_id: item_id.clone(),
                    name: name.clone(),
                    arguments: arguments.clone(),
                    started: None,
                });
            }
            EventBody::ToolStarted { call_id, summary, risk, arguments } => {
                self.started(call_id, summary, *risk, arguments.as_ref());
            }
            EventBody::ToolCompleted { call_id, item, .. } => {
                self.calls.retain(|call| call.call_id != *call_id);
                self.completed(item);
            }
            EventBody::PermissionResolved(resolved) | EventBody::QuestionResolved(resolved) => {
                self.answers.insert(resolved.prompt_id.clone(), resolved.clone());
            }
            EventBody::UsageUpdated { turn: usage, context, .. } => {
                self.context = *context;
                if let Some(turn) = &mut self.turn {
                    turn.usage = *usage;
                }
            }
            EventBody::RetryScheduled { attempt, max_attempts, delay_ms, cause } => {
                self.retry = Some(RetryWait {
                    attempt: *attempt,
                    max_attempts: *max_attempts,
                    delay_ms: *delay_ms,
                    cause: cause.clone(),
                });
            }
            EventBody::PlanUpdated { entries } => self.plan.clone_from(entries),
            EventBody::SessionRolledBack { item_id, hidden, .. } => self.hide(item_id, hidden),
            EventBody::Warning { code, message } => {
                self.warnings.push((code.clone(), message.clone()));
            }
            body if body.is_terminal() => {
                self.turn = None;
                self.retry = None;
                self.calls.clear();
            }
            _ => {}
        }
    }

    fn completed(&mut self, item: &Item) {
        self.retry = None;
        if let ItemBody::Marker { marker: ItemMarker::Rollback { undo: Some(undone), .. } } =
            &item.body
        {
            for shown in self.items.values_mut() {
                if shown.hidden_by.as_ref() == Some(undone) {
                    shown.hidden_by = None;
                }
            }
        }
        self.items.insert(item.index, item.clone());
    }

    fn started(&mut self, id: &CallId, summary: &str, risk: Risk, arguments: Option<&Value>) {
        let Some(call) = self.calls.iter_mut().find(|call| call.call_id == *id) else { return };
        call.started = Some((summary.to_owned(), risk));
        if let Some(arguments) = arguments {
            call.arguments.clone_from(arguments);
        }
    }

    fn hide(&mut self, marker: &ItemId, hidden: &[ItemId]) {
        for item in self.items.values_mut().filter(|item| hidden.contains(&item.item_id)) {
            item.hidden_by = Some(marker.clone());
        }
    }

    fn progress(&mut self, progress: &Progress) -> Vec<Change> {
        self.retry = None;
        let key = |item: &InFlightItem| (item.item_id.clone(), item.attempt);
        let shown = self.in_flight.item.as_ref().filter(|item| !is_empty(item)).map(key);
        let added = in_flight::extend(&mut self.in_flight, progress);
        let (missed, text) = (added.missed, added.text.to_owned());
        let mut changes = Vec::new();
        if shown != self.in_flight.item.as_ref().map(key) {
            changes.extend(shown.map(|(item_id, _)| Change::Withdrawn { item_id }));
        }
        if !text.is_empty() {
            changes.push(match progress {
                Progress::MessageDelta { item_id, kind, .. } => {
                    Change::Text { item_id: item_id.clone(), kind: *kind, text }
                }
                Progress::ToolOutput { call_id, .. } => {
                    Change::Output { call_id: call_id.clone(), missed, text }
                }
            });
        }
        changes
    }

    fn marker(&mut self, marker: &Marker) -> Vec<Change> {
        match marker {
            Marker::Joined { head_seq, session, in_flight, prompts, queue, watchers } => {
                self.seq = self.seq.max(*head_seq);
                self.detached = None;
                self.watchers.clone_from(watchers);
                self.session = Some(Session {
                    prompts: prompts.clone(),
                    queue: queue.clone(),
                    ..Session::clone(session)
                });
                if in_flight.item.is_some() {
                    self.retry = None;
                }
                let before = std::mem::replace(&mut self.in_flight, in_flight.clone());
                difference(&before, in_flight)
            }
            Marker::Detached { holder, .. } => {
                self.detached = Some(holder.clone());
                let before = std::mem::take(&mut self.in_flight);
                difference(&before, &self.in_flight)
            }
            Marker::Watchers(watchers) => {
                self.watchers.clone_from(watchers);
                Vec::new()
            }
            Marker::StoreFailed { cause } => {
                self.store_failed = Some(cause.clone());
                Vec::new()
            }
            Marker::Closed { reason } => {
                self.closed = Some(reason.clone());
                Vec::new()
            }
        }
    }
}
