//! Commands that another daemon's write went ahead of: they are taken again, by themselves.
//!
//! Where several daemons share a store, one of them may write to a session at rest between another's
//! look at it and its own write, or may have taken a session and given it back while its holder stood
//! still. That write changes nothing then; the session is read again and what was asked is decided
//! anew, before anything that was asked after it.
//!
//! Receives commands and failed transactions from the actor; hands it the commands back.

use agentd_protocol::session::UpdateParams;
use agentd_protocol::submission::SubmitParams;

use super::command::{Command, Submitted};
use super::plan::Answer;
use super::{Caller, Error};
use crate::store;

/// How often in a row a command is taken again: by chance another daemon is faster once or twice.
const MAX_AGAIN: u32 = 32;

/// The command in hand, as far as it may be overtaken.
#[derive(Debug, Default)]
pub(super) struct Overtaken {
    asked: Option<Asked>,
    again: Option<Command>,
    times: u32,
}

/// What is asked, without the way back.
#[derive(Debug)]
enum Asked {
    Submit(Box<(SubmitParams, Caller)>),
    Update(Box<UpdateParams>),
}

impl Overtaken {
    /// The command that is to be taken next, before any other.
    pub(super) fn take(&mut self) -> Option<Command> {
        let again = self.again.take();
        if again.is_none() {
            self.times = 0;
        }
        again
    }

    /// This command may be overtaken.
    pub(super) fn may(&mut self, command: &Command) {
        self.asked = match command {
            Command::Submit(submitted) => {
                let Submitted { params, caller, .. } = &**submitted;
                Some(Asked::Submit(Box::new((params.clone(), caller.clone()))))
            }
            Command::Update { params, .. } => Some(Asked::Update(params.clone())),
            Command::Delete { .. } | Command::TakeOver { .. } | Command::Recover { .. } => None,
        };
    }

    /// The transaction that this answer waits for changed nothing: the command is taken again if
    /// another daemon was faster, else refused.
    pub(super) fn failed(&mut self, answer: Answer, error: &store::Error) {
        // Whoever still holds the lease is named by another error, and asked instead.
        let faster = matches!(error, store::Error::HeadMoved { .. } | store::Error::LeaseLost);
        let may = faster && self.times < MAX_AGAIN;
        let again = match (self.asked.take().filter(|_| may), answer) {
            (Some(Asked::Submit(asked)), Answer::Submitted { reply, .. }) => {
                let (params, caller) = *asked;
                Command::Submit(Box::new(Submitted { params, caller, reply }))
            }
            (Some(Asked::Update(params)), Answer::Updated { reply }) => {
                Command::Update { params, reply }
            }
            (_, answer) => return answer.refuse(Error::from_store(error.clone())),
        };
        self.again = Some(again);
        self.times += 1;
    }
}
