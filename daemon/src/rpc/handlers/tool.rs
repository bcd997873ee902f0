//! `tool/list`.
//!
//! Receives requests about tools; hands them to the registry.

use agentd_protocol::method::ToolList;

use crate::rpc::module::Registration;

pub(super) fn register(registration: &mut Registration) {
    registration
        .call::<ToolList, _, _>(|service, _, _| async move { Ok(service.registry.tools()) });
}
