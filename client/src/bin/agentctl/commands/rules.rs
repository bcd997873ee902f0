//! `rules`: what may run without being asked about, and what never.
//!
//! Receives a session or nothing, or a rule to forget; hands back a table.

use agentd_client::protocol::method::{PermissionForget, PermissionRules};
use agentd_client::protocol::permission::{PermissionForgetParams, PermissionRulesParams};
use anyhow::Result;

use crate::args::{Rules, RulesAction};
use crate::context::Context;
use crate::render;
use crate::target;

pub(super) async fn rules(context: &Context, args: Rules) -> Result<()> {
    let client = context.client().await?;
    if let Some(RulesAction::Forget { rule }) = args.action {
        let params = PermissionForgetParams { rule_id: rule.as_str().into() };
        let result = client.call::<PermissionForget>(params).await?;
        return if context.json { render::json(&result) } else { render::line("forgotten") };
    }
    let session_id = match &args.session {
        Some(name) => Some(target::session(&client, Some(name)).await?.session_id),
        None => None,
    };
    let result = client.call::<PermissionRules>(PermissionRulesParams { session_id }).await?;
    if context.json {
        return render::json(&result.rules);
    }
    let rows = result.rules.into_iter().map(|rule| {
        [
            rule.rule_id.to_string(),
            render::word(&rule.rule.action),
            rule.rule.tool,
            rule.rule.pattern.unwrap_or_default(),
            render::word(&rule.scope),
            render::word(&rule.origin),
        ]
    });
    let header = ["rule", "action", "tool", "match", "scope", "from"];
    render::table(header, rows.collect(), "no rules: the mode decides")
}
