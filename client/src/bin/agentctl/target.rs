//! Which session, and which prompt: an id, the start of one, a title, or nothing.
//!
//! Receives what the user typed; hands back the one thing that it names, or says what it may be.

use agentd_client::Client;
use agentd_client::protocol::error::ErrorData;
use agentd_client::protocol::id::{PromptId, SessionId};
use agentd_client::protocol::method::{PermissionList, SessionGet, SessionList};
use agentd_client::protocol::permission::{PermissionListParams, Prompt};
use agentd_client::protocol::session::{Archived, ListParams, Session, SessionParams};
use anyhow::{Result, bail};

use crate::context::directory;
use crate::terminal::one_line;

/// Sessions that are named where several may be meant.
const MAX_NAMED: usize = 10;

/// Sessions asked for at once.
const PAGE: u32 = 1000;

/// The session that `name` means; without a name the last changed one of this directory.
pub(crate) async fn session(client: &Client, name: Option<&str>) -> Result<Session> {
    let Some(name) = name else {
        let cwd = directory(None)?;
        return last_of(client, &cwd).await?.ok_or_else(|| {
            anyhow::anyhow!(
                "no session in {cwd}: `agentctl run` makes one, `agentctl ls -a` lists all"
            )
        });
    };
    let session_id = SessionId::from(name);
    match client.call::<SessionGet>(SessionParams { session_id }).await {
        Ok(session) => return Ok(session),
        Err(error) if matches!(error.data(), Some(ErrorData::SessionNotFound { .. })) => {}
        Err(error) => return Err(error.into()),
    }
    let all =
        sessions(client, ListParams { archived: Some(Archived::All), ..ListParams::default() });
    pick(name, all.await?)
}

/// The last changed session of a directory.
pub(crate) async fn last_of(client: &Client, cwd: &str) -> Result<Option<Session>> {
    let params = ListParams { cwd: Some(cwd.to_owned()), limit: Some(1), ..ListParams::default() };
    Ok(client.call::<SessionList>(params).await?.sessions.into_iter().next())
}

/// Every session that `params` ask for.
pub(crate) async fn sessions(client: &Client, params: ListParams) -> Result<Vec<Session>> {
    let mut params = ListParams { limit: Some(PAGE), ..params };
    let mut all = Vec::new();
    loop {
        let page = client.call::<SessionList>(params.clone()).await?;
        all.extend(page.sessions);
        match page.next_cursor {
            Some(cursor) => params.cursor = Some(cursor),
            None => return Ok(all),
        }
    }
}

fn pick(name: &str, sessions: Vec<Session>) -> Result<Session> {
    let by_id = |session: &Session| is_start(name, SessionId::PREFIX, session.session_id.as_str());
    let by_title = |session: &Session| session.title.to_lowercase() == name.to_lowercase();
    let (mut found, others): (Vec<_>, Vec<_>) = sessions.into_iter().partition(by_id);
    if found.is_empty() {
        found = others.into_iter().filter(by_title).collect();
    }
    if found.len() > 1 {
        let mut names: Vec<_> = found.iter().take(MAX_NAMED).map(describe).collect();
        if found.len() > MAX_NAMED {
            names.push(format!("  and {} more", found.len() - MAX_NAMED));
        }
        bail!("`{name}` may be any of\n{}", names.join("\n"));
    }
    found.pop().ok_or_else(|| anyhow::anyhow!("no session `{name}`: `agentctl ls -a` lists all"))
}

fn describe(session: &Session) -> String {
    format!("  {}  {}", session.session_id, one_line(&session.title, 60))
}

/// The open prompt that `name` means; without a name the only one.
pub(crate) async fn prompt(client: &Client, name: Option<&str>) -> Result<Prompt> {
    let params = PermissionListParams::default();
    let prompts = client.call::<PermissionList>(params).await?.prompts;
    let is_meant = |prompt: &Prompt| {
        name.is_none_or(|name| is_start(name, PromptId::PREFIX, prompt.prompt_id.as_str()))
    };
    let mut found: Vec<_> = prompts.into_iter().filter(is_meant).collect();
    match (found.pop(), name) {
        (Some(prompt), _) if found.is_empty() => Ok(prompt),
        (Some(last), _) => {
            found.push(last);
            let lines: Vec<_> = found
                .iter()
                .map(|prompt| format!("  {}  {}", prompt.prompt_id, one_line(&prompt.summary, 60)))
                .collect();
            bail!("which one?\n{}", lines.join("\n"))
        }
        (None, Some(name)) => bail!("no open prompt `{name}`: `agentctl prompts` lists them"),
        (None, None) => bail!("nothing waits for permission"),
    }
}

/// Whether `name` is the start of `id`, with its prefix or without.
fn is_start(name: &str, prefix: &str, id: &str) -> bool {
    !name.is_empty()
        && name != prefix
        && (id.starts_with(name) || id.strip_prefix(prefix).is_some_and(|id| id.starts_with(name)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn session(id: &str, title: &str) -> Session {
        let usage = agentd_client::protocol::session::Usage::default();
        serde_json::from_value(json!({
            "session_id": id, "title": title, "cwd": "/", "permission_mode": "ask",
            "state": "idle", "created_at": "2026-01-01T00:00:00.000Z",
            "updated_at": "2026-01-01T00:00:00.000Z", "head_seq": 0, "item_count": 0,
            "usage": usage, "limits": {}, "queue": [], "queue_held": false, "roots": [],
            "prompts": [], "labels": {}, "archived": false
        }))
        .unwrap()
    }

    #[test]
    fn a_name_means_one_session_or_says_which() {
        let all = || {
            vec![session("ses_abc", "Fix"), session("ses_abd", "fix it"), session("ses_x", "ab")]
        };
        for (name, id) in [
            ("ses_abc", Some("ses_abc")),
            ("abd", Some("ses_abd")),
            ("ab", None),
            ("ses_", None),
            ("FIX", Some("ses_abc")),
            ("x", Some("ses_x")),
            ("nothing", None),
            ("", None),
        ] {
            let found = pick(name, all()).ok().map(|session| session.session_id.to_string());
            assert_eq!(found.as_deref(), id, "{name}");
        }
        let error = pick("ab", all()).unwrap_err().to_string();
        assert!(error.contains("ses_abc") && error.contains("ses_abd"), "{error}");
    }
}
