//! Tests of the state and of what it looks like.
//!
//! Receives nothing; hands nothing on.
