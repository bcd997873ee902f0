//! Tests of what the tools share. The tools themselves are tested in `tests/tools`, through the
//! real launcher.
//!
//! Receives nothing; hands verdicts to the test runner.

mod environment;
mod files;
mod matching;
mod output;
mod searches;
