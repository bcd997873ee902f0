//! A daemon without its socket.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agentd_protocol::daemon::{ClientInfo, Role};
use agentd_protocol::event::{Event, EventBody};
use agentd_protocol::id::{PromptId, SessionId};
use agentd_protocol::permission::{Decision, PermissionReplyParams, PermissionReplyResult, Scope};
use agentd_protocol::progress::StreamMessage;
use agentd_protocol::session::{CreateParams, Session, SubscribeParams};
use agentd_protocol::submission::{SubmitParams, SubmitResult};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::config;
use crate::session::{Caller, Error, Registry, Services, Watch};
use crate::store::{Holder, Options, Store, Synchronous};
use crate::tools::Tools;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct House {
    pub(super) registry: Registry,
    pub(super) store: Store,
    pub(super) clock: Clock,
    tools: Tools,
    dir: Arc<TempDir>,
}

/// A watcher that has read some events and not others.
pub(super) struct Eyes {
    watch: Watch,
    pub(super) seen: Vec<Event>,
    pub(super) messages: Vec<StreamMessage>,
    ahead: VecDeque<Event>,
}

impl House {
    pub(super) fn new() -> Self {
        Self::with(Clock::system(), builtin())
    }

    pub(super) fn with(clock: Clock, tools: Tools) -> Self {
        Self::open(Arc::new(ground()), clock, tools, false)
    }

    /// Two daemons over one state.
    pub(super) fn pair() -> (Self, Self) {
        let dir = Arc::new(ground());
        let one = || Self::open(Arc::clone(&dir), Clock::system(), builtin(), true);
        (one(), one())
    }

    fn open(dir: Arc<TempDir>, clock: Clock, tools: Tools, shared: bool) -> Self {
        let sources = config::Sources::default();
        let config = config::Handle::load(sources).expect("the built-in configuration");
        let options = Options {
            synchronous: Synchronous::Normal,
            shared,
            holder: Holder::this_process(uuid::Uuid::new_v4().to_string()),
            lease_ttl: Duration::from_secs(15),
            announcement: String::new(),
        };
        let store =
            Store::open(&dir.path().join("state"), options, clock.clone()).expect("a store");
        let environment = std::collections::BTreeMap::new();
        let services =
            Services::new(store.clone(), config, tools.clone(), clock.clone(), environment);
        Self { registry: Registry::new(services), store, clock, tools, dir }
    }

    pub(super) fn work(&self) -> std::path::PathBuf {
        self.dir.path().join("work")
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.work().join(name), text).expect("a file");
    }

    pub(super) fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.work().join(name)).ok()
    }

    /// Stops as an orderly stop does, and starts again on the same state.
    pub(super) async fn restart(self) -> Self {
        self.registry.shutdown().await;
        let Self { registry, store, clock, tools, dir } = self;
        drop(registry);
        store.close().await.expect("the store closes");
        let house = Self::open(dir, clock, tools, false);
        house.registry.recover().await.expect("recovery");
        house
    }

    pub(super) async fn session(&self, extra: Value) -> Session {
        let mut params = json!({
            "cwd": self.work().to_string_lossy(),
            "model": "demo/demo",
        });
        merge(&mut params, extra);
        let params: CreateParams = serde_json::from_value(params).expect("parameters");
        self.registry.create(params).await.expect("a session")
    }

    pub(super) async fn submit(
        &self,
        session_id: &SessionId,
        id: &str,
        op: Value,
    ) -> Result<SubmitResult, Error> {
        self.submit_with(session_id, id, op, json!({})).await
    }

    pub(super) async fn submit_with(
        &self,
        session_id: &SessionId,
        id: &str,
        op: Value,
        extra: Value,
    ) -> Result<SubmitResult, Error> {
        self.submit_as(&caller(1), session_id, id, op, extra).await
    }

    pub(super) async fn submit_as(
        &self,
        caller: &Caller,
        session_id: &SessionId,
        id: &str,
        op: Value,
        extra: Value,
    ) -> Result<SubmitResult, Error> {
        let mut params = json!({ "session_id": session_id, "submission": { "id": id, "op": op } });
        merge(&mut params, extra);
        let params: SubmitParams = serde_json::from_value(params).expect("parameters");
        self.registry.submit(caller, params).await
    }

    pub(super) async fn say(&self, session_id: &SessionId, id: &str, text: &str) -> SubmitResult {
        let op = json!({ "type": "user_input", "content": text });
        self.submit(session_id, id, op).await.expect("accepted")
    }

    pub(super) async fn reply(
        &self,
        prompt_id: &PromptId,
        decision: Decision,
    ) -> Result<PermissionReplyResult, Error> {
        let params = PermissionReplyParams {
            id: None,
            prompt_id: prompt_id.clone(),
            decision,
            scope: Scope::Once,
            rule: None,
            message: None,
            interrupt: false,
        };
        self.registry.reply(&caller(2), params).await
    }

    pub(super) async fn watch(&self, session_id: &SessionId) -> Eyes {
        self.watch_as(session_id, &caller(9), Role::Observer).await
    }

    pub(super) async fn watch_as(
        &self,
        session_id: &SessionId,
        caller: &Caller,
        role: Role,
    ) -> Eyes {
        let params =
            SubscribeParams { session_id: session_id.clone(), since: Some(0), progress: None };
        Eyes::of(self.registry.subscribe(caller, role, params).await.expect("a subscription"))
    }

    /// Gives the session a title.
    pub(super) async fn rename(
        &self,
        session_id: &SessionId,
        title: &str,
    ) -> Result<Session, Error> {
        let params = json!({ "session_id": session_id, "title": title });
        self.registry.update(serde_json::from_value(params).expect("parameters")).await
    }
}

