//! What a call changes in a file: lines added and removed, and a unified diff.
//!
//! Receives contents from the writing tools; hands them changes for the record and previews for
//! people.

use std::time::Duration;

use agentd_protocol::event::{Change, ChangeKind};
use similar::{ChangeTag, TextDiff};

/// The longest diff that is recorded and shown, in bytes.
const MAX_DIFF_BYTES: usize = 64 * 1024;

/// After this the diff is still right, only no longer the shortest.
const SEARCH_TIME: Duration = Duration::from_millis(500);

/// The change from `old` (`None`: there was no file) to `new`. `path` is how it is shown.
pub fn change(path: String, old: Option<&[u8]>, new: &[u8]) -> Change {
    let kind = if old.is_some() { ChangeKind::Modified } else { ChangeKind::Created };
    let old = old.unwrap_or_default();
    if is_binary(old) || is_binary(new) {
        return Change { path, kind, added: 0, removed: 0, diff: None };
    }
    let (old, new) = (String::from_utf8_lossy(old), String::from_utf8_lossy(new));
    let diff = TextDiff::configure().timeout(SEARCH_TIME).diff_lines(&*old, &*new);
    let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count() as u64;
    let (added, removed) = (count(ChangeTag::Insert), count(ChangeTag::Delete));
    let from = if kind == ChangeKind::Created { "/dev/null" } else { &path };
    let text = diff.unified_diff().context_radius(3).header(from, &path).to_string();
    let diff = (text.len() <= MAX_DIFF_BYTES).then_some(text);
    Change { path, kind, added, removed, diff }
}

/// Whether a content is better not shown as text.
pub fn is_binary(bytes: &[u8]) -> bool {
    // As git decides it.
    bytes.iter().take(8_000).any(|byte| *byte == 0)
}
