//! What an actor knows of its session, and how a turn begins and what follows its end.
//!
//! All of it is in the store as well; it is read once and then brought up to each commit. Nothing
//! here waits, writes or reads.
//!
//! Receives committed events; hands plans what belongs at a turn's two ends.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use agentd_protocol::event::{AbortReason, Event, EventBody};
use agentd_protocol::id::{SubmissionId, TurnId};
use agentd_protocol::item::{Origin, Part};
use agentd_protocol::permission::RuleInForce;
use agentd_protocol::process::{Process, ProcessExit};
use agentd_protocol::session::{Limits, Session, SessionState, Usage};
use agentd_protocol::submission::{OnDisconnect, Op, SubmitParams};
use agentd_protocol::view::session as view;

use super::Error;
use super::plan::Plan;
use super::services::Services;
use crate::config::Duplicates;
use crate::provider::ModelFacts;
use crate::store::QueuedInput;
use crate::turn::{DuplicateRule, Input, Machine, Moment, Opening, Settings, Start};

/// The session as its actor sees it.
#[derive(Debug)]
pub(super) struct State {
    /// True as of the last commit; its lease is another process's, as of the last look.
    pub(super) session: Session,
    pub(super) queue: VecDeque<QueuedInput>,
    /// What a restart found steered into the open turn; its turn takes it over.
    pub(super) steered: Vec<SubmitParams>,
    pub(super) turn: Option<Turn>,
    /// How the last turn ended.
    pub(super) last_end: Option<EventBody>,
    /// How the last one ended that did anything but compact.
    pub(super) last_work_end: Option<EventBody>,
    /// The place of the next item, while no turn runs.
    pub(super) next_index: u64,
    /// What was used, while no turn runs; true as of the last plan.
    pub(super) usage: Usage,
    /// The queue waits for a person; true as of the last plan.
    pub(super) held: bool,
    /// What was said since the running turn is being cut off: an interrupt holds the queue after
    /// it, an input lets it go. Without a word the turn's end decides.
    pub(super) hold_next: Option<bool>,
    /// The state that was last told; true as of the last plan.
    pub(super) told: (SessionState, bool),
    /// Who held the lease last did not give it back and still lives.
    pub(super) rival_lives: bool,
    /// Our lease's epoch.
    pub(super) epoch: Option<u64>,
    /// Commands that run in the background; true as of the last plan.
    pub(super) processes: Vec<Process>,
    /// Those that ended, of which no iteration has told; true as of the last plan.
    pub(super) exited: Vec<ProcessExit>,
    /// The system item's text, for a session without items.
    pub(super) system: Option<Vec<Part>>,
    /// Rules that answers left: of this session, of its directory, of everywhere.
    pub(super) rules: Vec<RuleInForce>,
    /// Which version of them that is.
    pub(super) rules_version: u64,
}

/// The running turn.
#[derive(Debug)]
pub(super) struct Turn {
    pub(super) machine: Machine,
    /// What started it.
    pub(super) params: SubmitParams,
    /// What was steered into it and is not in an item yet.
    pub(super) steered: BTreeMap<SubmissionId, SubmitParams>,
    /// What was steered into it, is in an item, and ends it when its submitter is gone.
    pub(super) joined: BTreeSet<SubmissionId>,
    /// The input that replaces it, while it is being cut off.
    pub(super) replaced_by: Option<SubmissionId>,
}

impl State {
    pub(super) fn active_turn(&self) -> Option<&TurnId> {
        self.turn.as_ref().map(|turn| turn.machine.turn_id())
    }

