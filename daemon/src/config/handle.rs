//! The configuration in force, shared by the whole daemon.
//!
//! Receives a [`Loaded`] configuration; hands the current one to whoever asks, and reloads it.

use std::collections::BTreeMap;
use std::sync::Arc;

use agentd_protocol::daemon;
use serde_json::Value;
use tokio::sync::watch;

use crate::config::Config;
use crate::config::error::ConfigError;
use crate::config::load::{Loaded, Sources, load};

/// The configuration in force. Cheap to clone; clones change together.
#[derive(Debug, Clone)]
pub struct Handle {
    sources: Arc<Sources>,
    loaded: Arc<watch::Sender<Arc<Loaded>>>,
}

impl Handle {
    /// Loads the configuration for the first time. Blocks on files.
    pub fn load(sources: Sources) -> Result<Self, ConfigError> {
        let loaded = load(&sources)?;
        Ok(Self {
            sources: Arc::new(sources),
            loaded: Arc::new(watch::Sender::new(Arc::new(loaded))),
        })
    }

    /// The configuration now. Who keeps it keeps this one, whatever is reloaded.
    pub fn current(&self) -> Arc<Config> {
        self.loaded.borrow().config.clone()
    }

    /// The configuration now, with where it comes from.
    pub fn loaded(&self) -> Arc<Loaded> {
        self.loaded.borrow().clone()
    }

    /// For `daemon/config`.
    pub fn view(&self) -> daemon::DaemonConfig {
        self.loaded().view()
    }

    /// Where the configuration comes from.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// Reads everything and says which keys are not what is in force.
    pub async fn compare(&self) -> Result<Vec<String>, ConfigError> {
        let loaded = self.read().await?;
        Ok(loaded.map(|loaded| changed(&self.loaded(), &loaded)).unwrap_or_default())
    }

    /// What the sources say now; `None` only from a runtime that is being torn down, which drops
    /// what it was given.
    async fn read(&self) -> Result<Option<Loaded>, ConfigError> {
        let sources = self.sources.clone();
        tokio::task::spawn_blocking(move || load(&sources)).await.ok().transpose()
    }

    /// Reads everything again and says which keys changed. With an error the last good
    /// configuration stays in force.
    pub async fn reload(&self) -> Result<Vec<String>, ConfigError> {
        let Some(loaded) = self.read().await? else { return Ok(Vec::new()) };
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        let before = self.loaded.send_replace(Arc::new(loaded));
        Ok(changed(&before, &self.loaded()))
    }
}

fn changed(before: &Loaded, after: &Loaded) -> Vec<String> {
    let values =
        |loaded: &Loaded| -> BTreeMap<String, Value> { loaded.values().into_iter().collect() };
    let (before, after) = (values(before), values(after));
    let mut keys: Vec<String> = before
        .keys()
        .chain(after.keys())
        .filter(|key| before.get(*key) != after.get(*key))
        .cloned()
        .collect();
    keys.sort();
    keys.dedup();
    keys
}
