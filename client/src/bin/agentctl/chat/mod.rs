//! The interactive session: a conversation in the terminal's own scrollback, and under it a panel
//! with what is going on, what is asked, and what is being written.
//!
//! The walk: `interface` waits for keys, messages and answers, and draws; `state` is all that is
//! known, and pure; `draw` makes rows of it, pure too; `screen` has the terminal; `errands` does
//! what the state wants of the daemon, `local` what it wants of this machine; `files` looks for
//! names, `history` keeps what was written; `entry` is what goes into the scrollback.
//!
//! Receives a client and how to begin; hands back when the user leaves. What runs goes on.

mod draw;
mod entry;
mod errands;
mod files;
mod history;
mod interface;
mod local;
mod screen;
mod state;

use std::io::IsTerminal;

use agentd_client::Client;
use agentd_client::protocol::daemon::{ModelListParams, Role};
use agentd_client::protocol::method::ModelList;
use agentd_client::protocol::permission::PermissionMode;
use agentd_client::protocol::session::Session;
use anyhow::Result;

use self::interface::Interface;

/// Whether there is a terminal that can show it.
pub(crate) fn is_possible() -> bool {
    let dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    !dumb && std::io::stdin().is_terminal() && std::io::stdout().is_terminal()
}

/// What to begin with.
#[derive(Debug)]
pub(crate) enum Begin {
    /// A session that is made with the first input.
    New {
        /// Its model, `provider/name`.
        model: Option<String>,
        /// Its mode.
        mode: Option<PermissionMode>,
    },
    /// This one, from the event after this number on; `None`: with its last page.
    Session(Box<Session>, Option<u64>),
}

/// Goes on until the user leaves.
pub(crate) async fn chat(client: Client, role: Role, begin: Begin) -> Result<()> {
    let begin = match begin {
        Begin::New { model: None, mode } => {
            let params = ModelListParams { probe: false };
            let model = client.call::<ModelList>(params).await?.default;
            Begin::New { model, mode }
        }
        begin => begin,
    };
    let left = Interface::begin(client, role, begin)?.until_left().await?;
    if let Some(session_id) = left {
        eprintln!("agentctl: left; `agentctl attach {session_id}` comes back");
    }
    Ok(())
}
