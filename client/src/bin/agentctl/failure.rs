//! What went wrong, in words and as an exit code.
//!
//! Receives errors of commands; hands the process's last words to a person and its code to the
//! shell.

use std::io;
use std::process::ExitCode;

use agentd_client::Error;
use agentd_client::protocol::daemon::PROTOCOL_VERSION;
use agentd_client::protocol::error::ErrorData;
use agentd_client::protocol::event::{TurnError, TurnErrorCode};
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::args::Args;

/// The exit codes, as the help tells them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Completed = 0,
    Failed = 1,
    Usage = 2,
    Exhausted = 3,
    Denied = 4,
    NoDaemon = 5,
    Interrupted = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// A command line that cannot be meant.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Misuse(pub(crate) String);

/// Ends the program over a command line that cannot be read. Who writes a prompt where a command
/// stands is told where it goes.
pub(crate) fn refuse(mut error: clap::Error) -> ! {
    let command = Args::command();
    let is_command = |word: String| command.find_subcommand(word).is_some();
    let is_first = !std::env::args().skip(1).any(is_command);
    if error.kind() == ErrorKind::InvalidSubcommand && is_first {
        let tip = "a prompt goes after `run`: agentctl run 'what does this project do?'";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error.exit()
}

/// Says what went wrong; the code for it.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    // Whoever read our output has seen enough.
    let closed = |cause: &io::Error| cause.kind() == io::ErrorKind::BrokenPipe;
    if error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(closed)) {
        return Exit::Completed.into();
    }
    eprintln!("agentctl: {error:#}");
    let client = error.downcast_ref::<Error>();
    if let Some(advice) = client.and_then(Error::data).and_then(advice) {
        eprintln!("{advice}");
    }
    match client {
        _ if error.is::<Misuse>() => Exit::Usage.into(),
        Some(
            Error::NoDaemon { .. }
            | Error::Connect { .. }
            | Error::ForeignServer { .. }
            | Error::Unsafe { .. }
            | Error::Spawn { .. }
            | Error::Died { .. }
            | Error::Silent { .. },
        ) => Exit::NoDaemon.into(),
        _ => Exit::Failed.into(),
    }
}

/// Providers that exist as soon as their key is there: name, variable, a model to begin with.
const WELL_KNOWN: [(&str, &str, &str); 3] = [
    ("openai", "OPENAI_API_KEY", "openai/gpt-5-mini"),
    ("anthropic", "ANTHROPIC_API_KEY", "anthropic/claude-sonnet-5"),
    ("openrouter", "OPENROUTER_API_KEY", "openrouter/qwen/qwen3-coder"),
];

/// Where models are found that nobody configured.
const UNKNOWN_MODEL: &str = "`agentctl models` lists what is configured; `agentctl doctor` finds \
     servers on this machine and prints the lines that configure them.";

/// What to do about it, where that is known.
pub(crate) fn advice(data: &ErrorData) -> Option<String> {
    let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match data {
        ErrorData::NoProvider { .. } => Some(first_steps(is_set)),
        ErrorData::UnknownModel { model, .. } => {
            let (provider, _) = model.split_once('/').unwrap_or((model, ""));
            let known = WELL_KNOWN.iter().find(|(name, ..)| *name == provider);
            Some(
                known.map_or_else(
                    || UNKNOWN_MODEL.to_owned(),
                    |known| login(known, is_set(known.1)),
                ),
            )
        }
        ErrorData::UnsupportedProtocol(range) if range.min > PROTOCOL_VERSION => Some(
            "The daemon is newer than this agentctl: use the one that was installed with it."
                .to_owned(),
        ),
        ErrorData::UnsupportedProtocol(_) => Some(
            "The daemon is older than this agentctl: end it with the one that was installed with \
             it (`agentctl shutdown`), then run this again."
                .to_owned(),
        ),
        _ => None,
    }
}

/// The four lines for who has nothing configured.
fn first_steps(is_set: impl Fn(&str) -> bool) -> String {
    let known = WELL_KNOWN.iter().find(|(_, variable, _)| is_set(variable));
    let key = login(known.unwrap_or(&WELL_KNOWN[0]), known.is_some());
    format!(
        "{key}\n\
         A server on this machine (Ollama, llama.cpp, LM Studio): `agentctl doctor` finds it and \
         says what to configure.\n\
         Any other: `model` and [providers.NAME] in ~/.config/agentd/config.toml, then `agentctl \
         config reload`.\n\
         To try agentd without one: agentctl run --model demo/demo 'read README.md'"
    )
}

/// How to use a provider that only lacks its key.
fn login((name, variable, model): &(&str, &str, &str), is_set: bool) -> String {
    if is_set {
        return format!(
            "{variable} is set here, but not where the daemon was started: `agentctl login {name} \
             <<< ${variable}` stores it, then use --model {model}."
        );
    }
    format!(
        "A key of {name}: `agentctl login {name}` stores it, then use --model {model} (/model in a \
         conversation)."
    )
}

/// What to do about a turn that failed, where the provider's own words do not say it.
pub(crate) fn advice_on(error: &TurnError, model: &str) -> Option<String> {
    let provider = model.split_once('/').map_or("NAME", |(provider, _)| provider);
    match (error.code, error.status) {
        (TurnErrorCode::ProviderRefused, Some(401 | 403)) => Some(format!(
            "agentctl: is the key right? `agentctl login {provider}` stores another one; `agentctl \
             config` says where the present one comes from (providers.{provider}.api_key)."
        )),
        (TurnErrorCode::ProviderRefused, Some(404)) => Some(format!(
            "agentctl: is the model's name right? `agentctl models --probe` asks the provider; the \
             address is providers.{provider}.base_url, which for Ollama and the like ends in /v1."
        )),
        (TurnErrorCode::ProviderUnreachable, _) => Some(format!(
            "agentctl: is the address right (providers.{provider}.base_url in `agentctl config`), \
             and does the server run? `agentctl doctor` looks for servers on this machine."
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_lines_say_how_to_begin() {
        let nothing = first_steps(|_| false);
        assert_eq!(nothing.lines().count(), 4, "{nothing}");
        assert!(nothing.contains("--model demo/demo") && nothing.contains("login openai"));
        let set = first_steps(|name| name == "OPENROUTER_API_KEY");
        assert!(set.contains("agentctl login openrouter <<< $OPENROUTER_API_KEY"), "{set}");
    }

    #[test]
    fn an_unknown_model_is_answered_with_what_to_do() {
        let told = |model: &str| {
            let known_models = vec!["demo/demo".to_owned()];
            advice(&ErrorData::UnknownModel { model: model.to_owned(), known_models })
        };
        assert!(told("openai/x").is_some_and(|told| told.contains("login openai")));
        assert!(told("ollama/x").is_some_and(|told| told.contains("agentctl doctor")));
        assert!(told("x").is_some_and(|told| told.contains("agentctl models")));
    }
}
