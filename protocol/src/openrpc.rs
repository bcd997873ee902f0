//! The OpenRPC document: every method, parameter, result, error and notification with its schema.
//!
//! Made from the table of methods and the types themselves, so it cannot say anything else than
//! the code does. The copies under `schema/` are what other languages generate from; a test fails
//! when they differ.
//!
//! Receives [`TABLE`]; hands a JSON document to `rpc.discover` and to `agentctl schema`.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::daemon::{DaemonEvent, PROTOCOL_VERSION};
use crate::error::{ErrorData, KINDS};
use crate::event::Event;
use crate::method::{Access, DAEMON_EVENT, MethodInfo, SESSION_EVENT, TABLE};
use crate::progress::{Marker, Progress, StreamMessage};

/// Where the document keeps shared schemas.
const SCHEMAS: &str = "/components/schemas/";

/// Kinds of errors that every method can answer with.
const GENERAL: &[&str] = &[
    "parse_error",
    "invalid_request",
    "invalid_params",
    "internal",
    "overloaded",
    "store",
    "shutting_down",
];

/// The OpenRPC document of protocol version 1.
pub fn document() -> Value {
    // OpenRPC speaks JSON Schema draft 7.
    let mut generator = SchemaSettings::draft07()
        .with(|settings| settings.definitions_path = SCHEMAS.trim_end_matches('/').into())
        .into_generator();
    let notifications = json!([
        notification::<StreamMessage>(
            SESSION_EVENT,
            "What happens in a session: events, progress and markers.",
            &mut generator
        ),
        notification::<DaemonEvent>(
            DAEMON_EVENT,
            "What happens to sessions and to the daemon.",
            &mut generator
        ),
    ]);
    generator.subschema_for::<ErrorData>();
    let shapes: Vec<_> = TABLE
        .iter()
        .map(|method| ((method.params)(&mut generator), (method.result)(&mut generator)))
        .collect();
    let schemas = generator.take_definitions(true);
    let errors = errors(&schemas["ErrorData"]);
    let methods: Vec<_> = TABLE
        .iter()
        .zip(shapes)
        .map(|(method, (params, result))| {
            describe(method, &parameters(&params, &schemas), result.as_value())
        })
        .collect();
    json!({
        "openrpc": "1.3.2",
        "info": {
            "title": "agentd",
            "description": "A local daemon that owns LLM-agent sessions. JSON-RPC 2.0 over a Unix \
                domain socket; one JSON text a line, or Content-Length headers. Parameters are by \
                name, unknown ones are errors; clients ignore fields and event types they do not \
                know.",
            "version": format!("{PROTOCOL_VERSION}.0.0"),
        },
        "methods": methods,
        "x-notifications": notifications,
        "components": { "schemas": schemas, "errors": errors },
    })
}

/// The schema of one type on its own, for files that a validator reads.
pub fn schema_of<T: JsonSchema>() -> Value {
    SchemaGenerator::default().into_root_schema_for::<T>().to_value()
}

/// The schema files beside the document: name and content.
pub fn schemas() -> [(&'static str, Value); 4] {
    [
        ("event", schema_of::<Event>()),
        ("progress", schema_of::<Progress>()),
        ("marker", schema_of::<Marker>()),
        ("daemon-event", schema_of::<DaemonEvent>()),
    ]
}

fn notification<T: JsonSchema>(
    name: &str,
    summary: &str,
    generator: &mut SchemaGenerator,
) -> Value {
    json!({
        "name": name,
        "summary": summary,
        "params": [
            { "name": "subscription", "required": true, "schema": { "type": "string" } },
            { "name": "result", "required": true, "schema": generator.subschema_for::<T>() },
        ],
    })
}

fn describe(method: &MethodInfo, params: &[Value], result: &Value) -> Value {
    let errors: Vec<_> = GENERAL
        .iter()
        .copied()
        .chain((method.access == Access::Controller).then_some("forbidden"))
        .chain(method.capability.map(|_| "unsupported"))
        .chain(specific_errors(method.name).iter().copied())
        .map(|kind| json!({ "$ref": format!("#/components/errors/{kind}") }))
        .collect();
    let access = match method.access {
        Access::Observer => "observer",
        Access::Controller => "controller",
    };
    let mut described = json!({
        "name": method.name,
        "summary": method.summary.trim(),
        "paramStructure": "by-name",
        "params": params,
        "result": { "name": "result", "schema": result },
        "errors": errors,
        "x-access": access,
    });
    if let Some(capability) = method.capability {
        described["x-capability"] = capability.into();
    }
    described
}

/// The properties of a parameter object, one descriptor each.
fn parameters(reference: &Schema, schemas: &Map<String, Value>) -> Vec<Value> {
    let path = reference.get("$ref").and_then(Value::as_str);
    let name = path.and_then(|path| path.rsplit('/').next());
    let object = &schemas[name.expect("parameters are named structs")];
    let required = object["required"].as_array();
    let Some(properties) = object["properties"].as_object() else { return Vec::new() };
    properties
        .iter()
        .map(|(name, schema)| {
            let is_required =
                required.is_some_and(|names| names.iter().any(|required| required == name));
            let mut parameter = json!({ "name": name, "required": is_required, "schema": schema });
            if let Some(description) = schema.get("description") {
                parameter["description"] = description.clone();
            }
            parameter
        })
        .collect()
}

/// What a method can answer with beyond [`GENERAL`].
fn specific_errors(method: &str) -> &'static [&'static str] {
    match method {
        "initialize" => &["unsupported_protocol"],
        "daemon/reload" => &["invalid_config"],
        "session/create" | "session/import" => &["no_provider", "unknown_model"],
        "session/get"
        | "session/items"
        | "session/events"
        | "session/export"
        | "session/unsubscribe"
        | "permission/list"
        | "permission/rules" => &["session_not_found"],
        "session/update" | "session/delete" => &["session_not_found", "turn_active", "lease_held"],
        "session/fork" => &["session_not_found", "item_not_found"],
        "session/subscribe" => &["session_not_found", "cursor_ahead"],
        "session/takeover" => &["session_not_found", "lease_held"],
        "session/submit" => &[
            "session_not_found",
            "item_not_found",
            "prompt_not_found",
            "prompt_resolved",
            "turn_active",
            "turn_mismatch",
            "no_active_turn",
            "lease_held",
            "no_provider",
            "unknown_model",
            "submission_conflict",
            "invalid_state",
            "unsupported",
        ],
        "permission/reply" | "question/reply" => {
            &["prompt_not_found", "prompt_resolved", "lease_held", "submission_conflict"]
        }
        "permission/forget" => &["rule_not_found"],
        _ => &[],
    }
}

/// Every kind of error with its code and the schema of its data.
fn errors(data: &Value) -> Map<String, Value> {
    let variants = data["oneOf"].as_array().expect("the kinds are an enum");
    variants
        .iter()
        .map(|variant| {
            let kind = variant["properties"]["kind"]["const"].as_str();
            let kind = kind.expect("every variant has its kind");
            let code = KINDS.iter().find(|(name, _)| *name == kind).map(|(_, code)| code);
            let error = json!({
                "code": code.expect("every kind has its code"),
                "message": variant["description"].as_str().unwrap_or(kind),
                "data": variant,
            });
            (kind.to_owned(), error)
        })
        .collect()
}
