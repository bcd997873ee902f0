//! The view grows too large: results are pruned, a summary is asked for, the request is sent again.
//!
//! The caller knows how large the view is and what could go; when is decided here. A request that
//! does not fit, by our measure or by the provider's word, is taken back, so that its place in the
//! record is empty; then room is made, and it is sent anew in the same iteration. The summary is a
//! model request like any other: booked, retried, cancelled and paid for, but no iteration and no
//! item before it is whole.
//!
//! Bounds: by our measure one compaction an iteration, by the provider's word two a turn; a
//! summary whose own request is too long is asked for three times more, each time of half as much.
//!
//! Receives the caller's measures and plans; emits markers.

use agentd_protocol::event::{EventBody, Role, TurnError, TurnErrorCode};
use agentd_protocol::id::ItemId;
use agentd_protocol::item::{AssistantStatus, ItemBody, Marker};

use super::brakes::{self, Verdict};
use super::effect::Action;
use super::stream::{Purpose, Stream};
use super::{Ending, Machine, Moment, Phase, text};

/// Compactions in a row that may fail or be of no use before automatic ones are off.
pub const MAX_FAILED_COMPACTIONS: u32 = 3;

/// How often the provider may say in a turn that a request is too long.
const MAX_OVERFLOWS: u32 = 2;

/// How often the request for a summary is narrowed.
const MAX_NARROWED: u32 = 3;

/// A compaction is of use if it frees this part of the window.
const USEFUL_PART: u64 = 10;

/// The warning that the provider said so.
pub(super) const CONTEXT_OVERFLOW: &str = "context_overflow";

/// What a turn knows of its view.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Context {
    /// The turn does nothing but compact.
    pub(super) compacts: bool,
    /// How often the provider said that a request was too long.
    pub(super) overflows: u32,
    /// It said so of the request that is to be sent next.
    pub(super) overflowing: bool,
    /// A compaction was tried in this iteration: whatever its size, the request is sent.
    pub(super) fitted: bool,
}

/// A view that is too large.
#[derive(Debug, Clone, PartialEq)]
pub struct Full {
    /// Its size in tokens.
    pub tokens: u64,
    /// Results that can go, if that is enough for now; else a summary is asked for.
    pub pruning: Option<Pruning>,
    /// The provider's refusal; absent where the request was not sent.
    pub overflow: Option<Overflow>,
}

/// The provider's word that a request was too long.
#[derive(Debug, Clone, PartialEq)]
pub struct Overflow {
    /// It.
    pub error: TurnError,
    /// Tokens of the request, by our measure.
    pub asked: u64,
    /// The model's window in tokens, where the provider said it.
    pub window: Option<u64>,
}

/// Results that can go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pruning {
    /// The tool items.
    pub items: Vec<ItemId>,
    /// What the model reads in their place.
    pub text: String,
    /// Tokens that this frees.
    pub freed: u64,
}

/// What the summary that is being written will replace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The last item of it.
    pub until: ItemId,
    /// User items that stay.
    pub kept: Vec<ItemId>,
    /// Files that are named whatever the model writes.
    pub files: String,
    /// The view's size before, in tokens.
    pub tokens: u64,
    /// Tokens of all that stays beside the summary.
    pub rest: u64,
    /// Compactions in a row that failed before this one.
    pub failed: u32,
}

impl Machine {
    /// A turn that does nothing but compact.
    pub(super) fn begin_compaction(&mut self, moment: &mut Moment) {
        self.emit(EventBody::TurnStarted {
            submission_id: self.submission_id.clone(),
            model: self.model.clone(),
            limits: self.limits,
        });
        self.compact(moment);
    }

    /// The request goes out. `fixed` is what system and tools take of the session's first one.
    pub(super) fn measured(&mut self, tokens: u64, fixed: Option<u64>) {
        let Phase::Streaming(stream) = &mut self.phase else { return };
        if stream.is_summary() {
            return;
        }
        stream.asked_tokens = tokens;
        let window = self.window;
        if let Some(fixed) = fixed.filter(|fixed| window > 0 && fixed.saturating_mul(2) > window) {
            self.emit(EventBody::Warning {
                code: "small_window".to_owned(),
                message: format!(
                    "system message and tools take about {fixed} of the model's {window} tokens: \
                     little is left for the conversation; use a model with a larger window"
                ),
            });
        }
    }

