//! The registry: finds, loads and unloads sessions, and reads what needs no actor.
//!
//! A session has at most one actor. It is started by the first command and ends when it has been
//! idle for a while; both happen under the registry's one short lock, so no command is lost
//! between them. A panic in an actor ends that session's turn, never the daemon: the session is
//! taken up again as after a crash.
//!
//! Receives requests from `rpc`; hands commands to actors and reads to the store.

mod documents;
mod list;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use agentd_protocol::daemon::{DaemonEvent, ShutdownMode};
use agentd_protocol::id::{SessionId, SubmissionId};
use agentd_protocol::permission::{
    PermissionReply, PermissionReplyParams, PermissionReplyResult, ReplyOutcome,
};
use agentd_protocol::session::{CreateParams, Session, UpdateParams};
use agentd_protocol::submission::{
    OnDisconnect, OnPrompt, Op, Submission, SubmitParams, SubmitResult,
};
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_util::task::TaskTracker;

use super::actor::Actor;
use super::command::{Command, MAILBOX, Submitted};
use super::create;
use super::services::Services;
use super::{Caller, Error};

pub use self::list::Counts;
pub use self::watch::Watch;

/// Sessions that are taken up at the same time: enough to fill a group commit, few enough for
/// their conversations to fit into memory.
const RECOVERED_AT_ONCE: usize = 32;

/// A second panic within this time after the first is not followed by another try.
const PANIC_PAUSE_MS: u64 = 60_000;

/// The registry. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Registry(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    services: Arc<Services>,
    /// When each session's actor panicked last, in boot time.
    panics: Mutex<HashMap<SessionId, u64>>,
    actors: Mutex<HashMap<SessionId, mpsc::Sender<Command>>>,
    tracker: TaskTracker,
}

/// An actor's way out of the registry.
#[derive(Debug, Clone)]
pub(super) struct Retire {
    registry: Weak<Inner>,
    session_id: SessionId,
}

impl Retire {
    /// Takes the actor out if its mailbox is empty; from then on the next command starts another.
    pub(super) fn retire(&self, mailbox: &mpsc::Receiver<Command>) -> bool {
        let Some(registry) = self.registry.upgrade() else { return true };
        let mut actors = registry.actors();
        if !mailbox.is_empty() {
            return false;
        }
        actors.remove(&self.session_id);
        true
    }
}

impl Inner {
    fn actors(&self) -> MutexGuard<'_, HashMap<SessionId, mpsc::Sender<Command>>> {
        self.actors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// A registry over these parts.
    pub fn new(services: Services) -> Self {
        Self(Arc::new(Inner {
            services: Arc::new(services),
            panics: Mutex::default(),
            actors: Mutex::new(HashMap::new()),
            tracker: TaskTracker::new(),
        }))
    }

    /// Takes up every session that a former daemon left with an open turn or with inputs that
    /// wait. To be called before anybody is served.
    pub async fn recover(&self) -> Result<(), Error> {
        let left = self.0.services.store.unfinished_sessions().await.map_err(Error::Store)?;
        for batch in left.chunks(RECOVERED_AT_ONCE) {
            let mut taken_up = Vec::new();
            for session_id in batch {
                tracing::info!(session = %session_id, "taking up what was left");
                let (done, waiting) = oneshot::channel();
                self.send(session_id, Command::Recover { done })?;
                taken_up.push(waiting);
            }
            for waiting in taken_up {
                // One that cannot be read has said so in the log.
                let _ = waiting.await;
            }
        }
        Ok(())
    }

    /// Makes a session.
    pub async fn create(&self, params: CreateParams) -> Result<Session, Error> {
        self.refuse_while_draining()?;
        create::create(&self.0.services, params).await
    }

    fn refuse_while_draining(&self) -> Result<(), Error> {
        if self.0.services.is_draining() { Err(Error::ShuttingDown) } else { Ok(()) }
    }

    /// Changes a session's title, labels, directory or archived flag.
    pub async fn update(&self, params: UpdateParams) -> Result<Session, Error> {
        let (reply, answer) = oneshot::channel();
        let session_id = params.session_id.clone();
        self.send(&session_id, Command::Update { params: Box::new(params), reply })?;
        answer.await.unwrap_or_else(|_| Err(ended()))?;
        self.get(&session_id).await
    }

