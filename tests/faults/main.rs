//! The daemon is killed at random moments; what it had said must still be true.
//!
//! A short version runs always; `AGENTD_SOAK=1` makes it long. The moments come from a seed, which
//! is printed when a run fails; `AGENTD_SEED` repeats it.
//!
//! Receives the harness; hands out promises that were broken.

mod kill;
mod promises;
