//! One step: an input in, records and actions out.
//!
//! Receives inputs from `session`; hands each to the function of its name.

use agentd_protocol::event::AbortReason;
use agentd_protocol::event::{EventBody, Resolved};
use agentd_protocol::id::{CallId, SubmissionId};
use agentd_protocol::item::{Part, ToolStatus};
use agentd_protocol::permission::Resolution;
use agentd_protocol::process::ProcessExit;

use super::calls::{Outcome, Stage, Traits};
use super::effect::{Action, Input, Judgement, Record, Step, StreamInput};
use super::{Ending, Machine, Moment, Phase, text};

impl Machine {
    /// Takes an input and says what follows. An input that comes too late (a delta after the
    /// turn's end, an outcome of a call that is over) changes nothing.
    pub fn step(&mut self, input: Input, moment: &mut Moment) -> Step {
        self.time.tick(moment.boot_ms);
        let due = matches!(input, Input::CheckpointDue);
        match input {
            Input::Begin(opening) => self.begin(opening, moment),
            Input::Compact => self.begin_compaction(moment),
            Input::TakeUp { otherwise } => self.take_up(otherwise),
            Input::Stream(news) => self.stream(news, moment),
            Input::RetryDue => self.retry_due(moment),
            Input::Prepared { call_id, traits } => self.prepared(&call_id, traits),
            Input::Judged { call_id, judgement } => self.judged(&call_id, judgement),
            Input::Answered { resolved, interrupt } => self.answered(resolved, interrupt),
            Input::Finished { call_id, outcome } => self.finished(&call_id, outcome),
            Input::Steered { submission_id, content } => self.steer(submission_id, content),
            Input::Exited(exit) => self.exited(exit),
            Input::Limits(limits) => self.limits = limits,
            Input::PermissionMode(mode) => self.next_mode = mode,
            Input::Model { model, window } => self.configure_model(model, window),
            Input::CheckpointDue => self.checkpoint_due(),
            Input::Cancel { reason, by } => self.cut_off(Ending::Aborted { reason, by }),
            Input::Fail(error) => self.fail(error),
        }
        self.advance(moment);
        self.time.waits(self.asks_people());
        let mut step = self.outbox.release(self.is_asking() && !due);
        if !step.records.is_empty() {
            self.add_checkpoints(&mut step);
        }
        step
    }

    /// Emits an event: the fold sees it, the next commit holds it.
    pub(super) fn emit(&mut self, body: EventBody) {
        self.apply(&body);
        self.outbox.records.push(Record::Event(body));
        self.outbox.urgent = true;
    }

    /// Asks for something to be done.
    pub(super) fn act(&mut self, action: Action) {
        self.outbox.urgent |= !action.is_question();
        self.outbox.actions.push(action);
    }

    /// Text that streams rides on whatever is committed.
    fn add_checkpoints(&mut self, step: &mut Step) {
        if let Phase::Streaming(stream) = &mut self.phase {
            step.records.extend(stream.checkpoints());
        }
    }

    fn checkpoint_due(&mut self) {
        if let Phase::Streaming(stream) = &mut self.phase {
            let checkpoints = stream.checkpoints();
            self.outbox.records.extend(checkpoints);
            self.start_granted();
        }
        self.outbox.urgent = true;
    }

    /// The model in force needs no change, but its window may not be known since a restart.
    pub(super) fn configure_model(&mut self, model: String, window: u64) {
        if model == self.model {
            self.window = window;
            self.next_model = None;
        } else {
            self.next_model = Some((model, window));
        }
    }

    fn stream(&mut self, news: StreamInput, moment: &mut Moment) {
        let Phase::Streaming(_) = self.phase else { return };
        match news {
            StreamInput::Measured { tokens, fixed } => self.measured(tokens, fixed),
            StreamInput::Full(full) => self.view_full(full, moment),
            StreamInput::Planned(cut) => self.planned(cut),
            StreamInput::NothingToCompact => self.nothing_to_compact(moment),
            StreamInput::Delta { kind, text } => self.delta(kind, text),
            StreamInput::Signature(signature) => self.signed(signature),
            StreamInput::Call { provider_call_id, name, arguments } => {
                self.called(provider_call_id, name, arguments, moment);
            }
            StreamInput::Usage(usage) => self.streamed_usage(usage),
            StreamInput::Warning { code, message } => {
                self.emit(EventBody::Warning { code, message });
            }
            StreamInput::End { finish_reason, continues } => {
                self.stream_ended(finish_reason, continues, moment);
            }
            StreamInput::Broken { error, retry } => self.stream_broken(error, retry, moment),
        }
    }

    fn prepared(&mut self, call_id: &CallId, traits: Result<Traits, String>) {
        let Some(state) = self.batch.find_mut(call_id) else { return };
        match (&state.stage, traits) {
            (Stage::Preparing, Ok(traits)) => {
                state.traits = Some(traits);
                state.stage = Stage::Ready;
            }
            (Stage::Preparing, Err(reason)) => {
                let text = format!("Tool failed: {reason}");
                let outcome = Outcome::not_run(ToolStatus::Invalid, text);
                state.stage = Stage::Finished(Box::new(outcome));
            }
            // Asked again since a restart knows only what its prompt says.
            (Stage::Prompted(_), Ok(traits)) => state.traits = Some(traits),
            _ => {}
        }
    }

    fn judged(&mut self, call_id: &CallId, judgement: Judgement) {
        let (Phase::Calls | Phase::Streaming(_)) = self.phase else { return };
        let Some(state) = self.batch.find_mut(call_id).filter(|s| s.stage == Stage::Judging) else {
            return;
        };
        match judgement {
            Judgement::Later if matches!(self.phase, Phase::Calls) => state.stage = Stage::Ready,
            Judgement::Later => state.stage = Stage::Later,
            Judgement::Allow => state.stage = Stage::Granted,
            Judgement::Ask(prompt) => self.emit(EventBody::PermissionRequested { prompt }),
            Judgement::Deny(reason) => {
                let text = text::denied(Some(&reason));
                state.stage = Stage::Finished(Box::new(Outcome::not_run(ToolStatus::Denied, text)));
            }
            Judgement::Fail(reason) => {
                let text = format!("Tool failed: {reason}");
                state.stage = Stage::Finished(Box::new(Outcome::not_run(ToolStatus::Error, text)));
            }
        }
    }

    /// Records how a prompt ended; what follows for the call is the fold's business.
    fn answered(&mut self, resolved: Resolved, interrupt: bool) {
        let Phase::Calls = self.phase else { return };
        if self.batch.by_prompt(&resolved.prompt_id).is_none() {
            return;
        }
        let by = resolved.by.clone();
        let denied = resolved.decision == Resolution::Deny;
        self.emit(EventBody::PermissionResolved(resolved));
        if denied && interrupt {
            self.cut_off(Ending::Aborted { reason: AbortReason::Interrupted, by });
        }
    }

    fn finished(&mut self, call_id: &CallId, outcome: Outcome) {
        let Some(state) = self.batch.find_mut(call_id).filter(|s| s.stage == Stage::Started) else {
            return;
        };
        state.stage = Stage::Finished(Box::new(outcome));
    }

    /// The next iteration tells of it, if there is one in this turn.
    fn exited(&mut self, exit: ProcessExit) {
        self.running.remove(&exit.process_id);
        self.exited.push(exit);
    }

    fn steer(&mut self, submission_id: SubmissionId, content: Vec<Part>) {
        self.steered.push((submission_id, content));
    }
}
