//! One layer: a file or the environment, right in itself, with the place of each of its keys.
//!
//! Receives the text of a file or variables; hands tables that can be merged to `load`.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use toml::de::DeTable;
use toml::{Table, Value};

use crate::config::Config;
use crate::config::error::{ConfigError, Fault, explain};
use crate::config::place::{Origin, Spans, dotted};

/// A layer, checked by itself.
#[derive(Debug, Default)]
pub(super) struct Layer {
    /// Its values.
    pub(super) table: Table,
    /// Where each of its keys stands; tables too.
    pub(super) origins: BTreeMap<String, Origin>,
}

/// What every variable of ours begins with.
const PREFIX: &str = "AGENTD_";
/// Variables of ours that are not keys of the configuration: they say where things are, or come
/// from a daemon to its tools.
const NOT_KEYS: [&str; 7] =
    ["CALL_ID", "CONFIG", "LOG_FORMAT", "LOG_LEVEL", "SESSION_ID", "SOCKET", "STATE_DIR"];

impl Layer {
    /// The layer of the file `path` with this text.
    pub(super) fn from_file(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let invalid = |error: &toml::de::Error, spans: Option<&Spans>| {
            let offset = error.span().map_or(0, |span| span.start);
            ConfigError::Invalid {
                at: Origin::in_file(path, text, offset),
                key: spans.and_then(|spans| spans.key_at(offset)).map(str::to_owned),
                message: explain(error.message()).message,
            }
        };
        let document = DeTable::parse(text).map_err(|error| invalid(&error, None))?;
        let spans = Spans::of(document.get_ref());
        Config::deserialize(toml::Deserializer::from(document))
            .map_err(|error| invalid(&error, Some(&spans)))?;
        let origins = spans
            .starts()
            .map(|(key, start)| (key.to_owned(), Origin::in_file(path, text, start)))
            .collect();
        let table = toml::from_str(text).map_err(|error| invalid(&error, Some(&spans)))?;
        Ok(Self { table, origins })
    }

    /// The layer of the variables in `environment`, and warnings about those that are no keys.
    pub(super) fn from_environment(
        environment: &BTreeMap<String, String>,
    ) -> Result<(Self, Vec<String>), ConfigError> {
        let mut layer = Self::default();
        let mut warnings = Vec::new();
        for (name, text) in environment {
            let Some(rest) = name.strip_prefix(PREFIX).filter(|rest| !NOT_KEYS.contains(rest))
            else {
                continue;
            };
            let path: Vec<String> = rest.split("__").map(str::to_lowercase).collect();
            match typed(&path, text) {
                Ok(value) => layer.set(name, &path, value),
                // Another program may use a name like ours; a nested one is meant for us.
                Err(Fault { unknown_key: Some(_), message }) if path.len() == 1 => {
                    warnings.push(format!("{name} is ignored: {message}"));
                }
                Err(fault) => {
                    let key = path.iter().fold(String::new(), |key, name| dotted(&key, name));
                    return Err(ConfigError::Invalid {
                        at: Origin::Variable(name.clone()),
                        key: Some(key),
                        message: fault.message,
                    });
                }
            }
        }
        Ok((layer, warnings))
    }

    fn set(&mut self, variable: &str, path: &[String], value: Value) {
        let mut key = String::new();
        for name in path {
            key = dotted(&key, name);
            self.origins.insert(key.clone(), Origin::Variable(variable.to_owned()));
        }
        merge_table(&mut self.table, nested(path, value), "");
    }
}

/// The value that `text` stands for at `path`: the text itself where a text fits there, else what
/// it is as TOML.
fn typed(path: &[String], text: &str) -> Result<Value, Fault> {
    let fits = |value: &Value| {
        Config::deserialize(Value::Table(nested(path, value.clone())))
            .map(drop)
            .map_err(|error| explain(error.message()))
    };
    let plain = Value::from(text);
    let Err(fault) = fits(&plain) else { return Ok(plain) };
    match toml::from_str::<Table>(&format!("value = {text}")).map(|mut table| table.remove("value"))
    {
        Ok(Some(value)) if !value.is_str() => fits(&value).map(|()| value),
        _ => Err(fault),
    }
}

fn nested(path: &[String], value: Value) -> Table {
    let (last, parents) = path.split_last().expect("splitting a text gives at least one part");
    let innermost = Table::from_iter([(last.clone(), value)]);
    parents
        .iter()
        .rev()
        .fold(innermost, |table, name| Table::from_iter([(name.clone(), Value::Table(table))]))
}

/// Puts a stronger layer over what is there. Tables are merged; lists that are pools are added
/// to; a key's source, and all else, is replaced.
pub(super) fn merge_table(into: &mut Table, stronger: Table, parent: &str) {
    for (name, value) in stronger {
        let key = dotted(parent, &name);
        match (into.get_mut(&name), value) {
            (Some(Value::Table(below)), Value::Table(above)) if name != "api_key" => {
                merge_table(below, above, &key);
            }
            (Some(Value::Array(below)), Value::Array(above))
                if matches!(key.as_str(), "hooks" | "permission.rules") =>
            {
                below.extend(above);
            }
            (_, value) => {
                into.insert(name, value);
            }
        }
    }
}
