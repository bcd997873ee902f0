//! What the state looks like: rows, of a width.
//!
//! The panel, from its top: the answer and the calls that run, what is on its way, what is asked
//! or written, and a line about the session. Where there is no room for all of it, the upper parts
//! give way.
//!
//! Receives the state; hands rows to the screen.

mod entries;
mod highlight;
mod input;
mod live;
mod markdown;
mod status;
mod wrap;

use ratatui::text::Line;

pub(super) use self::entries::rows;
pub(super) use self::markdown::{OpenCode, render as markdown, settled};
use super::state::State;

/// Rows that belong to the screen above, so that something of the scrollback stays in sight.
const KEPT_ABOVE: usize = 1;

/// The rows of the panel.
pub(super) fn panel(state: &State) -> Vec<Line<'static>> {
    let (width, height) = (usize::from(state.setup.size.0), usize::from(state.setup.size.1));
    let room = height.saturating_sub(KEPT_ABOVE).max(1);
    let mut below = input::rows(state, width, room.saturating_sub(1));
    below.push(status::row(state, width));
    let over = below.len().saturating_sub(room);
    below.drain(..over);
    let mut rows = live::rows(state, width, room - below.len());
    rows.append(&mut below);
    rows
}
