//! The daemon is killed at random moments; what it had said must still be true.
//!
//! A short version runs always; `AGENTD_SOAK=1` makes it long.
//!
//! Receives the harness; hands out promises that were broken.
