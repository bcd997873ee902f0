//! `schema`: the protocol for programs. No daemon is asked: this program speaks the same.
//!
//! Receives a name; hands a JSON document to standard output.

use agentd_client::protocol::daemon::DaemonEvent;
use agentd_client::protocol::event::Event;
use agentd_client::protocol::openrpc::{document, schema_of};
use agentd_client::protocol::progress::{Marker, Progress};
use anyhow::Result;

use crate::args::SchemaName;
use crate::render;

pub(super) fn schema(name: SchemaName) -> Result<()> {
    let document = match name {
        SchemaName::Openrpc => document(),
        SchemaName::Event => schema_of::<Event>(),
        SchemaName::Progress => schema_of::<Progress>(),
        SchemaName::Marker => schema_of::<Marker>(),
        SchemaName::DaemonEvent => schema_of::<DaemonEvent>(),
    };
    render::line(&serde_json::to_string_pretty(&document)?)
}
