//! The composition root: puts the parts together, starts them in order, ends them in order.
//!
//! ```text
//! configuration ─> log ─> the one instance (lock, store) ─> sessions ─> socket ─> ready
//!    … served …
//! stop accepting ─> drain the turns ─> end the connections ─> close the store
//! ```
//!
//! Everything that the rest of the daemon is told about its surroundings (flags, environment,
//! places, identity) is found here and handed down, so that no other module looks for itself.
//!
//! Receives the command line from `main`; hands parts to each other, and an exit code back.

mod error;
mod instance;
mod log_file;
mod mask;
mod notify;
mod place;
mod probe;
mod shutdown;
mod socket;
mod telemetry;

use std::io::Write;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use agentd_protocol::daemon::{DaemonInfo, WireLimits};
use agentd_protocol::id::DaemonId;
use listenfd::ListenFd;
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

use crate::boot::instance::{Instance, PATIENCE};
use crate::boot::shutdown::Signals;
use crate::boot::socket::Socket;
use crate::boot::telemetry::Sink;
use crate::clock::Clock;
use crate::config;
use crate::launcher;
use crate::rpc::{self, Dispatch, Door, Service};
use crate::session::{Registry, Services};
use crate::store::{self, Store};
use crate::tools::{Tools, environment};

pub use error::Error;
pub use telemetry::Format;

/// What the command line says.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// The socket.
    pub socket: Option<PathBuf>,
    /// The state directory.
    pub state_dir: Option<PathBuf>,
    /// The log's level, or a filter of `tracing`.
    pub log_level: String,
    /// How the log looks.
    pub log_format: Format,
    /// Share the database with other daemons, whatever the configuration says.
    pub shared: bool,
    /// A client started this and will not read its stderr: log into the state directory.
    pub autostart: bool,
}

/// News of the daemon itself that a slow client may be behind; it is rare, and more is told as
/// missed.
const NEWS: usize = 16;
/// What the drain may take longer than its time-out: killing tools and a last commit.
const DRAIN_GRACE: Duration = Duration::from_secs(10);
/// How long blocking reads may go on after everything else has ended.
const LAST_READS: Duration = Duration::from_secs(1);

/// The daemon's whole life.
pub fn run(options: &Options) -> ExitCode {
    // Before there are threads, since it takes variables out of the environment.
    let inherited = ListenFd::from_env();
    match start(options, inherited) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "agentd: {}", error.story());
            error.exit_code()
        }
    }
}

fn start(options: &Options, mut inherited: ListenFd) -> Result<(), Error> {
    if options.autostart {
        // The terminal of the client that started this one is none of ours. A process that leads
        // its group cannot leave its session, and does without.
        let _ = rustix::process::setsid();
    }
    let sources = config::Sources::of_process(options.config.clone());
    let home = sources.home.clone();
    let config = config::Handle::load(sources)?;
    let named = options.state_dir.clone();
    let state_dir = place::state_dir(named, |name| std::env::var_os(name), home.as_deref())?;
    let log = telemetry::start(&options.log_level, options.log_format)?;
    for warning in &config.loaded().warnings {
        tracing::warn!("{warning}");
    }
    let inherited = inherited.take_unix_listener(0).map_err(Error::Inherited)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(Error::Runtime)?;
    let ended = runtime.block_on(live(options, config, &state_dir, &log, inherited));
    runtime.shutdown_timeout(LAST_READS);
    ended
}

async fn live(
    options: &Options,
    config: config::Handle,
    state_dir: &Path,
    log: &Sink,
    inherited: Option<UnixListener>,
) -> Result<(), Error> {
    let mut signals = Signals::new().map_err(Error::Signals)?;
    let clock = Clock::system();
    let uid = rustix::process::geteuid().as_raw();
    let location = place::socket(options.socket.as_deref())?;
    if let Some(ignored) = location.ignored_runtime_dir.as_ref().filter(|_| inherited.is_none()) {
        tracing::warn!(
            "XDG_RUNTIME_DIR is ignored: {} is not a directory of user {uid} that others cannot \
             write to",
            ignored.display()
        );
    }
    let info = DaemonInfo {
        id: DaemonId::from_unique(uuid::Uuid::now_v7().simple()),
        pid: std::process::id(),
        started_at: clock.now(),
    };
    let inherited = inherited.map(|listener| (Socket::inherited(&listener), listener));
    let path = inherited.as_ref().map_or(&location.path, |(socket, _)| &socket.path).clone();
    let store_options = store_options(options, &config, &info, &path);
    let taking = {
        let (state_dir, clock) = (state_dir.to_owned(), clock.clone());
        move || instance::take(&state_dir, &store_options, &clock, &path, PATIENCE)
    };
    let taken = tokio::select! {
        taken = tokio::task::spawn_blocking(taking) => taken,
        () = signals.stop() => return Ok(()),
    };
    let store = match taken.map_err(|error| Error::Runtime(error.into()))?? {
        Instance::Ours(store) => store,
        Instance::Served { pid } => {
            tracing::info!("process {pid} serves {} already", state_dir.display());
            return Ok(());
        }
    };
    if options.autostart {
        log.move_to(state_dir, config.current().log.max_bytes);
    }
    let served = async {
        let (socket, listener) = match inherited {
            Some(inherited) => inherited,
            None => Socket::bind(&location, uid)?,
        };
        let registry = sessions(&store, &config, &clock, info.id.as_str());
        registry.recover().await.map_err(Error::Recovery)?;
        let parts = Parts { info, state_dir, config, registry, socket, listener, uid };
        serve(parts, &mut signals).await
    };
    let served = served.await;
    if let Err(error) = store.close().await {
        tracing::error!(%error, "the store was not closed in order");
    }
    served
}

