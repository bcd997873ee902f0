//! The environment of the processes that tools start.
//!
//! It is the session's over the daemon's, or the session's alone. What the daemon has for itself
//! is never handed on, nor what looks like a key; what the client put there for its tools is its
//! own business. Whatever would wait for a person (an editor, a pager, a password prompt) is made a
//! no-op, since nobody could answer it.
//!
//! Receives variables from `session` and the configuration; hands tools one map.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use agentd_protocol::session::EnvMode;

use crate::config::ToolsConfig;

/// Variables that are the daemon's own, or would have its programs and libraries found first.
const NEVER: &[&str] = &[
    "BASH_ENV",
    "CREDENTIALS_DIRECTORY",
    "ENV",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LD_AUDIT",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "MANAGERPID",
    "MEMORY_PRESSURE_WATCH",
    "NOTIFY_SOCKET",
    "PYTHONHOME",
    "PYTHONPATH",
    "RUNTIME_DIRECTORY",
    "STATE_DIRECTORY",
    "SYSTEMD_EXEC_PID",
    "VIRTUAL_ENV",
    "VIRTUAL_ENV_PROMPT",
];

/// The starts of more of them.
const NEVER_PREFIXES: &[&str] =
    &["AGENTD_", "BASH_FUNC_", "CONDA_", "DYLD_", "LISTEN_", "WATCHDOG_"];

/// Words of a name that holds a secret.
const SECRET_WORDS: &[&str] = &[
    "APIKEY",
    "CREDENTIAL",
    "CREDENTIALS",
    "KEY",
    "PASS",
    "PASSPHRASE",
    "PASSWD",
    "PASSWORD",
    "PAT",
    "PWD",
    "SECRET",
    "SECRETS",
    "TOKEN",
    "TOKENS",
];

/// What waits for nobody.
const NO_OPS: &[(&str, &str)] = &[
    ("DEBIAN_FRONTEND", "noninteractive"),
    ("EDITOR", "true"),
    ("GIT_ASKPASS", "true"),
    ("GIT_EDITOR", "true"),
    ("GIT_PAGER", "cat"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("MANPAGER", "cat"),
    ("PAGER", "cat"),
    ("SSH_ASKPASS_REQUIRE", "never"),
    ("SYSTEMD_PAGER", "cat"),
    ("TERM", "dumb"),
    ("VISUAL", "true"),
];

/// The daemon's own environment, as far as it is text.
pub fn of_daemon() -> BTreeMap<String, String> {
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text).collect()
}

/// The environment that a session's tools start from.
pub fn of_session(
    daemon: BTreeMap<String, String>,
    session: &BTreeMap<String, String>,
    mode: EnvMode,
    config: &ToolsConfig,
) -> BTreeMap<String, String> {
    let mut env = match mode {
        EnvMode::Overlay => scrubbed(daemon, &config.env.keep),
        EnvMode::Replace => BTreeMap::new(),
    };
    env.extend(session.iter().map(|(name, value)| (name.clone(), value.clone())));
    env
}

/// The daemon's environment without what is not handed on. `keep` lists names that stay although
/// they look like secrets.
fn scrubbed(mut env: BTreeMap<String, String>, keep: &[String]) -> BTreeMap<String, String> {
    // The programs of a virtual environment go with it.
    for root in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        if let (Some(root), Some(path)) = (env.get(root).cloned(), env.get_mut("PATH")) {
            let bin = Path::new(&root).join("bin");
            let kept: Vec<&str> = path.split(':').filter(|entry| Path::new(entry) != bin).collect();
            *path = kept.join(":");
        }
    }
    env.retain(|name, _| {
        let never = NEVER.contains(&name.as_str())
            || NEVER_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
        !never && (!looks_secret(name) || keep.contains(name))
    });
    env
}

/// The environment of one process: the session's, the no-ops over it, and what the configuration
/// sets over both.
pub(super) fn of_process(
    session: &BTreeMap<String, String>,
    config: &ToolsConfig,
) -> BTreeMap<String, String> {
    let mut env = session.clone();
    env.extend(NO_OPS.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    env.extend(config.env.set.iter().map(|(name, value)| (name.clone(), value.clone())));
    env
}

fn looks_secret(name: &str) -> bool {
    // `PWD` and `OLDPWD` are directories.
    !matches!(name, "PWD" | "OLDPWD")
        && name.to_ascii_uppercase().split('_').any(|word| {
            SECRET_WORDS.contains(&word)
                || ["APIKEY", "TOKEN", "SECRET", "PASSWORD"].iter().any(|end| word.ends_with(end))
        })
}
