//! `agentctl`: agentd's command line.
//!
//! A front end like any other: all it knows comes over the socket, through the library of this
//! crate, and all it shows of a session comes from the protocol's view.
//!
//! The walk: [`args`] reads the command line, before anything is connected or started; `context`
//! connects; `commands/<verb>` does one verb each; `chat` is the interactive interface; `follow`
//! goes with a turn to its end, `page` shows a session as it happens, `prompt` asks at the
//! terminal, `render` prints tables and JSON; `failure` turns what went wrong into
//! words and an exit code.
//!
//! Receives a command line; hands back an exit code.

mod answer_schema;
mod args;
mod chat;
mod commands;
mod complete;
mod context;
mod environment;
mod failure;
mod follow;
mod images;
#[cfg(test)]
mod man;
mod page;
mod place;
mod prompt;
mod render;
mod rule;
mod target;
mod terminal;
mod text;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use clap_complete::CompleteEnv;

use crate::args::Args;

fn main() -> ExitCode {
    // Answers and ends the program where a shell asks for completions.
    CompleteEnv::with_factory(Args::command).complete();
    let args = Args::try_parse().unwrap_or_else(|error| failure::refuse(error));
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failure::report(&error.into()),
    };
    let outcome = runtime.block_on(commands::run(args));
    // A read of the terminal may be waiting in a thread; nobody waits for it.
    runtime.shutdown_background();
    outcome.unwrap_or_else(|error| failure::report(&error))
}
