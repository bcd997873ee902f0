//! `fork`: a session that goes on from where another is, or was.
//!
//! Receives a session and the last item to take along; hands back the new session's id.

use agentd_client::protocol::method::{SessionFork, SessionItems};
use agentd_client::protocol::session::{ForkParams, ItemsParams};
use anyhow::{Result, anyhow};

use crate::args::Fork;
use crate::context::{Context, directory};
use crate::render;
use crate::target;

pub(super) async fn fork(context: &Context, args: Fork) -> Result<()> {
    let client = context.client().await?;
    let session = target::session(&client, args.session.as_deref()).await?;
    let session_id = session.session_id;
    let after_item = match args.after {
        None => None,
        Some(index) => {
            let params = ItemsParams {
                session_id: session_id.clone(),
                after: Some(index.saturating_sub(1)),
                before: None,
                limit: Some(1),
            };
            let found = client.call::<SessionItems>(params).await?.items.into_iter().next();
            let found = found.filter(|item| item.index == index);
            Some(found.ok_or_else(|| anyhow!("no item {index}: `agentctl show` numbers them"))?)
        }
    };
    let params = ForkParams {
        session_id,
        after_item: after_item.map(|item| item.item_id),
        cwd: args.cd.as_deref().map(|cd| directory(Some(cd))).transpose()?,
        key: None,
    };
    let fork = client.call::<SessionFork>(params).await?;
    if context.json { render::json(&fork) } else { render::line(fork.session_id.as_str()) }
}
