//! `completions`: what a shell's start-up file takes in. No daemon is asked.
//!
//! The script asks this program again for every completion; see `complete.rs`.
//!
//! Receives a shell; hands a script to standard output.

use anyhow::{Result, anyhow};
use clap_complete::Shell;
use clap_complete::env::Shells;

pub(super) fn completions(shell: Shell) -> Result<()> {
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer = shells.completer(&name).ok_or_else(|| anyhow!("no completions for {name}"))?;
    let program = "agentctl";
    completer.write_registration("COMPLETE", program, program, program, &mut std::io::stdout())?;
    Ok(())
}
