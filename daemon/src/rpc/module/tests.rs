//! The methods over real sessions: a store in a temporary directory, the demo model, no socket.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use agentd_protocol::daemon::{DaemonInfo, ShutdownMode, WireLimits};
use agentd_protocol::framing::DEFAULT_MAX_MESSAGE_BYTES;
use agentd_protocol::id::DaemonId;
use agentd_protocol::method::Access;
use serde_json::json;
use tokio::sync::{broadcast, watch};

use super::*;
use crate::clock::Clock;
use crate::config;
use crate::rpc::dispatch::Dispatch;
use crate::rpc::testing::Client;
use crate::session::{Registry, Services};
use crate::store::{Holder, Options, Store, Synchronous};
use crate::tools::Tools;

struct House {
    dir: tempfile::TempDir,
    store: Store,
    dispatch: Dispatch,
    stop: watch::Receiver<Option<ShutdownMode>>,
}

impl House {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Clock::system();
        let options = Options {
            synchronous: Synchronous::Normal,
            shared: false,
            holder: Holder::this_process("dmn_1"),
            lease_ttl: Duration::from_secs(15),
            announcement: String::new(),
        };
        let store = Store::open(&dir.path().join("state"), options, clock.clone()).unwrap();
        let config = config::Handle::load(config::Sources::default()).unwrap();
        let tools = Tools::builtin("agentd".into(), "dmn_1");
        let environment = BTreeMap::new();
        let services =
            Services::new(store.clone(), config.clone(), tools, clock.clone(), environment);
        let stop = watch::Sender::new(None);
        let stopped = stop.subscribe();
        let methods = methods(Service {
            registry: Registry::new(services),
            config,
            news: broadcast::Sender::new(16),
            info: DaemonInfo { id: DaemonId::from("dmn_1"), pid: 7, started_at: clock.now() },
            started: Instant::now(),
            socket: "/s".into(),
            state_dir: dir.path().join("state"),
            capabilities: OnceLock::new(),
            limits: WireLimits {
                max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES as u64,
                max_connections: 1,
                max_batch: 1,
                max_calls: 1,
            },
            connections: watch::Sender::new(1).subscribe(),
            stop,
        });
        let dispatch = Dispatch { methods, max_message_bytes: DEFAULT_MAX_MESSAGE_BYTES };
        Self { dir, store, dispatch, stop: stopped }
    }

    fn client(&self) -> Caller {
        Caller { client: Client::of(self.dispatch.clone()), id: 0, told: Vec::new() }
    }
}

/// A client that keeps the notifications which come between.
struct Caller {
    client: Client,
    id: u64,
    told: Vec<Value>,
}

impl Caller {
    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        self.client.write(format!("{request}\n")).await;
        loop {
            let line = self.client.line().await.unwrap();
            if line["id"] == self.id {
                return line;
            }
            self.told.push(line);
        }
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.ask(method, params).await;
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].take()
    }

    async fn refused(&mut self, method: &str, params: Value) -> Value {
        let mut answer = self.ask(method, params).await;
        assert!(answer["result"].is_null(), "{answer}");
        answer["error"].take()
    }

    async fn create(&mut self, house: &House) -> Value {
        let params = json!({ "cwd": house.dir.path(), "model": "demo/demo" });
        self.call("session/create", params).await["session_id"].clone()
    }

    /// The next notification's `result`.
    async fn told(&mut self) -> Value {
        let mut line = if self.told.is_empty() {
            self.client.line().await.unwrap()
        } else {
            self.told.remove(0)
        };
        line["params"]["result"].take()
    }
}

