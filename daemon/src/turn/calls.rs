//! The calls of one answer: how far each is, and which may go next.
//!
//! Tickets are taken in the order of the calls at a fair read-write gate: safe reads share it,
//! every other call holds it alone, and nobody overtakes. Results are recorded in the order of
//! the calls, whatever order they finish in.
//!
//! Receives answers and outcomes from the machine; hands it what may be judged and recorded.

use agentd_protocol::event::Change;
use agentd_protocol::id::{CallId, PromptId};
use agentd_protocol::item::{Call, FullOutput, Part, ToolStatus};
use agentd_protocol::permission::Risk;
use agentd_protocol::process::Process;

use super::duplicate::Key;
use super::text;

/// What a tool says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traits {
    /// One line for a person.
    pub summary: String,
    /// What it may do at worst.
    pub risk: Risk,
    /// Safe to run beside other safe reads.
    pub parallel: bool,
    /// The duplicate guard leaves it alone.
    pub polls: bool,
}

impl Traits {
    fn shares_the_gate(&self) -> bool {
        self.parallel && self.risk == Risk::Read
    }
}

/// How a call ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How.
    pub status: ToolStatus,
    /// What the model reads.
    pub content: Vec<Part>,
    /// Where all of it is.
    pub full_output: Option<FullOutput>,
    /// Files that were changed.
    pub changes: Vec<Change>,
    /// Files that were read or written: path, SHA-256.
    pub seen: Vec<(String, String)>,
    /// The command that it started in the background.
    pub background: Option<Process>,
    /// How long it ran.
    pub duration_ms: u64,
}

impl Outcome {
    /// An outcome of a call that did not run.
    pub fn not_run(status: ToolStatus, text: impl Into<String>) -> Self {
        Self {
            status,
            content: vec![Part::text(text)],
            full_output: None,
            changes: Vec::new(),
            seen: Vec::new(),
            background: None,
            duration_ms: 0,
        }
    }
}

/// How far a call is.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Stage {
    /// The tool is asked what it is.
    Preparing,
    /// It waits for its ticket.
    Ready,
    /// Somebody has to be asked about it, once its answer is whole.
    Later,
    /// The policy is asked.
    Judging,
    /// A person is asked.
    Prompted(PromptId),
    /// A person allowed it; it is about to start.
    Granted,
    /// Its start is recorded.
    Started,
    /// It is over, its result is not recorded.
    Finished(Box<Outcome>),
    /// Its result is recorded.
    Recorded(ToolStatus),
}

/// A call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CallState {
    pub(super) call: Call,
    pub(super) traits: Option<Traits>,
    pub(super) stage: Stage,
    /// Its start is recorded, so it may have changed something.
    pub(super) started: bool,
}

impl CallState {
    fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Finished(_) | Stage::Recorded(_))
    }

    fn shares_the_gate(&self) -> bool {
        self.traits.as_ref().is_some_and(Traits::shares_the_gate)
    }

    /// Whether a restart can take it up: it has not started, or starting it again does no harm.
    fn can_start_again(&self) -> bool {
        self.stage != Stage::Started || self.risk() == Risk::Read
    }

    /// Whether it holds the gate.
    fn is_admitted(&self) -> bool {
        match self.stage {
            Stage::Judging | Stage::Prompted(_) | Stage::Granted | Stage::Started => true,
            Stage::Preparing
            | Stage::Ready
            | Stage::Later
            | Stage::Finished(_)
            | Stage::Recorded(_) => false,
        }
    }

    pub(super) fn risk(&self) -> Risk {
        self.traits.as_ref().map_or(Risk::Execute, |traits| traits.risk)
    }
}

/// The calls of one answer, in order.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Batch(Vec<CallState>);