    /// Takes committed events into account.
    pub(super) fn commit(&mut self, events: &[Event]) {
        for event in events {
            view::apply(&mut self.session, event);
            match &event.body {
                EventBody::ProcessStarted(process) => self.processes.push(process.clone()),
                // It has told of those.
                EventBody::IterationStarted { .. } => self.exited.clear(),
                _ => {}
            }
            if let (EventBody::InputSteered { submission_id, .. }, Some(turn)) =
                (&event.body, &mut self.turn)
                && let Some(params) = turn.steered.remove(submission_id)
                && params.on_disconnect == OnDisconnect::Interrupt
            {
                turn.joined.insert(submission_id.clone());
            }
        }
    }

    /// Whether something will start from this submission, or runs from it.
    pub(super) fn awaits(&self, submission_id: &SubmissionId) -> bool {
        let waits = |turn: &Turn| turn.steered.contains_key(submission_id);
        self.runs(submission_id)
            || self.turn.as_ref().is_some_and(waits)
            || self.queue.iter().any(|queued| queued.params.submission.id == *submission_id)
    }

    /// The model of a turn with these limits over the session's, with what is known of it.
    pub(super) fn model(
        &self,
        services: &Services,
        limits: Option<Limits>,
    ) -> Result<(String, ModelFacts), Error> {
        let providers = services.providers();
        let default = || providers.default_model().map(str::to_owned);
        let Some(model) = self.session.model.clone().or_else(default) else {
            return Err(Error::NoProvider { known_models: providers.known_models() });
        };
        let facts = providers.get(&model).map_err(Error::from_select)?.facts;
        check_price(&model, &facts, &limits.unwrap_or_default().or(self.session.limits))?;
        Ok((model, facts))
    }

    /// Begins a turn for an accepted input.
    pub(super) fn begin(
        &mut self,
        plan: &mut Plan,
        services: &Services,
        turn_id: &TurnId,
        params: SubmitParams,
        opening: (Vec<Part>, Origin),
        moment: &mut Moment,
    ) -> Result<(), Error> {
        let (model, facts) = self.model(services, params.limits)?;
        let start = self.start(services, turn_id.clone(), &params, &model, &facts);
        let mut machine = Machine::new(start, moment);
        let system = self.system.take();
        let (input, origin) = opening;
        let step = machine.step(Input::Begin(Opening { system, input, origin }), moment);
        plan.step(turn_id, step);
        self.held = false;
        self.turn = Some(Self::turn(machine, params));
        Ok(())
    }

    /// Begins a turn that does nothing but compact. It lets no queue go that is held.
    pub(super) fn begin_compaction(
        &mut self,
        plan: &mut Plan,
        services: &Services,
        turn_id: &TurnId,
        params: SubmitParams,
        moment: &mut Moment,
    ) -> Result<(), Error> {
        let (model, facts) = self.model(services, params.limits)?;
        let start = self.start(services, turn_id.clone(), &params, &model, &facts);
        let mut machine = Machine::new(start, moment);
        let step = machine.step(Input::Compact, moment);
        plan.step(turn_id, step);
        self.hold_next = self.held.then_some(true);
        self.turn = Some(Self::turn(machine, params));
        Ok(())
    }

    /// A turn of this machine, into which nothing was steered.
    fn turn(machine: Machine, params: SubmitParams) -> Turn {
        let (steered, joined) = (BTreeMap::new(), BTreeSet::new());
        Turn { machine, params, steered, joined, replaced_by: None }
    }

    /// What a machine of this session starts from.
    pub(super) fn start(
        &self,
        services: &Services,
        turn_id: TurnId,
        params: &SubmitParams,
        model: &str,
        facts: &ModelFacts,
    ) -> Start {
        let config = services.config.current();
        Start {
            settings: Settings {
                max_parallel: config.tools.max_parallel,
                duplicates: match config.tools.duplicates {
                    Duplicates::Unchanged => DuplicateRule::Unchanged,
                    Duplicates::Turn => DuplicateRule::Turn,
                },
            },
            turn_id,
            submission_id: params.submission.id.clone(),
            model: model.to_owned(),
            window: facts.context_window.unwrap_or(0),
            compacts: matches!(params.submission.op, Op::Compact {}),
            limits: params.limits.unwrap_or_default().or(self.session.limits),
            permission_mode: self.session.permission_mode,
            session_usage: self.usage,
            next_index: self.next_index,
            running: self.processes.iter().map(|process| process.process_id.clone()).collect(),
            exited: self.exited.clone(),
        }
    }

