//! Changes to what is shown of a session, and its end.
//!
//! Receives `session/update` and `session/delete`; plans an event, or empties the store of it.

use std::path::Path;

use agentd_protocol::daemon::DaemonEvent;
use agentd_protocol::event::EventBody;
use agentd_protocol::session::{ModelOptions, Session, UpdateParams};

use super::Error;
use super::actor::Actor;
use super::command::Reply;
use super::plan::{Answer, Plan};
use crate::store;

impl Actor {
    /// Plans the changes of `session/update`.
    pub(super) fn update(&mut self, params: UpdateParams, reply: Reply<()>, plan: &mut Plan) {
        match self.updated(params) {
            Err(error) => {
                // A caller that is gone needs no answer.
                drop(reply.send(Err(error)));
            }
            Ok((session, changed)) => {
                if !changed.is_empty() {
                    let session = Box::new(session);
                    plan.event(EventBody::SessionUpdated { session, changed });
                }
                plan.answer = Some(Answer::Updated { reply });
            }
        }
    }

    fn updated(&self, params: UpdateParams) -> Result<(Session, Vec<String>), Error> {
        let UpdateParams { session_id: _, title, archived, labels, cwd } = params;
        let mut session = self.state.session.clone();
        let mut changed = Vec::new();
        let mut note = |is_new: bool, field: &str| {
            if is_new {
                changed.push(field.to_owned());
            }
        };
        if let Some(title) = title {
            note(session.title != title, "title");
            session.title = title;
        }
        if let Some(archived) = archived {
            note(session.archived != archived, "archived");
            session.archived = archived;
        }
        if let Some(labels) = labels {
            note(session.labels != labels, "labels");
            session.labels = labels;
        }
        if let Some(cwd) = cwd {
            if let Some(turn_id) = self.state.active_turn() {
                return Err(Error::TurnActive(turn_id.clone()));
            }
            check_directory(&cwd, "cwd")?;
            note(session.cwd != cwd, "cwd");
            session.cwd = cwd;
        }
        Ok((session, changed))
    }

    /// Deletes the session, unless a turn runs. Where the store failed it is tried again first, so
    /// that the turn that failed with it is closed, and nobody waits for the next try.
    pub(super) async fn delete(&mut self, reply: Reply<()>) {
        self.mend().await;
        let result = match &self.broken {
            Some(error) => Err(Error::from_store(error.clone())),
            None => self.try_delete().await,
        };
        if result.is_ok() {
            let session_id = self.session_id.clone();
            self.services.journal.deleted(&session_id);
            self.services.tools.background().forget(&session_id);
            self.leave(&store::Error::SessionNotFound(session_id.clone()));
            self.services.tell(DaemonEvent::SessionDeleted { session_id });
        }
        // A caller that is gone needs no answer.
        drop(reply.send(result));
    }

    async fn try_delete(&mut self) -> Result<(), Error> {
        if let Some(turn_id) = self.state.active_turn() {
            return Err(Error::TurnActive(turn_id.clone()));
        }
        self.services.store.delete_session(&self.session_id).await.map_err(Error::Store)
    }
}

/// Refuses a directory that is not absolute or not there.
pub(super) fn check_directory(path: &str, field: &str) -> Result<(), Error> {
    let invalid = |message: String| Error::InvalidParams { field: field.to_owned(), message };
    if !Path::new(path).is_absolute() {
        return Err(invalid(format!("{path:?} is not an absolute path: give the whole path")));
    }
    match std::fs::metadata(path) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(invalid(format!("{path} is not a directory"))),
        Err(error) => Err(invalid(format!("{path} cannot be used: {error}"))),
    }
}

/// Refuses a recording whose place depends on where the daemon was started.
pub(super) fn check_record(options: Option<&ModelOptions>, field: &str) -> Result<(), Error> {
    match options.and_then(|options| options.record.as_ref()) {
        Some(path) if !Path::new(path).is_absolute() => Err(Error::InvalidParams {
            field: format!("{field}.record"),
            message: format!("{path:?} is not an absolute path: give the whole path"),
        }),
        Some(_) | None => Ok(()),
    }
}
