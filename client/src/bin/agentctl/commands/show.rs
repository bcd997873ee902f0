//! `show`: a session and its last items.
//!
//! Receives a session and a number; hands back its fields and a transcript.

use agentd_client::Client;
use agentd_client::protocol::item::{
    AssistantItem, Item, ItemBody, Marker, Origin, ToolItem, parts_text,
};
use agentd_client::protocol::method::SessionItems;
use agentd_client::protocol::session::{ItemsParams, Session};
use anyhow::Result;
use serde_json::json;

use crate::args::Show;
use crate::context::Context;
use crate::render;
use crate::target;
use crate::terminal::{harmless, one_line};

/// Lines of a tool's result.
const RESULT_LINES: usize = 10;
/// Characters of a call's arguments.
const ARGUMENT_CHARS: usize = 120;

pub(super) async fn show(context: &Context, args: Show) -> Result<()> {
    let client = context.client().await?;
    let session = target::session(&client, args.session.as_deref()).await?;
    let items = last_items(&client, &session, args.last as usize).await?;
    if context.json {
        return render::json(&json!({ "session": session, "items": items }));
    }
    heading(&session)?;
    items.iter().try_for_each(item)
}

/// The last `count` items, in order.
async fn last_items(client: &Client, session: &Session, count: usize) -> Result<Vec<Item>> {
    let mut items = Vec::new();
    let mut before = session.item_count + 1;
    while items.len() < count {
        let params = ItemsParams {
            session_id: session.session_id.clone(),
            after: None,
            before: Some(before),
            limit: u32::try_from((count - items.len()).min(1000)).ok(),
        };
        let mut page = client.call::<SessionItems>(params).await?;
        page.items.append(&mut items);
        items = page.items;
        match page.next {
            Some(next) => before = next,
            None => break,
        }
    }
    Ok(items)
}

fn heading(session: &Session) -> Result<()> {
    let tokens = render::usage(&session.usage);
    let model = session.model.clone().unwrap_or_default();
    let queue: Vec<_> = session.queue.iter().map(|entry| entry.preview.as_str()).collect();
    let processes = session.processes.iter().map(|process| {
        format!("{} ({})", process.process_id, one_line(&process.command, ARGUMENT_CHARS))
    });
    let lease = session.lease.as_ref();
    render::fields(&[
        ("session", session.session_id.to_string()),
        ("title", session.title.clone()),
        ("state", render::state(session.state).to_owned()),
        ("directory", session.cwd.clone()),
        ("roots", session.roots.join(", ")),
        ("model", model),
        ("mode", render::word(&session.permission_mode)),
        ("usage", tokens),
        ("queue", queue.join(" | ")),
        ("waits for", session.prompts.iter().map(|prompt| prompt.summary.as_str()).collect()),
        ("background", processes.collect::<Vec<_>>().join(" | ")),
        ("run by", lease.map(|l| format!("process {} on {}", l.pid, l.host)).unwrap_or_default()),
        ("changed", render::ago(session.updated_at)),
        ("items", session.item_count.to_string()),
    ])
}

fn item(item: &Item) -> Result<()> {
    let hidden = if item.hidden_by.is_some() { " (hidden)" } else { "" };
    let title = |role: &str| render::line(&format!("\n[{}] {role}{hidden}", item.index));
    match &item.body {
        ItemBody::System { .. } => title("system: instructions"),
        ItemBody::User { content, origin, .. } => {
            match origin {
                Origin::User => title("user")?,
                origin => title(&format!("user ({})", render::word(origin)))?,
            }
            render::line(&harmless(&parts_text(content)))
        }
        ItemBody::Assistant(answer) => {
            title("assistant")?;
            assistant(answer)
        }
        ItemBody::Tool(tool) => {
            title(&format!("{}: {}", tool.name, render::word(&tool.status)))?;
            result(tool)
        }
        ItemBody::Marker { marker } => match marker {
            Marker::Compaction { summary, .. } => {
                title("a summary stands for what is before")?;
                render::line(&harmless(summary))
            }
            Marker::CompactionFailed { message } => {
                title("no summary could be made")?;
                render::line(&harmless(message))
            }
            Marker::Pruning { items, .. } => title(&format!("{} results were cut", items.len())),
            Marker::Overflow { tokens, .. } => {
                title(&format!("a request of {tokens} tokens was too long"))
            }
            Marker::Rollback { hidden, .. } => {
                title(&format!("{} items rolled back", hidden.len()))
            }
        },
    }
}

fn assistant(answer: &AssistantItem) -> Result<()> {
    let text = answer.text();
    if !text.is_empty() {
        render::line(harmless(&text).trim_end())?;
    }
    for call in &answer.calls {
        let arguments = one_line(&call.arguments.to_string(), ARGUMENT_CHARS);
        render::line(&format!("● {} {arguments}", harmless(&call.name)))?;
    }
    Ok(())
}

fn result(tool: &ToolItem) -> Result<()> {
    let text = tool.text();
    let mut lines = text.lines();
    for line in lines.by_ref().take(RESULT_LINES) {
        render::line(&format!("  {}", harmless(line)))?;
    }
    match lines.count() {
        0 => Ok(()),
        more => render::line(&format!("  … and {more} more lines")),
    }
}
