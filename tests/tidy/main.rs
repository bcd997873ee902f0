//! Rules of the repository, as tests: what a reader may rely on in every file.
//!
//! They read the sources as text, so that they cost nothing and need no compiler; what clippy can
//! check (long functions, unwrap, printing) is clippy's.
//!
//! Receives the tree of the repository; hands out nothing but complaints.

mod layering;
mod repository;
mod shape;
mod walk;
mod words;
