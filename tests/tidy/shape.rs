//! The shape of files: how long, how they begin, and that each is compiled.
//!
//! Receives sources; hands out files that are too long, that do not say what they are, or that no
//! `mod` line names.

use std::collections::BTreeMap;
use std::path::Path;

use crate::repository::{complain, sources};

/// Lines of a file, a test module at its end aside. The soft limit is 400.
const MAX_LINES: usize = 600;

#[test]
fn no_file_is_too_long() {
    let complaints: Vec<String> = sources("rs")
        .iter()
        .filter(|source| !source.is_test())
        .map(|source| (source, source.body().lines().count()))
        .filter(|(_, lines)| *lines > MAX_LINES)
        .map(|(source, lines)| format!("{}: {lines} lines", source.path))
        .collect();
    complain("split it: no file has more than 600 lines", &complaints);
}

#[test]
fn every_file_says_what_it_is() {
    let complaints: Vec<String> = sources("rs")
        .into_iter()
        .filter(|source| {
            let docs: Vec<&str> =
                source.text.lines().take_while(|line| line.starts_with("//!")).collect();
            docs.concat().len() < 20
        })
        .map(|source| source.path)
        .collect();
    complain(
        "a file begins with `//!`: what it is, why this way, what comes in and out",
        &complaints,
    );
}

#[test]
fn every_file_is_compiled() {
    let sources = sources("rs");
    let texts: BTreeMap<&str, &str> =
        sources.iter().map(|source| (source.path.as_str(), source.text.as_str())).collect();
    let roots = ["main.rs", "lib.rs", "build.rs"];
    let mut complaints = Vec::new();
    for source in &sources {
        let path = Path::new(&source.path);
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let folder = path.parent().and_then(Path::to_str).unwrap_or_default();
        // Programs, benchmarks and integration tests are roots that manifests name.
        let is_root = roots.contains(&name)
            || ["/src/bin", "/benches", "/tests", "/fuzz_targets"]
                .iter()
                .any(|end| folder.ends_with(end))
            || folder == "tests/bench";
        if is_root {
            continue;
        }
        let (module, parents) = if name == "mod.rs" {
            let (above, module) = folder.rsplit_once('/').unwrap_or(("", folder));
            (module, parents_of(above))
        } else {
            (name.trim_end_matches(".rs"), parents_of(folder))
        };
        let line = format!("mod {module};");
        // Any file of an integration test's folder is a root that may declare it.
        let declared = texts
            .iter()
            .filter(|(path, _)| {
                parents.iter().any(|parent| parent == *path)
                    || path.rsplit_once('/').is_some_and(|(folder, _)| {
                        folder.ends_with("/tests") && parents[0].starts_with(folder)
                    })
            })
            .any(|(_, text)| text.contains(&line));
        if !declared {
            complaints.push(source.path.clone());
        }
    }
    complain("no `mod` line names it, so it is not compiled", &complaints);
}

/// The files that may declare the modules of a folder.
fn parents_of(folder: &str) -> Vec<String> {
    ["mod.rs", "lib.rs", "main.rs"]
        .iter()
        .map(|name| format!("{folder}/{name}"))
        .chain([format!("{folder}.rs")])
        .collect()
}
