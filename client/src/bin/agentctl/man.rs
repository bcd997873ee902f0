//! The manual pages in `packaging/man` are those of this command line.
//!
//! `AGENTD_BLESS=1 cargo test -p agentctl man` writes them anew.
//!
//! Receives the definition of the command line; hands pages to the package.

use std::collections::BTreeSet;
use std::path::Path;

use clap::{Command, CommandFactory};

use crate::args::Args;

/// The pages by their file names.
fn pages() -> Vec<(String, Vec<u8>)> {
    let mut command = Args::command().disable_help_subcommand(true);
    command.build();
    let mut pages = vec![page("agentctl", command.clone())];
    for sub in command.get_subcommands() {
        let name = format!("agentctl-{}", sub.get_name());
        pages.push(page(&name, sub.clone()));
    }
    pages
}

fn page(name: &str, command: Command) -> (String, Vec<u8>) {
    let mut text = Vec::new();
    // Without a date, which would change with every day.
    let man = clap_mangen::Man::new(command).date("").source("agentd").manual("agentd");
    man.render(&mut text).expect("a vector takes every write");
    (format!("{name}.1"), text)
}

#[test]
fn manual_pages_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/man");
    let pages = pages();
    if std::env::var_os("AGENTD_BLESS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in &pages {
            std::fs::write(folder.join(name), text).unwrap();
        }
    }
    let there = std::fs::read_dir(&folder).unwrap();
    let there: BTreeSet<_> =
        there.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(there, pages.iter().map(|(name, _)| name.clone()).collect());
    for (name, text) in pages {
        let is = std::fs::read(folder.join(&name)).unwrap();
        assert!(is == text, "{name} is old: AGENTD_BLESS=1 cargo test -p agentctl man");
    }
}
