//! `model/list`.
//!
//! Receives requests about models; hands them to the registry.

use agentd_protocol::method::ModelList;

use crate::rpc::module::Registration;

pub(super) fn register(registration: &mut Registration) {
    registration.call::<ModelList, _, _>(|service, _, params| async move {
        Ok(service.registry.models(params).await)
    });
}
