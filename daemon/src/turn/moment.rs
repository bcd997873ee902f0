//! The moment of a step: what time it is, and where unique parts of ids come from.
//!
//! Receives readings from `session`; hands the machine everything that is not decided by it.

use agentd_protocol::id::{CallId, ItemId, TurnId};
use agentd_protocol::time::Time;

/// A moment. Two steps never share one.
#[derive(Debug)]
pub struct Moment {
    /// Wall time, for records.
    pub now: Time,
    /// Boot time, for budgets.
    pub boot_ms: u64,
    base: String,
    drawn: u32,
}

impl Moment {
    /// A moment whose ids start with `base`: unique, and sortable by time.
    pub fn new(now: Time, boot_ms: u64, base: String) -> Self {
        Self { now, boot_ms, base, drawn: 0 }
    }

    fn unique(&mut self) -> String {
        self.drawn += 1;
        format!("{}{:02x}", self.base, self.drawn)
    }

    /// A new item's id.
    pub fn item_id(&mut self) -> ItemId {
        ItemId::from_unique(self.unique())
    }

    /// A new turn's id.
    pub fn turn_id(&mut self) -> TurnId {
        TurnId::from_unique(self.unique())
    }

    /// A new call's id.
    pub fn call_id(&mut self) -> CallId {
        CallId::from_unique(self.unique())
    }
}
