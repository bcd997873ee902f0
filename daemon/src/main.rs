//! The program: a launcher when it is called as one, else the daemon.
//!
//! A launcher is told apart before anything else happens, so that it starts no runtime.
//!
//! Receives the command line; hands it to `launcher` or `boot`.

use std::path::PathBuf;
use std::process::ExitCode;

use agentd::boot::{self, Format, Options};
use clap::{Parser, ValueEnum};

/// A local daemon that owns LLM-agent sessions.
///
/// Runs in the foreground, serves one user over a Unix socket and logs to stderr. Clients such as
/// agentctl start it when they need it.
#[derive(Debug, Parser)]
#[command(name = "agentd", version)]
struct Arguments {
    /// The configuration file, instead of the user's own.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The socket to listen at; AGENTD_SOCKET says the same.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The directory for the database.
    #[arg(long, value_name = "DIR", env = "AGENTD_STATE_DIR")]
    state_dir: Option<PathBuf>,
    /// What is logged: error, warn, info, debug or trace.
    #[arg(long, value_name = "LEVEL", env = "AGENTD_LOG_LEVEL", default_value = "info")]
    log_level: String,
    /// How the log looks.
    #[arg(long, value_name = "FORMAT", env = "AGENTD_LOG_FORMAT", default_value = "text")]
    log_format: LogFormat,
    /// Share the database with other daemons.
    #[arg(long)]
    shared: bool,
    /// Started by a client: log into the state directory.
    #[arg(long, hide = true)]
    autostart: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|first| first == agentd::launcher::FLAG) {
        return agentd::launcher::main(std::env::args_os().skip(1));
    }
    let arguments = Arguments::parse();
    boot::run(&Options {
        config: arguments.config,
        socket: arguments.socket,
        state_dir: arguments.state_dir,
        log_level: arguments.log_level,
        log_format: match arguments.log_format {
            LogFormat::Text => Format::Text,
            LogFormat::Json => Format::Json,
        },
        shared: arguments.shared,
        autostart: arguments.autostart,
    })
}
