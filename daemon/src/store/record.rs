//! The words of the seam: what is appended, and what an actor takes a session up from.
//!
//! Receives facts from `session`; hands them to the transaction in `append.rs`, and what was
//! loaded back.

use std::collections::BTreeMap;

use agentd_protocol::event::{Event, EventBody};
use agentd_protocol::id::{CallId, ItemId, SessionId, SubmissionId, TurnId};
use agentd_protocol::item::Item;
use agentd_protocol::permission::{Prompt, Resolution};
use agentd_protocol::process::ProcessExit;
use agentd_protocol::progress::{DeltaKind, InFlightItem};
use agentd_protocol::session::{EnvMode, Session};
use agentd_protocol::submission::{SubmitParams, SubmitResult};
use agentd_protocol::time::Time;

/// An event before it has a number.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// The turn, where it belongs to one.
    pub turn_id: Option<TurnId>,
    /// When it happened.
    pub time: Time,
    /// What happened. The rows it changes follow from it.
    pub body: EventBody,
}

/// A row that no event tells all of.
#[derive(Debug, Clone, PartialEq)]
pub enum Row {
    /// A submission was accepted: the record that makes it run at most once. Written before the
    /// events of the same append.
    Submission {
        /// What was sent; an input that is queued is started from this.
        params: Box<SubmitParams>,
        /// SHA-256 of the parameters in canonical form, hex.
        digest: String,
        /// What was answered.
        result: SubmitResult,
    },
    /// More text of the item that streams. Written after the events of the same append, and
    /// ignored if the item no longer streams in this attempt.
    Checkpoint {
        /// The item.
        item_id: ItemId,
        /// Its attempt.
        attempt: u32,
        /// Text or reasoning.
        kind: DeltaKind,
        /// Bytes before this piece.
        offset: u64,
        /// The piece.
        text: String,
    },
    /// A file as this session saw it last.
    FileSeen {
        /// The resolved path.
        path: String,
        /// SHA-256, hex.
        sha256: String,
    },
}

/// How an append stands to the session's lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseUse {
    /// Write under the epoch we hold; nothing is written if it is no longer in force.
    Held {
        /// The epoch.
        epoch: u64,
    },
    /// Take the lease in the same transaction; nothing is written if another live process has it.
    Take {
        /// Take a live one too.
        by_force: bool,
    },
}

/// One transaction of one session.
#[derive(Debug, Clone, PartialEq)]
pub struct Append {
    /// The session.
    pub session_id: SessionId,
    /// The head that the writer believes in; [`HeadMoved`](super::Error::HeadMoved) if it is
    /// another.
    pub expected_head: u64,
    /// The lease.
    pub lease: LeaseUse,
    /// Give the lease back in this transaction.
    pub release: bool,
    /// Events, in order.
    pub events: Vec<NewEvent>,
    /// Rows beside them.
    pub rows: Vec<Row>,
}

/// What an append came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Appended {
    /// The session's last event.
    pub head: u64,
    /// The epoch under which it was written.
    pub epoch: u64,
    /// The events with their numbers.
    pub events: Vec<Event>,
}

/// An input that waits for its turn.
#[derive(Debug, Clone, PartialEq)]
pub struct QueuedInput {
    /// The turn it will start: the `turn_id` of its last `input.queued` event (a steered input
    /// that its turn did not take is queued again under a new turn), else that of the submission's
    /// result; a fresh one where both have begun already.
    pub turn_id: TurnId,
    /// What was sent.
    pub params: SubmitParams,
}

/// A turn without its terminal event.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenTurn {
    /// The turn.
    pub turn_id: TurnId,
    /// What started it.
    pub params: SubmitParams,
    /// What was steered into it and ends it when its submitter is gone.
    pub joined: Vec<SubmissionId>,
    /// All its events from `turn.started` on, in order: the turn machine is a fold of them.
    pub events: Vec<Event>,
    /// Text of the item that streamed, as far as it was checkpointed.
    pub in_flight: Option<InFlightItem>,
}

/// What an actor needs to take up a session.
#[derive(Debug, Clone, PartialEq)]
pub struct LoadedSession {
    /// The session; its `head_seq` is what everything here is true as of.
    pub session: Session,
    /// Environment given by the client that made it.
    pub env: BTreeMap<String, String>,
    /// How `env` relates to the daemon's.
    pub env_mode: EnvMode,
    /// Inputs that wait, in order.
    pub queue: Vec<QueuedInput>,
    /// Inputs steered into the open turn that were not drained.
    pub steered: Vec<SubmitParams>,
    /// The turn that was running.
    pub open_turn: Option<OpenTurn>,
    /// The terminal event of the last turn that ended.
    pub last_end: Option<EventBody>,
    /// The same of the last one that was more than a compaction: what `resume` goes on from.
    pub last_work_end: Option<EventBody>,
    /// The place of the next item: one more than the last one's, booked ones included.
    pub next_item_index: u64,
    /// Files as this session saw them last: path, SHA-256.
    pub files_seen: Vec<(String, String)>,
    /// Background commands that ended and of which the model was not told.
    pub exited: Vec<ProcessExit>,
    /// Our own epoch, if this process holds the lease.
    pub epoch: Option<u64>,
    /// The process that held the lease last did not give it back and still lives.
    pub rival_lives: bool,
}

/// A new session.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    /// As it will be; `head_seq` 0 becomes 1 with the event `session.created`.
    pub session: Session,
    /// The conversation it starts with, in order; their places count from 1, and a rollback among
    /// them hides what it hid.
    pub items: Vec<Item>,
    /// Environment given by the client.
    pub env: BTreeMap<String, String>,
    /// How `env` relates to the daemon's.
    pub env_mode: EnvMode,
    /// The client's key: a session that has it is returned instead.
    pub key: Option<String>,
    /// SHA-256 of the parameters: the same key with others is a conflict.
    pub digest: String,
}

/// What making a session came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Created {
    /// The session.
    pub session: Session,
    /// Its key had been used with the same parameters: nothing was made now.
    pub replayed: bool,
}

/// A prompt as the record has it.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptRecord {
    /// The prompt; it names its session.
    pub prompt: Prompt,
    /// How it ended, if it did.
    pub resolved: Option<PromptResolution>,
}

/// How a prompt ended.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptResolution {
    /// The decision.
    pub decision: Resolution,
    /// Who answered, if anybody did.
    pub by: Option<agentd_protocol::permission::By>,
    /// When.
    pub at: Time,
}

/// A session at one moment, with what passes between its events.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// The session; `head_seq` is the moment.
    pub session: Session,
    /// The item that streams, as far as it was checkpointed.
    pub streaming: Option<InFlightItem>,
    /// Calls that started and have no result.
    pub running_calls: Vec<CallId>,
}
