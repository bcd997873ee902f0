//! The door with a real socket.

use std::path::PathBuf;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

use super::*;
use crate::rpc::testing::{Lab, until};
use crate::testing;

struct House {
    dir: tempfile::TempDir,
    count: watch::Sender<usize>,
    stop_accepting: CancellationToken,
    stop: CancellationToken,
    running: JoinHandle<()>,
}

impl House {
    fn new(change: impl FnOnce(&mut Door)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("s")).unwrap();
        let count = watch::Sender::new(0);
        let mut door = Door {
            dispatch: Lab::default().dispatch(1_000),
            owner: rustix::process::geteuid().as_raw(),
            is_tool: Arc::new(|_, _| false),
            max_connections: 2,
            count: count.clone(),
        };
        change(&mut door);
        let (stop_accepting, stop) = (CancellationToken::new(), CancellationToken::new());
        let running = tokio::spawn(run(door, listener, stop_accepting.clone(), stop.clone()));
        Self { dir, count, stop_accepting, stop, running }
    }

    async fn connect(&self) -> UnixStream {
        UnixStream::connect(self.path()).await.unwrap()
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("s")
    }
}

async fn ping(stream: &mut UnixStream) -> Value {
    // The other end may have refused already.
    let _ = stream.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await;
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        line.push(stream.read_u8().await.unwrap());
    }
    serde_json::from_slice(&line).unwrap()
}

#[tokio::test]
async fn only_the_owner_connects() {
    let house = House::new(|door| door.owner += 1);
    let answer = ping(&mut house.connect().await).await;
    assert_eq!(answer["error"]["data"]["kind"], "forbidden");
    assert_eq!(answer["id"], Value::Null);
    assert_eq!(*house.count.borrow(), 0);
}

#[tokio::test]
async fn a_tool_does_not_connect() {
    let house = House::new(|door| door.is_tool = Arc::new(|pid, _| pid == std::process::id()));
    let answer = ping(&mut house.connect().await).await;
    assert_eq!(answer["error"]["data"]["kind"], "forbidden");
}

#[tokio::test]
async fn connections_are_counted_and_limited() {
    let house = House::new(|_| ());
    let mut first = house.connect().await;
    let mut second = house.connect().await;
    assert_eq!(ping(&mut first).await["result"], "pong");
    assert_eq!(ping(&mut second).await["result"], "pong");
    assert_eq!(*house.count.borrow(), 2);
    let refused = ping(&mut house.connect().await).await;
    assert_eq!(refused["error"]["data"]["kind"], "overloaded");
    assert_eq!(ping(&mut first).await["result"], "pong");
    drop(second);
    until(|| *house.count.borrow() == 1).await;
    assert_eq!(ping(&mut house.connect().await).await["result"], "pong");
}

#[tokio::test]
async fn an_orderly_stop_ends_connections_and_refuses_new_ones() {
    let house = House::new(|_| ());
    let mut client = house.connect().await;
    assert_eq!(ping(&mut client).await["result"], "pong");
    house.stop_accepting.cancel();
    // Those who are in are still served.
    assert_eq!(ping(&mut client).await["result"], "pong");
    house.stop.cancel();
    assert_eq!(client.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    let path = house.path();
    house.running.await.unwrap();
    assert!(UnixStream::connect(path).await.is_err());
    assert_eq!(*house.count.borrow(), 0);
}

/// The limit belongs to the process.
#[tokio::test]
async fn running_out_of_descriptors_is_survived() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    if !testing::alone(module_path!(), "running_out_of_descriptors_is_survived") {
        return;
    }
    let house = House::new(|door| door.max_connections = 1_000);
    let limit = getrlimit(Resource::Nofile);
    let mut clients = vec![house.connect().await];
    assert_eq!(ping(&mut clients[0]).await["result"], "pong");
    let highest = std::fs::read_dir("/proc/self/fd").unwrap().count() as u64;
    setrlimit(Resource::Nofile, Rlimit { current: Some(highest + 1), ..limit }).unwrap();
    // The client's end takes the last descriptor, the daemon's gets none.
    while let Ok(client) = UnixStream::connect(house.path()).await {
        clients.push(client);
    }
    let mut waiting = clients.pop().unwrap();
    assert_eq!(ping(&mut clients[0]).await["result"], "pong");
    setrlimit(Resource::Nofile, limit).unwrap();
    assert_eq!(ping(&mut waiting).await["result"], "pong");
}
