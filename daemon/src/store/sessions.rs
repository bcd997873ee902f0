//! Sessions' rows: made, changed by events, listed, and marked as deleted.
//!
//! Invariants: `head` is the number of the last event; a session that is marked as deleted is
//! found by nobody.
//!
//! Receives events from `project.rs`; hands sessions, with what waits in them, to `session`.

use agentd_protocol::event::{Event, EventBody};
use agentd_protocol::id::{SessionId, TurnId};
use agentd_protocol::session::{Session, SessionState, Usage};
use agentd_protocol::time::Time;
use rusqlite::{Connection, OptionalExtension, Row, named_params};

use super::column::{Json, Millis, Word};
use super::error::Error;
use super::events::Numbered;
use super::lease::{self, Terms};
use super::project::Target;
use super::record::{Created, NewSession};
use super::{append, copied, events, processes, prompts, submissions};

/// The session's key and the number of its last event.
pub(super) fn find(conn: &Connection, session_id: &SessionId) -> Result<(i64, u64), Error> {
    conn.prepare_cached("SELECT id, head FROM sessions WHERE session_id = ?1 AND deleted = 0")?
        .query_row([session_id.as_str()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?
        .ok_or_else(|| Error::SessionNotFound(session_id.clone()))
}

/// Makes the session with its first event, or finds the one that was made under the same key.
pub(super) fn create(
    conn: &Connection,
    new: &NewSession,
    terms: Terms<'_>,
) -> Result<Created, Error> {
    if let Some(key) = &new.key {
        let former: Option<(i64, String)> = conn
            .prepare_cached("SELECT id, creation_digest FROM sessions WHERE creation_key = ?1")?
            .query_row([key], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match former {
            Some((id, digest)) if digest == new.digest => {
                let session = read(conn, id, terms)?;
                return Ok(Created { session, replayed: true });
            }
            Some(_) => return Err(Error::KeyConflict(key.clone())),
            None => {}
        }
    }
    let mut session = new.session.clone();
    session.head_seq = 0;
    insert(conn, new)?;
    let target = Target { conn, session: conn.last_insert_rowid() };
    let (session_id, time) = (session.session_id.clone(), session.created_at);
    let mut body = EventBody::SessionCreated { session: Box::new(session), changed: Vec::new() };
    events::date_session(&mut body, 1, time);
    let event = Event { seq: 1, time, session_id: session_id.clone(), turn_id: None, body };
    let mut moved = Moved::default();
    append::write(target, &Numbered::new(event)?, &mut moved)?;
    for (seq, (turn_id, body)) in (2..).zip(copied::events(&new.items)) {
        let (session_id, turn_id) = (session_id.clone(), Some(turn_id));
        let event = Event { seq, time, session_id, turn_id, body };
        append::write(target, &Numbered::new(event)?, &mut moved)?;
    }
    moved.write(target)?;
    Ok(Created { session: read(conn, target.session, terms)?, replayed: false })
}

/// Writes the row, without a log as yet.
pub(super) fn insert(conn: &Connection, new: &NewSession) -> Result<(), Error> {
    let session = &new.session;
    conn.prepare_cached(
        "INSERT INTO sessions (session_id, creation_key, creation_digest, title, title_folded,
             cwd, roots, model, model_options, permission_mode, limits, labels, parent_id,
             archived, env, env_mode, state, queue_held, usage, item_count, head, created_at,
             updated_at)
         VALUES (:session_id, :key, :digest, :title, :folded, :cwd, :roots, :model, :options,
             :mode, :limits, :labels, :parent, :archived, :env, :env_mode, :state, :held,
             :usage, 0, 0, :time, :time)",
    )?
    .execute(named_params! {
        ":session_id": session.session_id.as_str(), ":key": new.key, ":digest": new.digest,
        ":title": session.title, ":folded": session.title.to_lowercase(), ":cwd": session.cwd,
        ":roots": Json(&session.roots), ":model": session.model,
        ":options": session.model_options.as_ref().map(Json),
        ":mode": Word(session.permission_mode), ":limits": Json(session.limits),
        ":labels": Json(&session.labels),
        ":parent": session.parent_id.as_ref().map(SessionId::as_str),
        ":archived": session.archived, ":env": Json(&new.env), ":env_mode": Word(new.env_mode),
        ":state": Word(session.state), ":held": session.queue_held, ":usage": Json(session.usage),
        ":time": Millis(session.created_at),
    })?;
    Ok(())
}

/// What a request can change, as `session.updated` has it.
pub(super) fn updated(target: Target<'_>, session: &Session) -> Result<(), Error> {
    target
        .conn
        .prepare_cached(
            "UPDATE sessions SET title = :title, title_folded = :folded, cwd = :cwd,
                 roots = :roots, model = :model, model_options = :options,
                 permission_mode = :mode, limits = :limits, labels = :labels,
                 parent_id = :parent, archived = :archived
             WHERE id = :id",
        )?
        .execute(named_params! {
            ":id": target.session, ":title": session.title,
            ":folded": session.title.to_lowercase(), ":cwd": session.cwd,
            ":roots": Json(&session.roots), ":model": session.model,
            ":options": session.model_options.as_ref().map(Json),
            ":mode": Word(session.permission_mode), ":limits": Json(session.limits),
            ":labels": Json(&session.labels),
            ":parent": session.parent_id.as_ref().map(SessionId::as_str),
            ":archived": session.archived,
        })?;
    Ok(())
}

/// What it is doing.
pub(super) fn state(
    target: Target<'_>,
    state: SessionState,
    queue_held: Option<bool>,
) -> Result<(), Error> {
    target
        .conn
        .prepare_cached(
            "UPDATE sessions SET state = ?2, queue_held = coalesce(?3, queue_held) WHERE id = ?1",
        )?
        .execute((target.session, Word(state), queue_held))?;
    Ok(())
}

/// The turn that runs.
pub(super) fn active_turn(target: Target<'_>, turn_id: Option<&TurnId>) -> Result<(), Error> {
    target
        .conn
        .prepare_cached("UPDATE sessions SET active_turn_id = ?2 WHERE id = ?1")?
        .execute((target.session, turn_id.map(TurnId::as_str)))?;
    Ok(())
}

/// An item is booked at this place: the only one that may stream.
pub(super) fn booked(target: Target<'_>, index: u64) -> Result<(), Error> {
    target
        .conn
        .prepare_cached("UPDATE sessions SET booked = ?2 WHERE id = ?1")?
        .execute((target.session, index))?;
    Ok(())
}

/// What changes with nearly every transaction, so that it is written once in each.
#[derive(Debug, Default)]
pub(super) struct Moved {
    /// The number and the time of the last event.
    last: Option<(u64, Time)>,
    /// The place of the last complete item, if there is a new one.
    items: Option<u64>,
    /// What the session used, if that changed.
    usage: Option<Usage>,
}

impl Moved {
    /// All of it, as the session has it.
    pub(super) fn of(session: &Session) -> Self {
        Self {
            last: Some((session.head_seq, session.updated_at)),
            items: Some(session.item_count),
            usage: Some(session.usage),
        }
    }

    /// Takes an event into account; they come in order.
    pub(super) fn by(&mut self, event: &Event) {
        self.last = Some((event.seq, event.time));
        self.items = self.items.max(event.body.item().map(|item| item.index));
        if let EventBody::UsageUpdated { session, .. } = &event.body {
            self.usage = Some(*session);
        }
    }

    /// Writes it.
    pub(super) fn write(&self, target: Target<'_>) -> Result<(), Error> {
        let Some((head, time)) = self.last else { return Ok(()) };
        target
            .conn
            .prepare_cached(
                "UPDATE sessions SET head = ?2, updated_at = ?3,
                     item_count = max(item_count, ?4), usage = coalesce(?5, usage)
                 WHERE id = ?1",
            )?
            .execute((
                target.session,
                head,
                Millis(time),
                self.items.unwrap_or(0),
                self.usage.as_ref().map(Json),
            ))?;
        Ok(())
    }
}

/// The session with this key, with its queue, prompts and lease.
pub(super) fn read(conn: &Connection, key: i64, terms: Terms<'_>) -> Result<Session, Error> {
    let mut session = conn
        .prepare_cached(
            "SELECT session_id, title, cwd, roots, model, model_options, permission_mode, limits,
                 labels, parent_id, archived, state, queue_held, active_turn_id, usage,
                 item_count, head, created_at, updated_at
             FROM sessions WHERE id = ?1",
        )?
        .query_row([key], from_row)?;
    session.queue = submissions::entries(conn, key)?;
    session.prompts = prompts::open(conn, key)?;
    session.processes = processes::running(conn, key)?;
    session.lease = lease::in_force(conn, key, terms)?;
    Ok(session)
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<Session> {
    let model_options: Option<Json<_>> = row.get("model_options")?;
    Ok(Session {
        session_id: row.get_ref("session_id")?.as_str()?.into(),
        title: row.get("title")?,
        cwd: row.get("cwd")?,
        model: row.get("model")?,
        model_options: model_options.map(|Json(options)| options),
        permission_mode: row.get("permission_mode").map(|Word(mode)| mode)?,
        state: row.get("state").map(|Word(state)| state)?,
        created_at: row.get("created_at").map(|Millis(time)| time)?,
        updated_at: row.get("updated_at").map(|Millis(time)| time)?,
        head_seq: row.get("head")?,
        item_count: row.get("item_count")?,
        usage: row.get("usage").map(|Json(usage)| usage)?,
        limits: row.get("limits").map(|Json(limits)| limits)?,
        queue: Vec::new(),
        queue_held: row.get("queue_held")?,
        roots: row.get("roots").map(|Json(roots)| roots)?,
        prompts: Vec::new(),
        processes: Vec::new(),
        active_turn_id: row.get::<_, Option<String>>("active_turn_id")?.map(Into::into),
        lease: None,
        labels: row.get("labels").map(|Json(labels)| labels)?,
        parent_id: row.get::<_, Option<String>>("parent_id")?.map(Into::into),
        archived: row.get("archived")?,
    })
}

/// Marks it as deleted, unless another process runs it; its key is free again.
pub(super) fn delete(
    conn: &Connection,
    session_id: &SessionId,
    terms: Terms<'_>,
) -> Result<(), Error> {
    let (key, _) = find(conn, session_id)?;
    if let Some(lease) = lease::in_force(conn, key, terms)?
        && lease.owner != terms.holder.owner
    {
        return Err(Error::LeaseHeld(lease));
    }
    conn.prepare_cached("UPDATE sessions SET deleted = 1, creation_key = NULL WHERE id = ?1")?
        .execute([key])?;
    Ok(())
}
