//! A session's mailbox: what others ask of its actor.
//!
//! Receives requests from the registry; hands them, in order, to the actor.

use agentd_protocol::session::{Session, UpdateParams};
use agentd_protocol::submission::{SubmitParams, SubmitResult};
use tokio::sync::oneshot;

use super::{Caller, Error};
use crate::store;

/// How many commands may wait: more than a person or an editor sends at once. When it is full the
/// sender is told `overloaded` and nothing was accepted.
pub(super) const MAILBOX: usize = 128;

/// The way back. The receiver may be gone; nobody minds.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Error>>;

/// A command.
#[derive(Debug)]
pub(super) enum Command {
    /// Change the session.
    Submit(Box<Submitted>),
    /// Change what is shown about the session.
    Update { params: Box<UpdateParams>, reply: Reply<()> },
    /// Delete the session.
    Delete { reply: Reply<()> },
    /// Take the session's lease, whoever has it.
    TakeOver { reply: Reply<Session> },
    /// Take up what a former daemon left; loading the session does it.
    Recover { done: oneshot::Sender<()> },
}

/// A submission with its sender.
#[derive(Debug)]
pub(super) struct Submitted {
    pub(super) params: SubmitParams,
    pub(super) caller: Caller,
    pub(super) reply: Reply<SubmitResult>,
}

impl Command {
    /// The session cannot be read.
    pub(super) fn refuse(self, error: &store::Error) {
        let error = Error::from_store(error.clone());
        // A caller that is gone needs no answer.
        match self {
            Self::Submit(submitted) => drop(submitted.reply.send(Err(error))),
            Self::TakeOver { reply } => drop(reply.send(Err(error))),
            Self::Update { reply, .. } | Self::Delete { reply } => drop(reply.send(Err(error))),
            Self::Recover { .. } => {}
        }
    }
}
