//! One daemon per state directory: takes its lock with the store, or finds out who has it.
//!
//! Of several that start together one wins the lock; the others wait until it answers, and then
//! their work is done. A holder that ends meanwhile makes way for one that waits.
//!
//! Receives how the store is to be opened; hands it to `boot`, or the news that a daemon serves.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::boot::error::Error;
use crate::boot::probe::{Daemon, Found, ask};
use crate::clock::Clock;
use crate::store::{self, Options, Store};

/// How long a holder is given to answer: it may be starting, with a migration to do.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at it.
const PAUSE: Duration = Duration::from_millis(50);

/// What became of the start.
#[derive(Debug)]
pub enum Instance {
    /// The state directory is ours.
    Ours(Store),
    /// A daemon serves it already.
    Served {
        /// Its process.
        pid: u32,
    },
}

/// Opens the store, or waits up to `patience` for whoever has it to answer at `socket`. Blocks.
pub fn take(
    state_dir: &Path,
    options: &Options,
    clock: &Clock,
    socket: &Path,
    patience: Duration,
) -> Result<Instance, Error> {
    let started = Instant::now();
    loop {
        let holder = match Store::open(state_dir, options.clone(), clock.clone()) {
            Ok(store) => return Ok(Instance::Ours(store)),
            Err(store::Error::InUse { holder, .. }) => holder,
            Err(error) => return Err(Error::Store(error)),
        };
        let left = patience.saturating_sub(started.elapsed());
        let (why, may_change) = match ask(socket, left.max(PAUSE)) {
            Found::Daemon(daemon) if is_same(&daemon.state_dir, state_dir) => {
                return Ok(Instance::Served { pid: daemon.pid });
            }
            Found::Daemon(daemon) => {
                let Daemon { pid, state_dir } = daemon;
                (format!("process {pid} answers there, for {state_dir}"), false)
            }
            Found::Nothing => ("there is no socket".to_owned(), true),
            Found::Stale => ("nobody listens there".to_owned(), true),
            Found::Unknown(why) => (why, true),
        };
        if left.is_zero() || !may_change {
            let state_dir = state_dir.display().to_string();
            return Err(Error::InUse { state_dir, holder, socket: socket.to_owned(), why });
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether both are the same directory, however they are written.
fn is_same(theirs: &str, ours: &Path) -> bool {
    match (Path::new(theirs).canonicalize(), ours.canonicalize()) {
        (Ok(theirs), Ok(ours)) => theirs == ours,
        _ => Path::new(theirs) == ours,
    }
}

#[cfg(test)]
mod tests;
