//! Taking up a session: from the store at its actor's start, after a crash, after a failure.
//!
//! Before anything else is admitted, an open turn is either taken up in place (it waited for
//! people and nothing that may have changed anything was running) or closed with its one terminal
//! event.
//!
//! Receives what the store holds; hands the actor its state and a plan for the open turn.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::event::{AbortReason, TurnError, TurnErrorCode};
use agentd_protocol::id::SessionId;
use agentd_protocol::item::Part;
use agentd_protocol::process::ProcessExit;
use agentd_protocol::session::{Lease, Session};
use agentd_protocol::submission::{Op, SubmitParams};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Error;
use super::actor::Actor;
use super::command::{Command, Reply};
use super::former::StoreKeeper;
use super::overtaken::Overtaken;
use super::plan::Plan;
use super::registry::Retire;
use super::services::Services;
use super::state::{self, State, Turn};
use super::timers::{Timer, Timers};
use super::work::Work;
use crate::knowledge::{self, Observer};
use crate::provider::ModelFacts;
use crate::store::{self, LoadedSession, OpenTurn};
use crate::tools::{self, FileSeen, FilesSeen, ToolContext, environment};
use crate::turn::{self, Found, Machine, Moment};

/// Why a session is taken up.
#[derive(Debug, Clone)]
pub(super) enum Why {
    /// Its actor starts.
    Start,
    /// A client asked for it, whoever runs it.
    TakenOver,
    /// The store failed under its turn, and may work again.
    StoreFailed(store::Error),
}

impl Actor {
    /// An actor for this session, its open turn taken up.
    pub(super) async fn start(
        services: Arc<Services>,
        session_id: SessionId,
        mailbox: mpsc::Receiver<Command>,
        retire: Retire,
    ) -> Result<Self, (store::Error, mpsc::Receiver<Command>)> {
        let loaded = match services.store.load(&session_id).await {
            Ok(loaded) => loaded,
            Err(error) => return Err((error, mailbox)),
        };
        let context = context(&services, &loaded);
        let timers = Timers::new(services.clock.clone());
        let mut draining = services.draining.subscribe();
        draining.mark_changed();
        let open_turn = loaded.open_turn.clone();
        let state = read_state(&services, loaded).await;
        let mut actor = Self {
            services,
            session_id,
            mailbox,
            retire,
            state,
            work: Work::new(),
            timers,
            window: None,
            context,
            observer: Observer::default(),
            candidates: None,
            broken: None,
            committing: None,
            overtaken: Overtaken::default(),
            renewing: None,
            lease_until_ms: 0,
            attached: HashMap::new(),
            submitters: JoinSet::new(),
            draining,
            done: false,
        };
        if actor.state.epoch.is_some() {
            actor.timers.set(Timer::Renew, Duration::ZERO);
        }
        actor.take_up_turn(open_turn, &Why::Start).await;
        Ok(actor)
    }

    /// Reads the session anew and takes its open turn up.
    pub(super) async fn take_up(&mut self, why: Why) -> Result<(), store::Error> {
        let open_turn = self.read_again().await?;
        self.take_up_turn(open_turn, &why).await;
        Ok(())
    }

    /// Other daemons may have written since this one had the lease: before anything is admitted,
    /// the session is read again, and a turn that nobody runs any more is taken up.
    pub(super) async fn catch_up(&mut self) {
        if let Err(error) = self.take_up(Why::Start).await {
            tracing::warn!(session = %self.session_id, %error, "the session cannot be read");
        }
    }

    /// Takes the lease from whoever has it. Without a turn there is nothing to take: the next
    /// write takes it.
    pub(super) async fn take_over(&mut self, reply: Reply<Session>) {
        // It may have been lost while this process was stopped.
        self.renew_lease().await;
        let taken = match self.state.epoch {
            Some(_) => Ok(()),
            None => self.take_up(Why::TakenOver).await,
        };
        let session = match taken {
            Ok(()) => self.services.store.session(&self.session_id).await,
            Err(error) => Err(error),
        };
        // A caller that is gone needs no answer.
        drop(reply.send(session.map_err(Error::from_store)));
    }