    /// What follows from where the turn is: after its end the next input starts or the queue is
    /// held; a changed state is told. The last thing every plan goes through.
    pub(super) fn settle(&mut self, plan: &mut Plan, services: &Services, moment: &mut Moment) {
        // The next turn may end at once, where its limits let no request through.
        while let Some(turn) = self.turn.take_if(|turn| turn.machine.has_ended()) {
            self.turn_ended(turn, plan, services, moment);
        }
        let now = self.now();
        if now != self.told {
            let queue_held = (now.1 != self.told.1).then_some(now.1);
            plan.event(EventBody::SessionState { state: now.0, queue_held });
            self.told = now;
        }
    }

    /// What there is to tell: the state, and whether the queue is held.
    pub(super) fn now(&self) -> (SessionState, bool) {
        (self.state(), self.held && !self.queue.is_empty())
    }

    fn turn_ended(
        &mut self,
        mut turn: Turn,
        plan: &mut Plan,
        services: &Services,
        moment: &mut Moment,
    ) {
        self.next_index = turn.machine.next_index();
        self.usage = turn.machine.session_usage();
        let terminal = plan.events.iter().rev().find(|event| event.body.is_terminal());
        self.last_end = terminal.map(|event| event.body.clone());
        // After a compaction, what was broken off before it can still be gone on with.
        if !matches!(&self.last_end, Some(EventBody::TurnCompleted { .. }) if turn.machine.compacts())
        {
            self.last_work_end.clone_from(&self.last_end);
        }
        let advances = matches!(
            self.last_end,
            Some(
                EventBody::TurnCompleted { .. }
                    | EventBody::TurnExhausted { .. }
                    | EventBody::TurnAborted { reason: AbortReason::Replaced, .. }
            )
        );
        self.queue_first(turn.take_steered(), plan, moment);
        self.held = self.hold_next.take().unwrap_or(!advances);
        if !self.held {
            self.start_next(plan, services, moment);
        }
    }

    /// Steered inputs that no iteration takes any more go to the head of the queue.
    pub(super) fn queue_leftovers(&mut self, plan: &mut Plan, moment: &mut Moment) {
        let left = self.turn.as_mut().map(Turn::take_steered).unwrap_or_default();
        self.queue_first(left, plan, moment);
    }

    fn queue_first(&mut self, inputs: Vec<SubmitParams>, plan: &mut Plan, moment: &mut Moment) {
        for params in inputs.into_iter().rev() {
            self.enqueue(plan, moment.turn_id(), params, true);
        }
    }

    /// Puts an accepted input into the queue.
    pub(super) fn enqueue(
        &mut self,
        plan: &mut Plan,
        turn_id: TurnId,
        params: SubmitParams,
        at_head: bool,
    ) {
        let Op::UserInput { content, .. } = &params.submission.op else { return };
        let position = if at_head { 1 } else { self.queue.len() as u64 + 1 };
        plan.turn_event(
            &turn_id,
            EventBody::InputQueued {
                submission_id: params.submission.id.clone(),
                content: content.clone(),
                position,
            },
        );
        let entry = QueuedInput { turn_id, params };
        if at_head {
            self.queue.push_front(entry);
        } else {
            self.queue.push_back(entry);
        }
    }

