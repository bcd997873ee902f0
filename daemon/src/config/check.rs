//! What a value must be that its type cannot say: ranges, addresses, names that must exist.
//!
//! Receives the merged configuration; hands back the first fault with the place of its key.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::config::error::{ConfigError, nearest};
use crate::config::place::{Origin, dotted};
use crate::config::preset::DEMO;
use crate::config::provider::{KeySource, ModelConfig, ProviderConfig, Wire};
use crate::config::{Config, HookConfig, McpConfig};

/// A fault: the dotted key and what is wrong with it.
type Fault = (String, String);

/// Checks what the types cannot.
pub(super) fn check(
    config: &Config,
    origins: &BTreeMap<String, Origin>,
) -> Result<(), ConfigError> {
    let faults = numbers(config)
        .chain(
            config
                .providers
                .iter()
                .flat_map(|(name, provider)| provider_faults(name, provider, origins)),
        )
        .chain(models(config))
        .chain(config.hooks.iter().filter_map(hook))
        .chain(config.mcp.iter().filter_map(|(name, server)| mcp(name, server)));
    match faults.into_iter().next() {
        None => Ok(()),
        Some((key, message)) => {
            Err(ConfigError::Invalid { at: nearest_origin(&key, origins), key: Some(key), message })
        }
    }
}

/// The place of `key`, or of the innermost table around it that stands somewhere.
fn nearest_origin(key: &str, origins: &BTreeMap<String, Origin>) -> Origin {
    let mut key = key;
    loop {
        if let Some(origin) = origins.get(key) {
            return origin.clone();
        }
        match key.rsplit_once('.') {
            Some((parent, _)) => key = parent,
            None => return Origin::BuiltIn,
        }
    }
}

fn numbers(config: &Config) -> impl Iterator<Item = Fault> {
    let limits = &config.limits;
    let at_least = |key: &str, value: Option<u64>, least: u64| {
        value
            .filter(|value| *value < least)
            .map(|value| (key.to_owned(), format!("{value} is too small; the least is {least}")))
    };
    let count = |n: usize| u64::try_from(n).ok();
    let usd = |key: &str, value: Option<f64>| {
        value
            .filter(|usd| !usd.is_finite() || *usd < 0.0)
            .map(|usd| (key.to_owned(), format!("{usd} is not an amount of USD")))
    };
    [
        at_least("limits.max_iterations", limits.max_iterations.map(u64::from), 1),
        at_least("limits.max_tokens", limits.max_tokens, 1),
        at_least("limits.max_session_tokens", limits.max_session_tokens, 1),
        at_least("limits.max_duration", limits.max_duration_ms, 1),
        usd("limits.max_cost_usd", limits.max_cost_usd),
        usd("limits.max_session_cost_usd", limits.max_session_cost_usd),
        at_least("tools.max_parallel", count(config.tools.max_parallel), 1),
        at_least("server.max_connections", count(config.server.max_connections), 1),
        // A page of items has to fit, and so has an error's own text.
        at_least("server.max_message_bytes", count(config.server.max_message_bytes), 64 << 10),
        at_least("log.max_bytes", Some(config.log.max_bytes), 64 << 10),
        shorter("daemon.lease_ttl", config.daemon.lease_ttl, Duration::from_secs(1)),
        shorter("tools.shell.timeout", config.tools.shell.timeout, MILLISECOND),
    ]
    .into_iter()
    .flatten()
}

/// A wait that is none would end everything at once.
const MILLISECOND: Duration = Duration::from_millis(1);

fn shorter(key: &str, value: Duration, least: Duration) -> Option<Fault> {
    (value < least)
        .then(|| (key.to_owned(), format!("{value:?} is too short; the shortest is {least:?}")))
}

