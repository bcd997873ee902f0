//! A session as one document: JSON that can be imported, or a Markdown transcript for people.
//!
//! The document holds what the conversation is, hidden items and markers too, and never what the
//! session's tools were given: its environment stays where it is.
//!
//! Receives sessions and their items from `copy.rs`; hands back text, or what was read of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::{Read, Write as _};
use std::path::Path;

use agentd_protocol::item::{
    AssistantItem, AssistantStatus, Item, ItemBody, Marker, Origin, Part, ToolItem,
};
use agentd_protocol::session::Session;
use agentd_protocol::time::Time;
use serde::{Deserialize, Serialize};

use crate::store::NewFile;

/// What a document says it is.
const FORMAT: &str = "agentd-session";
/// The version that is written, and the only one that is read.
const VERSION: u32 = 1;

/// A file that is read whole: far more than a person's session comes to.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// A session as a document.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Document {
    format: String,
    version: u32,
    exported_at: Time,
    pub(super) session: About,
    pub(super) items: Vec<Item>,
}

/// What a document says of its session.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct About {
    session_id: String,
    pub(super) title: String,
    pub(super) cwd: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<String>,
    #[serde(default)]
    pub(super) labels: BTreeMap<String, String>,
    created_at: Time,
}

/// Whether an item is whole: what still streams is in no document.
pub(super) fn is_whole(item: &Item) -> bool {
    !matches!(
        &item.body,
        ItemBody::Assistant(AssistantItem { status: AssistantStatus::Streaming, .. })
    )
}

/// The document of a session.
pub(super) fn write(session: Session, items: Vec<Item>, now: Time) -> String {
    let document = Document {
        format: FORMAT.to_owned(),
        version: VERSION,
        exported_at: now,
        session: About {
            session_id: session.session_id.to_string(),
            title: session.title,
            cwd: session.cwd,
            model: session.model,
            labels: session.labels,
            created_at: session.created_at,
        },
        items,
    };
    serde_json::to_string(&document).expect("a document is plain JSON")
}

/// Reads a document; `Err` says what is wrong with it.
pub(super) fn read(content: &str) -> Result<Document, String> {
    let document: Document = serde_json::from_str(content)
        .map_err(|error| format!("it is no document of `session/export`: {error}"))?;
    if document.format != FORMAT || document.version != VERSION {
        return Err(format!(
            "it is a document {:?} of version {}, and this daemon reads {FORMAT:?} of version \
             {VERSION}",
            document.format, document.version
        ));
    }
    let mut ids = BTreeSet::new();
    for (place, item) in document.items.iter().enumerate() {
        if !ids.insert(&item.item_id) {
            return Err(format!("items[{place}]: {} is there twice", item.item_id));
        }
        if !is_whole(item) {
            return Err(format!("items[{place}]: {} is not complete", item.item_id));
        }
    }
    Ok(document)
}

/// Reads a file's document; `Err` says what is wrong with it.
pub(super) fn load(path: &Path) -> Result<Document, String> {
    let failed = |error: &dyn Display| format!("cannot read {}: {error}", path.display());
    let file = File::open(path).map_err(|error| failed(&error))?;
    let meta = file.metadata().map_err(|error| failed(&error))?;
    if !meta.is_file() {
        return Err(failed(&"it is no file"));
    }
    if meta.len() > MAX_FILE_BYTES {
        return Err(failed(&format_args!(
            "it has {} bytes, and a document at most {MAX_FILE_BYTES}",
            meta.len()
        )));
    }
    let mut content = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut content).map_err(|error| failed(&error))?;
    read(&content).map_err(|reason| failed(&reason))
}

