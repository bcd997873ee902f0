//! `ls`: sessions, the last changed first.
//!
//! Receives filters; hands back a table.

use agentd_client::protocol::session::{Archived, ListParams};
use anyhow::Result;

use crate::args::Ls;
use crate::context::{Context, directory};
use crate::render;
use crate::target;
use crate::terminal::one_line;

/// Characters of a title.
const TITLE_CHARS: usize = 60;

pub(super) async fn ls(context: &Context, args: Ls) -> Result<()> {
    let client = context.client().await?;
    let params = ListParams {
        cwd: if args.all { None } else { Some(directory(None)?) },
        query: args.query,
        archived: args.archived.then_some(Archived::All),
        ..ListParams::default()
    };
    let sessions = target::sessions(&client, params).await?;
    if context.json {
        return render::json(&sessions);
    }
    let rows = sessions.iter().map(|session| {
        let mut row = [
            session.session_id.to_string(),
            render::state(session.state).to_owned(),
            render::ago(session.updated_at),
            one_line(&session.title, TITLE_CHARS),
            session.cwd.clone(),
        ];
        if session.archived {
            row[1].push_str(", archived");
        }
        row
    });
    let none = if args.all { "no sessions" } else { "no sessions of this directory: -a lists all" };
    render::table(["session", "state", "changed", "title", "directory"], rows.collect(), none)
}
