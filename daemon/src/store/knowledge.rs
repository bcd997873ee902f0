//! Candidates for memories and skills, as the observers find them.
//!
//! Receives events from `project.rs`; hands rows to the module `knowledge`.

use agentd_protocol::id::{MemoryId, SkillId};
use agentd_protocol::time::Time;
use serde_json::Value;

use super::column::{Json, Millis};
use super::error::Error;
use super::project::Target;

/// Something the user asked to remember.
pub(super) fn memory_candidate(
    target: Target<'_>,
    time: Time,
    memory_id: &MemoryId,
    text: &str,
) -> Result<(), Error> {
    target
        .conn
        .prepare_cached(
            "INSERT INTO memories (memory_id, session, state, text, made_at)
             VALUES (?1, ?2, 'candidate', ?3, ?4)",
        )?
        .execute((memory_id.as_str(), target.session, text, Millis(time)))?;
    Ok(())
}

/// A run of calls that may be worth keeping.
pub(super) fn skill_candidate(
    target: Target<'_>,
    time: Time,
    skill_id: &SkillId,
    (name, description, steps): (&str, &str, &[Value]),
) -> Result<(), Error> {
    target
        .conn
        .prepare_cached(
            "INSERT INTO skills (skill_id, session, state, name, description, steps, made_at)
             VALUES (?1, ?2, 'candidate', ?3, ?4, ?5, ?6)",
        )?
        .execute((
            skill_id.as_str(),
            target.session,
            name,
            description,
            Json(steps),
            Millis(time),
        ))?;
    Ok(())
}
