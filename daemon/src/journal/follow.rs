//! Following sessions that another process runs: its events come from the log.
//!
//! Only where the database is shared, and only while somebody watches here.
//!
//! Receives the store's word that something was committed; hands the new events to the hubs.

use std::time::Duration;

use agentd_protocol::event::Event;
use agentd_protocol::id::SessionId;

use super::{Shared, line};
use crate::store::{Error, MAX_PAGE_BYTES};

/// How often the store is asked whether anybody wrote.
const POLL: Duration = Duration::from_millis(100);
/// Events of one page.
const PAGE_EVENTS: usize = 256;

/// Follows all watched sessions for ever.
pub(super) async fn others(shared: Shared) {
    let mut seen = None;
    loop {
        let watched = shared.hubs.watched();
        if watched.is_empty() {
            seen = None;
            shared.watched.notified().await;
            continue;
        }
        match shared.store.data_version().await {
            Ok(version) if seen == Some(version) => {}
            Ok(version) => {
                seen = Some(version);
                for (session_id, head) in watched {
                    if let Err(error) = other(&shared, &session_id, head).await {
                        tracing::warn!(%session_id, %error, "a session cannot be followed");
                        seen = None;
                    }
                }
            }
            Err(error) => tracing::warn!(%error, "the database cannot be followed"),
        }
        shared.store.clock().sleep(POLL).await;
    }
}

/// Publishes what another process wrote. Of a session that is ours there is nothing, unless it was
/// lost: that is told first.
async fn other(shared: &Shared, session_id: &SessionId, head: u64) -> Result<(), Error> {
    let ours = shared.held.as_ref().and_then(|held| held.epoch(session_id));
    if let Some(epoch) = ours {
        if shared.store.lease_epoch(session_id).await? == epoch {
            return Ok(());
        }
        let holder = shared.store.session(session_id).await?.lease;
        shared.detached(session_id, holder);
    }
    session(shared, session_id, head).await
}

/// Publishes what the log has after `head`.
pub(super) async fn session(
    shared: &Shared,
    session_id: &SessionId,
    mut head: u64,
) -> Result<(), Error> {
    loop {
        let limits = (PAGE_EVENTS, MAX_PAGE_BYTES);
        let page = shared.store.event_lines(session_id, (head, u64::MAX), limits).await?;
        if page.is_empty() {
            return Ok(());
        }
        for (seq, json) in page {
            let event: Event = serde_json::from_str(&json)
                .map_err(|error| Error::Inconsistent(format!("event {seq}: {error}")))?;
            shared.hubs.publish(session_id, &event, || line::of_logged(session_id, &json));
            head = seq;
        }
    }
}
