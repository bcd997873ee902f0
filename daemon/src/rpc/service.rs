//! What the handlers serve: the sessions, and the daemon as it is.
//!
//! Receives its parts from `boot`; hands them to `handlers`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use agentd_protocol::daemon::{DaemonEvent, DaemonInfo, ShutdownMode, WireLimits};
use serde_json::Value;
use tokio::sync::{broadcast, watch};

use crate::config;
use crate::session::registry::Registry;

/// What the handlers serve.
#[derive(Debug)]
pub struct Service {
    /// The sessions.
    pub registry: Registry,
    /// The configuration in force.
    pub config: config::Handle,
    /// News of the daemon itself, for `daemon/subscribe`.
    pub news: broadcast::Sender<Arc<DaemonEvent>>,
    /// Who the daemon is.
    pub info: DaemonInfo,
    /// When it started, for its uptime.
    pub started: Instant,
    /// Where it listens.
    pub socket: PathBuf,
    /// Where it keeps its state.
    pub state_dir: PathBuf,
    /// What it can do; `module` finds it out.
    pub capabilities: OnceLock<BTreeMap<String, Value>>,
    /// What it takes at most.
    pub limits: WireLimits,
    /// How many connections there are.
    pub connections: watch::Receiver<usize>,
    /// How it was asked to stop, if it was; `boot` acts on it.
    pub stop: watch::Sender<Option<ShutdownMode>>,
}
