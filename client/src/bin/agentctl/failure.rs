//! What went wrong, in words and as an exit code.
//!
//! Receives errors of commands; hands the process's last words to a person and its code to the
//! shell.

use std::io;
use std::process::ExitCode;

use agentd_client::Error;
use agentd_client::protocol::error::ErrorData;

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

/// What to do about it, where that is known.
pub(crate) fn advice(data: &ErrorData) -> Option<String> {
    match data {
        ErrorData::NoProvider { .. } => Some(
            "Name one in ~/.config/agentd/config.toml (`model = \"provider/name\"`, with its\n\
             [providers.NAME] table) and `agentctl config reload`; or `agentctl shutdown`, then run\n\
             with OPENAI_API_KEY, ANTHROPIC_API_KEY or OPENROUTER_API_KEY set and -m provider/name.\n\
             To try agentd without one: agentctl run --model demo/demo 'read README.md'"
                .to_owned(),
        ),
        _ => None,
    }
}
