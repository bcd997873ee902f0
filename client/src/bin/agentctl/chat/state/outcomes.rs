//! How it went: answers of the daemon to what was asked of it.
//!
//! Receives results; hands entries, lists and, for what was refused, the text back to the editor.

use agentd_client::Error;
use agentd_client::protocol::daemon::ModelListResult;
use agentd_client::protocol::error::ErrorData;
use agentd_client::protocol::id::SubmissionId;
use agentd_client::protocol::session::Session;
use agentd_client::protocol::submission::{Disposition, SubmitResult};

use super::picker::{Choice, Picker, Row};
use super::{Effect, State};
use crate::chat::entry::Tone;
use crate::failure::advice;
use crate::render;
use crate::terminal::one_line;

/// Characters of a title in the list of sessions.
const TITLE_CHARS: usize = 50;

impl State {
    pub(super) fn submitted(
        &mut self,
        id: &SubmissionId,
        outcome: Result<SubmitResult, Error>,
    ) -> Vec<Effect> {
        let at = self.pending.iter().position(|pending| pending.id == *id);
        match outcome {
            Ok(result) => {
                if let Some(at) = at {
                    self.pending[at].steered |= result.disposition == Disposition::Steered;
                }
            }
            Err(error) => {
                self.complain(&error);
                if let Some(at) = at {
                    let draft = self.pending.remove(at).draft;
                    if self.editor.is_empty() {
                        self.editor.set(draft);
                    } else {
                        self.editor.remember(draft);
                    }
                }
            }
        }
        Vec::new()
    }

    pub(super) fn complain(&mut self, error: &Error) {
        self.note(Tone::Bad, error.to_string());
        if let Some(advice) = error.data().and_then(advice) {
            self.note(Tone::Quiet, advice);
        }
    }

    pub(super) fn replied(&mut self, outcome: Result<(), Error>) -> Vec<Effect> {
        match outcome {
            // Somebody was faster; the event tells who.
            Err(error) if matches!(error.data(), Some(ErrorData::PromptResolved { .. })) => {
                self.answered.clear();
            }
            Err(error) => self.complain(&error),
            Ok(()) => {}
        }
        Vec::new()
    }

    pub(super) fn models(&mut self, models: Result<ModelListResult, Error>) -> Vec<Effect> {
        let models = match models {
            Ok(models) => models,
            Err(error) => {
                self.complain(&error);
                return Vec::new();
            }
        };
        let row = |model: agentd_client::protocol::daemon::Model| {
            let mut detail = Vec::new();
            if models.default.as_ref() == Some(&model.id) {
                detail.push("the usual one".to_owned());
            }
            detail.extend(model.context_window.map(|window| format!("{window} tokens")));
            let choice = Choice::Model(model.id.clone());
            Row { name: model.id, detail: detail.join(", "), choice }
        };
        let rows = models.models.into_iter().map(row).collect();
        let session = self.view.session.as_ref();
        let present = session.map_or(self.setup.model.clone(), |session| session.model.clone());
        let present = present.map(Choice::Model);
        self.picker = Some(Picker::new("Model", rows, present.as_ref()));
        Vec::new()
    }

    pub(super) fn sessions(&mut self, sessions: Result<Vec<Session>, Error>) -> Vec<Effect> {
        let sessions = match sessions {
            Ok(sessions) => sessions,
            Err(error) => {
                self.complain(&error);
                return Vec::new();
            }
        };
        let others = sessions
            .into_iter()
            .filter(|session| self.session_id.as_ref() != Some(&session.session_id));
        let row = |session: Session| {
            let title = one_line(&session.title, TITLE_CHARS);
            let name = if title.is_empty() { session.session_id.to_string() } else { title };
            let detail =
                format!("{}, {}", render::state(session.state), render::ago(session.updated_at));
            Row { name, detail, choice: Choice::Session(session.session_id) }
        };
        let rows: Vec<Row> = others.map(row).collect();
        if rows.is_empty() {
            self.note(Tone::Quiet, "there is no other session in this directory");
        } else {
            self.picker = Some(Picker::new("Sessions of this directory", rows, None));
        }
        Vec::new()
    }
}