    /// Reads the session anew and leaves its turn to whoever runs it now.
    pub(super) async fn follow(&mut self) {
        if let Err(error) = self.read_again().await {
            tracing::warn!(session = %self.session_id, %error, "the session cannot be read");
            return self.leave(&error);
        }
        self.services.tools.background().forget(&self.session_id);
        self.state.epoch = None;
        self.leave_to_holder();
    }

    /// What is told of the session is its holder's business.
    fn leave_to_holder(&mut self) {
        self.state.told = self.state.now();
    }

    async fn read_again(&mut self) -> Result<Option<OpenTurn>, store::Error> {
        let loaded = self.services.store.load(&self.session_id).await?;
        let open_turn = loaded.open_turn.clone();
        if loaded.session.head_seq != self.state.session.head_seq {
            // Another daemon wrote: what is kept of the conversation is not all of it.
            self.window = None;
        }
        self.context = context(&self.services, &loaded);
        self.state = read_state(&self.services, loaded).await;
        Ok(open_turn)
    }

    /// Takes an open turn up, or lets the queue go where there is none.
    async fn take_up_turn(&mut self, open_turn: Option<OpenTurn>, why: &Why) {
        let by_force = matches!(why, Why::TakenOver);
        let holder = self.state.session.lease.clone();
        if by_force {
            self.state.session.lease = None;
        } else if self.rival().is_some() {
            return self.leave_to_holder();
        }
        let mut moment = state::moment(&self.services);
        let mut plan = Plan::new(moment.now);
        let lost = self.lost_processes();
        if let Some(open) = open_turn {
            self.restore(open, &mut moment);
            self.wait_for_orphans(holder, &lost).await;
            let otherwise =
                if self.state.rival_lives { AbortReason::LeaseLost } else { AbortReason::Crashed };
            let input = match why {
                Why::Start | Why::TakenOver => turn::Input::TakeUp { otherwise },
                Why::StoreFailed(error) => turn::Input::Fail(store_error(error)),
            };
            self.tell_turn(input, &mut plan, &mut moment);
            plan.needs_lease = true;
            plan.by_force = by_force;
            self.processes_lost(lost, &mut plan, &mut moment);
        } else {
            self.wait_for_orphans(holder, &lost).await;
            self.processes_lost(lost, &mut plan, &mut moment);
            if !self.state.held {
                self.state.start_next(&mut plan, &self.services, &mut moment);
            }
        }
        for prompt in &self.state.session.prompts {
            self.services.open_prompts.add(prompt.prompt_id.clone(), self.session_id.clone());
        }
        self.miss_submitters();
        self.expire_prompts(&mut plan, &mut moment);
        self.state.settle(&mut plan, &self.services, &mut moment);
        Box::pin(self.perform(plan)).await;
    }

    /// No process of a call outlives the daemon that started it by more than its grace; the turn
    /// is not touched before the last one is gone. Those of a daemon that lives are its own.
    async fn wait_for_orphans(&mut self, holder: Option<Lease>, lost: &[ProcessExit]) {
        if self.state.rival_lives {
            return;
        }
        let turn = self.state.turn.as_ref();
        let mut started = turn.map(|turn| turn.machine.started_calls()).unwrap_or_default();
        started.extend(lost.iter().map(|exit| exit.call_id.clone()));
        let daemon = holder.as_ref().map(|lease| lease.owner.as_str());
        let grace = self.services.config.current().tools.shell.kill_grace;
        let gone = tools::end_orphans(&started, daemon, grace, &self.services.clock).await;
        if !gone {
            tracing::error!(session = %self.session_id, "a former daemon's processes live on");
        }
    }

