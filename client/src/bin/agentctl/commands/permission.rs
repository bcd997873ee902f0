//! `prompts`, `allow` and `deny`: calls that wait for permission.
//!
//! Receives a prompt's name and an answer; hands back what waits, or that the answer counted.

use agentd_client::protocol::method::{PermissionList, ReplyPermission};
use agentd_client::protocol::permission::{
    Decision, PermissionListParams, PermissionReplyParams, Prompt, Scope,
};
use anyhow::{Result, bail};

use crate::args::{Allow, Deny};
use crate::context::Context;
use crate::prompt::answer;
use crate::render;
use crate::target;
use crate::terminal::one_line;

/// Characters of a summary.
const SUMMARY_CHARS: usize = 80;

pub(super) async fn prompts(context: &Context) -> Result<()> {
    let client = context.client().await?;
    let result = client.call::<PermissionList>(PermissionListParams::default()).await?;
    if context.json {
        return render::json(&result.prompts);
    }
    let rows = result.prompts.iter().map(|prompt| {
        [
            prompt.prompt_id.to_string(),
            prompt.session_id.to_string(),
            render::ago(prompt.requested_at),
            prompt.tool.clone(),
            one_line(&prompt.summary, SUMMARY_CHARS),
        ]
    });
    let header = ["prompt", "session", "asked", "tool", "what"];
    render::table(header, rows.collect(), "nothing waits for permission")
}

pub(super) async fn allow(context: &Context, args: Allow) -> Result<()> {
    let client = context.client().await?;
    let prompt = target::prompt(&client, args.prompt.as_deref()).await?;
    let scope = match (args.session, args.project, args.always) {
        (true, _, _) => Scope::Session,
        (_, true, _) => Scope::Project,
        (_, _, true) => Scope::Always,
        _ => Scope::Once,
    };
    let rule = if scope == Scope::Once { None } else { Some(rule(&prompt, scope)?) };
    let params = PermissionReplyParams {
        scope,
        rule,
        message: args.message,
        ..answer(&prompt, Decision::Allow)
    };
    let result = client.call::<ReplyPermission>(params).await?;
    if context.json { render::json(&result) } else { said("allowed", &prompt) }
}

pub(super) async fn deny(context: &Context, args: Deny) -> Result<()> {
    let client = context.client().await?;
    let prompt = target::prompt(&client, args.prompt.as_deref()).await?;
    let params = PermissionReplyParams {
        message: args.message,
        interrupt: args.interrupt,
        ..answer(&prompt, Decision::Deny)
    };
    let result = client.call::<ReplyPermission>(params).await?;
    if context.json { render::json(&result) } else { said("denied", &prompt) }
}

fn rule(prompt: &Prompt, scope: Scope) -> Result<agentd_client::protocol::permission::Rule> {
    let suggestion = prompt.suggestions.iter().find(|suggestion| suggestion.scope == scope);
    let Some(suggestion) = suggestion else {
        bail!("this call can only be allowed once: no rule would be safe")
    };
    Ok(suggestion.rule.clone())
}

fn said(word: &str, prompt: &Prompt) -> Result<()> {
    render::line(&format!("{word}: {}", one_line(&prompt.summary, SUMMARY_CHARS)))
}
