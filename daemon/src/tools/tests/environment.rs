//! What tools get of the daemon's environment and the session's.
//!
//! Receives nothing; hands verdicts to the test runner.

use std::collections::BTreeMap;

use agentd_protocol::session::EnvMode;

use crate::config::ToolsConfig;
use crate::tools::environment::{of_process, of_session};

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn what_is_the_daemons_own_and_what_looks_like_a_key_stays_with_it() {
    let daemon = map(&[
        ("HOME", "/home/u"),
        ("LANG", "C"),
        ("MONKEY", "yes"),
        ("PATH", "/venv/bin:/usr/bin:/bin"),
        ("PWD", "/"),
        ("SSH_AUTH_SOCK", "/run/agent"),
        ("VIRTUAL_ENV", "/venv"),
        ("AGENTD_SOCKET", "x"),
        ("AWS_SECRET_ACCESS_KEY", "x"),
        ("BASH_ENV", "x"),
        ("BASH_FUNC_ls%%", "x"),
        ("CREDENTIALS_DIRECTORY", "x"),
        ("DB_PASSWORD", "x"),
        ("GITHUB_TOKEN", "x"),
        ("GITLAB_PAT", "x"),
        ("LD_LIBRARY_PATH", "x"),
        ("LD_PRELOAD", "x"),
        ("LISTEN_FDS", "x"),
        ("MYAPIKEY", "x"),
        ("NOTIFY_SOCKET", "x"),
        ("OPENAI_API_KEY", "x"),
        ("PYTHONPATH", "x"),
        ("lower_token", "x"),
    ]);
    let mut config = ToolsConfig::default();
    let env = of_session(daemon.clone(), &BTreeMap::new(), EnvMode::Overlay, &config);
    let expected = map(&[
        ("HOME", "/home/u"),
        ("LANG", "C"),
        ("MONKEY", "yes"),
        ("PATH", "/usr/bin:/bin"),
        ("PWD", "/"),
        ("SSH_AUTH_SOCK", "/run/agent"),
    ]);
    assert_eq!(env, expected);
    // Listed keys stay; what is never handed on does not, listed or not.
    config.env.keep = vec!["GITHUB_TOKEN".to_owned(), "LD_PRELOAD".to_owned()];
    let env = of_session(daemon, &BTreeMap::new(), EnvMode::Overlay, &config);
    assert_eq!(env.get("GITHUB_TOKEN").map(String::as_str), Some("x"));
    assert!(!env.contains_key("LD_PRELOAD"));
}

#[test]
fn e25_the_clients_environment_lies_over_the_daemons() {
    let daemon = map(&[("HOME", "/home/u"), ("PATH", "/usr/bin:/bin")]);
    let session = map(&[
        ("PATH", "/home/u/bin:/usr/bin"),
        ("VIRTUAL_ENV", "/home/u/venv"),
        ("API_KEY", "its own"),
    ]);
    let config = ToolsConfig::default();
    let overlay = of_session(daemon.clone(), &session, EnvMode::Overlay, &config);
    assert_eq!(overlay["HOME"], "/home/u");
    assert_eq!(overlay["PATH"], "/home/u/bin:/usr/bin");
    assert_eq!(overlay["API_KEY"], "its own");
    assert_eq!(overlay["VIRTUAL_ENV"], "/home/u/venv");
    assert_eq!(of_session(daemon, &session, EnvMode::Replace, &config), session);
}

#[test]
fn nothing_waits_for_a_person_unless_the_configuration_wants_it() {
    let session = map(&[("EDITOR", "vim"), ("GIT_EDITOR", "vim"), ("TERM", "xterm")]);
    let mut config = ToolsConfig::default();
    config.env.set = map(&[("TERM", "xterm-256color"), ("MORE", "1")]);
    let env = of_process(&session, &config);
    assert_eq!((env["EDITOR"].as_str(), env["GIT_EDITOR"].as_str()), ("true", "true"));
    assert_eq!((env["TERM"].as_str(), env["MORE"].as_str()), ("xterm-256color", "1"));
}
