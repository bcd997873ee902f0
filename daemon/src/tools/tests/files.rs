//! Opening without links, also where the system cannot do it in one call.
//!
//! Receives nothing; hands verdicts to the test runner.

use std::os::unix::fs::symlink;

use crate::tools::file::{self, Error};

#[test]
fn links_are_refused_however_a_path_is_opened() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let root = directory.path().canonicalize().expect("it is there");
    std::fs::create_dir(root.join("real")).expect("it is ours");
    std::fs::write(root.join("real/f"), "x").expect("it is ours");
    symlink("real", root.join("link")).expect("it is ours");
    symlink("f", root.join("real/to-f")).expect("it is ours");
    for open in [file::open_directory, file::walk] {
        open(&root.join("real")).expect("no link in it");
        open(&root.join("link")).expect_err("a link at its end");
        open(&root.join("none")).expect_err("nothing there");
        open(&root.join("real/f")).expect_err("no directory");
    }
    for path in ["link/f", "real/to-f"] {
        let refused = file::open(&root.join(path)).expect_err("a link on the way");
        assert!(matches!(refused, Error::Swapped(_)), "{path}: {refused}");
    }
}

#[test]
fn a_new_file_does_not_replace_one_that_appeared() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().canonicalize().expect("it is there").join("f");
    std::fs::write(&path, "theirs").expect("it is ours");
    let refused = file::create(&path, b"mine").expect_err("it is there");
    assert!(matches!(refused, Error::Appeared(_)), "{refused}");
    assert_eq!(std::fs::read(&path).expect("it is there"), b"theirs");
    assert_eq!(std::fs::read_dir(directory.path()).expect("it is there").count(), 1);
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = directory.path().canonicalize().expect("it is there").join("f");
    let sparse = std::fs::File::create(&path).expect("it is ours");
    sparse.set_len(file::MAX_WHOLE_BYTES + 1).expect("it is ours");
    let refused = file::read_whole(&path).expect_err("it is too large");
    assert!(matches!(refused, Error::TooLarge { .. }), "{refused}");
}