    /// Deletes an idle session with all it holds.
    pub async fn delete(&self, session_id: &SessionId) -> Result<(), Error> {
        let (reply, answer) = oneshot::channel();
        self.send(session_id, Command::Delete { reply })?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Takes a session's lease from whoever has it.
    pub async fn take_over(&self, session_id: &SessionId) -> Result<Session, Error> {
        let (reply, answer) = oneshot::channel();
        self.send(session_id, Command::TakeOver { reply })?;
        answer.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Hands a submission to its session *before it returns*, so that calls in order are handed
    /// over in order; the future only waits for the answer.
    pub fn submit(
        &self,
        caller: &Caller,
        params: SubmitParams,
    ) -> impl Future<Output = Result<SubmitResult, Error>> + Send + 'static {
        let (reply, answer) = oneshot::channel();
        let session_id = params.session_id.clone();
        let submitted = Box::new(Submitted { params, caller: caller.clone(), reply });
        let sent = self.send(&session_id, Command::Submit(submitted));
        async move {
            sent?;
            answer.await.unwrap_or_else(|_| Err(ended()))
        }
    }

    /// Answers a prompt, likewise in order where the prompt is open.
    pub fn reply(
        &self,
        caller: &Caller,
        params: PermissionReplyParams,
    ) -> impl Future<Output = Result<PermissionReplyResult, Error>> + Send + 'static {
        let PermissionReplyParams { id, prompt_id, decision, scope, rule, message, interrupt } =
            params;
        let id = id.unwrap_or_else(own_submission_id);
        let reply = PermissionReply { prompt_id, decision, scope, rule, message, interrupt };
        let prompt_id = reply.prompt_id.clone();
        let op = Op::PermissionReply(reply);
        let submit = |session_id: SessionId| SubmitParams {
            session_id,
            submission: Submission { id, op },
            limits: None,
            on_disconnect: OnDisconnect::default(),
            on_prompt: OnPrompt::default(),
        };
        let waiting = match self.0.services.open_prompts.session(&prompt_id) {
            Some(session_id) => Ok(self.submit(caller, submit(session_id))),
            None => Err(submit),
        };
        let (registry, caller) = (self.clone(), caller.clone());
        async move {
            let accepted = match waiting {
                Ok(answer) => answer.await?,
                Err(submit) => {
                    let found = registry.0.services.store.prompt(&prompt_id).await;
                    let found = found.map_err(Error::Store)?;
                    let record = found.ok_or(Error::PromptNotFound(prompt_id))?;
                    registry.submit(&caller, submit(record.prompt.session_id)).await?
                }
            };
            let replayed = accepted.replayed;
            Ok(PermissionReplyResult { outcome: ReplyOutcome::Accepted, replayed })
        }
    }

    /// News of sessions, for `daemon/subscribe`.
    pub fn daemon_events(&self) -> broadcast::Receiver<Arc<DaemonEvent>> {
        self.0.services.daemon_events.subscribe()
    }

    /// Refuses new turns from now on.
    pub fn start_draining(&self, mode: ShutdownMode) {
        self.0.services.draining.send_replace(Some(mode));
        self.0.services.tell(DaemonEvent::ShuttingDown { mode });
        self.0.tracker.close();
    }

    /// Waits until every session has stopped: its turn ended, or suspended at a prompt. Bounded by
    /// the drain timeout that each session keeps.
    pub async fn shutdown(&self) {
        if self.0.services.draining.borrow().is_none() {
            self.start_draining(ShutdownMode::Drain);
        }
        self.0.tracker.wait().await;
    }

    /// Puts a command into a session's mailbox, starting its actor if there is none.
    fn send(&self, session_id: &SessionId, command: Command) -> Result<(), Error> {
        let mut actors = self.0.actors();
        let command = match actors.get(session_id) {
            None => command,
            Some(mailbox) => match mailbox.try_send(command) {
                Ok(()) => return Ok(()),
                Err(mpsc::error::TrySendError::Full(_)) => {
                    return Err(Error::Overloaded { retry_after_ms: 100 });
                }
                Err(mpsc::error::TrySendError::Closed(command)) => command,
            },
        };
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        sender.try_send(command).expect("the mailbox is new and empty");
        actors.insert(session_id.clone(), sender);
        self.spawn(session_id.clone(), mailbox);
        Ok(())
    }

    fn spawn(&self, session_id: SessionId, mailbox: mpsc::Receiver<Command>) {
        let retire = Retire { registry: Arc::downgrade(&self.0), session_id: session_id.clone() };
        let services = Arc::clone(&self.0.services);
        let registry = self.clone();
        self.0.tracker.spawn(async move {
            let work = work(services, session_id.clone(), mailbox, retire);
            let ended = tokio::spawn(work).await;
            if ended.is_err() {
                registry.after_panic(&session_id);
            }
        });
    }

    /// A panic ended an actor: its session is taken up as after a crash. If that panics too, it is
    /// left alone until somebody asks for it.
    fn after_panic(&self, session_id: &SessionId) {
        tracing::error!(session = %session_id, "a session's task panicked; its turn is closed");
        let now_ms = self.0.services.clock.boot_ms();
        let mut panics = self.0.panics.lock().unwrap_or_else(PoisonError::into_inner);
        let last = panics.insert(session_id.clone(), now_ms);
        drop(panics);
        if last.is_some_and(|last_ms| now_ms.saturating_sub(last_ms) < PANIC_PAUSE_MS) {
            return;
        }
        let (done, _) = oneshot::channel();
        if let Err(error) = self.send(session_id, Command::Recover { done }) {
            tracing::error!(session = %session_id, %error, "the session was not taken up again");
        }
    }
}

/// An actor's life.
async fn work(
    services: Arc<Services>,
    session_id: SessionId,
    mailbox: mpsc::Receiver<Command>,
    retire: Retire,
) {
    let started = Actor::start(services, session_id.clone(), mailbox, retire.clone()).await;
    match started {
        Ok(actor) => actor.run().await,
        Err((error, mut mailbox)) => {
            while !retire.retire(&mailbox) {
                if let Some(command) = mailbox.recv().await {
                    command.refuse(&error);
                }
            }
        }
    }
}

/// An id for an answer whose client gave none: it is judged by the prompt alone.
fn own_submission_id() -> SubmissionId {
    SubmissionId::try_from(format!("reply:{}", uuid::Uuid::new_v4().simple()))
        .expect("it has 38 characters")
}

fn ended() -> Error {
    Error::Internal("the session's task ended before it answered; ask again".to_owned())
}
