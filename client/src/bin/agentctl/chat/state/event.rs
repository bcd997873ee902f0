//! What can happen to the interface, and what it wants done.
//!
//! Receives nothing; hands its words to the state, which turns events into effects, and to the
//! loop, which does effects and tells how they went as events.

use std::path::PathBuf;

use agentd_client::protocol::daemon::ModelListResult;
use agentd_client::protocol::id::{SessionId, SubmissionId};
use agentd_client::protocol::item::Content;
use agentd_client::protocol::permission::{PermissionMode, PermissionReplyParams};
use agentd_client::protocol::session::Session;
use agentd_client::protocol::submission::{Op, SubmitResult};
use agentd_client::{Body, Error};
use crossterm::event::KeyEvent;

use super::Draft;

/// Something happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// A key was pressed.
    Key(KeyEvent),
    /// A text was pasted.
    Paste(String),
    /// The terminal has another size: columns and rows.
    Resized(u16, u16),
    /// Time passed.
    Tick,
    /// The watched session said something.
    Message(Box<Body>),
    /// Watching failed for now; it is tried again.
    Unwatched(String),
    /// A session is open from now on.
    Opened(Box<Session>),
    /// A session that was asked for cannot be opened.
    NotOpened(String),
    /// What became of a submission.
    Submitted(SubmissionId, Result<SubmitResult, Error>),
    /// What became of an answer to a prompt.
    Replied(Result<(), Error>),
    /// The models there are.
    Models(Result<ModelListResult, Error>),
    /// The sessions of this directory, the last changed first.
    Sessions(Result<Vec<Session>, Error>),
    /// The session was renamed, or not.
    Renamed(Result<(), Error>),
    /// Files whose names hold a part.
    Files { part: String, names: Vec<String> },
    /// What was written cannot be kept for later runs.
    NotKept(String),
    /// The command that runs here wrote something.
    CommandOutput(String),
    /// The command that ran here ended: in words, and whether well.
    CommandEnded(String, bool),
}

/// Something to do.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Submit, in a new session if none is open.
    Submit {
        id: SubmissionId,
        op: Op,
        /// Files that go along: images as bytes, others by name.
        attachments: Vec<PathBuf>,
    },
    /// Answer a prompt.
    Reply(PermissionReplyParams),
    /// Ask for the models.
    ListModels,
    /// Ask for the sessions of this directory.
    ListSessions,
    /// Open a session.
    Open(SessionId),
    /// Leave the session; the next input makes a new one.
    Close,
    /// Make new sessions with these.
    Prefer { model: Option<String>, mode: Option<PermissionMode> },
    /// Give the session a title.
    Rename(String),
    /// Look for files whose names hold this.
    FindFiles(String),
    /// Keep what was written for later runs.
    Keep(Draft),
    /// Run a command here.
    Run(String),
    /// End the command that runs here.
    KillCommand,
    /// Draw all of the panel again.
    Redraw,
    /// Stop until continued.
    Suspend,
    /// Leave; what runs goes on.
    Leave,
}

impl Effect {
    /// An input for the model.
    pub(crate) fn input(
        content: Content,
        delivery: agentd_client::protocol::submission::Delivery,
    ) -> Op {
        Op::UserInput { content, delivery, expected_turn_id: None }
    }
}