fn store_options(
    options: &Options,
    config: &config::Handle,
    info: &DaemonInfo,
    socket: &Path,
) -> store::Options {
    let current = config.current();
    store::Options {
        synchronous: match current.store.synchronous {
            config::Synchronous::Full => store::Synchronous::Full,
            config::Synchronous::Normal => store::Synchronous::Normal,
        },
        shared: options.shared || current.store.shared,
        holder: store::Holder::this_process(info.id.as_str()),
        lease_ttl: current.daemon.lease_ttl,
        announcement: format!("process {}, socket {}", info.pid, socket.display()),
    }
}

fn sessions(store: &Store, config: &config::Handle, clock: &Clock, id: &str) -> Registry {
    let program = launcher::this_program().unwrap_or_else(|error| {
        tracing::warn!(%error, "the program does not know its own path; commands will not run");
        PathBuf::from("agentd")
    });
    let (tools, environment) = (Tools::builtin(program, id), environment::of_daemon());
    Registry::new(Services::new(store.clone(), config.clone(), tools, clock.clone(), environment))
}

/// What serving needs.
struct Parts<'a> {
    info: DaemonInfo,
    state_dir: &'a Path,
    config: config::Handle,
    registry: Registry,
    socket: Socket,
    listener: UnixListener,
    uid: u32,
}

/// Serves until there is a reason to stop, then stops in order.
async fn serve(parts: Parts<'_>, signals: &mut Signals) -> Result<(), Error> {
    let Parts { info, state_dir, config, registry, mut socket, listener, uid } = parts;
    let current = config.current();
    let count = watch::Sender::new(0);
    let stop = watch::Sender::new(None);
    let mut requested = stop.subscribe();
    let connections = count.subscribe();
    let path = socket.path.clone();
    let own_pid = info.pid;
    let door = Door {
        dispatch: Dispatch {
            max_message_bytes: current.server.max_message_bytes,
            methods: rpc::methods(Service {
                registry: registry.clone(),
                config,
                news: broadcast::Sender::new(NEWS),
                info,
                started: Instant::now(),
                socket: path.clone(),
                state_dir: state_dir.to_owned(),
                capabilities: OnceLock::new(),
                limits: limits(&current.server),
                connections: connections.clone(),
                stop,
            }),
        },
        owner: uid,
        // Every process that the daemon starts is a tool's.
        is_tool: Arc::new(move |_, parent| parent == own_pid),
        max_connections: current.server.max_connections,
        count,
    };
    let accept = |error| Error::io("accept connections at", &path, error);
    listener.set_nonblocking(true).map_err(accept)?;
    let listener = tokio::net::UnixListener::from_std(listener).map_err(accept)?;
    let (stop_accepting, end) = (CancellationToken::new(), CancellationToken::new());
    let door = tokio::spawn(rpc::run(door, listener, stop_accepting.clone(), end.clone()));
    tracing::info!(socket = %path.display(), state_dir = %state_dir.display(), "ready");
    notify::ready();

    let idle = shutdown::idle(current.daemon.idle_exit, connections, &registry);
    let mode = shutdown::reason(signals, &mut requested, idle).await;
    notify::stopping();
    // In this order, so that no other start finds a socket without a listener and removes it.
    socket.unlink();
    stop_accepting.cancel();
    let longest = current.daemon.drain_timeout + DRAIN_GRACE;
    let drained = shutdown::drain(mode, &registry, signals, &mut requested);
    if tokio::time::timeout(longest, drained).await.is_err() {
        tracing::error!("turns did not end in time; they are closed at the next start");
    }
    end.cancel();
    if let Err(error) = door.await {
        tracing::error!(%error, "connections did not end in order");
    }
    tracing::info!("stopped");
    Ok(())
}

fn limits(server: &config::ServerConfig) -> WireLimits {
    WireLimits {
        max_message_bytes: server.max_message_bytes as u64,
        max_connections: server.max_connections as u64,
        max_batch: rpc::MAX_BATCH as u64,
        max_calls: rpc::MAX_CALLS as u64,
    }
}