    /// Starts the next input of the queue, if there is one and the daemon is not stopping.
    pub(super) fn start_next(&mut self, plan: &mut Plan, services: &Services, moment: &mut Moment) {
        if services.is_draining() {
            return;
        }
        let Some(next) = self.queue.pop_front() else { return };
        let Op::UserInput { content, .. } = &next.params.submission.op else { return };
        let opening = (content.clone().into_parts(), Origin::User);
        let QueuedInput { turn_id, params } = next.clone();
        if let Err(error) = self.begin(plan, services, &turn_id, params, opening, moment) {
            // The configuration changed while it waited; it is not lost.
            self.queue.push_front(next);
            self.held = true;
            plan.event(EventBody::Warning {
                code: "queue_held".to_owned(),
                message: format!("the next input cannot start: {error}"),
            });
        }
    }

    /// Drops an input of the queue, with its event.
    pub(super) fn drop_queued(&mut self, plan: &mut Plan, place: usize, reason: &str) {
        if let Some(dropped) = self.queue.remove(place) {
            plan.event(input_dropped(dropped.params.submission.id, reason));
        }
    }

    /// Drops an input that waits, in the queue or for the turn's next iteration.
    pub(super) fn drop_waiting(
        &mut self,
        plan: &mut Plan,
        submission_id: &SubmissionId,
        reason: &str,
    ) {
        if let Some(place) = self.place_of(submission_id) {
            return self.drop_queued(plan, place, reason);
        }
        if let Some(turn) = &mut self.turn
            && turn.steered.remove(submission_id).is_some()
        {
            turn.machine.forget_steered(submission_id);
            plan.event(input_dropped(submission_id.clone(), reason));
        }
    }

    /// Where in the queue an input is.
    pub(super) fn place_of(&self, submission_id: &SubmissionId) -> Option<usize> {
        self.queue.iter().position(|queued| queued.params.submission.id == *submission_id)
    }

    /// What the session is doing.
    pub(super) fn state(&self) -> SessionState {
        match (&self.turn, &self.last_end) {
            (Some(turn), _) if turn.machine.is_waiting() => SessionState::Waiting,
            (Some(_), _) => SessionState::Running,
            (None, Some(EventBody::TurnFailed { .. })) => SessionState::Failed,
            (
                None,
                Some(EventBody::TurnAborted {
                    reason: AbortReason::Crashed | AbortReason::Shutdown,
                    ..
                }),
            ) => SessionState::Interrupted,
            (None, _) => SessionState::Idle,
        }
    }

    /// Whether the session needs its lease no longer.
    pub(super) fn is_at_rest(&self, services: &Services) -> bool {
        self.turn.is_none()
            && self.processes.is_empty()
            && (self.queue.is_empty() || self.held || services.is_draining())
    }
}

impl Turn {
    /// The inputs that were steered into it and that no iteration took, in order.
    fn take_steered(&mut self) -> Vec<SubmitParams> {
        let left = self.machine.take_steered();
        left.iter().filter_map(|submission_id| self.steered.remove(submission_id)).collect()
    }
}

fn input_dropped(submission_id: SubmissionId, reason: &str) -> EventBody {
    EventBody::InputDropped { submission_id, reason: reason.to_owned() }
}

/// A limit in money needs a price.
pub(super) fn check_price(model: &str, facts: &ModelFacts, limits: &Limits) -> Result<(), Error> {
    let field = match (limits.max_cost_usd, limits.max_session_cost_usd) {
        (None, None) => return Ok(()),
        (Some(_), _) => "limits.max_cost_usd",
        (None, Some(_)) => "limits.max_session_cost_usd",
    };
    if facts.price.is_some() {
        return Ok(());
    }
    Err(Error::InvalidParams {
        field: field.to_owned(),
        message: format!(
            "the price of {model} is not known, so its cost cannot be limited: set `price` of this \
             model in the configuration, or limit tokens"
        ),
    })
}

/// A moment of this daemon.
pub(super) fn moment(services: &Arc<Services>) -> Moment {
    let base = uuid::Uuid::now_v7().simple().to_string();
    Moment::new(services.clock.now(), services.clock.boot_ms(), base)
}
