//! HTTP clients: as few as there are different settings, made when first used.
//!
//! A client holds the kept connections, and making one reads the system's certificates (some
//! milliseconds), so providers with the same settings share one. A server on this machine is
//! spoken to directly whatever the environment says about proxies, unless its own table names one.
//!
//! A machine that slept has connections that nobody at the other end knows any more, and nothing
//! says so before a time-out: after a sleep, which is boot time that the running clock did not count,
//! the kept connections are given up.
//!
//! Receives a provider's settings; hands out clients.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::{Certificate, Client, Proxy, Url, redirect, retry};
use tokio::sync::OnceCell;

use crate::clock::Clock;
use crate::config::ProviderConfig;
use crate::provider::Carriage;

/// How often an idle HTTP/2 connection is checked.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// The two clocks drift apart by less while the machine is awake.
const SLEEP_MS: u64 = 1_000;

/// All the clients.
#[derive(Debug, Default)]
pub(in crate::provider) struct Transports(HashMap<Settings, Transport>);

/// What tells clients apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Settings {
    connect_timeout: Duration,
    proxy: Option<String>,
    ca_file: Option<PathBuf>,
    direct: bool,
}

/// Clients that are made when first used. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Transport(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    settings: Settings,
    usual: Mutex<Usual>,
    /// Keeps no connection, so that each request has one of its own.
    fresh: Arc<OnceCell<Client>>,
    /// The same, and never HTTP/2.
    http1: Arc<OnceCell<Client>>,
}

/// The client that keeps its connections.
#[derive(Debug, Default)]
struct Usual {
    client: Arc<OnceCell<Client>>,
    /// When it was last asked for: as the process runs, and in boot time.
    used_at: Option<(Instant, u64)>,
}

impl Usual {
    /// The client; another one if the machine slept since it was last asked for.
    fn awake(&mut self, boot_ms: u64) -> Arc<OnceCell<Client>> {
        let slept = self.used_at.map_or(0, |(at, then_ms)| {
            let ran_ms = u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
            boot_ms.saturating_sub(then_ms).saturating_sub(ran_ms)
        });
        if slept > SLEEP_MS {
            self.client = Arc::default();
        }
        self.used_at = Some((Instant::now(), boot_ms));
        Arc::clone(&self.client)
    }
}

impl Transports {
    /// The client for a provider at `url`.
    pub(super) fn of(&mut self, config: &ProviderConfig, url: &Url) -> Transport {
        let settings = Settings {
            connect_timeout: config.connect_timeout,
            proxy: config.proxy.clone(),
            ca_file: config.ca_file.clone(),
            direct: config.proxy.is_none() && is_local(url),
        };
        let make = || Shared {
            settings: settings.clone(),
            usual: Mutex::default(),
            fresh: Arc::default(),
            http1: Arc::default(),
        };
        self.0.entry(settings.clone()).or_insert_with(|| Transport(Arc::new(make()))).clone()
    }
}

impl Transport {
    /// The client for a carriage. `Err` says which setting is wrong.
    pub(super) async fn client(&self, carriage: Carriage, clock: &Clock) -> Result<Client, String> {
        let make = || async {
            let settings = self.0.settings.clone();
            // It reads files.
            tokio::task::spawn_blocking(move || settings.client(carriage))
                .await
                .map_err(|error| format!("the HTTP client cannot be made: {error}"))?
        };
        let client = match carriage {
            Carriage::Usual => {
                let mut usual = self.0.usual.lock().unwrap_or_else(PoisonError::into_inner);
                usual.awake(clock.boot_ms())
            }
            Carriage::Fresh => Arc::clone(&self.0.fresh),
            Carriage::Http1 | Carriage::Whole => Arc::clone(&self.0.http1),
        };
        client.get_or_try_init(make).await.cloned()
    }
}

impl Settings {
    fn client(&self, carriage: Carriage) -> Result<Client, String> {
        // An error says that one was installed before, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("agentd/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.connect_timeout)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .redirect(redirect::Policy::none())
            .retry(retry::never());
        if carriage != Carriage::Usual {
            builder = builder.pool_max_idle_per_host(0);
        }
        if carriage >= Carriage::Http1 {
            builder = builder.http1_only();
        }
        if self.direct {
            builder = builder.no_proxy();
        }
        if let Some(proxy) = &self.proxy {
            // The address may hold a password: it is not repeated.
            let proxy = Proxy::all(proxy).map_err(|_| "`proxy` is no address of a proxy")?;
            builder = builder.proxy(proxy);
        }
        if let Some(file) = &self.ca_file {
            let bad =
                |what: &dyn std::fmt::Display| format!("`ca_file` {}: {what}", file.display());
            let pem = std::fs::read(file).map_err(|error| bad(&error))?;
            let certificates = Certificate::from_pem_bundle(&pem).map_err(|error| bad(&error))?;
            if certificates.is_empty() {
                return Err(bad(&"there is no certificate in it"));
            }
            builder = builder.tls_certs_merge(certificates);
        }
        builder.build().map_err(|error| format!("the HTTP client cannot be made: {error}"))
    }
}

fn is_local(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