pub(super) fn caller(connection: u64) -> Caller {
    Caller {
        client: ClientInfo { name: "test".to_owned(), version: "1".to_owned() },
        connection,
        gone: CancellationToken::new(),
    }
}

fn ground() -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::create_dir(dir.path().join("work")).expect("a directory");
    dir
}

pub(super) fn builtin() -> Tools {
    Tools::builtin("/nonexistent/agentd".into(), "dmn_1")
}

/// What a future comes to, while time passes on a manual clock.
pub(super) async fn passing<T>(clock: &Clock, future: impl Future<Output = T>) -> T {
    tokio::pin!(future);
    loop {
        tokio::select! {
            done = &mut future => return done,
            () = tokio::task::yield_now() => clock.advance(Duration::from_millis(10)),
        }
    }
}

fn merge(into: &mut Value, extra: Value) {
    let (Value::Object(into), Value::Object(extra)) = (into, extra) else { return };
    into.extend(extra);
}

impl Eyes {
    pub(super) fn of(watch: Watch) -> Self {
        Self { watch, seen: Vec::new(), messages: Vec::new(), ahead: VecDeque::new() }
    }

    /// Reads on until an event is as wanted.
    pub(super) async fn until(&mut self, wanted: impl Fn(&EventBody) -> bool) -> Event {
        loop {
            let event = self.next().await;
            if wanted(&event.body) {
                return event;
            }
        }
    }

    /// Reads on to the end of a turn.
    pub(super) async fn end(&mut self) -> Event {
        self.until(EventBody::is_terminal).await
    }

    /// Reads on to an open prompt.
    pub(super) async fn prompt(&mut self) -> PromptId {
        let event = self.until(|body| matches!(body, EventBody::PermissionRequested { .. })).await;
        match event.body {
            EventBody::PermissionRequested { prompt } => prompt.prompt_id,
            other => panic!("{other:?}"),
        }
    }

    /// Reads on to an event after this one.
    pub(super) async fn after(&mut self, seq: u64) {
        while self.next().await.seq <= seq {}
    }

    /// The next message, whatever it is.
    pub(super) async fn message(&mut self) -> StreamMessage {
        let line = tokio::time::timeout(PATIENCE, self.watch.next()).await;
        let line = line.expect("a message").expect("the session is there");
        let message: Value = serde_json::from_slice(&line).expect("JSON");
        serde_json::from_value(message["params"]["result"].clone()).expect("a message")
    }

    async fn next(&mut self) -> Event {
        loop {
            if let Some(event) = self.ahead.pop_front() {
                self.seen.push(event.clone());
                return event;
            }
            let next = tokio::time::timeout(PATIENCE, self.watch.next()).await;
            let Ok(line) = next else { panic!("nothing more came after {:#?}", self.names()) };
            let line = line.expect("the session is there");
            let message: Value = serde_json::from_slice(&line).expect("JSON");
            let message: StreamMessage =
                serde_json::from_value(message["params"]["result"].clone()).expect("a message");
            if let StreamMessage::Event(event) = &message {
                self.ahead.push_back((**event).clone());
            }
            self.messages.push(message);
        }
    }

    pub(super) fn names(&self) -> Vec<&'static str> {
        self.seen.iter().map(|event| event.body.name()).collect()
    }
}

/// The wire's text of a path.
pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
