//! The files under `schema/` are what the types say; other languages generate from them.
//!
//! Receives the document and the schemas; hands nothing on.

use std::path::Path;

use agentd_protocol::error::KINDS;
use agentd_protocol::event::Event;
use agentd_protocol::method::TABLE;
use agentd_protocol::openrpc;
use serde_json::Value;

#[test]
fn the_checked_in_files_are_up_to_date() {
    let mut files = vec![("openrpc", openrpc::document())];
    files.extend(openrpc::schemas());
    for (name, content) in files {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("schema/{name}.json"));
        let text = serde_json::to_string_pretty(&content).unwrap() + "\n";
        if std::env::var_os("AGENTD_BLESS").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        assert!(
            std::fs::read_to_string(&path).unwrap_or_default() == text,
            "protocol/schema/{name}.json is not what the types say; run \
             `AGENTD_BLESS=1 cargo test -p agentd-protocol --test schema` and look at the \
             difference: clients are built on it",
        );
    }
}

#[test]
fn every_method_stands_in_the_document_with_its_parameters() {
    let document = openrpc::document();
    let methods = document["methods"].as_array().unwrap();
    assert_eq!(methods.len(), TABLE.len());
    let create = methods.iter().find(|method| method["name"] == "session/create").unwrap();
    let params = create["params"].as_array().unwrap();
    let required: Vec<_> = params.iter().filter(|param| param["required"] == true).collect();
    assert_eq!(required.len(), 1);
    assert_eq!(required[0]["name"], "cwd");
    assert_eq!(document["components"]["errors"].as_object().unwrap().len(), KINDS.len());
}

#[test]
fn every_reference_leads_somewhere() {
    fn check(document: &Value, value: &Value) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(path)) = fields.get("$ref") {
                    let pointer = path.strip_prefix('#').expect("a path within the document");
                    assert!(document.pointer(pointer).is_some(), "{path}");
                }
                fields.values().for_each(|value| check(document, value));
            }
            Value::Array(values) => values.iter().for_each(|value| check(document, value)),
            _ => {}
        }
    }
    let document = openrpc::document();
    check(&document, &document);
}

#[test]
fn no_name_is_made_up() {
    let document = openrpc::document();
    for name in document["components"]["schemas"].as_object().unwrap().keys() {
        assert!(!name.ends_with(|last: char| last.is_ascii_digit()), "{name}: two types, one name");
    }
}

#[test]
fn the_readme_names_every_method_event_and_error() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = std::fs::read_to_string(path).unwrap();
    let event = openrpc::schema_of::<Event>();
    let events = event["oneOf"].as_array().unwrap().iter();
    let events = events.map(|variant| variant["properties"]["type"]["const"].as_str().unwrap());
    let methods = TABLE.iter().map(|method| method.name);
    let kinds = KINDS.iter().map(|(kind, _)| *kind);
    let missing: Vec<_> = methods
        .chain(kinds)
        .chain(events)
        .filter(|name| !text.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "not in protocol/README.md: {missing:?}");
}
