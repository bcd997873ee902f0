//! Keys that this version reads and checks, and does not act upon.
//!
//! They belong to the format already, so that one file serves this version and the next. Whoever
//! sets one is told, since a sandbox or a hook that one believes in is worse than none.
//!
//! Receives the origins of a configuration; hands warnings to `load`.

use std::collections::BTreeMap;

use crate::config::place::Origin;

const LATER: [&str; 11] = [
    "daemon.notify",
    "daemon.recovery",
    "daemon.retention",
    "fallback_model",
    "hooks",
    "mcp",
    "small_model",
    "tools.shell.network",
    "tools.shell.read",
    "tools.shell.sandbox",
    "tools.shell.writable",
];

/// One for each such key that is set.
pub(super) fn warnings(origins: &BTreeMap<String, Origin>) -> impl Iterator<Item = String> {
    LATER.iter().filter_map(|key| {
        let origin = origins.get(*key)?;
        Some(format!("{origin}: `{key}` has no effect in this version"))
    })
}
