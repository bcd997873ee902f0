//! What an actor is told: commands, looked up; news of its own tasks; timers.
//!
//! Receives from the mailbox, the model's stream, tools and timers; hands one input at a time to
//! the step.

use agentd_protocol::daemon::ShutdownMode;
use agentd_protocol::id::{CallId, SubmissionId};
use agentd_protocol::permission::{By, Prompt, Resolution};
use agentd_protocol::process::ProcessExit;
use agentd_protocol::submission::SubmitResult;
use agentd_protocol::time::Time;

use super::Error;
use super::command::{Command, Submitted};
use super::rollback::RolledBack;
use super::timers::Timer;
use super::work::PreparedCall;
use crate::provider::{ModelError, ModelEvent};
use crate::store::{self, Appended};
use crate::tools::OutputChunk;
use crate::turn::{Judgement, Outcome, StreamInput};

/// One input.
#[derive(Debug)]
pub(super) enum Input {
    /// A submission, with what the store knows of its id.
    Submit { submitted: Box<Submitted>, digest: String, known: Known },
    /// Any other command.
    Command(Command),
    /// News of the model's stream; `None` when it ended without a word.
    Model(Option<Result<ModelEvent, ModelError>>),
    /// Live output of a tool.
    Output(OutputChunk),
    /// A task is done.
    Done(Done),
    /// A command in the background ended.
    Exited(ProcessExit),
    /// A transaction that was not waited for is over.
    Committed(Result<Appended, store::Error>),
    /// So is a lease's renewal.
    Renewed(Result<(), store::Error>),
    /// A timer is due.
    Due(Timer),
    /// The daemon stops.
    Drain(ShutdownMode),
}

/// What the store knows of a submission's id.
#[derive(Debug)]
pub(super) enum Known {
    /// Nothing.
    New,
    /// It was accepted with the same parameters.
    Same(SubmitResult),
    /// It was accepted with others.
    Other,
    /// It answers a prompt that is resolved.
    Resolved { decision: Resolution, by: Option<By>, at: Time },
    /// It is a rollback, which has looked at the record and the files.
    RolledBack(Result<RolledBack, Error>),
    /// The store could not be asked.
    Failed(store::Error),
}

/// What a task came to.
#[derive(Debug)]
pub(super) enum Done {
    /// What is known of a request when it goes out, or why it does not.
    Model(StreamInput),
    /// The tool said what a call is.
    Prepared { call_id: CallId, prepared: Result<PreparedCall, String> },
    /// The policy needed no person.
    Judged { call_id: CallId, judgement: Judgement },
    /// A prompt is ready to be asked.
    Asked { call_id: CallId, prompt: Box<Prompt> },
    /// A call is over.
    Ran { call_id: CallId, outcome: Outcome },
    /// A submitter has been gone for a while; no connection is named where a restart lost it.
    Gone { submission_id: SubmissionId, connection: Option<u64> },
}
