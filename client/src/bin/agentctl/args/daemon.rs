//! Options of the verbs that look after the daemon.
//!
//! Receives words of the command line; hands them to `commands`.

use std::path::PathBuf;

use clap::Subcommand;

use crate::complete::sessions;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Rules {
    /// Those of this session too
    #[arg(add = sessions())]
    pub(crate) session: Option<String>,
    #[command(subcommand)]
    pub(crate) action: Option<RulesAction>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesAction {
    /// Forget a remembered rule
    Forget {
        /// Its id
        rule: String,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Backup {
    /// The new file
    pub(crate) file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Logs {
    /// Go on with what is written from now on
    #[arg(short, long)]
    pub(crate) follow: bool,
    /// How many of the last lines
    #[arg(short = 'n', long, default_value_t = 50, value_name = "N")]
    pub(crate) lines: usize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Login {
    /// The provider, as in `provider/model`; the key is read from the terminal, unseen, or from a
    /// pipe
    pub(crate) provider: String,
    /// Forget the key that is stored
    #[arg(long)]
    pub(crate) forget: bool,
}
