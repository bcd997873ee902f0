//! What can be read of the store, each as of one moment.
//!
//! Receives questions of `journal` and `session`; hands each to a reader.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_protocol::id::{ItemId, PromptId, SessionId, SubmissionId, TurnId};
use agentd_protocol::permission::{Prompt, RuleInForce};
use agentd_protocol::session::{
    EventsParams, EventsResult, ItemsParams, ItemsResult, ListParams, ListResult, SearchParams,
    SearchResult, Session,
};
use agentd_protocol::submission::SubmitResult;

use super::error::Error;
use super::events::{self, Span};
use super::file_versions::{self, Deeds};
use super::handle::Store;
use super::record::{LoadedSession, PromptRecord, Snapshot};
use super::{
    MAX_PAGE_BYTES, items, lease, list, load, page_limit, prompts, rules, search, sessions,
    submissions,
};

impl Store {
    /// What an actor needs to take a session up.
    pub async fn load(&self, session_id: &SessionId) -> Result<LoadedSession, Error> {
        let (standing, session_id) = (Arc::clone(&self.0.standing), session_id.clone());
        self.read("load a session", move |conn| load::session(conn, &session_id, standing.terms()))
            .await
    }

    /// What a watcher's join is seeded with.
    pub async fn snapshot(&self, session_id: &SessionId) -> Result<Snapshot, Error> {
        let (standing, session_id) = (Arc::clone(&self.0.standing), session_id.clone());
        self.read("read a session", move |conn| load::snapshot(conn, &session_id, standing.terms()))
            .await
    }

    /// One session, with its queue, prompts and lease.
    pub async fn session(&self, session_id: &SessionId) -> Result<Session, Error> {
        let (standing, session_id) = (Arc::clone(&self.0.standing), session_id.clone());
        self.read("read a session", move |conn| {
            let (key, _) = sessions::find(conn, &session_id)?;
            sessions::read(conn, key, standing.terms())
        })
        .await
    }

    /// How often the session's lease changed hands: whoever took it last, that is its epoch.
    pub async fn lease_epoch(&self, session_id: &SessionId) -> Result<u64, Error> {
        let session_id = session_id.clone();
        self.read("read a lease", move |conn| {
            let (session, _) = sessions::find(conn, &session_id)?;
            lease::epoch(conn, session)
        })
        .await
    }

    /// The number of the session's last event.
    pub async fn head(&self, session_id: &SessionId) -> Result<u64, Error> {
        let session_id = session_id.clone();
        self.read("read a session", move |conn| Ok(sessions::find(conn, &session_id)?.1)).await
    }

    /// A page of sessions.
    pub async fn list(&self, params: ListParams) -> Result<ListResult, Error> {
        let standing = Arc::clone(&self.0.standing);
        self.read("list sessions", move |conn| list::page(conn, &params, standing.terms())).await
    }

    /// Sessions whose turn is open, or whose queue could go on: what a start has to look after.
    pub async fn unfinished_sessions(&self) -> Result<Vec<SessionId>, Error> {
        self.read("list sessions", list::unfinished).await
    }

    /// How many sessions are in each state, by its word on the wire.
    pub async fn counts_by_state(&self) -> Result<BTreeMap<String, u64>, Error> {
        self.read("count sessions", list::by_state).await
    }

    /// A page of items.
    pub async fn items(&self, params: ItemsParams) -> Result<ItemsResult, Error> {
        self.read("read items", move |conn| items::page(conn, &params)).await
    }

    /// A page of events.
    pub async fn events(&self, params: EventsParams) -> Result<EventsResult, Error> {
        let max_events = page_limit(params.limit)?;
        self.read("read events", move |conn| {
            let (session, head) = sessions::find(conn, &params.session_id)?;
            let span = Span {
                after: params.after.unwrap_or(0),
                until: head,
                turn_id: None,
                max_events,
                max_bytes: MAX_PAGE_BYTES,
            };
            let events = events::values(conn, session, &params.session_id, span)?;
            Ok(events::result(events, head))
        })
        .await
    }

    /// A page of events as JSON, each with its number: those after `after` up to `until`, no more
    /// than `max_events` and no more once `max_bytes` are reached.
    pub async fn event_lines(
        &self,
        session_id: &SessionId,
        (after, until): (u64, u64),
        (max_events, max_bytes): (usize, usize),
    ) -> Result<Vec<(u64, String)>, Error> {
        let session_id = session_id.clone();
        self.read("read events", move |conn| {
            let (session, _) = sessions::find(conn, &session_id)?;
            let span = Span { after, until, turn_id: None, max_events, max_bytes };
            events::page(conn, session, &session_id, span)
        })
        .await
    }

    /// What was sent and answered under this id: the digest and the result.
    pub async fn submission(
        &self,
        session_id: &SessionId,
        submission_id: &SubmissionId,
    ) -> Result<Option<(String, SubmitResult)>, Error> {
        let (session_id, submission_id) = (session_id.clone(), submission_id.clone());
        self.read("read a submission", move |conn| {
            submissions::find(conn, &session_id, &submission_id)
        })
        .await
    }

    /// Open permission prompts of one session or of all, oldest first.
    pub async fn open_prompts(&self, session_id: Option<&SessionId>) -> Result<Vec<Prompt>, Error> {
        let session_id = session_id.cloned();
        self.read("read prompts", move |conn| {
            prompts::open_of_kind(conn, session_id.as_ref(), "permission")
        })
        .await
    }

    /// A prompt by its id, open or not.
    pub async fn prompt(&self, prompt_id: &PromptId) -> Result<Option<PromptRecord>, Error> {
        let prompt_id = prompt_id.clone();
        self.read("read a prompt", move |conn| prompts::find(conn, &prompt_id)).await
    }

    /// The remembered rules in force: everywhere, and for this session where one is named.
    pub async fn rules(&self, session_id: Option<&SessionId>) -> Result<Vec<RuleInForce>, Error> {
        let session_id = session_id.cloned();
        self.read("read rules", move |conn| rules::in_force(conn, session_id.as_ref())).await
    }

    /// What SQLite finds to be damaged, reading all of the database.
    pub async fn check(&self) -> Result<Vec<String>, Error> {
        self.read("check the database", |conn| {
            let found: Vec<String> = conn
                .prepare("PRAGMA quick_check")?
                .query_map([], |row| row.get(0))?
                .collect::<Result<_, _>>()?;
            Ok(found.into_iter().filter(|line| line != "ok").collect())
        })
        .await
    }

    /// What the calls of these turns did to the world.
    pub async fn deeds_of_turns(
        &self,
        session_id: &SessionId,
        turns: Vec<TurnId>,
    ) -> Result<Deeds, Error> {
        let session_id = session_id.clone();
        self.read("read former files", move |conn| {
            file_versions::of_turns(conn, &session_id, &turns)
        })
        .await
    }

    /// What a rollback did to files, by its marker.
    pub async fn deeds_of(&self, session_id: &SessionId, by: &ItemId) -> Result<Deeds, Error> {
        let (session_id, by) = (session_id.clone(), by.clone());
        self.read("read former files", move |conn| {
            file_versions::of(conn, &session_id, by.as_str())
        })
        .await
    }

    /// Items and titles with these words. What was said a moment ago is indexed first, as far as
    /// that is a matter of moments; a store that cannot be written is searched as it is.
    pub async fn search(&self, params: SearchParams) -> Result<SearchResult, Error> {
        for _ in 0..search::MAX_STEPS {
            if !matches!(self.write("index", search::index_step).await, Ok(true)) {
                break;
            }
        }
        self.read("search", move |conn| search::matches(conn, &params)).await
    }
}
