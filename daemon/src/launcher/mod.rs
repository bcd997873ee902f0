//! The launcher: agentd in another mode, which starts one command and never leaves any of it
//! behind.
//!
//! A process of its own per command, started before it is needed, so that killing is certain where the daemon itself could
//! not be: it is a session leader without a terminal and the subreaper of all its descendants, also
//! of those that made sessions of their own; its standard input is a pipe from the daemon, and at
//! its end (a cancel, or the daemon's death, kill -9 too) everything below the launcher ends, and
//! an order that comes with that end is not begun. It has no other task and no runtime.
//!
//! The talk between the two is frames of a 4-byte big-endian length: the daemon sends one
//! [`Order`]; the launcher answers with output as it comes and with [`Report`]s, the first byte of
//! each frame saying which ([`STDOUT`], [`STDERR`], [`REPORT`]).
//!
//! Receives an order from `tools` over standard input; hands it output and reports over standard
//! output.

mod family;
mod mark;
mod relay;
mod start;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

pub use mark::{Mark, kill_survivors, survivors};

/// The argument that makes agentd a launcher.
pub const FLAG: &str = "--launcher";

/// The variable that marks every process of a call with the call's id.
pub const CALL_ID: &str = "AGENTD_CALL_ID";

/// The variable that marks a launcher with its daemon's id.
pub const DAEMON_ID: &str = "AGENTD_DAEMON_ID";

/// A frame of the command's standard output.
pub const STDOUT: u8 = 1;
/// A frame of its standard error.
pub const STDERR: u8 = 2;
/// A frame with a [`Report`].
pub const REPORT: u8 = 3;

/// The largest order: what a command line and an environment can be at most, and some.
const MAX_ORDER_BYTES: u32 = 8 * 1024 * 1024;

/// What to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The call's id.
    pub call_id: String,
    /// The command line for the shell.
    pub command: String,
    /// Where, absolute.
    pub cwd: PathBuf,
    /// The whole environment.
    pub env: BTreeMap<String, String>,
    /// The longest it may run, if there is a bound.
    pub timeout_ms: Option<u64>,
    /// Between SIGTERM and SIGKILL.
    pub grace_ms: u64,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Report {
    /// It could not be started.
    Failed {
        /// Why, for the model.
        reason: String,
    },
    /// The shell is gone. The last frame.
    Ended {
        /// Why it ended.
        cause: Cause,
        /// Its exit code.
        code: Option<i32>,
        /// The signal that killed it.
        signal: Option<i32>,
        /// Processes that it left running. They end with the pipe.
        left: usize,
    },
}

/// Why a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// By itself.
    Exit,
    /// The time was up.
    Timeout,
    /// The daemon closed the pipe.
    Cancel,
}

/// The running program, as the path that starts it again: also when its file was replaced since.
pub fn this_program() -> io::Result<PathBuf> {
    if cfg!(target_os = "linux") { Ok("/proc/self/exe".into()) } else { std::env::current_exe() }
}

/// The launcher's whole life. `arguments` are those after the program's name: [`FLAG`] and the
/// daemon's id, which is there for people who look at the list of processes.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let by_hand = arguments.count() != 2;
    let order = if by_hand { Err(io::ErrorKind::InvalidInput.into()) } else { read_order() };
    let Ok(order) = order else {
        // Nobody but the daemon speaks to a launcher, so there is nobody to explain more to.
        let _ = writeln!(io::stderr(), "agentd {FLAG}: for agentd's own use");
        return ExitCode::from(2);
    };
    match start::start(&order) {
        Ok(child) => relay::run(child, &order),
        Err(error) => relay::fail(&error),
    }
    ExitCode::SUCCESS
}

fn read_order() -> io::Result<Order> {
    let mut input = io::stdin().lock();
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > MAX_ORDER_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = vec![0; length as usize];
    input.read_exact(&mut bytes)?;
    Ok(serde_json::from_slice(&bytes)?)
}
