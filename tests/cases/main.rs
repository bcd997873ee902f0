//! Failures that were met in public programs, each a test named after its id.
//!
//! Cases that one module can show alone are tested beside that module, under the same id.
//!
//! Receives the harness; hands out what the daemon does with each input.

mod requests;
