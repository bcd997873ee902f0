//! What a new session is told of the environment it was made in.
//!
//! The daemon may have been started by anybody's login, hours ago; the tools of a session should
//! find what its user's shell finds. Only names that programs are found by go along, and nothing
//! that looks like a secret.
//!
//! Receives the process's environment; hands an overlay to `session/create`.

use std::collections::BTreeMap;

/// Where programs, languages and their tool chains are found, and how text and time are shown.
const NAMES: &[&str] = &[
    "PATH",
    "LANG",
    "LANGUAGE",
    "TZ",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "GOPATH",
    "GOROOT",
    "GOBIN",
    "NVM_DIR",
    "NVM_BIN",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "ASDF_DIR",
    "MISE_DATA_DIR",
    "PKG_CONFIG_PATH",
    "MANPATH",
    "NIX_PATH",
    "NIX_PROFILES",
];

/// The overlay: names that a session's tools need, from this environment.
pub(crate) fn overlay(
    variables: impl Iterator<Item = (std::ffi::OsString, std::ffi::OsString)>,
) -> BTreeMap<String, String> {
    variables
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| is_wanted(name))
        .collect()
}

fn is_wanted(name: &str) -> bool {
    let named = NAMES.contains(&name) || name.starts_with("LC_") || name.ends_with("_HOME");
    let secret = ["TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL"];
    named && !name.starts_with("AGENTD_") && !secret.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_along() {
        let all = [
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("JAVA_HOME", "/j"),
            ("CARGO_HOME", "/c"),
            ("OPENAI_API_KEY", "sk"),
            ("VAULT_TOKEN_HOME", "x"),
            ("AGENTD_SOCKET", "/s"),
            ("RANDOM", "1"),
            ("VIRTUAL_ENV", "/v"),
        ];
        let overlay = overlay(all.iter().map(|(name, value)| (name.into(), value.into())));
        let names: Vec<_> = overlay.keys().map(String::as_str).collect();
        assert_eq!(names, ["CARGO_HOME", "JAVA_HOME", "LC_ALL", "PATH", "VIRTUAL_ENV"]);
    }
}
