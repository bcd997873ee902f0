//! How a turn ends: in one place, whatever happened.
//!
//! A turn that is cut off keeps what was streamed, gives every open call its result and every
//! open prompt its end, in the transaction that holds the terminal event.
//!
//! Receives the decision to end; emits the turn's last events.

use agentd_protocol::event::{AbortReason, EventBody, Limit, LimitScope, Resolved, TurnError};
use agentd_protocol::item::{AssistantStatus, ToolStatus};
use agentd_protocol::permission::Resolution;

use super::effect::Action;
use super::{Ending, Machine, Moment, Phase, text};

impl Machine {
    pub(super) fn end(&mut self, terminal: EventBody) {
        self.emit(terminal);
    }

    pub(super) fn exhaust(&mut self, limit: Limit, scope: LimitScope) {
        let scope = (scope == LimitScope::Session).then_some(scope);
        let totals = self.totals();
        self.end(EventBody::TurnExhausted { limit, scope, totals });
    }

    /// Cuts the turn off. The first reason counts.
    pub(super) fn cut_off(&mut self, ending: Ending) {
        let stream = match &self.phase {
            Phase::Stopping { .. } | Phase::Ended => return,
            Phase::Streaming(stream) | Phase::RetryWait(stream) if stream.is_summary() => {
                self.act(Action::StopRequest);
                self.add_broken_usage();
                None
            }
            Phase::Streaming(stream) | Phase::RetryWait(stream) => {
                let stream = Box::new(stream.clone());
                self.act(Action::StopRequest);
                Some(stream)
            }
            Phase::Calls => None,
        };
        if self.batch.is_running() {
            self.act(Action::StopTools);
        }
        self.phase = Phase::Stopping { ending, stream };
    }

    /// Goes on stopping: when no tool runs any more, everything that is open is closed.
    pub(super) fn stop(&mut self, moment: &mut Moment) {
        if self.batch.is_running() {
            return;
        }
        let Phase::Stopping { ending, stream } = &mut self.phase else { return };
        let (ending, stream) = (ending.clone(), stream.take());
        if let Some(stream) = stream {
            let calls = self.batch.calls().cloned().collect();
            let answer = stream.item(self.model.clone(), calls, AssistantStatus::Partial, None);
            self.complete_answer(&stream, answer, moment);
        }
        self.cancel_prompts();
        self.close_calls(moment);
        let totals = self.totals();
        self.end(match ending {
            Ending::Aborted { reason, by } => EventBody::TurnAborted { reason, by, totals },
            Ending::Failed(error) => EventBody::TurnFailed { error, totals },
        });
    }

    fn cancel_prompts(&mut self) {
        for prompt_id in self.batch.open_prompts() {
            self.emit(EventBody::PermissionResolved(Resolved {
                prompt_id,
                decision: Resolution::Cancelled,
                scope: None,
                rule: None,
                message: None,
                by: None,
            }));
        }
    }

    fn close_calls(&mut self, moment: &mut Moment) {
        self.batch.close_open(ToolStatus::Interrupted, text::INTERRUPTED_BEFORE_START);
        self.record_results(moment);
    }

    /// Closes a restored turn. Its tools are gone, and nobody waits for them.
    pub(super) fn fail(&mut self, error: TurnError) {
        self.batch.lose_started();
        self.cut_off(Ending::Failed(error));
    }

    /// What a restart finds: a turn that waited for people goes on, every other one is closed.
    pub(super) fn take_up(&mut self, otherwise: AbortReason) {
        if !matches!(self.phase, Phase::Calls) || !self.batch.is_resumable() {
            self.batch.lose_started();
            return self.cut_off(Ending::Aborted { reason: otherwise, by: None });
        }
        for call_id in self.batch.take_up() {
            self.act(Action::Prepare { call_id });
        }
    }
}
