//! Words that do not belong into a repository: unfinished code, and one machine's own paths.
//!
//! Receives sources; hands out the lines with such words.

use crate::repository::{complain, sources};

#[test]
fn nothing_is_left_unfinished() {
    let words = ["todo!(", "unimplemented!(", "dbg!(", "allow(dead_code)"];
    let mut complaints = Vec::new();
    for source in sources("rs") {
        for (line, code) in source.code() {
            if words.iter().any(|word| code.contains(word)) {
                complaints.push(format!("{}:{line}: {}", source.path, code.trim()));
            }
        }
    }
    // This file has to name what it looks for.
    complaints.retain(|complaint| !complaint.starts_with("tests/tidy/words.rs"));
    complain("finish it or take it out", &complaints);
}

#[test]
fn no_machine_is_named() {
    let words = [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];
    let mut complaints = Vec::new();
    for extension in ["rs", "md", "toml", "json", "snap"] {
        for source in sources(extension) {
            for (index, line) in source.text.lines().enumerate() {
                if words.iter().any(|word| line.contains(word)) {
                    complaints.push(format!("{}:{}: {line}", source.path, index + 1));
                }
            }
        }
    }
    complain("this path is one machine's own", &complaints);
}
