//! The store: SQLite, and the only SQL in agentd.
//!
//! Receives appends from `journal` and reads from `session`; hands back what was committed.

use std::collections::BTreeMap;

use agentd_protocol::event::{Event, EventBody};
use agentd_protocol::id::{ItemId, SessionId, SubmissionId, TurnId};
use agentd_protocol::progress::{DeltaKind, InFlightItem};
use agentd_protocol::session::{EnvMode, Lease, Session};
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
    /// A submission was accepted: the record that makes it run at most once.
    Submission {
        /// What was sent; an input that is queued is started from this.
        params: Box<SubmitParams>,
        /// SHA-256 of the parameters in canonical form, hex.
        digest: String,
        /// What was answered.
        result: SubmitResult,
    },
    /// More text of the item that streams.
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
    /// The head that the writer believes in; [`Error::HeadMoved`] if it is another.
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
    /// that its turn did not take is queued again under a new turn).
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
    /// All its events, in order: the turn machine is a fold of them.
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
    /// The terminal event of the last turn that ended: what `resume` goes on from.
    pub last_end: Option<EventBody>,
    /// Files as this session saw them last: path, SHA-256.
    pub files_seen: Vec<(String, String)>,
    /// Our own epoch, if this process holds the lease.
    pub epoch: Option<u64>,
}

/// A new session.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSession {
    /// As it will be; `head_seq` 0 becomes 1 with the event `session.created`.
    pub session: Session,
    /// Environment given by the client.
    pub env: BTreeMap<String, String>,
    /// How `env` relates to the daemon's.
    pub env_mode: EnvMode,
    /// The client's key: a session that has it is returned instead.
    pub key: Option<String>,
    /// SHA-256 of the parameters: the same key with others is a conflict.
    pub digest: String,
}

/// Why the store refused or failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// No such session.
    #[error("no session {0}")]
    SessionNotFound(SessionId),
    /// Another live process has the lease.
    #[error("the session is run by process {} on {}", .0.pid, .0.host)]
    LeaseHeld(Lease),
    /// The epoch is no longer in force: somebody took the lease.
    #[error("the lease was taken")]
    LeaseLost,
    /// Somebody else wrote first.
    #[error("the session's head is {actual}, not the expected {expected}")]
    HeadMoved {
        /// What the writer believed.
        expected: u64,
        /// What is there.
        actual: u64,
    },
    /// The key was used for other parameters.
    #[error("the key was used with other parameters")]
    KeyConflict(SubmissionId),
    /// SQLite or the file system failed.
    #[error("{operation}: {cause}")]
    Failed {
        /// What was being done.
        operation: String,
        /// The cause in words: disk full, busy, corrupt, newer schema …
        cause: String,
        /// The file.
        path: String,
    },
}

/// The store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {}
