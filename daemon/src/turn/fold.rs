//! The fold: a machine is what its turn's events make of it.
//!
//! Every event the machine emits goes through [`Machine::apply`], and a restart applies the
//! recorded ones, so both arrive at the same state. Nothing that decides anything is kept
//! elsewhere; the text of a running stream is checkpointed beside the events.
//!
//! Receives events; hands them on as state.

use agentd_protocol::event::{Event, EventBody, Resolved, Role};
use agentd_protocol::id::{CallId, ItemId, SubmissionId};
use agentd_protocol::item::{Call, Item, ItemBody, Marker, Origin, Part, ToolStatus, parts_text};
use agentd_protocol::permission::{Prompt, Resolution, Risk};
use agentd_protocol::progress::InFlightItem;
use agentd_protocol::session::Usage;
use serde_json::Value;

use super::brakes::Stopwatch;
use super::calls::{Batch, Outcome, Stage, Traits};
use super::context::{CONTEXT_OVERFLOW, Context};
use super::duplicate::Guard;
use super::effect::{Outbox, Start};
use super::iteration::CUT_BY_LENGTH;
use super::stream::{Purpose, Stream};
use super::{Machine, Moment, Phase, text};

/// What a restart finds of a turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// The turn's events, in order.
    pub events: Vec<Event>,
    /// Text of the item that streamed, as far as it was checkpointed.
    pub in_flight: Option<InFlightItem>,
    /// Inputs that were steered into the turn and that no iteration took.
    pub steered: Vec<(SubmissionId, Vec<Part>)>,
    /// The session's model as it is configured now, with its window in tokens.
    pub next_model: Option<(String, u64)>,
}

impl Machine {
    /// A machine before its first input, [`super::Input::Begin`].
    pub fn new(start: Start, moment: &Moment) -> Self {
        Self {
            settings: start.settings,
            turn_id: start.turn_id,
            submission_id: start.submission_id,
            model: start.model,
            window: start.window,
            next_model: None,
            phase: Phase::Calls,
            batch: Batch::default(),
            guard: Guard::default(),
            limits: start.limits,
            mode: start.permission_mode,
            next_mode: start.permission_mode,
            iterations: 0,
            usage: Usage::default(),
            session_usage: start.session_usage,
            longest_answer: (0, 0.0),
            last_step: None,
            announced: None,
            refused_in_a_row: 0,
            asked_for_text: false,
            continued: 0,
            context: Context { compacts: start.compacts, ..Context::default() },
            rechecked: false,
            next_index: start.next_index,
            last_user_index: 0,
            last_assistant_index: 0,
            running: start.running,
            exited: start.exited,
            steered: Vec::new(),
            time: Stopwatch::start(moment.boot_ms),
            outbox: Outbox::default(),
        }
    }

    /// The machine that the record makes; its first input is [`super::Input::TakeUp`].
    pub fn restore(start: Start, found: Found, moment: &Moment) -> Self {
        let mut machine = Self::new(start, moment);
        let running = machine.running.clone();
        // Places were given from where the turn began.
        if let Some(first) = found.events.iter().find_map(|event| event.body.item()) {
            machine.next_index = first.index;
        }
        // The time that passed is in the events too; what nobody was there for does not count.
        let began_at = found.events.first().map_or(moment.now, |first| first.time);
        machine.time = Stopwatch::start(0);
        for event in &found.events {
            let since = event.time.unix_millis().saturating_sub(began_at.unix_millis());
            machine.time.tick(u64::try_from(since).unwrap_or(0));
            machine.apply(&event.body);
            machine.time.waits(machine.asks_people());
        }
        machine.time.go_on(moment.boot_ms);
        if let (Phase::Streaming(stream), Some(in_flight)) = (&mut machine.phase, found.in_flight) {
            stream.restore(in_flight);
        }
        machine.steered = found.steered;
        // What the turn started may have ended since; that is no event of the turn.
        machine.running = running;
        if let Some((model, window)) = found.next_model {
            machine.configure_model(model, window);
        }
        machine
    }

