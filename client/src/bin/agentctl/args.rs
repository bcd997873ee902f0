//! The command line: every verb with its options and help.
//!
//! Receives the arguments of the process; hands typed commands to `commands`.

mod daemon;
mod session;

use std::path::PathBuf;

use agentd_protocol::permission::PermissionMode;
use clap::builder::PossibleValue;
use clap::{Parser, Subcommand, ValueEnum};

pub(crate) use self::daemon::{Backup, Login, Logs, Rules, RulesAction};
pub(crate) use self::session::{Archive, Export, Fork, Import, Rename, Rm, Rollback, Search, Undo};
use crate::complete::{models, prompts, sessions};
use crate::rule::AllowRule;

/// Talk to agentd: run, watch and steer LLM-agent sessions.
///
/// Without a command: an interactive session in this directory.
#[derive(Debug, Parser)]
#[command(name = "agentctl", version, propagate_version = true)]
#[command(after_help = "SESSION is an id, the start of one, or a title; left out, it is the last \
    session of this directory.\nExit codes: 0 completed, 1 failed, 2 usage, 3 a budget is used \
    up, 4 a permission was denied because nobody could be asked, 5 no daemon, 130 interrupted.")]
pub(crate) struct Args {
    /// The daemon's socket [default: $AGENTD_SOCKET, or one in the runtime directory]
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) socket: Option<PathBuf>,
    /// Do not start the daemon if none answers
    #[arg(long, global = true)]
    pub(crate) no_start: bool,
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) interactive: Interactive,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// Options of the interactive session, which has no command of its own.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Interactive {
    /// Without a command: the model of the session, as provider/name
    #[arg(short, long, add = models())]
    pub(crate) model: Option<String>,
    /// Without a command: what happens to calls that no rule decides
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<Mode>,
    /// Without a command: go on with the last session of the directory
    #[arg(short, long = "continue")]
    pub(crate) continue_last: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one turn and show it
    Run(Run),
    /// Watch a session and steer it, as without a command
    Attach(Attach),
    /// List sessions, the last changed first
    Ls(Ls),
    /// Show a session and its last items
    Show(Show),
    /// Make a session and print its id
    New(New),
    /// Give a session another title
    Rename(Rename),
    /// Make a session that goes on from where another is, or was
    Fork(Fork),
    /// Put a session away: it is no longer listed
    Archive(Archive),
    /// Delete sessions for good
    Rm(Rm),
    /// Search the titles and texts of all sessions
    Search(Search),
    /// Print a session as one document
    Export(Export),
    /// Make a session of an exported document
    Import(Import),
    /// Send input to a session without watching it
    Send(Send),
    /// End the running turn
    Interrupt(Interrupt),
    /// Go on after an interruption, a failure or a used-up budget
    Resume(Target),
    /// Make room: a summary takes the place of the older part of the conversation
    Compact(Target),
    /// Hide the last turns from the model
    Rollback(Rollback),
    /// Take the last turn back with the files that it changed
    Undo(Undo),
    /// List open permission prompts of all sessions
    Prompts,
    /// Allow a call that waits for permission
    Allow(Allow),
    /// Deny a call that waits for permission
    Deny(Deny),
    /// List the rules about what may run
    Rules(Rules),
    /// List the models that can be used
    Models {
        /// Ask the providers too
        #[arg(long)]
        probe: bool,
    },
    /// List the tools that models can call
    Tools,
    /// Show what the daemon is doing
    Status,
    /// Look for what is wrong, and for model servers on this machine
    Doctor,
    /// Store a provider's key, readable by you alone
    Login(Login),
    /// Show the log of a daemon that agentctl started
    Logs(Logs),
    /// Copy the database into a file, while the daemon works
    Backup(Backup),
    /// Let running turns end, then start the daemon anew
    Restart {
        /// Abort running turns instead of waiting for them
        #[arg(long)]
        now: bool,
    },
    /// Show the effective configuration, or read it again
    Config {
        #[command(subcommand)]
        action: Option<ConfigAction>,
    },
    /// Stop the daemon
    Shutdown {
        /// Abort running turns instead of waiting for them
        #[arg(long)]
        now: bool,
    },
    /// Print the protocol as an OpenRPC document, or one of its JSON Schemas
    Schema {
        /// What to print
        #[arg(default_value = "openrpc")]
        name: SchemaName,
    },
    /// Print what makes a shell complete commands, sessions, prompts and models
    Completions {
        /// The shell: bash, zsh, fish, elvish or powershell
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// The session
    #[arg(add = sessions())]
    pub(crate) session: Option<String>,
}

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Options {
    /// The model, as provider/name
    #[arg(short, long, add = models())]
    pub(crate) model: Option<String>,
    /// What happens to calls that no rule decides
    #[arg(long, value_name = "MODE")]
    pub(crate) mode: Option<Mode>,
    /// Model requests at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_iterations: Option<u32>,
}

