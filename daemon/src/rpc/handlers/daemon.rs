//! `initialize`, `rpc.discover` and `daemon/*`: who is here, what it is doing, and its end.
//!
//! Receives requests about the daemon; answers them from the service, hands its end to `boot`.

use std::sync::{Arc, LazyLock};

use agentd_protocol::daemon::{
    ClientInfo, DaemonConfig, DaemonEvent, DaemonStatus, InitializeParams, InitializeResult,
    NoParams, OnDisk, PROTOCOL_VERSION, ProtocolRange, ReloadResult, ShutdownMode, ShutdownParams,
    ShutdownResult,
};
use agentd_protocol::error::{ErrorData, RpcError};
use agentd_protocol::method::{
    DAEMON_EVENT, DaemonBackup, DaemonCheck, DaemonReload, DaemonShutdown, DaemonSubscribe,
    DaemonUnsubscribe, GetDaemonConfig, GetDaemonStatus, Initialize, RpcDiscover,
};
use agentd_protocol::openrpc;
use agentd_protocol::session::UnsubscribeResult;
use bytes::Bytes;
use futures_util::FutureExt;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::rpc::context::Context;
use crate::rpc::error::{of_config, of_session};
use crate::rpc::module::{Registration, Watch};
use crate::rpc::service::Service;
use crate::rpc::subscriptions::{Source, Topic, forward};

/// The id of a connection's subscription to the daemon.
const SUBSCRIPTION: &str = "daemon";

/// What `rpc.discover` answers. Made once: that takes thousands of times as long as other answers,
/// and who asks for it again and again would hold up everybody.
static DOCUMENT: LazyLock<Box<RawValue>> =
    LazyLock::new(|| to_raw_value(&openrpc::document()).expect("the document is JSON"));

pub(super) fn register(registration: &mut Registration) {
    registration.call::<Initialize, _, _>(initialize);
    registration.fixed::<RpcDiscover>(&DOCUMENT);
    registration.call::<GetDaemonStatus, _, _>(status);
    registration.call::<GetDaemonConfig, _, _>(config);
    registration.call::<DaemonReload, _, _>(reload);
    registration.call::<DaemonShutdown, _, _>(shutdown);
    registration.call::<DaemonCheck, _, _>(|service, _, _| async move {
        service.registry.check().await.map_err(of_session)
    });
    registration.call::<DaemonBackup, _, _>(|service, _, params| async move {
        service.registry.backup(params).await.map_err(of_session)
    });
    registration.watch::<DaemonSubscribe, _, _>(subscribe);
    registration.call::<DaemonUnsubscribe, _, _>(|_, context, _| async move {
        let unsubscribed = context.subscriptions.end(&Topic::Daemon).await;
        Ok(UnsubscribeResult { unsubscribed })
    });
}

