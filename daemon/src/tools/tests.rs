//! Tests of the tools.
//!
//! Receives nothing; hands verdicts to the test runner.