#[derive(Debug, Default, clap::Args)]
pub(crate) struct Run {
    #[command(flatten)]
    pub(crate) options: Options,
    /// The directory to work in
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cd: Option<PathBuf>,
    /// Go on with this session
    #[arg(short, long, value_name = "SESSION", conflicts_with_all = ["continue_last", "cd"],
          add = sessions())]
    pub(crate) session: Option<String>,
    /// Go on with the last session of the directory
    #[arg(long = "continue")]
    pub(crate) continue_last: bool,
    /// Allow calls without asking: TOOL, or TOOL:PATTERN as in `shell:cargo test *`
    #[arg(long, value_name = "RULE", conflicts_with = "detach")]
    pub(crate) allow: Vec<AllowRule>,
    /// With --json: print progress too
    #[arg(long, requires = "json")]
    pub(crate) progress: bool,
    /// One more directory that the session may work in
    #[arg(long = "add-dir", value_name = "DIR", conflicts_with_all = ["session", "continue_last"])]
    pub(crate) add_dirs: Vec<PathBuf>,
    /// Send an image along: PNG, JPEG, GIF or WebP
    #[arg(short, long = "image", value_name = "FILE")]
    pub(crate) images: Vec<PathBuf>,
    /// Print the last answer alone, as JSON that fits the JSON Schema in FILE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["detach", "progress"])]
    pub(crate) output_schema: Option<PathBuf>,
    /// From now on append the session's requests to models and their raw answers to FILE, without
    /// keys
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Start the turn, print the session's id, and leave
    #[arg(long)]
    pub(crate) detach: bool,
    /// What to do; `-` or a pipe: read it from standard input
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: Vec<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Attach {
    /// The session
    #[arg(add = sessions())]
    pub(crate) session: Option<String>,
    /// Watch only
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Replay events after this number only
    #[arg(long, value_name = "N")]
    pub(crate) since: Option<u64>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Ls {
    /// Sessions of every directory, not only of this one
    #[arg(short, long)]
    pub(crate) all: bool,
    /// Archived ones too
    #[arg(long)]
    pub(crate) archived: bool,
    /// Only those with these words in the title
    #[arg(value_name = "WORDS")]
    pub(crate) query: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The session
    #[arg(add = sessions())]
    pub(crate) session: Option<String>,
    /// How many of the last items
    #[arg(short = 'n', long, default_value_t = 20, value_name = "N")]
    pub(crate) last: u32,
}

#[derive(Debug, clap::Args)]
pub(crate) struct New {
    #[command(flatten)]
    pub(crate) options: Options,
    /// The directory to work in
    #[arg(short = 'C', long, value_name = "DIR")]
    pub(crate) cd: Option<PathBuf>,
    /// A title
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// One more directory to work in
    #[arg(long = "add-dir", value_name = "DIR")]
    pub(crate) roots: Vec<PathBuf>,
    /// A label, as KEY=VALUE
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) labels: Vec<(String, String)>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Send {
    /// The session
    #[arg(add = sessions())]
    pub(crate) session: String,
    /// The text; `-` or a pipe: read it from standard input
    pub(crate) text: Vec<String>,
    /// As a turn of its own after the running one
    #[arg(long, conflicts_with_all = ["steer", "replace"])]
    pub(crate) queue: bool,
    /// Into the running turn
    #[arg(long, conflicts_with = "replace")]
    pub(crate) steer: bool,
    /// In place of the running turn
    #[arg(long)]
    pub(crate) replace: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Interrupt {
    /// The session
    #[arg(add = sessions())]
    pub(crate) session: Option<String>,
    /// Drop what is queued too
    #[arg(long)]
    pub(crate) drop_queue: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Allow {
    /// The prompt, by its id or the start of it; left out: the only open one
    #[arg(add = prompts())]
    pub(crate) prompt: Option<String>,
    /// As long as the session lives
    #[arg(long, conflicts_with_all = ["project", "always"])]
    pub(crate) session: bool,
    /// In every session of the directory
    #[arg(long, conflicts_with = "always")]
    pub(crate) project: bool,
    /// Everywhere
    #[arg(long)]
    pub(crate) always: bool,
    /// A word for the model
    #[arg(short, long)]
    pub(crate) message: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Deny {
    /// The prompt, by its id or the start of it; left out: the only open one
    #[arg(add = prompts())]
    pub(crate) prompt: Option<String>,
    /// A word for the model
    #[arg(short, long)]
    pub(crate) message: Option<String>,
    /// End the turn as well
    #[arg(long)]
    pub(crate) interrupt: bool,
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(crate) enum ConfigAction {
    /// Read the configuration again
    Reload,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum SchemaName {
    Openrpc,
    Event,
    Progress,
    Marker,
    DaemonEvent,
}

/// A permission mode, as on the wire.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mode(pub(crate) PermissionMode);

impl ValueEnum for Mode {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self(PermissionMode::Plan),
            Self(PermissionMode::Ask),
            Self(PermissionMode::AutoEdit),
            Self(PermissionMode::Auto),
            Self(PermissionMode::Full),
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(match self.0 {
            PermissionMode::Plan => PossibleValue::new("plan").help("read only"),
            PermissionMode::Ask => PossibleValue::new("ask").help("ask before changes"),
            PermissionMode::AutoEdit => {
                PossibleValue::new("auto-edit").help("edit files, ask before commands")
            }
            PermissionMode::Auto => {
                PossibleValue::new("auto").help("edit files and run commands in the sandbox")
            }
            PermissionMode::Full => PossibleValue::new("full").help("allow everything"),
        })
    }
}

fn label(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_holds_together() {
        Args::command().debug_assert();
    }

    #[test]
    fn modes_are_those_of_the_wire() {
        for mode in Mode::value_variants() {
            let name = mode.to_possible_value().unwrap();
            let parsed = serde_json::from_value::<PermissionMode>(name.get_name().into());
            assert_eq!(parsed.unwrap(), mode.0);
        }
    }
}
