//! What a shell completes that only a running daemon knows: sessions, prompts, models.
//!
//! The shell asks this program for each completion, so it is quick and silent: a daemon is not
//! started for it, and one that does not answer at once is not waited for.
//!
//! Receives the shell's questions through clap; hands back candidates with what they are.

use std::ffi::OsStr;
use std::time::Duration;

use agentd_client::protocol::daemon::{ModelListParams, Role};
use agentd_client::protocol::method::{ModelList, PermissionList, SessionList};
use agentd_client::protocol::permission::PermissionListParams;
use agentd_client::protocol::session::ListParams;
use agentd_client::{Client, Error, Options, Start};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use crate::terminal::one_line;

/// How long a shell waits.
const PATIENCE: Duration = Duration::from_millis(500);
/// Characters of what is said beside a candidate.
const HELP_CHARS: usize = 60;

/// Sessions, by their ids.
pub(crate) fn sessions() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        candidates(typed, async |client| {
            let params = ListParams { limit: Some(100), ..ListParams::default() };
            let sessions = client.call::<SessionList>(params).await?.sessions;
            Ok(sessions.into_iter().map(|s| (s.session_id.to_string(), s.title)).collect())
        })
    })
}

/// Open prompts, by their ids.
pub(crate) fn prompts() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        candidates(typed, async |client| {
            let params = PermissionListParams::default();
            let prompts = client.call::<PermissionList>(params).await?.prompts;
            Ok(prompts.into_iter().map(|p| (p.prompt_id.to_string(), p.summary)).collect())
        })
    })
}

/// Models, by their names.
pub(crate) fn models() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        candidates(typed, async |client| {
            let models = client.call::<ModelList>(ModelListParams::default()).await?.models;
            Ok(models.into_iter().map(|model| (model.id, String::new())).collect())
        })
    })
}

fn candidates(
    typed: &OsStr,
    ask: impl AsyncFn(Client) -> Result<Vec<(String, String)>, Error>,
) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy();
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let asked = runtime.block_on(async {
        let options = Options {
            start: Start::Never,
            role: Role::Observer,
            ..Options::new("agentctl", env!("CARGO_PKG_VERSION"))
        };
        let found = async { ask(Client::connect(options).await?).await };
        tokio::time::timeout(PATIENCE, found).await
    });
    let found = asked.ok().and_then(Result::ok).unwrap_or_default();
    let fits = found.into_iter().filter(|(value, _)| value.starts_with(&*typed));
    let candidates = fits.map(|(value, help)| {
        let help = one_line(&help, HELP_CHARS);
        CompletionCandidate::new(value).help((!help.is_empty()).then(|| help.into()))
    });
    candidates.collect()
}