fn hello(role: &str, min: u32) -> Value {
    json!({
        "client": { "name": "test", "version": "1" },
        "protocol": { "min": min, "max": min },
        "role": role,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_method_of_the_table_answers_and_says_what_is_missing() {
    let house = House::new();
    let mut client = house.client();
    let hello = client.call("initialize", hello("controller", 1)).await;
    let has = |capability: &str| hello["capabilities"][capability] == true;
    for row in TABLE {
        // A parameter that no method has: nothing is done.
        let error = client.refused(row.name, json!({ "no such thing": 1 })).await;
        match row.capability {
            Some(capability) if !has(capability) => {
                assert_eq!(error["code"], -32015, "{}: {error}", row.name);
                assert_eq!(error["data"]["capability"], capability);
            }
            _ => assert_eq!(error["data"]["field"], "no such thing", "{}: {error}", row.name),
        }
    }
    house.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handshake_happens_once_and_in_a_common_version() {
    let house = House::new();
    let mut client = house.client();
    let error = client.refused("initialize", hello("observer", 2)).await;
    assert_eq!(error["data"], json!({ "kind": "unsupported_protocol", "min": 1, "max": 1 }));
    client.call("initialize", hello("observer", 1)).await;
    // Who said that it only watches cannot take it back.
    let error = client.refused("initialize", hello("controller", 1)).await;
    assert_eq!(error["data"]["kind"], "invalid_request");
    for row in TABLE.iter().filter(|row| row.access == Access::Controller) {
        let error = client.refused(row.name, json!({})).await;
        assert_eq!(
            error["data"],
            json!({ "kind": "forbidden", "role": "observer" }),
            "{}",
            row.name
        );
    }
    assert_eq!(*house.stop.borrow(), None);
    house.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_subscription_replaces_the_first() {
    let house = House::new();
    let mut client = house.client();
    let session = client.create(&house).await;
    let subscribe = |since: u64| json!({ "session_id": session, "since": since });
    assert_eq!(client.call("session/subscribe", subscribe(0)).await, session);
    assert_eq!(client.told().await["seq"], 1);
    assert_eq!(client.told().await["type"], "subscription.joined");
    // One that fails leaves the first as it is.
    let error = client.refused("session/subscribe", subscribe(99)).await;
    assert_eq!(error["data"], json!({ "kind": "cursor_ahead", "head_seq": 1 }));
    client.call("session/update", json!({ "session_id": session, "title": "x" })).await;
    assert_eq!(client.told().await["seq"], 2);
    assert_eq!(client.call("session/subscribe", subscribe(1)).await, session);
    assert_eq!(client.told.len(), 0, "what is replayed comes after the answer");
    assert_eq!(client.told().await["seq"], 2);
    assert_eq!(client.told().await["type"], "subscription.joined");
    let unsubscribe = json!({ "session_id": session });
    for expected in [true, false] {
        let answer = client.call("session/unsubscribe", unsubscribe.clone()).await;
        assert_eq!(answer, json!({ "unsubscribed": expected }));
    }
    client.call("session/update", json!({ "session_id": session, "title": "y" })).await;
    client.call("session/get", json!({ "session_id": session })).await;
    assert_eq!(client.told, Vec::<Value>::new());
    house.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f10_a_subscription_ends_with_its_half_closed_connection() {
    let house = House::new();
    let mut client = house.client();
    let session = client.create(&house).await;
    let request = json!({
        "jsonrpc": "2.0", "id": "s", "method": "session/subscribe",
        "params": { "session_id": session, "since": 0 },
    });
    client.client.write(format!("{request}\n")).await;
    client.client.half_close().await;
    let lines = client.client.rest().await;
    assert_eq!(lines[0]["id"], "s");
    assert_eq!(lines[1]["params"]["result"]["seq"], 1);
    assert_eq!(lines[2]["params"]["result"]["type"], "subscription.joined");
    assert_eq!(lines.len(), 3);
    client.client.served.await.unwrap();
    house.store.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watchers_of_the_daemon_hear_of_sessions_and_of_its_end() {
    let house = House::new();
    let mut watcher = house.client();
    assert_eq!(watcher.call("daemon/subscribe", json!({})).await, "daemon");
    let mut client = house.client();
    let session = client.create(&house).await;
    let news = watcher.told().await;
    assert_eq!(
        (&news["type"], &news["session"]["session_id"]),
        (&json!("session.created"), &session)
    );
    let answer = client.call("daemon/shutdown", json!({ "mode": "now" })).await;
    assert_eq!(answer, json!({ "turns_running": 0 }));
    assert_eq!(watcher.told().await, json!({ "type": "daemon.shutting_down", "mode": "now" }));
    assert_eq!(*house.stop.borrow(), Some(ShutdownMode::Now));
    // What was asked to be over at once stays so.
    client.call("daemon/shutdown", json!({ "mode": "drain" })).await;
    assert_eq!(*house.stop.borrow(), Some(ShutdownMode::Now));
    house.store.close().await.unwrap();
}
