//! The registry: finds, loads and unloads sessions, and reads what needs no actor.
//!
//! Receives requests from `rpc`; hands submissions to actors and reads to the store.

use std::future::Future;
use std::sync::Arc;

use agentd_protocol::daemon::{DaemonEvent, ModelListResult, Role, ShutdownMode, ToolListResult};
use agentd_protocol::id::SessionId;
use agentd_protocol::permission::{
    PermissionListParams, PermissionListResult, PermissionReplyParams, PermissionReplyResult,
};
use agentd_protocol::session::{
    CreateParams, EventsParams, EventsResult, ItemsParams, ItemsResult, ListParams, ListResult,
    Session, SubscribeParams, UpdateParams,
};
use agentd_protocol::submission::{SubmitParams, SubmitResult};
use tokio::sync::broadcast;

use super::{Caller, Error};
use crate::journal::Subscription;

/// The registry. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Registry {}

/// What the daemon is doing, for `daemon/status`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Sessions by state, as on the wire.
    pub sessions: std::collections::BTreeMap<String, u64>,
    /// Turns that run or wait.
    pub turns_running: u64,
    /// Bytes of the database and its log.
    pub store_bytes: u64,
}

/// A subscription that its session knows of.
#[derive(Debug)]
pub struct Watch {
    subscription: Subscription,
}

impl Watch {
    /// The next message: a whole JSON-RPC notification `session/event`, without framing. `None`
    /// when the session was deleted. Cancel-safe.
    pub async fn next(&mut self) -> Option<bytes::Bytes> {
        self.subscription.next().await
    }
}

impl Registry {
    /// Makes a session.
    pub async fn create(&self, _caller: &Caller, _params: CreateParams) -> Result<Session, Error> {
        unimplemented!()
    }

    /// A page of sessions.
    pub async fn list(&self, _params: ListParams) -> Result<ListResult, Error> {
        unimplemented!()
    }

    /// One session.
    pub async fn get(&self, _session_id: &SessionId) -> Result<Session, Error> {
        unimplemented!()
    }

    /// Changes a session's title, labels, directory or archived flag.
    pub async fn update(&self, _caller: &Caller, _params: UpdateParams) -> Result<Session, Error> {
        unimplemented!()
    }

    /// Deletes an idle session.
    pub async fn delete(&self, _session_id: &SessionId) -> Result<(), Error> {
        unimplemented!()
    }

    /// A page of items.
    pub async fn items(&self, _params: ItemsParams) -> Result<ItemsResult, Error> {
        unimplemented!()
    }

    /// A page of events.
    pub async fn events(&self, _params: EventsParams) -> Result<EventsResult, Error> {
        unimplemented!()
    }

    /// Hands a submission to its session *before it returns*, so that calls in order are handed
    /// over in order; the future only waits for the answer.
    pub fn submit(
        &self,
        _caller: &Caller,
        _params: SubmitParams,
    ) -> impl Future<Output = Result<SubmitResult, Error>> + Send + 'static {
        async { unimplemented!() }
    }

    /// Answers a prompt, likewise in order.
    pub fn reply(
        &self,
        _caller: &Caller,
        _params: PermissionReplyParams,
    ) -> impl Future<Output = Result<PermissionReplyResult, Error>> + Send + 'static {
        async { unimplemented!() }
    }

    /// Open prompts.
    pub async fn prompts(
        &self,
        _params: PermissionListParams,
    ) -> Result<PermissionListResult, Error> {
        unimplemented!()
    }

    /// Watches a session. `role` says whether the watcher could answer prompts; it counts as
    /// watching until the [`Watch`] is dropped.
    pub async fn subscribe(
        &self,
        _caller: &Caller,
        _role: Role,
        _params: SubscribeParams,
    ) -> Result<Watch, Error> {
        unimplemented!()
    }

    /// News of sessions, for `daemon/subscribe`.
    pub fn daemon_events(&self) -> broadcast::Receiver<Arc<DaemonEvent>> {
        unimplemented!()
    }

    /// The models that can be used.
    pub fn models(&self) -> ModelListResult {
        unimplemented!()
    }

    /// The tools that models can call.
    pub fn tools(&self) -> ToolListResult {
        unimplemented!()
    }

    /// What the daemon is doing.
    pub async fn counts(&self) -> Result<Counts, Error> {
        unimplemented!()
    }

    /// Refuses new turns from now on; how many are running.
    pub fn start_draining(&self, _mode: ShutdownMode) -> u64 {
        unimplemented!()
    }

    /// Ends or suspends every turn within the configured time and stops every actor.
    pub async fn shutdown(&self) {
        unimplemented!()
    }
}