/// Writes a document into a new file; its size in bytes.
pub(super) fn save(path: &Path, content: &str) -> Result<u64, String> {
    let written = NewFile::begin(path).and_then(|mut new| {
        new.file().write_all(content.as_bytes())?;
        new.finish()
    });
    written.map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// The transcript of a session.
pub(super) fn transcript(session: &Session, items: &[Item]) -> String {
    let title = session.title.lines().next().unwrap_or_default().trim();
    let title = if title.is_empty() { session.session_id.as_str() } else { title };
    let mut text = format!("# {title}\n\n- session: {}\n", session.session_id);
    let model = session.model.as_deref().unwrap_or("none");
    put(&mut text, format_args!("- directory: {}\n- model: {model}\n", session.cwd));
    put(&mut text, format_args!("- begun: {}\n", session.created_at));
    for item in items {
        let hidden = if item.hidden_by.is_some() { " (rolled back)" } else { "" };
        entry(&mut text, item, hidden);
    }
    text
}

fn entry(text: &mut String, item: &Item, hidden: &str) {
    match &item.body {
        ItemBody::System { content } => {
            put(text, format_args!("\n## Instructions{hidden}\n\n{}\n", fenced(&shown(content))));
        }
        ItemBody::User { content, origin, .. } => {
            let who = match origin {
                Origin::User => "User",
                Origin::Steer => "User, meanwhile",
                Origin::Hook => "Hook",
                Origin::Agentd => "agentd",
            };
            put(text, format_args!("\n## {who}{hidden}\n\n{}\n", shown(content).trim_end()));
        }
        ItemBody::Assistant(answer) => {
            put(text, format_args!("\n## {}{hidden}\n", answer.model));
            let said = answer.text();
            if !said.trim().is_empty() {
                put(text, format_args!("\n{}\n", said.trim_end()));
            }
            for call in &answer.calls {
                let arguments = fenced(&call.arguments.to_string());
                put(text, format_args!("\nCall of `{}`:\n\n{arguments}\n", call.name));
            }
        }
        ItemBody::Tool(ToolItem { name, status, content, .. }) => {
            let status = serde_json::to_value(status).unwrap_or_default();
            let status = status.as_str().unwrap_or_default();
            put(text, format_args!("\nResult of `{name}` ({status}){hidden}:\n"));
            put(text, format_args!("\n{}\n", fenced(&shown(content))));
        }
        ItemBody::Marker { marker } => match marker {
            Marker::Compaction { summary, .. } => {
                put(text, format_args!("\n## Summary of what is before{hidden}\n\n{summary}\n"));
            }
            Marker::Rollback { hidden, undo: None } => {
                put(text, format_args!("\n*{} items were rolled back.*\n", hidden.len()));
            }
            Marker::Rollback { .. } => text.push_str("\n*A rollback was taken back.*\n"),
            Marker::CompactionFailed { .. } | Marker::Pruning { .. } | Marker::Overflow { .. } => {}
        },
    }
}

fn put(text: &mut String, what: std::fmt::Arguments<'_>) {
    text.write_fmt(what).expect("a string takes every write");
}

/// Parts as text; what is no text by its name.
fn shown(parts: &[Part]) -> String {
    let parts = parts.iter().map(|part| match part {
        Part::Text { text } => text.clone(),
        Part::Image { mime_type, path, .. } => {
            format!("[image {}]", path.as_deref().unwrap_or(mime_type))
        }
        Part::File { path } => format!("[file {path}]"),
    });
    parts.collect::<Vec<_>>().join("\n")
}

/// Text between fences that it cannot close.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{}\n{fence}", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_longer_than_any_within() {
        assert_eq!(fenced("a\n"), "```\na\n```");
        assert_eq!(fenced("```rust\n```"), "````\n```rust\n```\n````");
    }

    #[test]
    fn what_is_no_document_is_refused_with_the_reason() {
        let item = |id: &str, status: &str| {
            format!(
                r#"{{"item_id": "{id}", "index": 1, "turn_id": "turn_1",
                    "created_at": "2026-01-01T00:00:00.000Z", "role": "assistant", "content": [],
                    "calls": [], "status": "{status}", "model": "a/b", "usage": {{"input": 0,
                    "output": 0, "cache_read": 0, "cache_write": 0, "reasoning": 0}}}}"#
            )
        };
        let document = |format: &str, version: u32, items: &str| {
            format!(
                r#"{{"format": "{format}", "version": {version},
                    "exported_at": "2026-01-01T00:00:00.000Z", "session": {{"session_id": "s",
                    "title": "t", "cwd": "/", "created_at": "2026-01-01T00:00:00.000Z"}},
                    "items": [{items}]}}"#
            )
        };
        let (whole, twice) = (item("i", "complete"), item("i", "partial"));
        assert!(read(&document(FORMAT, VERSION, &whole)).is_ok());
        for (content, reason) in [
            ("{}".to_owned(), "`format`"),
            ("no JSON".to_owned(), "line 1"),
            (document("zip", 1, ""), "\"zip\""),
            (document(FORMAT, 2, ""), "version 2"),
            (document(FORMAT, 1, &format!("{whole}, {twice}")), "items[1]: i is there twice"),
            (document(FORMAT, 1, &item("i", "streaming")), "not complete"),
        ] {
            let error = read(&content).unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
    }
}