    /// The view does not fit: the request is taken back and room is made.
    pub(super) fn view_full(&mut self, full: Full, moment: &mut Moment) {
        let Phase::Streaming(Stream { purpose: Purpose::Answer, .. }) = self.phase else { return };
        let Full { tokens, pruning, overflow } = full;
        if let Some(Overflow { error, .. }) = &overflow
            && self.context.overflows >= MAX_OVERFLOWS
        {
            return self.cut_off(Ending::Failed(error.clone()));
        }
        self.take_back(tokens, moment);
        if let Some(Overflow { error, asked, window }) = overflow {
            let marker = Marker::Overflow { model: self.model.clone(), tokens: asked, window };
            self.record_item_as(moment.item_id(), ItemBody::Marker { marker }, moment);
            let message = format!("{}; the conversation is made shorter", error.message);
            self.emit(EventBody::Warning { code: CONTEXT_OVERFLOW.to_owned(), message });
        }
        match pruning {
            Some(pruning) => self.prune(pruning, tokens, moment),
            None => self.compact(moment),
        }
    }

    /// Nothing of the running attempt is to be read: its item stays empty.
    fn take_back(&mut self, tokens: u64, moment: &mut Moment) {
        let Phase::Streaming(stream) = &self.phase else { return };
        let (item_id, attempt, usage) = (stream.item_id.clone(), stream.attempt, stream.usage);
        self.reset(item_id, attempt);
        let Phase::Streaming(stream) = &self.phase else { return };
        let mut stream = stream.clone();
        (stream.usage, stream.asked_tokens) = (usage, tokens);
        let answer = stream.item(self.model.clone(), Vec::new(), AssistantStatus::Partial, None);
        self.complete_answer(&stream, answer, moment);
    }

    fn prune(&mut self, pruning: Pruning, tokens: u64, moment: &mut Moment) {
        let Pruning { items, text, freed } = pruning;
        let item_id = moment.item_id();
        let marker = Marker::Pruning { items, text };
        self.record_item_as(item_id.clone(), ItemBody::Marker { marker }, moment);
        let tokens_after = tokens.saturating_sub(freed);
        self.emit(EventBody::ContextPruned { item_id, tokens_before: tokens, tokens_after });
        self.ask_again(moment);
    }

    fn compact(&mut self, moment: &mut Moment) {
        self.ask_for_summary(moment.item_id(), 1);
    }

    /// Asks for a summary, if the budget has room for it. It is no iteration.
    pub(super) fn ask_for_summary(&mut self, item_id: ItemId, attempt: u32) {
        let totals = brakes::Totals { iterations: 0, ..self.brake_totals() };
        if let Verdict::Stop(limit, scope) = brakes::before_request(&self.limits, &totals) {
            return self.exhaust(limit, scope);
        }
        self.emit(EventBody::ItemStarted { item_id, role: Role::Marker, attempt });
        if let Phase::Streaming(Stream { purpose: Purpose::Summary { narrowed, .. }, .. }) =
            self.phase
        {
            // The whole view and an instruction cannot fit where the view alone did not.
            let narrowed = narrowed + u32::from(self.context.overflowing);
            self.act(Action::Summarize { attempt, narrowed });
        }
    }

    /// The request for the summary goes out; this is what it will replace.
    pub(super) fn planned(&mut self, planned: Cut) {
        if let Phase::Streaming(Stream { purpose: Purpose::Summary { cut, .. }, .. }) =
            &mut self.phase
        {
            *cut = Some(Box::new(planned));
        }
    }

    /// There is nothing that a summary could replace.
    pub(super) fn nothing_to_compact(&mut self, moment: &mut Moment) {
        let Phase::Streaming(Stream { purpose: Purpose::Summary { .. }, .. }) = self.phase else {
            return;
        };
        if !self.context.compacts {
            let code = TurnErrorCode::ContextOverflow;
            return self.compaction_failed(error(code, text::NOTHING_TO_COMPACT), moment);
        }
        self.emit(EventBody::Warning {
            code: "nothing_to_compact".to_owned(),
            message: text::NOTHING_TO_COMPACT.to_owned(),
        });
        let totals = self.totals();
        self.end(EventBody::TurnCompleted { totals });
    }

