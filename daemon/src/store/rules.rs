//! Permission rules that an answer asked to remember.
//!
//! Receives resolutions from `prompts.rs`; hands rules to `permission` through `session`.

use agentd_protocol::id::{RuleId, SessionId};
use agentd_protocol::permission::{Rule, RuleInForce, RuleOrigin, Scope};
use agentd_protocol::time::Time;
use rusqlite::Connection;

use super::column::{Json, Millis, Word};
use super::error::Error;
use super::project::Target;
use super::sessions;

/// Keeps a rule; one that says the same stays the only one.
pub(super) fn remember(
    target: Target<'_>,
    scope: Scope,
    rule: &Rule,
    time: Time,
) -> Result<(), Error> {
    let rule_id = RuleId::from_unique(uuid::Uuid::now_v7().simple());
    target
        .conn
        .prepare_cached(
            "WITH new AS (
                 SELECT CASE :scope WHEN 'session' THEN id END AS session,
                        CASE :scope WHEN 'project' THEN cwd END AS cwd
                 FROM sessions WHERE id = :session)
             INSERT INTO rules (rule_id, session, cwd, scope, rule, made_at)
             SELECT :rule_id, session, cwd, :scope, :rule, :time FROM new
             WHERE NOT EXISTS (
                 SELECT 1 FROM rules WHERE rules.scope = :scope AND rules.rule = :rule
                     AND rules.session IS new.session AND rules.cwd IS new.cwd)",
        )?
        .execute(rusqlite::named_params! {
            ":scope": Word(scope), ":session": target.session, ":rule_id": rule_id.as_str(),
            ":rule": Json(rule), ":time": Millis(time),
        })?;
    Ok(())
}

/// The remembered rules in force: everywhere, and for this session where one is named.
pub(super) fn in_force(
    conn: &Connection,
    session_id: Option<&SessionId>,
) -> Result<Vec<RuleInForce>, Error> {
    let session = session_id.map(|id| sessions::find(conn, id)).transpose()?;
    let rules = conn
        .prepare_cached(
            "SELECT rule_id, scope, rule FROM rules
             WHERE scope = 'always' OR session = ?1
                 OR cwd = (SELECT cwd FROM sessions WHERE id = ?1)
             ORDER BY id",
        )?
        .query_map([session.map(|(key, _)| key)], |row| {
            let (Word(scope), Json(rule)) = (row.get(1)?, row.get(2)?);
            let origin = match scope {
                Scope::Session => RuleOrigin::Session,
                Scope::Once | Scope::Project | Scope::Always => RuleOrigin::Remembered,
            };
            Ok(RuleInForce { rule_id: row.get::<_, String>(0)?.into(), rule, scope, origin })
        })?
        .collect::<Result<_, _>>()?;
    Ok(rules)
}

/// Forgets a rule; whether it was there.
pub(super) fn forget(conn: &Connection, rule_id: &RuleId) -> Result<bool, Error> {
    let forgotten =
        conn.prepare_cached("DELETE FROM rules WHERE rule_id = ?1")?.execute([rule_id.as_str()])?;
    Ok(forgotten > 0)
}
