//! The client: one daemon, through as many connections as it takes.
//!
//! Receives calls; hands them to the present connection, or to a new one where it was lost.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentd_protocol::daemon::{ClientInfo, InitializeResult, Role};
use agentd_protocol::id::SessionId;
use agentd_protocol::method::{self, Access, DaemonShutdown, Method, SessionSubmit};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use crate::autostart;
use crate::connection::{Connection, Params};
use crate::endpoint;
use crate::error::Error;
use crate::watch::Watch;

/// How often a daemon that is stopping is looked for.
const GONE_INTERVAL: Duration = Duration::from_millis(15);
/// How long a daemon may take to stop: more than its own time for draining, `drain_timeout`, can
/// be configured, and then the caller may ask again.
const GONE_PATIENCE: Duration = Duration::from_secs(90);

/// What to do when no daemon answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Start {
    /// Start one.
    #[default]
    IfAbsent,
    /// Fail with [`Error::NoDaemon`].
    Never,
}

/// Where to connect and as whom.
#[derive(Debug, Clone)]
pub struct Options {
    /// `--socket`; `None` leaves it to the environment.
    pub socket: Option<PathBuf>,
    /// What to do when no daemon answers.
    pub start: Start,
    /// The daemon's program; `None`: `agentd` beside the running program, else on PATH.
    pub program: Option<PathBuf>,
    /// Who calls.
    pub client: ClientInfo,
    /// What the connection may do.
    pub role: Role,
}

impl Options {
    /// A controller of this name that starts the daemon if it must.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Self {
            socket: None,
            start: Start::IfAbsent,
            program: None,
            client: ClientInfo { name: name.into(), version: version.into() },
            role: Role::Controller,
        }
    }
}

/// A client of one daemon. Cheap to clone; connections end with the last clone.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    path: PathBuf,
    /// How many connections were made.
    made: AtomicU64,
    /// The present connection, in a cell that is filled once and replaced when it is lost.
    present: Mutex<Arc<OnceCell<Connection>>>,
}

impl Client {
    /// Connects, and starts the daemon if the options say so.
    pub async fn connect(options: Options) -> Result<Self, Error> {
        let location = endpoint::socket_location(options.socket.as_deref());
        if let Some(ignored) = &location.ignored_runtime_dir {
            tracing::warn!(dir = %ignored.display(), "XDG_RUNTIME_DIR is not this user's own: ignored");
        }
        let path = location.path;
        let shared =
            Arc::new(Shared { options, path, made: AtomicU64::new(0), present: Mutex::default() });
        let client = Self { shared };
        client.connection(client.start()).await?;
        Ok(client)
    }

    /// The socket.
    pub fn socket(&self) -> &std::path::Path {
        &self.shared.path
    }

    /// What the daemon said of itself.
    pub async fn server(&self) -> Result<InitializeResult, Error> {
        Ok(self.connection(self.start()).await?.server().clone())
    }

    /// How many connections were made so far. The daemon knows a submitter by its connection: who
    /// asked it to act when the submitter is gone sends the submission again when this grows.
    pub fn connections(&self) -> u64 {
        self.shared.made.load(Ordering::Relaxed)
    }

    /// Waits until nobody answers at the socket any more, after `daemon/shutdown`.
    pub async fn gone(&self) -> Result<(), Error> {
        let until = Instant::now() + GONE_PATIENCE;
        while endpoint::connect(&self.shared.path).await?.is_some() {
            if Instant::now() >= until {
                return Err(Error::Timeout { method: DaemonShutdown::NAME });
            }
            tokio::time::sleep(GONE_INTERVAL).await;
        }
        Ok(())
    }

    /// Calls a method. A lost connection is made again; requests that change nothing, and
    /// submissions, which run once however often they are sent, are then sent again.
    pub async fn call<M: Method>(&self, params: M::Params) -> Result<M::Result, Error> {
        let (params, start) = (Params::new(&params), self.start());
        match self.connection(start).await?.call::<M>(&params).await {
            Err(error) if error.is_lost_connection() && is_repeatable::<M>() => {
                self.connection(start).await?.call::<M>(&params).await
            }
            answer => answer,
        }
    }

    /// Watches a session: every event after `since` (`None`: only what is to come), what is in
    /// flight, then what happens; with progress or without. A watch waits for a daemon that is
    /// gone but does not start it, so that one that was stopped stays so; see
    /// [`Watch::reviving`].
    pub fn watch(&self, session_id: SessionId, since: Option<u64>, progress: bool) -> Watch {
        Watch::new(self.clone(), session_id, since, progress)
    }

    /// The present connection, or a new one.
    pub(crate) async fn connection(&self, start: Start) -> Result<Connection, Error> {
        loop {
            let cell = self.present().clone();
            let connection = cell.get_or_try_init(|| self.shared.open(start)).await?;
            if connection.is_open() {
                return Ok(connection.clone());
            }
            let mut present = self.present();
            if Arc::ptr_eq(&present, &cell) {
                *present = Arc::default();
            }
        }
    }

    /// What to do when no daemon answers.
    pub(crate) fn start(&self) -> Start {
        self.shared.options.start
    }

