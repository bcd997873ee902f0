//! `search`: words in titles and items of all sessions.
//!
//! Receives words; hands back a table of matches.

use agentd_client::protocol::method::SessionSearch;
use agentd_client::protocol::session::SearchParams;
use anyhow::Result;

use crate::args::Search;
use crate::context::Context;
use crate::render;
use crate::terminal::one_line;

/// Characters of a title, and of the words around a match.
const TITLE_CHARS: usize = 40;
const SNIPPET_CHARS: usize = 120;

pub(super) async fn search(context: &Context, args: Search) -> Result<()> {
    let client = context.client().await?;
    let params = SearchParams { query: args.words.join(" "), limit: Some(args.limit) };
    let result = client.call::<SessionSearch>(params).await?;
    if context.json {
        return render::json(&result.matches);
    }
    let rows = result.matches.iter().map(|found| {
        let snippet = found.snippet.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_title = found.item_id.is_none();
        [
            found.session_id.to_string(),
            one_line(&found.title, TITLE_CHARS),
            if is_title { String::new() } else { one_line(&snippet, SNIPPET_CHARS) },
        ]
    });
    render::table(["session", "title", "text"], rows.collect(), "nothing has these words")
}
