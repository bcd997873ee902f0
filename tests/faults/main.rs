//! The daemon is killed at random moments, and its provider fails at random; what was said must
//! still be true.
//!
//! A short version runs always; `AGENTD_SOAK=1` makes it long. The moments come from a seed, which
//! is printed when a run fails; `AGENTD_SEED` repeats it.
//!
//! Receives the harness; hands out promises that were broken.

mod kill;
mod models;
mod promises;

/// The seed of a run.
fn seed() -> u64 {
    match std::env::var("AGENTD_SEED") {
        Ok(seed) => seed.parse().expect("AGENTD_SEED is a number"),
        Err(_) => fastrand::u64(..),
    }
}
