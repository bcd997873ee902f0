//! Documents that name files: each name must lead somewhere.
//!
//! Receives the Markdown files and the daemon's `lib.rs`; hands out names that lead nowhere.

use std::path::Path;

use crate::repository::{Source, complain, root, sources};

/// What ends a name that is meant as a file of this repository.
const ENDINGS: [&str; 6] = [".rs", ".md", ".toml", ".json", ".sql", "/"];

fn documents() -> Vec<Source> {
    let mut documents = sources("md");
    for path in ["README.md", "daemon/src/lib.rs"] {
        if let Ok(text) = std::fs::read_to_string(root().join(path)) {
            documents.push(Source { path: path.to_owned(), text });
        }
    }
    documents
}

/// Names in backticks that look like files, outside of code blocks.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").step_by(2).flat_map(|prose| prose.split('`').skip(1).step_by(2)).filter(
        |name| {
            ENDINGS.iter().any(|ending| name.ends_with(ending))
                && name.len() > 1
                && !name.starts_with(['/', '~', '$', '.', '*', '<'])
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        },
    )
}

fn leads_somewhere(document: &Source, name: &str) -> bool {
    let beside = Path::new(&document.path).parent().unwrap_or(Path::new(""));
    let folders = [Path::new(""), beside, &beside.join("src"), Path::new("daemon/src")];
    folders.iter().any(|folder| root().join(folder).join(name).exists())
}

#[test]
fn files_that_documents_name_exist() {
    // Files of the user or of a project, not of this repository.
    let elsewhere = ["config.toml", "AGENTS.md", "CLAUDE.md", "tests.rs"];
    let complaints: Vec<String> = documents()
        .iter()
        .flat_map(|document| names(&document.text).map(move |name| (document, name)))
        .filter(|(document, name)| !elsewhere.contains(name) && !leads_somewhere(document, name))
        .map(|(document, name)| format!("{}: `{name}`", document.path))
        .collect();
    complain("the name leads nowhere", &complaints);
}

#[test]
fn tests_that_the_architecture_names_exist() {
    let text = std::fs::read_to_string(root().join("daemon/ARCHITECTURE.md"));
    let text = text.expect("there is one");
    let mut complaints = Vec::new();
    for row in text.lines().filter(|line| line.starts_with("| ") && line.contains("**")) {
        // `name` … in `file`: the names before a file are tests in it.
        let mut tests = Vec::new();
        for word in row.split('`').skip(1).step_by(2) {
            if word.rsplit_once('.').is_some_and(|(_, ending)| ending == "rs") {
                let folders = ["", "daemon/", "daemon/src/"];
                let found = folders.iter().find_map(|folder| {
                    std::fs::read_to_string(root().join(format!("{folder}{word}"))).ok()
                });
                let source = found.unwrap_or_default();
                complaints.extend(
                    tests
                        .drain(..)
                        .filter(|test| !source.contains(&format!("fn {test}(")))
                        .map(|test| format!("{test} in {word}")),
                );
            } else if word.contains('_') {
                tests.push(word);
            }
        }
        complaints.extend(tests.iter().map(|test| format!("{test}: in which file?")));
    }
    complain("the test that is said to hold an invariant is not there", &complaints);
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut complaints = Vec::new();
    for document in documents() {
        let prose: String = document.text.split("```").step_by(2).collect();
        for link in prose.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            if !link.is_empty() && !link.contains(':') && !leads_somewhere(&document, link) {
                complaints.push(format!("{}: ({link})", document.path));
            }
        }
    }
    complain("the link leads nowhere", &complaints);
}

#[test]
fn the_walk_names_every_module_of_the_daemon() {
    let walk = std::fs::read_to_string(root().join("daemon/src/lib.rs")).expect("there is one");
    let modules = std::fs::read_dir(root().join("daemon/src")).expect("there is one");
    let complaints: Vec<String> = modules
        .map(|entry| entry.expect("it can be read").file_name().into_string().expect("UTF-8"))
        .map(|name| name.trim_end_matches(".rs").to_owned())
        .filter(|name| !["lib", "main"].contains(&name.as_str()))
        .filter(|name| !walk.contains(&format!("pub mod {name};")))
        .collect();
    complain("lib.rs does not list it", &complaints);
}
