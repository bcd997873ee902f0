//! The handlers, one file for each word of the protocol: thin, over the registry.
//!
//! Receives checked parameters from `module`; hands requests to `session::registry`.

mod daemon;
mod model;
mod permission;
mod session;
mod tool;

use crate::rpc::module::Registration;

/// Registers every method that is implemented.
pub fn register(registration: &mut Registration) {
    daemon::register(registration);
    session::register(registration);
    permission::register(registration);
    model::register(registration);
    tool::register(registration);
}
