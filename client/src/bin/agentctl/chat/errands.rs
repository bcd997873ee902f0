//! What the state wants of the daemon.
//!
//! Submissions go out one after the other, in the order they were made; what only asks goes beside
//! them, so that a slow provider does not hold an interrupt up.
//!
//! Receives effects; hands back events.

use std::collections::VecDeque;
use std::path::PathBuf;

use agentd_client::protocol::daemon::ModelListParams;
use agentd_client::protocol::id::{SessionId, SubmissionId};
use agentd_client::protocol::method::{
    ModelList, ReplyPermission, SessionCreate, SessionDelete, SessionGet, SessionList,
    SessionSubmit, SessionUpdate,
};
use agentd_client::protocol::permission::{PermissionMode, PermissionReplyParams};
use agentd_client::protocol::session::{
    CreateParams, ListParams, Session, SessionParams, UpdateParams,
};
use agentd_client::protocol::submission::{
    OnDisconnect, OnPrompt, Op, Submission, SubmitParams, SubmitResult,
};
use agentd_client::{Client, Error};
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};

use super::files::Files;
use super::local;
use super::state::Event;
use crate::environment;

/// Sessions that are listed.
const SESSIONS: u32 = 50;

/// Errands that are under way.
pub(super) struct Errands {
    client: Client,
    /// Where sessions work and names lead to.
    pub(super) dir: PathBuf,
    /// The session that is open.
    pub(super) session_id: Option<SessionId>,
    pub(super) model: Option<String>,
    pub(super) mode: Option<PermissionMode>,
    running: FuturesUnordered<BoxFuture<'static, Done>>,
    waiting: VecDeque<(SubmissionId, Op, Vec<PathBuf>)>,
    submitting: bool,
    files: Files,
    seeking: bool,
    /// What to look for when the search that runs has ended.
    sought: Option<String>,
}

struct Done {
    events: Vec<Event>,
    was_submission: bool,
}

impl Errands {
    pub(super) fn new(client: Client, dir: PathBuf) -> Self {
        Self {
            client,
            dir,
            session_id: None,
            model: None,
            mode: None,
            running: FuturesUnordered::new(),
            waiting: VecDeque::new(),
            submitting: false,
            files: Files::default(),
            seeking: false,
            sought: None,
        }
    }

    /// What came of the next one that is done; waits for ever where none is under way.
    /// Cancel-safe.
    pub(super) async fn next(&mut self) -> Vec<Event> {
        match self.running.next().await {
            Some(done) => {
                self.submitting &= !done.was_submission;
                if matches!(done.events[..], [Event::Files { .. }]) {
                    self.seeking = false;
                    if let Some(part) = self.sought.take() {
                        self.find(part);
                    }
                }
                done.events
            }
            None => std::future::pending().await,
        }
    }

    fn ask(&self, errand: impl Future<Output = Event> + Send + 'static) {
        let done = errand.map(|event| Done { events: vec![event], was_submission: false });
        self.running.push(done.boxed());
    }

    pub(super) fn models(&self) {
        let client = self.client.clone();
        self.ask(async move {
            let params = ModelListParams { probe: true };
            Event::Models(client.call::<ModelList>(params).await)
        });
    }

    pub(super) fn sessions(&self) {
        let (client, cwd) = (self.client.clone(), self.dir.to_string_lossy().into_owned());
        self.ask(async move {
            let params =
                ListParams { cwd: Some(cwd), limit: Some(SESSIONS), ..ListParams::default() };
            let listed = client.call::<SessionList>(params).await;
            Event::Sessions(listed.map(|listed| listed.sessions))
        });
    }

    pub(super) fn open(&self, session_id: SessionId) {
        let client = self.client.clone();
        self.ask(async move {
            match client.call::<SessionGet>(SessionParams { session_id }).await {
                Ok(session) => Event::Opened(Box::new(session)),
                Err(error) => Event::NotOpened(error.to_string()),
            }
        });
    }

