//! What every session's actor works with.
//!
//! Receives the parts from `boot`; hands them to actors and to the registry.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use agentd_protocol::daemon::{DaemonEvent, ShutdownMode};
use agentd_protocol::id::{PromptId, RuleId, SessionId};
use agentd_protocol::permission::{RuleInForce, RuleOrigin, Scope};
use tokio::sync::{broadcast, watch};

use crate::clock::Clock;
use crate::config;
use crate::journal::Journal;
use crate::provider::Providers;
use crate::session::watchers::Watchers;
use crate::store::Store;
use crate::tools::Tools;

/// News of sessions that a slow `daemon/subscribe` may be behind; older news is told as missed.
const DAEMON_EVENTS: usize = 256;

/// The parts. One per daemon, shared by all sessions.
#[derive(Debug)]
pub struct Services {
    /// Reads.
    pub store: Store,
    /// Writes and watching.
    pub journal: Journal,
    /// The configuration in force.
    pub config: config::Handle,
    /// The tools.
    pub tools: Tools,
    /// The clock.
    pub clock: Clock,
    /// The daemon's own environment.
    pub environment: BTreeMap<String, String>,
    /// How far a stop has got.
    pub draining: watch::Sender<Option<ShutdownMode>>,
    /// News for `daemon/subscribe`.
    pub daemon_events: broadcast::Sender<Arc<DaemonEvent>>,
    /// Who watches what.
    pub watchers: Watchers,
    /// Which session an open prompt belongs to.
    pub open_prompts: OpenPrompts,
    providers: Mutex<(Arc<config::Config>, Arc<Providers>)>,
    /// Raised whenever a rule is remembered or forgotten.
    rules_version: AtomicU64,
}

impl Services {
    /// The parts, put together.
    pub fn new(
        store: Store,
        config: config::Handle,
        tools: Tools,
        clock: Clock,
        environment: BTreeMap<String, String>,
    ) -> Self {
        let current = config.current();
        let providers = Arc::new(Providers::new(&current, &clock));
        let journal = Journal::new(store.clone());
        Self {
            watchers: Watchers::new(journal.clone()),
            journal,
            store,
            config,
            tools,
            clock,
            environment,
            draining: watch::Sender::new(None),
            daemon_events: broadcast::Sender::new(DAEMON_EVENTS),
            open_prompts: OpenPrompts::default(),
            providers: Mutex::new((current, providers)),
            rules_version: AtomicU64::new(0),
        }
    }

    /// The providers of the configuration in force.
    pub fn providers(&self) -> Arc<Providers> {
        let current = self.config.current();
        let mut kept = self.providers.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&kept.0, &current) {
            let providers = Arc::new(kept.1.renewed(&current));
            *kept = (current, providers);
        }
        Arc::clone(&kept.1)
    }

    /// Whether the daemon is stopping.
    pub(super) fn is_draining(&self) -> bool {
        self.draining.borrow().is_some()
    }

    /// The rules of the configuration.
    pub fn configured_rules(&self) -> Vec<RuleInForce> {
        let config = self.config.current();
        let rules = config.permission.rules.iter().enumerate();
        rules
            .map(|(place, rule)| RuleInForce {
                rule_id: RuleId::from_unique(format!("config_{}", place + 1)),
                rule: rule.clone(),
                scope: Scope::Always,
                origin: RuleOrigin::User,
            })
            .collect()
    }

    /// Remembered rules are to be read again.
    pub fn rules_changed(&self) {
        self.rules_version.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn rules_version(&self) -> u64 {
        self.rules_version.load(Ordering::Acquire)
    }

    /// Tells those who watch the daemon.
    pub fn tell(&self, event: DaemonEvent) {
        // Nobody may be listening.
        let _ = self.daemon_events.send(Arc::new(event));
    }
}

/// Open prompts by id, so that an answer finds its session's mailbox at once.
#[derive(Debug, Default)]
pub struct OpenPrompts(Mutex<BTreeMap<PromptId, SessionId>>);

impl OpenPrompts {
    pub(super) fn add(&self, prompt_id: PromptId, session_id: SessionId) {
        self.lock().insert(prompt_id, session_id);
    }

    pub(super) fn remove(&self, prompt_id: &PromptId) {
        self.lock().remove(prompt_id);
    }

    pub(super) fn session(&self, prompt_id: &PromptId) -> Option<SessionId> {
        self.lock().get(prompt_id).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<PromptId, SessionId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
