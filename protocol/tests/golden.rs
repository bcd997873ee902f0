//! Messages of every kind must parse and come out as the same JSON, for ever.
//!
//! Files are added to, never edited: a message that a released daemon wrote into somebody's
//! record, or a client was built to send, stays valid. That every kind is among them is checked
//! against the schemas, so a new kind without a golden message fails here.
//!
//! Receives `tests/golden/*.json`; hands nothing on.

use std::collections::BTreeSet;
use std::path::Path;

use agentd_protocol::daemon::DaemonEvent;
use agentd_protocol::error::{KINDS, RpcError};
use agentd_protocol::event::Event;
use agentd_protocol::item::Item;
use agentd_protocol::method::{self, Method, TABLE};
use agentd_protocol::openrpc;
use agentd_protocol::progress::{Marker, Progress, StreamMessage};
use agentd_protocol::submission::Op;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

fn golden(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.json"));
    let text = std::fs::read_to_string(path).expect("the file is there");
    serde_json::from_str(&text).expect("the file is a JSON array")
}

fn round_trip<T: DeserializeOwned + Serialize>(value: &Value) {
    let typed: T =
        serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value:#}"));
    assert_eq!(&serde_json::to_value(&typed).expect("it is written"), value);
    // As text too: numbers and strings take another way through serde there.
    let typed: T = serde_json::from_str(&value.to_string()).expect("it is read as text");
    let text = serde_json::to_string(&typed).expect("it is written");
    assert_eq!(&serde_json::from_str::<Value>(&text).expect("it is JSON"), value);
}

/// The values that `tag` can have, by the schema of `T`.
fn tags<T: JsonSchema>(tag: &str) -> BTreeSet<String> {
    let schema = openrpc::schema_of::<T>();
    let variants = schema["oneOf"].as_array().expect("an enum");
    variants
        .iter()
        .map(|variant| variant["properties"][tag]["const"].as_str().expect("a tag").to_owned())
        .collect()
}

fn seen(values: &[Value], pointer: &str) -> BTreeSet<String> {
    let words = values.iter().filter_map(|value| value.pointer(pointer)?.as_str());
    words.map(str::to_owned).collect()
}

#[test]
fn events() {
    let events = golden("events");
    events.iter().for_each(round_trip::<Event>);
    events.iter().for_each(round_trip::<StreamMessage>);
    assert_eq!(seen(&events, "/type"), tags::<Event>("type"));
    for value in &events {
        let event: Event = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(event.body.name(), value["type"].as_str().unwrap());
        assert_eq!(event.body.is_terminal(), value.get("iterations").is_some());
    }
}

#[test]
fn items() {
    let items = golden("items");
    items.iter().for_each(round_trip::<Item>);
    assert_eq!(seen(&items, "/role"), tags::<Item>("role"));
}

#[test]
fn progress_and_markers() {
    let progress = golden("progress");
    progress.iter().for_each(round_trip::<Progress>);
    progress.iter().for_each(round_trip::<StreamMessage>);
    assert_eq!(seen(&progress, "/type"), tags::<Progress>("type"));
    let markers = golden("markers");
    markers.iter().for_each(round_trip::<Marker>);
    markers.iter().for_each(round_trip::<StreamMessage>);
    assert_eq!(seen(&markers, "/type"), tags::<Marker>("type"));
}

#[test]
fn daemon_events() {
    let events = golden("daemon-events");
    events.iter().for_each(round_trip::<DaemonEvent>);
    assert_eq!(seen(&events, "/type"), tags::<DaemonEvent>("type"));
}

#[test]
fn errors() {
    let errors = golden("errors");
    let kinds: BTreeSet<_> = KINDS.iter().map(|(kind, _)| (*kind).to_owned()).collect();
    assert_eq!(seen(&errors, "/data/kind"), kinds);
    for value in &errors {
        round_trip::<RpcError>(value);
        let error: RpcError = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(error, RpcError::new(error.data.clone(), error.message.clone()), "{value}");
        let kind = value["data"]["kind"].as_str().unwrap();
        assert!(KINDS.contains(&(kind, error.code)), "{kind}");
    }
}

fn call<M: Method>(entry: &Value) -> bool {
    if entry["method"] != M::NAME {
        return false;
    }
    round_trip::<M::Params>(&entry["params"]);
    round_trip::<M::Result>(&entry["result"]);
    true
}

#[test]
fn requests_and_results() {
    let calls = golden("methods");
    let names: BTreeSet<_> = TABLE.iter().map(|method| method.name.to_owned()).collect();
    assert_eq!(seen(&calls, "/method"), names);
    assert_eq!(seen(&calls, "/params/submission/op/type"), tags::<Op>("type"));
    macro_rules! checks {
        ($($method:ident)*) => { &[$(call::<method::$method>),*] };
    }
    let checks: &[fn(&Value) -> bool] = checks! {
        Initialize RpcDiscover GetDaemonStatus GetDaemonConfig DaemonCheck DaemonBackup DaemonReload DaemonShutdown
        DaemonSubscribe DaemonUnsubscribe SessionCreate SessionList SessionGet SessionUpdate
        SessionDelete SessionFork SessionItems SessionEvents SessionExport SessionImport
        SessionExportFile SessionImportFile
        SessionSearch SessionSubmit SessionSubscribe SessionUnsubscribe SessionTakeover
        PermissionList ReplyPermission PermissionRules PermissionForget QuestionList QuestionReply
        ModelList ToolList SkillList SkillAccept SkillReject MemoryList MemoryAdd MemoryAccept
        MemoryReject MemoryDelete McpList McpRestart
    };
    for entry in &calls {
        let checked = checks.iter().filter(|check| check(entry)).count();
        assert_eq!(checked, 1, "{}", entry["method"]);
    }
}
