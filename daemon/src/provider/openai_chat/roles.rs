//! Whether messages of one role in a row become one: some servers' templates demand it, and say so
//! with a 400 or a 500.
//!
//! With `merge_roles = "auto"` the first such refusal is enough: from then on messages are merged
//! for this server, and the refused request is worth another attempt, once. The same request is
//! never sent again unchanged: what was refused for its form is refused again.
//!
//! Receives refusals from the requests' streams; hands them back, retryable where we learned.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::config::Auto;
use crate::provider::ModelError;
use crate::provider::failure::wants_alternation;

/// What is known of a server.
#[derive(Debug)]
pub(super) struct Roles {
    learns: bool,
    merged: AtomicBool,
}

impl Roles {
    pub(super) fn new(config: Auto) -> Self {
        Self { learns: config == Auto::Auto, merged: AtomicBool::new(config == Auto::On) }
    }

    pub(super) fn are_merged(&self) -> bool {
        self.merged.load(Ordering::Relaxed)
    }

    /// Takes a refusal into account.
    pub(super) fn learn(&self, error: ModelError) -> ModelError {
        let is_news = self.learns
            && wants_alternation(&error.message)
            && !self.merged.swap(true, Ordering::Relaxed);
        if !is_news {
            return error;
        }
        tracing::warn!(%error, "messages of one role in a row are merged from now on");
        ModelError {
            message: format!(
                "{}; from now on messages in a row are sent as one (`merge_roles`)",
                error.message
            ),
            retryable: true,
            retry_after: Some(Duration::ZERO),
            ..error
        }
    }
}
