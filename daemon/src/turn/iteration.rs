//! Iterations: a request, its answer, its calls, and what comes after them.
//!
//! Receives the machine's state after an input; emits what follows from it.

use agentd_protocol::event::{
    ContextSize, EventBody, Limit, LimitScope, Role, TurnError, TurnErrorCode,
};
use agentd_protocol::id::{CallId, ItemId};
use agentd_protocol::item::{
    AssistantItem, AssistantStatus, Call, Item, ItemBody, Origin, Part, ToolItem, ToolStatus,
};
use agentd_protocol::progress::DeltaKind;
use agentd_protocol::session::Usage;
use serde_json::Value;

use super::brakes::{self, Totals, Verdict};
use super::calls::{Outcome, Stage};
use super::duplicate::Key;
use super::effect::{Action, Opening, Record};
use super::stream::Stream;
use super::{Machine, Moment, Phase, text};

/// Iterations in a row whose calls were all refused, after which a turn makes no progress.
const MAX_REFUSED_IN_A_ROW: u32 = 3;

/// How often an answer that the output limit cut is gone on with in a turn.
const MAX_CONTINUATIONS: u32 = 3;

/// The word by which providers say that the output limit cut an answer.
pub(super) const CUT_BY_LENGTH: &str = "length";

impl Machine {
    pub(super) fn begin(&mut self, opening: Opening, moment: &mut Moment) {
        self.emit(EventBody::TurnStarted {
            submission_id: self.submission_id.clone(),
            model: self.model.clone(),
            limits: self.limits,
        });
        if let Some(content) = opening.system {
            self.record_item(ItemBody::System { content }, moment);
        }
        let submission_id = (opening.origin == Origin::User).then(|| self.submission_id.clone());
        let content = opening.input;
        let user = ItemBody::User { content, origin: opening.origin, submission_id };
        self.record_item(user, moment);
        self.next_iteration(moment);
    }

    fn record_item(&mut self, body: ItemBody, moment: &mut Moment) {
        let item_id = moment.item_id();
        self.record_item_as(item_id, body, moment);
    }

    pub(super) fn record_item_as(&mut self, item_id: ItemId, body: ItemBody, moment: &Moment) {
        self.record_item_at(item_id, self.next_index, body, moment);
    }

    /// Records an item in the place that was booked for it.
    pub(super) fn record_item_at(
        &mut self,
        item_id: ItemId,
        index: u64,
        body: ItemBody,
        moment: &Moment,
    ) {
        let item = Item {
            item_id,
            index,
            turn_id: self.turn_id.clone(),
            created_at: moment.now,
            hidden_by: None,
            body,
        };
        self.emit(EventBody::MessageCompleted { item: Box::new(item) });
    }

    pub(super) fn note(&mut self, note: impl Into<String>, moment: &mut Moment) {
        let content = vec![Part::text(note)];
        let body = ItemBody::User { content, origin: Origin::Agentd, submission_id: None };
        self.record_item(body, moment);
    }

    /// The next request, if the brakes let it through.
    fn next_iteration(&mut self, moment: &mut Moment) {
        match brakes::before_request(&self.limits, &self.brake_totals()) {
            Verdict::Stop(limit, scope) => return self.exhaust(limit, scope),
            Verdict::Go => self.take_in(moment),
            Verdict::Last(limit, scope) => {
                self.take_in(moment);
                self.note(text::last_step_notice(limit, scope), moment);
            }
        }
        self.emit(EventBody::IterationStarted {
            index: self.iterations + 1,
            limit: self.limits.max_iterations.unwrap_or(brakes::DEFAULT_MAX_ITERATIONS),
            permission_mode: Some(self.next_mode),
        });
        self.book(moment.item_id(), 1);
    }

    pub(super) fn brake_totals(&self) -> Totals {
        Totals {
            iterations: self.iterations,
            turn: self.usage,
            session: self.session_usage,
            longest_answer: self.longest_answer,
            active_ms: self.time.active_ms(),
            longest_ms: self.time.longest_ms(),
        }
    }

    pub(super) fn book(&mut self, item_id: ItemId, attempt: u32) {
        let role = Role::Assistant;
        self.emit(EventBody::ItemStarted { item_id: item_id.clone(), role, attempt });
        self.act(Action::Request { item_id, attempt, fit: !self.context.fitted });
    }

    /// What came for the next iteration: ends of background commands, inputs, and another model.
    fn take_in(&mut self, moment: &mut Moment) {
        if let Some(note) = text::exits_note(&std::mem::take(&mut self.exited)) {
            self.note(note, moment);
        }
        self.drain_steered(moment);
        if let Some((model, window)) = self.next_model.take() {
            self.window = window;
            self.note(text::model_changed(&model), moment);
        }
    }

    fn drain_steered(&mut self, moment: &mut Moment) {
        for (submission_id, content) in std::mem::take(&mut self.steered) {
            let body = ItemBody::User {
                content,
                origin: Origin::Steer,
                submission_id: Some(submission_id.clone()),
            };
            let item_id = moment.item_id();
            self.record_item_as(item_id.clone(), body, moment);
            self.emit(EventBody::InputSteered { submission_id, item_id });
        }
    }

