//! Searches that run out of time: they show what they have.
//!
//! Receives nothing; hands verdicts to the test runner.

use std::time::Instant;

use globset::Glob;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::tools::builtin::{glob, grep};
use crate::tools::walk::{Stop, Stopped};

#[test]
fn a_search_that_takes_too_long_says_so() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    std::fs::write(directory.path().join("f"), "needle\n").expect("it is ours");
    let late = Stop::at(&CancellationToken::new(), Instant::now());
    let any = Glob::new("**").expect("a glob").compile_matcher();
    let (_, stopped) = glob::find(directory.path(), &any, &late).expect("a directory");
    assert_eq!(stopped, Some(Stopped::Late));
    let arguments = serde_json::from_value(json!({ "pattern": "needle" })).expect("arguments");
    // In a walk, and in the middle of a file.
    for base in [directory.path().to_owned(), directory.path().join("f")] {
        let mut search = grep::Search::new(&arguments, &base, ".", late.clone()).expect("a regex");
        search.below(&base, None).expect("it is there");
        let (_, notes) = search.finish().expect("it was not cancelled");
        assert!(notes[0].starts_with("stopped after 20 s"), "{notes:?}");
    }
}
