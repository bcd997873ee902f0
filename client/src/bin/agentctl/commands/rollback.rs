//! `rollback` and `undo`: hide turns from the model, with the files or without.
//!
//! Receives a session and how far back; hands back what was done and what could not be.

use agentd_client::protocol::method::SessionSubmit;
use agentd_client::protocol::submission::{self, Op};
use anyhow::{Context as _, Result};

use super::submission;
use crate::args::{Rollback, Undo};
use crate::context::Context;
use crate::render;
use crate::target;
use crate::terminal::one_line;

/// Characters of a line about something that cannot be undone.
const LINE_CHARS: usize = 120;

pub(super) async fn undo(context: &Context, args: Undo) -> Result<()> {
    let Undo { session, dry_run } = args;
    rollback(context, Rollback { session, turns: 1, files: true, dry_run, undo: None }).await
}

pub(super) async fn rollback(context: &Context, args: Rollback) -> Result<()> {
    let client = context.client().await?;
    let session = target::session(&client, args.session.as_deref()).await?;
    let is_undone = args.undo.is_some();
    let op = Op::Rollback {
        turns: (!is_undone).then_some(args.turns),
        restore_files: args.files,
        dry_run: args.dry_run,
        undo: args.undo.map(Into::into),
    };
    let result = client.call::<SessionSubmit>(submission(session.session_id, op)).await?;
    if context.json {
        return render::json(&result);
    }
    let done = result.rollback.context("the daemon did not say what it did")?;
    let (would, count) = (if args.dry_run { "would be " } else { "" }, done.items.len());
    let what = if is_undone { "shown again" } else { "hidden from the model" };
    render::line(&format!("{count} items {would}{what}"))?;
    files(&done, would)?;
    match (&done.item_id, is_undone) {
        (Some(item_id), false) => {
            let files = if args.files { " --files" } else { "" };
            eprintln!("to take it back: agentctl rollback --undo {item_id}{files}");
            Ok(())
        }
        _ => Ok(()),
    }
}

fn files(done: &submission::Rollback, would: &str) -> Result<()> {
    let files = &done.files;
    for path in &files.restored {
        render::line(&format!("  {would}given back: {}", one_line(path, LINE_CHARS)))?;
    }
    for path in &files.conflicts {
        let path = one_line(path, LINE_CHARS);
        render::line(&format!("  left alone, changed by somebody else since: {path}"))?;
    }
    for what in &files.not_undoable {
        render::line(&format!("  cannot be undone: {}", one_line(what, LINE_CHARS)))?;
    }
    Ok(())
}