async fn initialize(
    service: Arc<Service>,
    context: Arc<Context>,
    params: InitializeParams,
) -> Result<InitializeResult, RpcError> {
    let InitializeParams { client, protocol, role } = params;
    if !(protocol.min..=protocol.max).contains(&PROTOCOL_VERSION) {
        let ours = ProtocolRange { min: PROTOCOL_VERSION, max: PROTOCOL_VERSION };
        let message = format!(
            "this daemon speaks version {PROTOCOL_VERSION} of the protocol and the client {} to \
             {}: use versions of both that fit together",
            protocol.min, protocol.max
        );
        return Err(RpcError::new(ErrorData::UnsupportedProtocol(ours), message));
    }
    if !context.identify(client, role) {
        let message = "the connection is initialized: connect again to be somebody else";
        return Err(RpcError::new(ErrorData::InvalidRequest, message));
    }
    Ok(InitializeResult {
        protocol: PROTOCOL_VERSION,
        server: ClientInfo {
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        daemon: service.info.clone(),
        capabilities: service.capabilities.get().cloned().unwrap_or_default(),
        limits: service.limits.clone(),
    })
}

async fn status(
    service: Arc<Service>,
    _context: Arc<Context>,
    _params: NoParams,
) -> Result<DaemonStatus, RpcError> {
    let counts = service.registry.counts().await.map_err(of_session)?;
    Ok(DaemonStatus {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: service.info.pid,
        uptime_ms: u64::try_from(service.started.elapsed().as_millis()).unwrap_or(u64::MAX),
        sessions: counts.sessions,
        connections: *service.connections.borrow() as u64,
        store_bytes: counts.store_bytes,
        memory_bytes: resident_bytes(),
        turns_running: counts.turns_running,
        socket: service.socket.display().to_string(),
        state_dir: service.state_dir.display().to_string(),
        draining: service.stop.borrow().is_some(),
    })
}

/// Resident memory, where `/proc` says it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = resident.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

async fn config(
    service: Arc<Service>,
    _context: Arc<Context>,
    _params: NoParams,
) -> Result<DaemonConfig, RpcError> {
    let on_disk = match service.config.compare().await {
        Ok(changed) => (!changed.is_empty()).then_some(OnDisk::Changed(changed)),
        Err(error) => Some(OnDisk::Broken(of_config(&error).message)),
    };
    Ok(DaemonConfig { on_disk, ..service.config.view() })
}

async fn reload(
    service: Arc<Service>,
    _context: Arc<Context>,
    _params: NoParams,
) -> Result<ReloadResult, RpcError> {
    let changed = service.config.reload().await.map_err(|error| of_config(&error))?;
    // Nobody may be listening.
    let _ = service.news.send(Arc::new(DaemonEvent::ConfigReloaded { changed: changed.clone() }));
    Ok(ReloadResult { changed })
}

async fn shutdown(
    service: Arc<Service>,
    _context: Arc<Context>,
    params: ShutdownParams,
) -> Result<ShutdownResult, RpcError> {
    // What was asked to be over at once stays so.
    let mode = match *service.stop.borrow() {
        Some(ShutdownMode::Now) => ShutdownMode::Now,
        Some(ShutdownMode::Drain) | None => params.mode,
    };
    service.registry.start_draining(mode);
    service.stop.send_replace(Some(mode));
    // A store that cannot be read is no reason to go on.
    let turns_running = service.registry.counts().await.map_or(0, |counts| counts.turns_running);
    Ok(ShutdownResult { turns_running })
}

async fn subscribe(
    service: Arc<Service>,
    context: Arc<Context>,
    _params: NoParams,
) -> Result<Watch<String>, RpcError> {
    let claim = context.subscriptions.claim(Topic::Daemon);
    let events =
        News { of_sessions: service.registry.daemon_events(), of_daemon: service.news.subscribe() };
    let permit = context.subscriptions.start(claim).await;
    let outbound = context.outbound.clone();
    let watch = async move {
        if let Some(permit) = permit {
            forward(events, outbound, permit).await;
        }
    };
    Ok((SUBSCRIPTION.to_owned(), watch.boxed()))
}

/// The daemon's events as notifications. One that comes too late is told by how many are missing.
struct News {
    of_sessions: broadcast::Receiver<Arc<DaemonEvent>>,
    of_daemon: broadcast::Receiver<Arc<DaemonEvent>>,
}

impl Source for News {
    async fn next(&mut self) -> Option<Bytes> {
        let news = tokio::select! {
            news = self.of_sessions.recv() => news,
            news = self.of_daemon.recv() => news,
        };
        match news {
            Ok(event) => Some(notification(&event)),
            Err(RecvError::Lagged(missed)) => Some(notification(&DaemonEvent::Lagged { missed })),
            Err(RecvError::Closed) => None,
        }
    }
}

fn notification(event: &DaemonEvent) -> Bytes {
    let params = json!({ "subscription": SUBSCRIPTION, "result": event });
    json!({ "jsonrpc": "2.0", "method": DAEMON_EVENT, "params": params }).to_string().into()
}