fn provider_faults(
    name: &str,
    provider: &ProviderConfig,
    origins: &BTreeMap<String, Origin>,
) -> Vec<Fault> {
    let table = dotted("providers", name);
    let key = |field: &str| dotted(&table, field);
    let mut faults = Vec::new();
    let mut fault = |key: String, message: &str| faults.push((key, message.to_owned()));
    if name.is_empty() || name.contains('/') {
        fault(table.clone(), "a provider's name is not empty and has no `/`");
    }
    if !origins.contains_key(&key("wire")) {
        fault(
            table.clone(),
            "`wire` is missing: `openai-chat`, `openai-responses`, `anthropic-messages` or `demo`",
        );
    }
    if name == DEMO && provider.wire != Wire::Demo {
        fault(key("wire"), "the provider `demo` is built in; give this one another name");
    }
    match &provider.base_url {
        None if provider.wire != Wire::Demo && provider.replay.is_none() => {
            fault(table.clone(), "`base_url` is missing: where the server is, with its `/v1`");
        }
        Some(url) if !is_http(url) => fault(key("base_url"), NOT_HTTP),
        None | Some(_) => {}
    }
    for (field, path) in [("record", &provider.record), ("replay", &provider.replay)] {
        if path.is_some() && provider.wire == Wire::Demo {
            fault(key(field), "the demo has no server whose answers could be recorded or replayed");
        }
    }
    if provider.proxy.as_deref().is_some_and(|url| reqwest::Url::parse(url).is_err()) {
        fault(
            key("proxy"),
            "this is not an address; it begins with http://, https:// or socks5://",
        );
    }
    match &provider.api_key {
        // The value is not quoted: it is a key, more often than not.
        Some(KeySource::Env(variable)) if !is_variable(variable) => {
            fault(key("api_key"), "`env` takes the name of a variable, not a key");
        }
        Some(KeySource::Command(command)) if command.is_empty() => {
            fault(key("api_key"), "`command` is empty");
        }
        Some(_) | None => {}
    }
    for (header, value) in &provider.headers {
        let is_right = http::HeaderName::try_from(header).is_ok()
            && http::HeaderValue::try_from(value).is_ok();
        if !is_right {
            fault(dotted(&key("headers"), header), "this is not a header of HTTP");
        }
    }
    faults.extend(shorter(&key("idle_timeout"), provider.idle_timeout, MILLISECOND));
    faults.extend(shorter(&key("connect_timeout"), provider.connect_timeout, MILLISECOND));
    for (name, model) in &provider.models {
        faults.extend(model_faults(&dotted(&key("models"), name), model));
    }
    faults
}

const NOT_HTTP: &str = "this is not an address; it begins with http:// or https://";

fn is_http(url: &str) -> bool {
    reqwest::Url::parse(url)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn model_faults(table: &str, model: &ModelConfig) -> impl Iterator<Item = Fault> {
    let zero = |field: &str, value: Option<u64>| {
        (value == Some(0)).then(|| (dotted(table, field), "this cannot be 0".to_owned()))
    };
    let price = model.price.unwrap_or_default();
    let prices = [price.input, price.cached_input, price.cache_write, price.output];
    let bad_price = prices
        .into_iter()
        .any(|usd| !usd.is_finite() || usd < 0.0)
        .then(|| (dotted(table, "price"), "a price is USD per million tokens, from 0".to_owned()));
    [
        zero("context_window", model.context_window),
        zero("max_output_tokens", model.max_output_tokens),
        bad_price,
    ]
    .into_iter()
    .flatten()
}

fn models(config: &Config) -> impl Iterator<Item = Fault> {
    [
        ("model", &config.model),
        ("small_model", &config.small_model),
        ("fallback_model", &config.fallback_model),
    ]
    .into_iter()
    .filter_map(|(key, model)| {
        let model = model.as_deref()?;
        let names = || config.providers.keys().map(String::as_str);
        let message = match model.split_once('/') {
            Some((provider, name)) if !provider.is_empty() && !name.is_empty() => {
                if config.providers.contains_key(provider) {
                    return None;
                }
                let hint = nearest(provider, names())
                    .map(|near| format!("did you mean `{near}`? "))
                    .unwrap_or_default();
                let known = names().collect::<Vec<_>>().join(", ");
                format!("no provider `{provider}`; {hint}known here: {known}")
            }
            _ => format!("`{model}` is not of the form `provider/name`"),
        };
        Some((key.to_owned(), message))
    })
}

fn hook(hook: &HookConfig) -> Option<Fault> {
    if hook.command.is_empty() {
        return Some(("hooks".to_owned(), "a hook's `command` is empty".to_owned()));
    }
    shorter("hooks", hook.timeout, MILLISECOND)
}

fn mcp(name: &str, server: &McpConfig) -> Option<Fault> {
    let table = dotted("mcp", name);
    match (&server.url, server.command.is_empty()) {
        (None, true) => Some((table, "`command` or `url` is missing".to_owned())),
        (Some(_), false) => Some((table, "there is a `command` and a `url`; keep one".to_owned())),
        (Some(url), true) if !is_http(url) => Some((dotted(&table, "url"), NOT_HTTP.to_owned())),
        _ => shorter(&dotted(&table, "timeout"), server.timeout, MILLISECOND),
    }
}