    /// Takes an event of this turn into account.
    pub(super) fn apply(&mut self, body: &EventBody) {
        match body {
            EventBody::IterationStarted { index, permission_mode, .. } => {
                self.mode = permission_mode.unwrap_or(self.next_mode);
                self.fold_iteration(*index);
            }
            EventBody::ItemStarted { item_id, role: Role::Marker, attempt } => {
                self.fold_summary(item_id, *attempt);
            }
            EventBody::ItemStarted { item_id, attempt, .. } => self.fold_booked(item_id, *attempt),
            EventBody::MessageCompleted { item } => self.fold_item(item),
            EventBody::MessageReset { .. } => self.fold_reset(),
            EventBody::RetryScheduled { .. } => self.fold_retry(),
            EventBody::ToolCalled { call_id, name, arguments, .. } => {
                self.fold_called(call_id, name, arguments);
            }
            EventBody::ToolStarted { call_id, summary, risk, arguments } => {
                self.fold_started(call_id, summary, *risk, arguments.as_ref());
            }
            EventBody::ToolCompleted { call_id, item, status, .. } => {
                self.fold_completed(call_id, item, *status);
            }
            EventBody::PermissionRequested { prompt } => self.fold_prompt(prompt),
            EventBody::PermissionResolved(resolved) => self.fold_resolved(resolved),
            EventBody::UsageUpdated { turn, session, .. } => self.fold_usage(turn, session),
            EventBody::ProcessStarted(process) => {
                self.running.insert(process.process_id.clone());
            }
            EventBody::Warning { code, .. } if code == CONTEXT_OVERFLOW => {
                self.context.overflows += 1;
                self.context.overflowing = true;
            }
            _ if body.is_terminal() => self.phase = Phase::Ended,
            // Facts that decide nothing here.
            _ => {}
        }
    }

    fn fold_iteration(&mut self, index: u32) {
        self.refused_in_a_row =
            if self.batch.is_all_duplicates() { self.refused_in_a_row + 1 } else { 0 };
        self.iterations = index;
        self.time.iteration();
        self.last_step = self.announced.take();
        self.context.fitted = false;
        self.batch = Batch::default();
    }

    fn fold_booked(&mut self, item_id: &ItemId, attempt: u32) {
        let index = match &self.phase {
            Phase::RetryWait(stream) | Phase::Streaming(stream) if stream.item_id == *item_id => {
                stream.index
            }
            _ => {
                self.next_index += 1;
                self.next_index - 1
            }
        };
        // A compaction may have come between the notice and its request.
        self.last_step = self.announced.take().or(self.last_step);
        self.context.overflowing = false;
        self.phase = Phase::Streaming(Stream::new(item_id.clone(), index, attempt));
    }

    /// A marker takes its place when it is whole. Another one of them: the first was too long.
    fn fold_summary(&mut self, item_id: &ItemId, attempt: u32) {
        let narrowed = match &self.phase {
            Phase::RetryWait(stream) | Phase::Streaming(stream) => match stream.purpose {
                Purpose::Summary { narrowed, .. } if stream.item_id == *item_id => narrowed,
                Purpose::Summary { narrowed, .. } => narrowed + 1,
                Purpose::Answer => 0,
            },
            Phase::Calls | Phase::Stopping { .. } | Phase::Ended => 0,
        };
        self.phase = Phase::Streaming(Stream::summary(item_id.clone(), attempt, narrowed));
    }

    fn fold_item(&mut self, item: &Item) {
        self.next_index = self.next_index.max(item.index + 1);
        match &item.body {
            ItemBody::User { content, origin, .. } => {
                self.last_user_index = item.index;
                if *origin == Origin::Agentd {
                    self.fold_note(&parts_text(content));
                }
                if let ItemBody::User { submission_id: Some(id), origin: Origin::Steer, .. } =
                    &item.body
                {
                    self.steered.retain(|(steered, _)| steered != id);
                }
            }
            ItemBody::Assistant(answer) => {
                self.last_assistant_index = item.index;
                if !matches!(self.phase, Phase::Stopping { .. }) {
                    self.batch.settle(&answer.calls);
                    if answer.finish_reason.as_deref() == Some(CUT_BY_LENGTH) {
                        self.batch.cut_last();
                    }
                    self.phase = Phase::Calls;
                }
            }
            ItemBody::Marker { marker } => self.fold_marker(marker),
            ItemBody::System { .. } | ItemBody::Tool(_) => {}
        }
    }

