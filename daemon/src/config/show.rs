//! The effective configuration as a list: each value with where it comes from, secrets masked.
//!
//! Receives a [`Loaded`] configuration; hands the list to `daemon/config`.

use agentd_protocol::daemon::{self, ConfigValue};
use serde_json::Value;

use crate::config::load::Loaded;
use crate::config::place::{Origin, dotted};

/// What stands for a value that may be a secret.
const MASK: &str = "***";

impl Loaded {
    /// Every value that is set or has a default, in the order of their keys, secrets unmasked.
    pub(super) fn values(&self) -> Vec<(String, Value)> {
        let config = serde_json::to_value(&*self.config)
            .expect("every type of the configuration has a JSON form");
        let mut values = Vec::new();
        flatten(String::new(), config, &mut values);
        values
    }

    /// For `daemon/config`.
    pub fn view(&self) -> daemon::DaemonConfig {
        let values = self
            .values()
            .into_iter()
            .map(|(key, value)| ConfigValue {
                origin: self.origins.get(&key).unwrap_or(&Origin::BuiltIn).to_string(),
                value: masked(&key, value),
                key,
            })
            .collect();
        let files = self.files.iter().map(|path| path.display().to_string()).collect();
        daemon::DaemonConfig { files, values, on_disk: None }
    }
}

fn flatten(key: String, value: Value, values: &mut Vec<(String, Value)>) {
    match value {
        Value::Null => {}
        Value::Object(fields) if !key.ends_with(".api_key") => {
            for (name, value) in fields {
                flatten(dotted(&key, &name), value, values);
            }
        }
        value => values.push((key, value)),
    }
}

/// Headers and variables often hold keys, and addresses a user with a password.
fn masked(key: &str, value: Value) -> Value {
    let holds_secrets = ["providers.", "mcp."].iter().any(|table| key.starts_with(table))
        && [".headers.", ".env."].iter().any(|table| key.contains(table))
        || key.starts_with("tools.env.set.");
    match value {
        Value::String(_) if holds_secrets => Value::from(MASK),
        Value::String(text) => Value::from(without_user(text)),
        other => other,
    }
}

fn without_user(text: String) -> String {
    let Ok(mut url) = reqwest::Url::parse(&text) else { return text };
    if url.username().is_empty() && url.password().is_none() && url.query().is_none() {
        return text;
    }
    if !url.username().is_empty() || url.password().is_some() {
        // Both can only fail for addresses without a host, which have no user either.
        let _ = url.set_username(MASK);
        let _ = url.set_password(None);
    }
    if url.query().is_some() {
        url.set_query(Some(MASK));
    }
    url.to_string()
}
