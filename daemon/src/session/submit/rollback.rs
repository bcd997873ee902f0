//! `rollback`: hide the last turns from the model's view, or show them again.
//!
//! Receives a rollback that was prepared; plans its marker and what follows for the session: there
//! is nothing to resume any more.

use agentd_protocol::event::EventBody;
use agentd_protocol::id::TurnId;
use agentd_protocol::item::{Item, ItemBody, Marker};
use agentd_protocol::submission::Disposition;

use super::Desk;
use crate::session::rollback::RolledBack;
use crate::store::Row;

pub(in crate::session) fn plan(
    desk: &mut Desk<'_>,
    done: RolledBack,
) -> (Disposition, Option<TurnId>) {
    let RolledBack { report, hidden, undo, turn_id, seen, .. } = done;
    let Some(item_id) = report.item_id else { return (Disposition::Applied, None) };
    desk.accept(Disposition::Applied, None);
    let marker = Marker::Rollback { hidden: hidden.clone(), undo };
    let item = Box::new(Item {
        item_id: item_id.clone(),
        index: desk.state.next_index,
        turn_id,
        created_at: desk.moment.now,
        hidden_by: None,
        body: ItemBody::Marker { marker },
    });
    desk.state.next_index += 1;
    desk.plan.event(EventBody::MessageCompleted { item });
    desk.plan.event(EventBody::SessionRolledBack { item_id, hidden, files: report.files });
    for file in seen {
        let path = file.path.to_string_lossy().into_owned();
        desk.plan.rows.push(Row::FileSeen { path, sha256: file.sha256 });
    }
    desk.state.last_end = None;
    desk.state.last_work_end = None;
    (Disposition::Applied, None)
}
