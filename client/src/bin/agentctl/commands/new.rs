//! `new`: make a session.
//!
//! Receives a directory and options; hands back the session's id.

use std::path::PathBuf;

use agentd_client::protocol::method::SessionCreate;
use agentd_client::protocol::session::{CreateParams, Limits};
use anyhow::Result;

use crate::args::{New, Options};
use crate::context::{Context, directory};
use crate::environment;
use crate::render;

pub(super) async fn new(context: &Context, args: New) -> Result<()> {
    let client = context.client().await?;
    let params = CreateParams {
        title: args.title,
        roots: directories(&args.roots)?,
        labels: (!args.labels.is_empty()).then(|| args.labels.into_iter().collect()),
        limits: limits(&args.options),
        ..in_directory(directory(args.cd.as_deref())?, &args.options)
    };
    let session = client.call::<SessionCreate>(params).await?;
    if context.json { render::json(&session) } else { render::line(session.session_id.as_str()) }
}

/// A session in this directory, with what its tools need of this environment.
pub(super) fn in_directory(cwd: String, options: &Options) -> CreateParams {
    CreateParams {
        cwd,
        model: options.model.clone(),
        permission_mode: options.mode.map(|mode| mode.0),
        env: Some(environment::overlay(std::env::vars_os())),
        ..CreateParams::default()
    }
}

/// Directories, absolute; nothing where there are none.
pub(super) fn directories(given: &[PathBuf]) -> Result<Option<Vec<String>>> {
    let found: Vec<_> = given.iter().map(|given| directory(Some(given))).collect::<Result<_>>()?;
    Ok((!found.is_empty()).then_some(found))
}

/// The limits that the options set.
pub(super) fn limits(options: &Options) -> Option<Limits> {
    let max_iterations = options.max_iterations;
    max_iterations.map(|_| Limits { max_iterations, ..Limits::default() })
}
