//! `tools`: what models can call.
//!
//! Receives nothing; hands back a table.

use agentd_client::protocol::daemon::ToolListParams;
use agentd_client::protocol::method::ToolList;
use anyhow::Result;

use crate::context::Context;
use crate::render;
use crate::terminal::one_line;

/// Characters of a description.
const DESCRIPTION_CHARS: usize = 80;

pub(super) async fn tools(context: &Context) -> Result<()> {
    let client = context.client().await?;
    let result = client.call::<ToolList>(ToolListParams::default()).await?;
    if context.json {
        return render::json(&result);
    }
    let rows = result.tools.into_iter().map(|tool| {
        let description = one_line(&tool.description, DESCRIPTION_CHARS);
        [tool.name, render::word(&tool.risk), tool.origin, description]
    });
    render::table(["tool", "risk", "from", "description"], rows.collect(), "no tools")
}
