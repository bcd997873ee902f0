//! Options of the verbs that keep sessions: names, copies, going back.
//!
//! Receives words of the command line; hands them to `commands`.

use std::path::PathBuf;

use crate::complete::sessions;

#[derive(Debug, clap::Args)]
pub(crate) struct Rename {
    /// The session
    #[arg(add = sessions())]
    pub(crate) session: String,
    /// The new title
    #[arg(required = true)]
    pub(crate) title: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Archive {
    /// The session
    #[arg(add = sessions())]
    pub(crate) session: Option<String>,
    /// Bring it back
    #[arg(long)]
    pub(crate) undo: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rm {
    /// The sessions; what they hold is gone for good, `archive` only puts away
    #[arg(required = true, value_name = "SESSION", add = sessions())]
    pub(crate) sessions: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Search {
    /// What titles or items have to contain
    #[arg(required = true)]
    pub(crate) words: Vec<String>,
    /// Matches at most
    #[arg(short = 'n', long, default_value_t = 20, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) limit: u32,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Export {
    /// The session
    #[arg(add = sessions())]
    pub(crate) session: Option<String>,
    /// A transcript for people, which cannot be imported
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Into this new file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Import {
    /// An exported document; `-`: standard input
    pub(crate) file: PathBuf,
    /// The directory to work in [default: the exported one]
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cd: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Fork {
    /// The session
    #[arg(add = sessions())]
    pub(crate) session: Option<String>,
    /// The number of the last item that the fork has, as `show` tells it
    #[arg(long, value_name = "N")]
    pub(crate) after: Option<u64>,
    /// The directory to work in [default: the same]
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cd: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rollback {
    /// The session
    #[arg(add = sessions())]
    pub(crate) session: Option<String>,
    /// How many turns
    #[arg(short = 'n', long, default_value_t = 1, value_name = "N",
          value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) turns: u32,
    /// Give files that tools changed their former content back
    #[arg(long)]
    pub(crate) files: bool,
    /// Only say what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Take a rollback back instead: its id, as `rollback` told it
    #[arg(long, value_name = "ITEM", conflicts_with = "turns")]
    pub(crate) undo: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Undo {
    /// The session
    #[arg(add = sessions())]
    pub(crate) session: Option<String>,
    /// Only say what would happen
    #[arg(long)]
    pub(crate) dry_run: bool,
}