    /// The summary is whole.
    pub(super) fn summarized(&mut self, moment: &mut Moment) {
        let Phase::Streaming(stream) = &self.phase else { return };
        let Purpose::Summary { cut, .. } = &stream.purpose else { return };
        let (cut, stream) = (cut.clone(), stream.clone());
        let said = stream.text();
        let Some(cut) = cut.filter(|_| !said.trim().is_empty()) else {
            let code = TurnErrorCode::BadResponse;
            return self.compaction_failed(error(code, text::NO_SUMMARY), moment);
        };
        let summary = text::summary(said.trim(), &cut.files, !self.context.compacts);
        let tokens_after = cut.rest + text::tokens(summary.len());
        let freed = cut.tokens.saturating_sub(tokens_after);
        let window = if self.window == 0 { cut.tokens } else { self.window };
        let useless = !self.context.compacts && freed.saturating_mul(USEFUL_PART) < window;
        self.add_usage(stream.usage, stream.context_tokens());
        let Cut { until, kept, tokens, failed, .. } = *cut;
        let item_id = stream.item_id;
        let marker = Marker::Compaction { until, summary, kept, useless };
        self.record_item_as(item_id.clone(), ItemBody::Marker { marker }, moment);
        self.emit(EventBody::ContextCompacted { item_id, tokens_before: tokens, tokens_after });
        if useless {
            self.count_failure(failed);
        }
        if self.context.compacts {
            let totals = self.totals();
            return self.end(EventBody::TurnCompleted { totals });
        }
        self.ask_again(moment);
    }

    /// The request for the summary was refused or broke off for good.
    pub(super) fn summary_broken(&mut self, error: TurnError, moment: &mut Moment) {
        let Phase::Streaming(stream) = &self.phase else { return };
        let Purpose::Summary { narrowed, .. } = stream.purpose else { return };
        if error.code != TurnErrorCode::ContextOverflow || narrowed >= MAX_NARROWED {
            return self.compaction_failed(error, moment);
        }
        let (item_id, attempt) = (stream.item_id.clone(), stream.attempt);
        self.add_broken_usage();
        self.reset(item_id, attempt);
        self.ask_for_summary(moment.item_id(), 1);
    }

    /// The view stays as it was. Where the request may fit all the same, it is sent.
    fn compaction_failed(&mut self, error: TurnError, moment: &mut Moment) {
        if self.context.compacts {
            return self.cut_off(Ending::Failed(error));
        }
        let Phase::Streaming(stream) = &self.phase else { return };
        let item_id = stream.item_id.clone();
        let failed = match &stream.purpose {
            Purpose::Summary { cut: Some(cut), .. } => cut.failed,
            Purpose::Summary { cut: None, .. } | Purpose::Answer => 0,
        };
        self.add_broken_usage();
        let message = format!("the conversation could not be compacted: {}", error.message);
        let marker = Marker::CompactionFailed { message: message.clone() };
        self.record_item_as(item_id, ItemBody::Marker { marker }, moment);
        self.emit(EventBody::Warning { code: "compaction_failed".to_owned(), message });
        self.count_failure(failed);
        if self.context.overflowing {
            return self.cut_off(Ending::Failed(error));
        }
        self.ask_again(moment);
    }

    fn count_failure(&mut self, failed_before: u32) {
        if failed_before + 1 == MAX_FAILED_COMPACTIONS {
            self.emit(EventBody::Warning {
                code: "compaction_off".to_owned(),
                message: text::compaction_off(MAX_FAILED_COMPACTIONS),
            });
        }
    }

    /// What a request that came to nothing reported, was paid for.
    pub(super) fn add_broken_usage(&mut self) {
        let Phase::Streaming(stream) = &self.phase else { return };
        let (usage, tokens) = (stream.usage, stream.context_tokens());
        if usage != agentd_protocol::session::Usage::default() {
            self.add_usage(usage, tokens);
        }
    }

    /// The iteration's request once more, under an item of its own, if the budget still has room.
    fn ask_again(&mut self, moment: &mut Moment) {
        match self.before_another() {
            Verdict::Stop(limit, scope) => return self.exhaust(limit, scope),
            Verdict::Last(limit, scope) => {
                self.note(text::last_step_notice(limit, scope), moment);
            }
            Verdict::Go => {}
        }
        self.book(moment.item_id(), 1);
    }
}

fn error(code: TurnErrorCode, message: &str) -> TurnError {
    TurnError {
        code,
        message: message.to_owned(),
        retryable: false,
        status: None,
        provider_code: None,
        attempts: 1,
        retry_at: None,
    }
}
