//! `read`, `write`, `list`.
//!
//! Receives nothing; hands verdicts to the test runner.
