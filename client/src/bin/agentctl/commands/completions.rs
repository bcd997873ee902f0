//! `completions`: what a shell needs to complete this command line.
//!
//! Receives a shell's name; hands a script to standard output.

use std::io::Write;

use anyhow::Result;
use clap::CommandFactory;

use crate::args::Args;

pub(super) fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "agentctl", &mut script);
    Ok(std::io::stdout().lock().write_all(&script)?)
}
