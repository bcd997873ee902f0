//! Providers that need no table: `demo` always, the well-known ones where their key is set.
//!
//! Receives the environment and the files' tables; hands the weakest layer to `load`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use crate::config::layer::Layer;
use crate::config::place::{Origin, dotted};

/// The built-in provider that needs no server.
pub(super) const DEMO: &str = "demo";

struct Preset {
    name: &'static str,
    wire: &'static str,
    base_url: &'static str,
    key_variable: &'static str,
}

const PRESETS: [Preset; 3] = [
    Preset {
        name: "openai",
        wire: "openai-responses",
        base_url: "https://api.openai.com/v1",
        key_variable: "OPENAI_API_KEY",
    },
    Preset {
        name: "anthropic",
        wire: "anthropic-messages",
        base_url: "https://api.anthropic.com",
        key_variable: "ANTHROPIC_API_KEY",
    },
    Preset {
        name: "openrouter",
        wire: "openai-chat",
        base_url: "https://openrouter.ai/api/v1",
        key_variable: "OPENROUTER_API_KEY",
    },
];

/// The built-in providers: a well-known one is there where its key is set, where a layer speaks of
/// it and so only has to say what is different, or where a model of its is the chosen one; that
/// its key is missing is then said when it is asked, and does not keep a daemon from starting.
///
/// `stored` are the keys that `agentctl login` left, by provider. One stands for the key of its
/// provider wherever a layer does not say where that comes from.
pub(super) fn providers(
    environment: &BTreeMap<String, String>,
    stored: &BTreeMap<String, PathBuf>,
    layers: &[Layer],
) -> Layer {
    let mut preset = Layer::default();
    let mut providers = Table::new();
    let mut add = |name: &str, table: Table, origin: &Origin| {
        let key = dotted("providers", name);
        for field in table.keys() {
            preset.origins.insert(dotted(&key, field), origin.clone());
        }
        preset.origins.insert(key, origin.clone());
        providers.insert(name.to_owned(), Value::Table(table));
    };
    add(DEMO, Table::from_iter([("wire".to_owned(), Value::from("demo"))]), &Origin::BuiltIn);
    for Preset { name, wire, base_url, key_variable } in PRESETS {
        let has_key = environment.get(key_variable).is_some_and(|key| !key.trim().is_empty());
        let has = |key: &str| layers.iter().any(|layer| layer.origins.contains_key(key));
        let key = dotted("providers", name);
        let file = stored.get(name);
        if !has_key
            && file.is_none()
            && !has(&key)
            && !layers.iter().any(|layer| chooses(layer, name))
        {
            continue;
        }
        let mut table = Table::from_iter([
            ("wire".to_owned(), Value::from(wire)),
            ("base_url".to_owned(), Value::from(base_url)),
        ]);
        // Another address, a proxy of the user's own, may need no key.
        if let Some(file) = file {
            table.insert("api_key".to_owned(), key_in(file));
        } else if has_key || !has(&dotted(&key, "base_url")) {
            let source = Table::from_iter([("env".to_owned(), Value::from(key_variable))]);
            table.insert("api_key".to_owned(), Value::Table(source));
        }
        let origin = match file {
            Some(file) => Origin::in_file(file, "", 0),
            None if has_key => Origin::Variable(key_variable.to_owned()),
            None => Origin::BuiltIn,
        };
        add(name, table, &origin);
    }
    for (name, file) in stored {
        let is_known = PRESETS.iter().any(|preset| preset.name == name);
        let key = dotted("providers", name);
        if !is_known && layers.iter().any(|layer| layer.origins.contains_key(&key)) {
            let table = Table::from_iter([("api_key".to_owned(), key_in(file))]);
            add(name, table, &Origin::in_file(file, "", 0));
        }
    }
    preset.table.insert("providers".to_owned(), Value::Table(providers));
    preset
}

/// Where a stored key is.
fn key_in(file: &Path) -> Value {
    let path = file.to_string_lossy().into_owned();
    Value::Table(Table::from_iter([("file".to_owned(), Value::from(path))]))
}

/// Whether one of the models that a layer chooses is this provider's.
fn chooses(layer: &Layer, provider: &str) -> bool {
    ["model", "small_model", "fallback_model"]
        .iter()
        .filter_map(|key| layer.table.get(*key)?.as_str()?.split_once('/'))
        .any(|(name, _)| name == provider)
}