    /// Results that the model reads no longer may be asked for again.
    fn fold_marker(&mut self, marker: &Marker) {
        match marker {
            Marker::Compaction { .. } | Marker::CompactionFailed { .. } => {
                self.context.fitted = true;
                self.phase = Phase::Calls;
            }
            Marker::Pruning { .. } | Marker::Overflow { .. } | Marker::Rollback { .. } => {}
        }
        if matches!(marker, Marker::Compaction { .. } | Marker::Pruning { .. }) {
            self.guard = Guard::default();
        }
    }

    fn fold_note(&mut self, note: &str) {
        match note {
            text::NO_TEXT => self.asked_for_text = true,
            text::CONTINUE => self.continued += 1,
            text::RECHECK => self.rechecked = true,
            _ => match text::changed_model(note) {
                Some(model) => model.clone_into(&mut self.model),
                None => self.announced = text::announced_limit(note),
            },
        }
    }

    fn fold_reset(&mut self) {
        if let Phase::Streaming(stream) = &mut self.phase {
            *stream = stream.emptied();
            self.batch = Batch::default();
        }
    }

    fn fold_retry(&mut self) {
        if let Phase::Streaming(stream) = &self.phase {
            self.phase = Phase::RetryWait(stream.clone());
        }
    }

    fn fold_called(&mut self, call_id: &CallId, name: &str, arguments: &Value) {
        if self.batch.find(call_id).is_none() {
            self.batch.push(Call {
                call_id: call_id.clone(),
                provider_call_id: None,
                name: name.to_owned(),
                arguments: arguments.clone(),
            });
        }
    }

    fn fold_started(
        &mut self,
        call_id: &CallId,
        summary: &str,
        risk: Risk,
        arguments: Option<&Value>,
    ) {
        if let Some(state) = self.batch.find_mut(call_id) {
            if let Some(arguments) = arguments {
                state.call.arguments = arguments.clone();
            }
            state.traits.get_or_insert_with(|| known(summary, risk)).risk = risk;
            state.stage = Stage::Started;
            state.started = true;
        }
    }

    fn fold_completed(&mut self, call_id: &CallId, item: &Item, status: ToolStatus) {
        self.next_index = self.next_index.max(item.index + 1);
        if let Some(state) = self.batch.find_mut(call_id) {
            state.stage = Stage::Recorded(status);
            if state.started {
                let (call, risk) = (state.call.clone(), state.risk());
                self.guard.note(&call, risk, status);
            }
        }
    }

    fn fold_prompt(&mut self, prompt: &Prompt) {
        if let Some(state) = self.batch.find_mut(&prompt.call_id) {
            state.traits.get_or_insert_with(|| known(&prompt.summary, prompt.risk));
            state.stage = Stage::Prompted(prompt.prompt_id.clone());
        }
    }

    fn fold_resolved(&mut self, resolved: &Resolved) {
        let Some(state) = self.batch.by_prompt(&resolved.prompt_id) else { return };
        state.stage = match resolved.decision {
            Resolution::Allow => Stage::Granted,
            Resolution::Deny => not_allowed(&text::denied(resolved.message.as_deref())),
            Resolution::Expired => not_allowed(text::EXPIRED),
            Resolution::Cancelled => Stage::Finished(Box::new(Outcome::not_run(
                ToolStatus::Interrupted,
                text::INTERRUPTED_BEFORE_START,
            ))),
        };
    }

    fn fold_usage(&mut self, turn: &Usage, session: &Usage) {
        let tokens = turn.billable_tokens().saturating_sub(self.usage.billable_tokens());
        let cost = turn.cost_usd.unwrap_or(0.0) - self.usage.cost_usd.unwrap_or(0.0);
        self.longest_answer = (self.longest_answer.0.max(tokens), self.longest_answer.1.max(cost));
        self.usage = *turn;
        self.session_usage = *session;
    }
}

/// What the record alone tells of a call.
fn known(summary: &str, risk: Risk) -> Traits {
    Traits { summary: summary.to_owned(), risk, parallel: false, polls: false }
}

fn not_allowed(text: &str) -> Stage {
    Stage::Finished(Box::new(Outcome::not_run(ToolStatus::Denied, text)))
}
