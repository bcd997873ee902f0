//! The program: a launcher when it is called as one, else the daemon.
//!
//! A launcher is told apart before anything else happens, so that it starts no runtime.
//!
//! Receives the command line; hands it to `launcher` or `boot`.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args_os().nth(1).is_some_and(|first| first == agentd::launcher::FLAG) {
        return agentd::launcher::main(std::env::args_os().skip(1));
    }
    ExitCode::SUCCESS
}
