//! The duplicate guard: a call that succeeded is not run again for nothing.
//!
//! The key is the tool's name and its arguments in canonical form (object keys in order, which
//! `serde_json`'s maps keep). It is a fold of the turn's completed calls.
//!
//! Receives completed calls from the fold; hands verdicts to the machine.

use std::collections::BTreeMap;

use agentd_protocol::item::{Call, ToolStatus};
use agentd_protocol::permission::Risk;

/// What the guard refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DuplicateRule {
    /// A call that succeeded before, unless a call that may change things ended since, or commands
    /// run in the background.
    Unchanged,
    /// A call that succeeded before in the turn.
    Turn,
}

/// A call's key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(String);

impl Key {
    pub(super) fn of(call: &Call) -> Self {
        Self(format!("{} {}", call.name, call.arguments))
    }
}

/// The guard of one turn.
#[derive(Debug, Clone, Default)]
pub(super) struct Guard {
    /// How many calls that may change things have ended.
    changes: u64,
    /// Calls that succeeded, with the number of changes right after them.
    succeeded: BTreeMap<Key, u64>,
}

impl Guard {
    /// `moving` says that commands run in the background, so that things may change by themselves.
    pub(super) fn refuses(&self, rule: DuplicateRule, key: &Key, moving: bool) -> bool {
        match (self.succeeded.get(key), rule) {
            (None, _) => false,
            (Some(_), DuplicateRule::Turn) => true,
            (Some(at), DuplicateRule::Unchanged) => *at == self.changes && !moving,
        }
    }

    /// A call that had started is over.
    pub(super) fn note(&mut self, call: &Call, risk: Risk, status: ToolStatus) {
        if risk != Risk::Read {
            self.changes += 1;
        }
        if status == ToolStatus::Ok {
            self.succeeded.insert(Key::of(call), self.changes);
        }
    }
}