    pub(super) fn reply(&self, params: PermissionReplyParams) {
        let client = self.client.clone();
        self.ask(
            async move { Event::Replied(client.call::<ReplyPermission>(params).await.map(drop)) },
        );
    }

    pub(super) fn rename(&self, title: String) {
        let Some(session_id) = self.session_id.clone() else { return };
        let client = self.client.clone();
        let params = UpdateParams {
            session_id,
            title: Some(title),
            archived: None,
            labels: None,
            cwd: None,
        };
        self.ask(
            async move { Event::Renamed(client.call::<SessionUpdate>(params).await.map(drop)) },
        );
    }

    /// Looks for files; of searches that come while one runs only the last is done.
    pub(super) fn find(&mut self, part: String) {
        if self.seeking {
            self.sought = Some(part);
            return;
        }
        self.seeking = true;
        self.ask(self.files.clone().find(self.dir.clone(), part));
    }

    pub(super) fn submit(&mut self, id: SubmissionId, op: Op, attachments: Vec<PathBuf>) {
        self.waiting.push_back((id, op, attachments));
        self.go_on();
    }

    /// Sends the next submission, if none is under way. To be called when the events of the last
    /// one were taken in: it may have made the session.
    pub(super) fn go_on(&mut self) {
        if self.submitting {
            return;
        }
        let Some((id, op, attachments)) = self.waiting.pop_front() else { return };
        self.submitting = true;
        let create = CreateParams {
            cwd: self.dir.to_string_lossy().into_owned(),
            model: self.model.clone(),
            permission_mode: self.mode,
            env: Some(environment::overlay(std::env::vars_os())),
            ..CreateParams::default()
        };
        let errand = Errand {
            client: self.client.clone(),
            session_id: self.session_id.clone(),
            create,
            dir: self.dir.clone(),
        };
        let done = errand.submit(id, op, attachments);
        let done = done.map(|events| Done { events, was_submission: true });
        self.running.push(done.boxed());
    }
}

/// One submission on its way.
struct Errand {
    client: Client,
    session_id: Option<SessionId>,
    create: CreateParams,
    dir: PathBuf,
}

impl Errand {
    async fn submit(self, id: SubmissionId, op: Op, attachments: Vec<PathBuf>) -> Vec<Event> {
        let (op, complaints) = match op {
            Op::UserInput { content, delivery, expected_turn_id } => {
                let (content, complaints) = local::attach(content, &attachments, &self.dir).await;
                (Op::UserInput { content, delivery, expected_turn_id }, complaints)
            }
            op => (op, Vec::new()),
        };
        let mut events: Vec<Event> = complaints.into_iter().map(Event::NotOpened).collect();
        let (made, outcome) = self.send(&id, op).await;
        events.extend(made.map(|session| Event::Opened(Box::new(session))));
        events.push(Event::Submitted(id, outcome));
        events
    }

    /// Submits, in a new session where none is open; one that was made for nothing goes again.
    async fn send(
        &self,
        id: &SubmissionId,
        op: Op,
    ) -> (Option<Session>, Result<SubmitResult, Error>) {
        let made = match &self.session_id {
            Some(_) => None,
            None => match self.client.call::<SessionCreate>(self.create.clone()).await {
                Ok(session) => Some(session),
                Err(error) => return (None, Err(error)),
            },
        };
        let made_id = made.as_ref().map(|session| session.session_id.clone());
        let session_id = self.session_id.clone().or(made_id).expect("one of them is there");
        let params = SubmitParams {
            session_id: session_id.clone(),
            submission: Submission { id: id.clone(), op },
            limits: None,
            on_disconnect: OnDisconnect::Continue,
            on_prompt: OnPrompt::Wait,
        };
        let outcome = self.client.call::<SessionSubmit>(params).await;
        if made.is_some() && matches!(outcome, Err(Error::Refused(_))) {
            if let Err(error) =
                self.client.call::<SessionDelete>(SessionParams { session_id }).await
            {
                tracing::debug!(%error, "the unused session stays");
            }
            return (None, outcome);
        }
        (made, outcome)
    }
}
