//! No command at all: an interactive session in this directory.
//!
//! With a terminal that can show it the interface, with a lesser one plain lines; what comes through
//! a pipe is one turn, as with `run`.
//!
//! Receives a model and a mode; hands back when the user leaves or the turn ends.

use std::io::IsTerminal;

use agentd_client::Client;
use agentd_client::protocol::daemon::Role;
use agentd_client::protocol::method::SessionCreate;
use agentd_client::protocol::session::Session;
use anyhow::Result;

use super::attach;
use super::config;
use super::new::in_directory;
use super::run;
use crate::args::{Interactive, Options, Run};
use crate::chat::{self, Begin};
use crate::context::{Context, directory};
use crate::failure::{Exit, Misuse};
use crate::target;

pub(super) async fn interactive(context: &Context, args: Interactive) -> Result<Exit> {
    let Interactive { model, mode, continue_last } = args;
    if !std::io::stdin().is_terminal() {
        let options = Options { model, mode, ..Options::default() };
        return run::run(context, Run { options, continue_last, ..Run::default() }).await;
    }
    let client = context.client().await?;
    config::warn(&client).await;
    let last = if continue_last { last(&client).await? } else { None };
    if chat::is_possible() && !context.json {
        let begin = match last {
            Some(session) => Begin::Session(Box::new(session), None),
            None => Begin::New { model, mode: mode.map(|mode| mode.0) },
        };
        chat::chat(client, Role::Controller, begin).await?;
        return Ok(Exit::Completed);
    }
    let session = if let Some(session) = last {
        session
    } else {
        let options = Options { model, mode, ..Options::default() };
        client.call::<SessionCreate>(in_directory(directory(None)?, &options)).await?
    };
    let since = session.head_seq;
    attach::plain(context, client, session, Role::Controller, since).await?;
    Ok(Exit::Completed)
}

async fn last(client: &Client) -> Result<Option<Session>> {
    target::last_of(client, &directory(None)?).await
}

/// Options of the interactive session before a command mean nothing.
pub(super) fn refuse(args: &Interactive) -> Result<()> {
    let Interactive { model, mode, continue_last } = args;
    if model.is_some() || mode.is_some() || *continue_last {
        let text = "--model, --mode and --continue go after the command";
        return Err(Misuse(text.to_owned()).into());
    }
    Ok(())
}