    fn restore(&mut self, open: OpenTurn, moment: &mut Moment) {
        let OpenTurn { turn_id, params, joined, events, in_flight } = open;
        for event in &events {
            self.observer.see(event);
        }
        let steered: Vec<SubmitParams> = std::mem::take(&mut self.state.steered);
        let model = started_with(&events).unwrap_or_default();
        let facts = self.facts(&model);
        let configured = self.state.session.model.clone();
        let next_model = configured.map(|model| {
            let window = self.facts(&model).context_window.unwrap_or(0);
            (model, window)
        });
        let start = self.state.start(&self.services, turn_id, &params, &model, &facts);
        let found = Found { events, in_flight, steered: contents(&steered), next_model };
        let machine = Machine::restore(start, found, moment);
        let steered = steered.into_iter().map(|p| (p.submission.id.clone(), p)).collect();
        let joined = joined.into_iter().collect();
        self.state.turn = Some(Turn { machine, params, steered, joined, replaced_by: None });
    }

    fn facts(&self, model: &str) -> ModelFacts {
        self.services.providers().get(model).map(|found| found.facts).unwrap_or_default()
    }
}

fn started_with(events: &[agentd_protocol::event::Event]) -> Option<String> {
    events.iter().find_map(|event| match &event.body {
        agentd_protocol::event::EventBody::TurnStarted { model, .. } => Some(model.clone()),
        _ => None,
    })
}

fn contents(steered: &[SubmitParams]) -> Vec<(agentd_protocol::id::SubmissionId, Vec<Part>)> {
    steered
        .iter()
        .filter_map(|params| match &params.submission.op {
            Op::UserInput { content, .. } => {
                Some((params.submission.id.clone(), content.clone().into_parts()))
            }
            _ => None,
        })
        .collect()
}

fn store_error(error: &store::Error) -> TurnError {
    TurnError {
        code: TurnErrorCode::Store,
        message: format!("the turn was cut off since the store could not be written: {error}"),
        retryable: true,
        status: None,
        provider_code: None,
        attempts: 1,
        retry_at: None,
    }
}

fn context(services: &Services, loaded: &LoadedSession) -> Arc<ToolContext> {
    let session = &loaded.session;
    let config = services.config.current();
    let env = environment::of_session(
        services.environment.clone(),
        &loaded.env,
        loaded.env_mode,
        &config.tools,
    );
    let seen = loaded
        .files_seen
        .iter()
        .map(|(path, sha256)| FileSeen { path: PathBuf::from(path), sha256: sha256.clone() });
    Arc::new(ToolContext {
        session_id: session.session_id.clone(),
        cwd: PathBuf::from(&session.cwd),
        roots: session.roots.iter().map(PathBuf::from).collect(),
        env: Arc::new(env),
        outputs_dir: services.store.outputs_dir(&session.session_id),
        files: Arc::new(FilesSeen::new(seen)),
        keeper: Arc::new(StoreKeeper::new(services.store.clone(), session.session_id.clone())),
        config: Arc::clone(&config.tools),
    })
}

async fn read_state(services: &Arc<Services>, loaded: LoadedSession) -> State {
    let LoadedSession {
        rival_lives,
        mut session,
        queue,
        steered,
        last_end,
        last_work_end,
        epoch,
        next_item_index,
        exited,
        ..
    } = loaded;
    if epoch.is_some() {
        // What is kept of the lease is another's.
        session.lease = None;
    }
    let system = match session.item_count {
        0 => system_item(services, &session.cwd).await,
        _ => None,
    };
    let rules_version = services.rules_version();
    let rules = services.store.rules(Some(&session.session_id)).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "remembered rules cannot be read");
        Vec::new()
    });
    State {
        held: session.queue_held,
        told: (session.state, session.queue_held),
        usage: session.usage,
        processes: session.processes.clone(),
        exited,
        session,
        queue: queue.into(),
        steered,
        turn: None,
        next_index: next_item_index,
        rival_lives,
        last_end,
        last_work_end,
        hold_next: None,
        epoch,
        system,
        rules,
        rules_version,
    }
}

pub(super) async fn system_item(services: &Services, cwd: &str) -> Option<Vec<Part>> {
    let (cwd, now) = (PathBuf::from(cwd), services.clock.now());
    tokio::task::spawn_blocking(move || knowledge::system_text(&cwd, now))
        .await
        .ok()
        .map(|text| vec![Part::text(text)])
}