    pub(super) fn delta(&mut self, kind: DeltaKind, text: String) {
        if text.is_empty() {
            return;
        }
        if let Phase::Streaming(stream) = &mut self.phase
            && let Some(progress) = stream.extend(kind, text)
        {
            self.act(Action::Progress(progress));
        }
    }

    pub(super) fn signed(&mut self, signature: String) {
        if let Phase::Streaming(stream) = &mut self.phase {
            stream.sign(signature);
        }
    }

    /// A call is complete: on record with the next commit, asked about at once.
    pub(super) fn called(
        &mut self,
        provider_call_id: Option<String>,
        name: String,
        arguments: Value,
        moment: &mut Moment,
    ) {
        let Phase::Streaming(stream) = &self.phase else { return };
        if stream.is_summary() {
            // It was told not to; what it wrote besides counts.
            return;
        }
        let call_id = moment.call_id();
        let item_id = stream.item_id.clone();
        let provider_call_id = provider_call_id.filter(|id| !id.is_empty());
        self.batch.push(Call {
            call_id: call_id.clone(),
            provider_call_id,
            name: name.clone(),
            arguments: arguments.clone(),
        });
        let called = EventBody::ToolCalled { call_id: call_id.clone(), item_id, name, arguments };
        self.outbox.records.push(Record::Event(called));
        self.act(Action::Prepare { call_id });
    }

    pub(super) fn streamed_usage(&mut self, usage: Usage) {
        if let Phase::Streaming(stream) = &mut self.phase {
            stream.usage = usage;
        }
    }

    /// The answer is whole: it is recorded with its calls, and its calls are next. The finish
    /// reason decides nothing but whether the last call may be trusted.
    pub(super) fn stream_ended(
        &mut self,
        finish_reason: Option<String>,
        continues: bool,
        moment: &mut Moment,
    ) {
        let Phase::Streaming(stream) = &self.phase else { return };
        if stream.is_summary() {
            return self.summarized(moment);
        }
        let stream = stream.clone();
        let cut = finish_reason.as_deref() == Some(CUT_BY_LENGTH);
        let calls: Vec<Call> = self.batch.calls().cloned().collect();
        if cut && let Some(last) = calls.last() {
            self.act(Action::Discard { calls: vec![last.call_id.clone()] });
        }
        let model = self.model.clone();
        let answer = stream.item(model, calls, AssistantStatus::Complete, finish_reason);
        self.complete_answer(&stream, answer, moment);
        if self.batch.is_empty() {
            self.answered_plainly(stream.has_text(), continues, cut, moment);
        } else if self.last_step.is_some() {
            self.batch.close_open(ToolStatus::NotRun, text::LAST_STEP);
        }
    }

    /// Records the item that was booked for the stream, and what it used.
    pub(super) fn complete_answer(
        &mut self,
        stream: &Stream,
        answer: AssistantItem,
        moment: &Moment,
    ) {
        let (usage, context_tokens) = (answer.usage, stream.context_tokens());
        let item_id = stream.item_id.clone();
        self.record_item_at(item_id, stream.index, ItemBody::Assistant(answer), moment);
        self.add_usage(usage, context_tokens);
    }

    pub(super) fn add_usage(&mut self, usage: Usage, context_tokens: u64) {
        let mut turn = self.usage;
        turn.add(&usage);
        let mut session = self.session_usage;
        session.add(&usage);
        let context = ContextSize { tokens: context_tokens, window: self.window };
        self.emit(EventBody::UsageUpdated { turn, session, context });
    }

    /// An answer without calls: the turn is over, unless something says otherwise.
    fn answered_plainly(
        &mut self,
        has_text: bool,
        continues: bool,
        cut: bool,
        moment: &mut Moment,
    ) {
        if !self.steered.is_empty() && self.last_step.is_none() {
            return self.next_iteration(moment);
        }
        if continues && self.last_step.is_none() {
            return self.next_iteration(moment);
        }
        if cut {
            return self.answer_cut(moment);
        }
        if !has_text && !self.asked_for_text && self.last_step.is_none() {
            self.note(text::NO_TEXT, moment);
            return self.next_iteration(moment);
        }
        if !has_text {
            self.emit(EventBody::Warning {
                code: "no_text".to_owned(),
                message: "the model ended its turn without a word".to_owned(),
            });
        }
        self.complete(moment);
    }

    /// The output limit cut an answer without calls: it goes on, a few times.
    fn answer_cut(&mut self, moment: &mut Moment) {
        if self.last_step.is_none() && self.continued < MAX_CONTINUATIONS {
            self.note(text::CONTINUE, moment);
            return self.next_iteration(moment);
        }
        self.emit(EventBody::Warning {
            code: "output_limit".to_owned(),
            message: "the output limit cut the answer off, and it is not whole: ask for the rest, \
                      or raise `max_output_tokens` of the model"
                .to_owned(),
        });
        self.complete(moment);
    }

