//! Tools as a session uses them: prepared, judged, run through the real launcher.
//!
//! Each test has a workspace of its own. What a test starts ends with it.
//!
//! Receives nothing; hands verdicts to the test runner.

mod background;
mod edits;
mod files;
mod searches;
mod shell;
mod workspace;
