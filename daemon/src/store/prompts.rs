//! Prompts: questions for a person, open until the event that resolves them.
//!
//! Invariants: the first resolution stands; a second one fails its append.
//!
//! Receives events from `project.rs`; hands open prompts and their ends to `session`.

use agentd_protocol::event::Resolved;
use agentd_protocol::id::{PromptId, SessionId};
use agentd_protocol::permission::{Prompt, Scope};
use agentd_protocol::time::Time;
use rusqlite::{Connection, OptionalExtension};

use super::column::{Json, Millis};
use super::error::Error;
use super::project::Target;
use super::record::{PromptRecord, PromptResolution};
use super::{rules, sessions};

/// A person is asked.
pub(super) fn requested(target: Target<'_>, kind: &str, prompt: &Prompt) -> Result<(), Error> {
    target
        .conn
        .prepare_cached(
            "INSERT INTO prompts (session, prompt_id, kind, json) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute((target.session, prompt.prompt_id.as_str(), kind, Json(prompt)))?;
    Ok(())
}

/// It ended; a rule that the answer carries is remembered.
pub(super) fn resolved(target: Target<'_>, time: Time, resolved: &Resolved) -> Result<(), Error> {
    let ended = target
        .conn
        .prepare_cached(
            "UPDATE prompts SET resolution = ?3, resolved_at = ?4
             WHERE session = ?1 AND prompt_id = ?2 AND resolution IS NULL",
        )?
        .execute((target.session, resolved.prompt_id.as_str(), Json(resolved), Millis(time)))?;
    if ended == 0 {
        let prompt_id = &resolved.prompt_id;
        return Err(Error::Inconsistent(format!("prompt {prompt_id} ends and is not open")));
    }
    match (&resolved.rule, resolved.scope) {
        (Some(rule), Some(scope)) if scope != Scope::Once => {
            rules::remember(target, scope, rule, time)
        }
        _ => Ok(()),
    }
}

/// The session's open prompts, oldest first.
pub(super) fn open(conn: &Connection, session: i64) -> Result<Vec<Prompt>, Error> {
    let prompts = conn
        .prepare_cached(
            "SELECT json FROM prompts WHERE session = ?1 AND resolution IS NULL ORDER BY id",
        )?
        .query_map([session], |row| row.get(0).map(|Json(prompt)| prompt))?
        .collect::<Result<_, _>>()?;
    Ok(prompts)
}

/// Open prompts of this kind, of one session or of all, oldest first.
pub(super) fn open_of_kind(
    conn: &Connection,
    session_id: Option<&SessionId>,
    kind: &str,
) -> Result<Vec<Prompt>, Error> {
    let session = session_id.map(|id| sessions::find(conn, id)).transpose()?;
    let prompts = conn
        .prepare_cached(
            "SELECT prompts.json FROM prompts JOIN sessions ON sessions.id = prompts.session
             WHERE resolution IS NULL AND kind = ?1 AND sessions.deleted = 0
                 AND (?2 IS NULL OR session = ?2)
             ORDER BY prompts.id",
        )?
        .query_map((kind, session.map(|(key, _)| key)), |row| {
            row.get(0).map(|Json(prompt)| prompt)
        })?
        .collect::<Result<_, _>>()?;
    Ok(prompts)
}

/// A prompt by its id, open or not.
pub(super) fn find(conn: &Connection, prompt_id: &PromptId) -> Result<Option<PromptRecord>, Error> {
    type Columns = (Json<Prompt>, Option<Json<Resolved>>, Option<Millis>);
    let row: Option<Columns> = conn
        .prepare_cached(
            "SELECT json, resolution, resolved_at FROM prompts
             JOIN sessions ON sessions.id = prompts.session
             WHERE prompt_id = ?1 AND sessions.deleted = 0",
        )?
        .query_row([prompt_id.as_str()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()?;
    Ok(row.map(|(Json(prompt), resolution, at)| PromptRecord {
        prompt,
        resolved: resolution.zip(at).map(|(Json(resolved), Millis(at))| PromptResolution {
            decision: resolved.decision,
            by: resolved.by,
            at,
        }),
    }))
}