    /// Completes the turn if the record fits together.
    fn complete(&mut self, moment: &mut Moment) {
        let fits = self.last_assistant_index > self.last_user_index && self.batch.is_recorded();
        if fits {
            let totals = self.totals();
            return self.end(EventBody::TurnCompleted { totals });
        }
        if self.rechecked {
            let error = TurnError {
                code: TurnErrorCode::Inconsistent,
                message: "the turn's record does not end with an answer to its last input"
                    .to_owned(),
                retryable: true,
                status: None,
                provider_code: None,
                attempts: 1,
                retry_at: None,
            };
            let totals = self.totals();
            return self.end(EventBody::TurnFailed { error, totals });
        }
        self.note(text::RECHECK, moment);
        self.next_iteration(moment);
    }

    /// Does whatever follows by itself from where the turn is: records results in order, lets
    /// calls go, starts what was granted, and goes on when all is done.
    ///
    /// While an answer streams, safe reads are let go; they start with its next checkpoint, so
    /// that they cost no commit, and none at all where the answer is whole before.
    pub(super) fn advance(&mut self, moment: &mut Moment) {
        loop {
            match self.phase {
                Phase::Streaming(_) if self.last_step.is_none() => return self.admit_early(),
                Phase::Streaming(_) | Phase::RetryWait(_) | Phase::Ended => return,
                Phase::Stopping { .. } => return self.stop(moment),
                Phase::Calls => {}
            }
            self.record_results(moment);
            if self.batch.is_recorded() {
                self.batch_done(moment);
                continue;
            }
            self.start_granted();
            let Some(call_id) = self.batch.next_admitted(self.settings.max_parallel, false) else {
                return;
            };
            self.admit(&call_id, false);
        }
    }

    fn admit_early(&mut self) {
        while let Some(call_id) = self.batch.next_admitted(self.settings.max_parallel, true) {
            self.admit(&call_id, true);
        }
    }

    fn admit(&mut self, call_id: &CallId, early: bool) {
        let rule = self.settings.duplicates;
        let moving = !self.running.is_empty();
        let Some(state) = self.batch.find_mut(call_id) else { return };
        let polls = state.traits.as_ref().is_some_and(|traits| traits.polls);
        if !polls && self.guard.refuses(rule, &Key::of(&state.call), moving) {
            let outcome = Outcome::not_run(ToolStatus::Duplicate, text::DUPLICATE);
            state.stage = Stage::Finished(Box::new(outcome));
            return;
        }
        state.stage = Stage::Judging;
        self.act(Action::Judge { call_id: call_id.clone(), early });
    }

    pub(super) fn start_granted(&mut self) {
        let granted: Vec<_> = self
            .batch
            .states()
            .filter(|state| state.stage == Stage::Granted)
            .filter_map(|state| {
                let summary = state.traits.as_ref()?.summary.clone();
                Some((state.call.call_id.clone(), summary, state.risk()))
            })
            .collect();
        for (call_id, summary, risk) in granted {
            let run = Action::Run { call_id: call_id.clone() };
            match self.batch.find_mut(&call_id).filter(|state| state.started) {
                // A restart runs it again; its start is on record.
                Some(state) => state.stage = Stage::Started,
                None => {
                    self.emit(EventBody::ToolStarted { call_id, summary, risk, arguments: None });
                }
            }
            self.act(run);
        }
    }

    pub(super) fn record_results(&mut self, moment: &mut Moment) {
        while let Some(call_id) = self.batch.next_result() {
            let Some(state) = self.batch.find_mut(&call_id) else { return };
            let Stage::Finished(outcome) = std::mem::replace(&mut state.stage, Stage::Ready) else {
                return;
            };
            let name = state.call.name.clone();
            self.record_result(call_id, name, *outcome, moment);
        }
    }

    fn record_result(
        &mut self,
        call_id: CallId,
        name: String,
        outcome: Outcome,
        moment: &mut Moment,
    ) {
        let Outcome { status, content, full_output, changes, seen, background, duration_ms } =
            outcome;
        let item = Item {
            item_id: moment.item_id(),
            index: self.next_index,
            turn_id: self.turn_id.clone(),
            created_at: moment.now,
            hidden_by: None,
            body: ItemBody::Tool(ToolItem {
                call_id: call_id.clone(),
                name,
                status,
                content,
                full_output,
            }),
        };
        if let Some(process) = background {
            self.emit(EventBody::ProcessStarted(process));
        }
        let changes = (!changes.is_empty()).then_some(changes);
        let item = Box::new(item);
        self.emit(EventBody::ToolCompleted { call_id, item, status, duration_ms, changes });
        for (path, sha256) in seen {
            self.outbox.records.push(Record::FileSeen { path, sha256 });
        }
    }

    fn batch_done(&mut self, moment: &mut Moment) {
        if let Some((limit, scope)) = self.last_step {
            return self.exhaust(limit, scope);
        }
        // The fold counts this iteration when the next one starts.
        if self.batch.is_all_duplicates() && self.refused_in_a_row + 1 >= MAX_REFUSED_IN_A_ROW {
            return self.exhaust(Limit::NoProgress, LimitScope::Turn);
        }
        self.next_iteration(moment);
    }
}
