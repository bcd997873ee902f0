//! `permission_reply`: answer a prompt. The first answer wins.
//!
//! Receives a person's word on an open prompt; plans its resolution and what follows for the call.
//! Prompts that are no longer open are looked up by the actor before this is asked.

use agentd_protocol::event::Resolved;
use agentd_protocol::permission::{Decision, PermissionReply, Prompt, Resolution, Rule, Scope};
use agentd_protocol::submission::Disposition;

use super::{Accepted, Desk};
use crate::permission;
use crate::session::Error;
use crate::turn::Input;

pub(super) fn plan(desk: &mut Desk<'_>, reply: PermissionReply) -> Accepted {
    let open = desk.state.session.prompts.iter().find(|p| p.prompt_id == reply.prompt_id);
    let Some(prompt) = open else { return Err(Error::PromptNotFound(reply.prompt_id)) };
    if desk.state.turn.as_ref().is_some_and(|turn| turn.machine.is_stopping()) {
        // The end of its turn is on the way, and takes it along.
        let (decision, at) = (Resolution::Cancelled, desk.moment.now);
        return Err(Error::PromptResolved { decision, by: None, at });
    }
    let rule = remembered(prompt, &reply)?;
    let turn_id = desk.state.active_turn().cloned();
    desk.accept(Disposition::Applied, turn_id.as_ref());
    let resolved = Resolved {
        prompt_id: reply.prompt_id,
        decision: reply.decision.into(),
        scope: Some(reply.scope),
        rule,
        message: reply.message,
        by: Some(desk.submitted.caller.by()),
    };
    desk.tell_turn(Input::Answered { resolved, interrupt: reply.interrupt });
    Ok((Disposition::Applied, turn_id))
}

/// The rule to be remembered: the one that was sent, or the only one that was suggested for the
/// scope. Nothing is remembered of a denial or of `once`.
fn remembered(prompt: &Prompt, reply: &PermissionReply) -> Result<Option<Rule>, Error> {
    let invalid = |message: &str| Error::InvalidParams {
        field: "rule".to_owned(),
        message: message.to_owned(),
    };
    if reply.scope == Scope::Once || reply.decision == Decision::Deny {
        return match reply.rule {
            Some(_) => Err(invalid("a rule goes with an allow of a scope wider than `once`")),
            None => Ok(None),
        };
    }
    if let Some(rule) = &reply.rule {
        if !permission::may_remember(prompt, rule) {
            return Err(invalid("the rule must be one of the prompt's suggestions, or narrower"));
        }
        return Ok(Some(rule.clone()));
    }
    let mut suggested = prompt.suggestions.iter().filter(|s| s.scope == reply.scope);
    match (suggested.next(), suggested.next()) {
        (Some(only), None) => Ok(Some(only.rule.clone())),
        (None, _) => Err(invalid("no rule is suggested for this scope: answer with scope `once`")),
        (Some(_), Some(_)) => Err(invalid("several rules are suggested: send the one you mean")),
    }
}
