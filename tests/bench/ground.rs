//! A store in this process, for measuring it without a socket.
//!
//! Receives a directory; hands out a store and sessions in it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use agentd::clock::Clock;
use agentd::store::{Holder, NewSession, Options, Store, Synchronous};
use agentd_protocol::id::SessionId;
use agentd_protocol::permission::PermissionMode;
use agentd_protocol::session::{EnvMode, Limits, Session, SessionState, Usage};
use agentd_protocol::time::Time;
use tempfile::TempDir;

/// A directory on the disk that the build is on: a temporary directory may be in memory.
pub(crate) fn directory() -> TempDir {
    let beside = std::env::current_exe().expect("a program knows its own path");
    let beside = beside.parent().expect("it lies in a folder");
    tempfile::tempdir_in(beside).expect("the build's folder can be written")
}

/// A store whose commits survive a power cut.
pub(crate) fn store(dir: &Path) -> Store {
    let options = Options {
        synchronous: Synchronous::Full,
        shared: false,
        holder: Holder::this_process("dmn_bench"),
        lease_ttl: Duration::from_secs(15),
        announcement: "bench".to_owned(),
    };
    Store::open(dir, options, Clock::system()).expect("the store opens")
}

/// Makes a session.
pub(crate) async fn session(store: &Store, name: &str) -> SessionId {
    let session = Session {
        session_id: SessionId::from_unique(name),
        title: String::new(),
        cwd: "/".to_owned(),
        model: None,
        model_options: None,
        permission_mode: PermissionMode::Ask,
        state: SessionState::Idle,
        created_at: Time::from_unix_millis(0),
        updated_at: Time::from_unix_millis(0),
        head_seq: 0,
        item_count: 0,
        usage: Usage::default(),
        limits: Limits::default(),
        queue: Vec::new(),
        queue_held: false,
        roots: Vec::new(),
        prompts: Vec::new(),
        processes: Vec::new(),
        active_turn_id: None,
        lease: None,
        labels: BTreeMap::new(),
        parent_id: None,
        archived: false,
    };
    let new = NewSession {
        session,
        items: Vec::new(),
        env: BTreeMap::new(),
        env_mode: EnvMode::Overlay,
        key: None,
        digest: String::new(),
    };
    store.create_session(new).await.expect("the session is made").session.session_id
}