    fn present(&self) -> std::sync::MutexGuard<'_, Arc<OnceCell<Connection>>> {
        self.shared.present.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    async fn open(&self, start: Start) -> Result<Connection, Error> {
        let stream = match (endpoint::connect(&self.path).await?, start) {
            (Some(stream), _) => stream,
            (None, Start::IfAbsent) => {
                autostart::start(&self.path, self.options.program.as_deref()).await?
            }
            (None, Start::Never) => return Err(Error::NoDaemon { path: self.path.clone() }),
        };
        let client = self.options.client.clone();
        let connection = Connection::open(stream, client, self.options.role).await?;
        self.made.fetch_add(1, Ordering::Relaxed);
        Ok(connection)
    }
}

fn is_repeatable<M: Method>() -> bool {
    M::NAME == SessionSubmit::NAME
        || method::find(M::NAME).is_some_and(|method| method.access == Access::Observer)
}

#[cfg(test)]
mod tests {
    use agentd_protocol::daemon::NoParams;
    use agentd_protocol::error::ErrorData;
    use agentd_protocol::method::{
        GetDaemonStatus, SessionCreate, SessionSubscribe, SessionUpdate,
    };
    use agentd_protocol::session::{CreateParams, SubscribeParams};
    use serde_json::json;

    use super::*;
    use crate::fake::Fake;

    fn create() -> CreateParams {
        CreateParams { cwd: "/w".to_owned(), ..CreateParams::default() }
    }

    #[tokio::test]
    async fn a_call_has_its_parameters_by_name_and_a_typed_answer() {
        let fake = Fake::new();
        let (client, mut peer) = fake.client().await;
        let params = SubscribeParams { session_id: "ses_1".into(), since: None, progress: None };
        let (answer, ()) = tokio::join!(client.call::<SessionSubscribe>(params), async {
            let (params, request) = peer.expect("session/subscribe").await;
            assert_eq!(params, json!({ "session_id": "ses_1" }));
            peer.answer(&request, json!("ses_1")).await;
        });
        assert_eq!(answer.unwrap(), "ses_1");
        assert_eq!(client.server().await.unwrap().server.name, "fake");
    }

    #[tokio::test]
    async fn refusals_are_typed_as_far_as_their_kind_is_known() {
        let fake = Fake::new();
        let (client, mut peer) = fake.client().await;
        for (data, known) in [
            (json!({ "kind": "session_not_found", "session_id": "ses_9" }), true),
            (json!({ "kind": "of_the_future", "x": 1 }), false),
        ] {
            let (answer, ()) = tokio::join!(client.call::<SessionCreate>(create()), async {
                let (_, request) = peer.expect("session/create").await;
                let error = json!({ "code": -32001, "message": "no session", "data": data });
                peer.refuse(&request, error).await;
            });
            let error = answer.unwrap_err();
            assert_eq!(error.to_string(), "no session");
            assert_eq!(matches!(error.data(), Some(ErrorData::SessionNotFound { .. })), known);
            let Error::Refused(refusal) = error else { panic!("a refusal") };
            assert_eq!(refusal.raw, Some(data));
        }
    }

    #[tokio::test]
    async fn an_answer_of_another_shape_is_told_apart() {
        let fake = Fake::new();
        let (client, mut peer) = fake.client().await;
        let (answer, ()) = tokio::join!(client.call::<GetDaemonStatus>(NoParams {}), async {
            let (_, request) = peer.expect("daemon/status").await;
            peer.answer(&request, json!({ "pid": "one" })).await;
        });
        assert!(matches!(answer, Err(Error::BadAnswer { method: "daemon/status", .. })));
    }

    #[tokio::test]
    async fn a_lost_connection_is_made_again_and_reads_are_repeated() {
        let fake = Fake::new();
        let (client, mut peer) = fake.client().await;
        let params = SubscribeParams { session_id: "ses_1".into(), since: None, progress: None };
        let (answer, ()) = tokio::join!(client.call::<SessionSubscribe>(params), async {
            peer.expect("session/subscribe").await;
            drop(peer);
            let mut peer = fake.accept().await;
            let (_, request) = peer.expect("session/subscribe").await;
            peer.answer(&request, json!("again")).await;
        });
        assert_eq!(answer.unwrap(), "again");
    }

    #[tokio::test]
    async fn a_change_is_not_repeated_unasked() {
        let fake = Fake::new();
        let (client, mut peer) = fake.client().await;
        let (answer, ()) = tokio::join!(client.call::<SessionCreate>(create()), async {
            peer.expect("session/create").await;
            drop(peer);
        });
        assert!(matches!(answer, Err(Error::Disconnected { .. })));
        assert!(!is_repeatable::<SessionUpdate>() && is_repeatable::<SessionSubmit>());
    }

    #[tokio::test]
    async fn without_a_daemon_it_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let socket = Some(dir.path().join("s"));
        let options = Options { socket, start: Start::Never, ..Options::new("test", "1") };
        assert!(matches!(Client::connect(options).await, Err(Error::NoDaemon { .. })));
    }
}
