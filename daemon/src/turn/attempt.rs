//! Attempts: a request that broke off is taken back and tried again, if the brakes let it.
//!
//! An attempt costs money and time as a request of its own does, so the limits are looked at before
//! each. One that does not fit any more leaves its booked item empty.
//!
//! Receives broken streams and the end of waits; emits resets, waits and the next attempt.

use agentd_protocol::event::{EventBody, TurnError};
use agentd_protocol::id::ItemId;
use agentd_protocol::item::{AssistantStatus, ItemBody};

use super::brakes::{self, Totals, Verdict};
use super::effect::{Action, Retry};
use super::{Ending, Machine, Moment, Phase, text};

impl Machine {
    pub(super) fn stream_broken(
        &mut self,
        error: TurnError,
        retry: Option<Retry>,
        moment: &mut Moment,
    ) {
        let Phase::Streaming(stream) = &self.phase else { return };
        let retry = match retry {
            Some(retry) => retry,
            None if stream.is_summary() => return self.summary_broken(error, moment),
            None => return self.cut_off(Ending::Failed(error)),
        };
        let (item_id, attempt) = (stream.item_id.clone(), stream.attempt);
        self.add_broken_usage();
        // Also where only the booked item was recorded: a watcher has to know which attempt counts.
        self.reset(item_id, attempt);
        self.emit(EventBody::RetryScheduled {
            attempt: attempt + 1,
            max_attempts: retry.max_attempts,
            delay_ms: retry.delay_ms,
            cause: retry.cause,
        });
        self.act(Action::WaitRetry { delay_ms: retry.delay_ms });
    }

    /// Takes an attempt back. What its calls that started early come to is thrown away.
    pub(super) fn reset(&mut self, item_id: ItemId, attempt: u32) {
        let discarded: Vec<_> = self.batch.calls().map(|call| call.call_id.clone()).collect();
        if !discarded.is_empty() {
            self.act(Action::Discard { calls: discarded.clone() });
        }
        self.emit(EventBody::MessageReset { item_id, attempt, discarded });
    }

    pub(super) fn retry_due(&mut self, moment: &mut Moment) {
        let Phase::RetryWait(stream) = &self.phase else { return };
        let (item_id, attempt) = (stream.item_id.clone(), stream.attempt + 1);
        if stream.is_summary() {
            return self.ask_for_summary(item_id, attempt);
        }
        match self.before_another() {
            Verdict::Go => self.book(item_id, attempt),
            Verdict::Stop(limit, scope) => {
                self.leave_item(moment);
                self.exhaust(limit, scope);
            }
            // What the model reads comes before what it answers with.
            Verdict::Last(limit, scope) => {
                self.leave_item(moment);
                self.note(text::last_step_notice(limit, scope), moment);
                self.book(moment.item_id(), attempt);
            }
        }
    }

    /// What the brakes say to another request of this iteration. The last one is announced once.
    pub(super) fn before_another(&self) -> Verdict {
        let totals = self.brake_totals();
        let totals = Totals { iterations: totals.iterations.saturating_sub(1), ..totals };
        match brakes::before_request(&self.limits, &totals) {
            Verdict::Last(..) if self.last_step.is_some() => Verdict::Go,
            verdict => verdict,
        }
    }

    /// The item that was booked for an attempt that broke off stays empty.
    fn leave_item(&mut self, moment: &Moment) {
        let Phase::RetryWait(stream) = &self.phase else { return };
        let (item_id, index) = (stream.item_id.clone(), stream.index);
        let model = self.model.clone();
        let answer = stream.item(model, Vec::new(), AssistantStatus::Partial, None);
        self.record_item_at(item_id, index, ItemBody::Assistant(answer), moment);
    }
}
