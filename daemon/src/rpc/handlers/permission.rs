//! `permission/*`: open prompts, their answers, and the rules that answers left.
//!
//! Receives requests about prompts and rules; hands them to the registry, answers in the order of arrival.

use agentd_protocol::method::{PermissionForget, PermissionList, PermissionRules, ReplyPermission};

use crate::rpc::error::of_session;
use crate::rpc::module::Registration;

pub(super) fn register(registration: &mut Registration) {
    registration.call::<PermissionList, _, _>(|service, _, params| async move {
        service.registry.prompts(params).await.map_err(of_session)
    });
    registration.call::<PermissionRules, _, _>(|service, _, params| async move {
        service.registry.rules(params).await.map_err(of_session)
    });
    registration.call::<PermissionForget, _, _>(|service, _, params| async move {
        service.registry.forget_rule(params).await.map_err(of_session)
    });
    registration.call::<ReplyPermission, _, _>(|service, context, params| async move {
        // Handed over before the first wait.
        service.registry.reply(&context.caller(), params).await.map_err(of_session)
    });
}