impl Batch {
    /// Its answer is whole, and these are its calls. How far each is stays; the record of a call
    /// that streamed lacks the provider's id.
    pub(super) fn settle(&mut self, calls: &[Call]) {
        let mut streamed = std::mem::take(&mut self.0);
        for call in calls {
            match streamed.iter().position(|state| state.call.call_id == call.call_id) {
                Some(place) => {
                    let mut state = streamed.remove(place);
                    state.call.provider_call_id.clone_from(&call.provider_call_id);
                    if state.stage == Stage::Later {
                        state.stage = Stage::Ready;
                    }
                    self.0.push(state);
                }
                None => self.push(call.clone()),
            }
        }
    }

    pub(super) fn push(&mut self, call: Call) {
        self.0.push(CallState { call, traits: None, stage: Stage::Preparing, started: false });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn calls(&self) -> impl Iterator<Item = &Call> {
        self.0.iter().map(|state| &state.call)
    }

    pub(super) fn states(&self) -> impl Iterator<Item = &CallState> {
        self.0.iter()
    }

    /// The answer was cut off: its last call is not run, whether its arguments parse or not.
    pub(super) fn cut_last(&mut self) {
        if let Some(last) = self.0.last_mut() {
            last.stage =
                Stage::Finished(Box::new(Outcome::not_run(ToolStatus::NotRun, text::CUT_OFF)));
        }
    }

    pub(super) fn find(&self, call_id: &CallId) -> Option<&CallState> {
        self.0.iter().find(|state| state.call.call_id == *call_id)
    }

    pub(super) fn find_mut(&mut self, call_id: &CallId) -> Option<&mut CallState> {
        self.0.iter_mut().find(|state| state.call.call_id == *call_id)
    }

    pub(super) fn by_prompt(&mut self, prompt_id: &PromptId) -> Option<&mut CallState> {
        self.0
            .iter_mut()
            .find(|state| matches!(&state.stage, Stage::Prompted(id) if id == prompt_id))
    }

    pub(super) fn open_prompts(&self) -> Vec<PromptId> {
        self.0
            .iter()
            .filter_map(|state| match &state.stage {
                Stage::Prompted(prompt_id) => Some(prompt_id.clone()),
                _ => None,
            })
            .collect()
    }

    pub(super) fn is_recorded(&self) -> bool {
        self.0.iter().all(|state| matches!(state.stage, Stage::Recorded(_)))
    }

    pub(super) fn started(&self) -> Vec<CallId> {
        let started = self.0.iter().filter(|state| state.stage == Stage::Started);
        started.map(|state| state.call.call_id.clone()).collect()
    }

    pub(super) fn is_running(&self) -> bool {
        self.0.iter().any(|state| matches!(state.stage, Stage::Started))
    }

    /// Whether a call may start that has not.
    pub(super) fn has_granted(&self) -> bool {
        self.0.iter().any(|state| state.stage == Stage::Granted)
    }

    /// Whether the caller is asked what a call is, or whether it may run.
    pub(super) fn is_asking(&self) -> bool {
        self.0.iter().any(|state| matches!(state.stage, Stage::Preparing | Stage::Judging))
    }

    /// Whether people are asked while nothing runs. Unlike [`Self::waits_for_people`] it does not
    /// look at questions to the caller, of which the record knows nothing.
    pub(super) fn asks_people(&self) -> bool {
        let is = |wanted: fn(&Stage) -> bool| self.0.iter().any(|state| wanted(&state.stage));
        is(|stage| matches!(stage, Stage::Prompted(_)))
            && !is(|stage| matches!(stage, Stage::Granted | Stage::Started))
    }

    /// Whether people are asked and nothing else goes on.
    pub(super) fn waits_for_people(&self) -> bool {
        let mut asked = false;
        for state in &self.0 {
            match state.stage {
                Stage::Prompted(_) => asked = true,
                Stage::Judging | Stage::Granted | Stage::Started => return false,
                // After a restart the tools are asked about what waits behind a prompt.
                Stage::Preparing
                | Stage::Ready
                | Stage::Later
                | Stage::Finished(_)
                | Stage::Recorded(_) => {}
            }
        }
        asked
    }

    /// Whether every call was refused as a duplicate.
    pub(super) fn is_all_duplicates(&self) -> bool {
        !self.0.is_empty()
            && self.0.iter().all(|state| state.stage == Stage::Recorded(ToolStatus::Duplicate))
    }

    /// Gives every call that is not over this outcome.
    pub(super) fn close_open(&mut self, status: ToolStatus, text: &str) {
        for state in self.0.iter_mut().filter(|state| !state.is_over()) {
            state.stage = Stage::Finished(Box::new(Outcome::not_run(status, text)));
        }
    }

    /// Whether a restart can go on with the batch: people are asked or have answered, and no call
    /// started that may have changed anything.
    pub(super) fn is_resumable(&self) -> bool {
        self.0.iter().all(CallState::can_start_again)
            && self.0.iter().any(|state| {
                matches!(state.stage, Stage::Prompted(_) | Stage::Granted | Stage::Finished(_))
            })
    }

    /// What a restart has to ask the tools about again.
    pub(super) fn take_up(&mut self) -> Vec<CallId> {
        let mut again = Vec::new();
        for state in &mut self.0 {
            match state.stage {
                Stage::Preparing
                | Stage::Ready
                | Stage::Later
                | Stage::Judging
                | Stage::Started => {
                    state.stage = Stage::Preparing;
                    again.push(state.call.call_id.clone());
                }
                Stage::Prompted(_) => again.push(state.call.call_id.clone()),
                Stage::Granted | Stage::Finished(_) | Stage::Recorded(_) => {}
            }
        }
        again
    }

    /// The processes of started calls are gone, and nobody knows what they did.
    pub(super) fn lose_started(&mut self) {
        for state in self.0.iter_mut().filter(|state| state.stage == Stage::Started) {
            state.stage = Stage::Finished(Box::new(Outcome::not_run(
                ToolStatus::Interrupted,
                text::INTERRUPTED_AFTER_START,
            )));
        }
    }

    /// The first call whose result is next to be recorded and is there.
    pub(super) fn next_result(&self) -> Option<CallId> {
        self.0
            .iter()
            .find(|state| !matches!(state.stage, Stage::Recorded(_)))
            .filter(|state| matches!(state.stage, Stage::Finished(_)))
            .map(|state| state.call.call_id.clone())
    }

    /// The next call that the gate admits, if there is one. An `early` one is of an answer that
    /// still streams: only safe reads are let go, as long as nothing else came before them.
    pub(super) fn next_admitted(&self, max_parallel: usize, early: bool) -> Option<CallId> {
        let sharing = self.0.iter().filter(|state| state.is_admitted()).count();
        for (place, state) in self.0.iter().enumerate() {
            if state.is_over() || (state.is_admitted() && state.shares_the_gate()) {
                continue;
            }
            if state.is_admitted() || state.stage == Stage::Preparing {
                return None;
            }
            if !state.shares_the_gate() {
                if early {
                    return None;
                }
                let alone = self.0[..place].iter().all(CallState::is_over);
                return alone.then(|| state.call.call_id.clone());
            }
            if sharing >= max_parallel {
                return None;
            }
            if state.stage == Stage::Ready && !self.waits_for_twin(place) {
                return Some(state.call.call_id.clone());
            }
        }
        None
    }

    /// Whether an identical call before the one at `place` has no recorded result: the second
    /// waits for it, and is refused if the first succeeded.
    fn waits_for_twin(&self, place: usize) -> bool {
        let state = &self.0[place];
        let polls = state.traits.as_ref().is_some_and(|traits| traits.polls);
        let key = Key::of(&state.call);
        let twin = |other: &CallState| {
            !matches!(other.stage, Stage::Recorded(_)) && Key::of(&other.call) == key
        };
        !polls && self.0[..place].iter().any(twin)
    }
}
