//! Who may import whom: the arrows of the architecture, for crates and for the daemon's modules.
//!
//! The check is textual and needs one habit: paths into another module are written `crate::…`,
//! one module a `use`.
//!
//! Receives sources and manifests; hands out forbidden edges.

use std::collections::BTreeSet;

use crate::repository::{Source, complain, root, sources};

/// The left may import the right; `agentd_protocol` is free to all.
const MODULES: [(&str, &[&str]); 18] = [
    // The composition root may import everything.
    ("rpc", &["session", "journal", "config", "clock"]),
    (
        "session",
        &[
            "turn",
            "conversation",
            "provider",
            "tools",
            "permission",
            "hooks",
            "knowledge",
            "journal",
            // Through `session::registry` and recovery: reads, and the shape of an append.
            "store",
            "config",
            "clock",
        ],
    ),
    ("turn", &[]),
    ("conversation", &[]),
    ("provider", &["config", "clock"]),
    ("tools", &["permission", "launcher", "config", "clock"]),
    ("permission", &["config"]),
    ("hooks", &["launcher", "config", "clock"]),
    ("knowledge", &["store", "config"]),
    ("journal", &["store", "fanout", "clock"]),
    ("store", &["clock"]),
    ("fanout", &[]),
    ("launcher", &[]),
    ("config", &[]),
    ("clock", &[]),
    ("testing", &["clock", "config", "provider", "store", "journal"]),
    ("main", &["boot"]),
    ("lib", &[]),
];

/// The crate's module that a file of the daemon belongs to.
fn module_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("daemon/src/")?;
    Some(inside.split('/').next()?.trim_end_matches(".rs"))
}

/// The first segments of all `crate::…` paths in a line.
fn imports(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("crate::").filter_map(|(at, matched)| {
        // `agentd_crate::` is another word.
        let before = line[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_') {
            return None;
        }
        let rest = &line[at + matched.len()..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        Some(&rest[..end])
    })
}

fn forbidden(source: &Source) -> Vec<String> {
    let Some(module) = module_of(&source.path) else { return Vec::new() };
    if module == "boot" || source.is_test() {
        return Vec::new();
    }
    let Some((_, allowed)) = MODULES.iter().find(|(name, _)| *name == module) else {
        return vec![format!("{}: module {module} has no row in the table", source.path)];
    };
    source
        .code()
        .flat_map(|(line, code)| imports(code).map(move |import| (line, import)))
        .filter(|(_, import)| *import != module && !allowed.contains(import))
        .map(|(line, import)| {
            format!("{}:{line}: {module} may not import crate::{import}", source.path)
        })
        .collect()
}

#[test]
fn modules_of_the_daemon_import_only_what_they_may() {
    let complaints: Vec<String> = sources("rs").iter().flat_map(forbidden).collect();
    complain("an arrow points the wrong way", &complaints);
}

/// What waits, or looks at the world.
const IMPURE: [&str; 9] = [
    "async ",
    ".await",
    "tokio",
    "std::fs",
    "std::io",
    "std::net",
    "std::process",
    "std::thread",
    "std::time",
];

#[test]
fn pure_turn() {
    let mut complaints = Vec::new();
    for source in sources("rs").iter().filter(|source| !source.is_test()) {
        if !matches!(module_of(&source.path), Some("turn" | "conversation")) {
            continue;
        }
        for (line, code) in source.code() {
            if IMPURE.iter().any(|word| code.contains(word)) {
                complaints.push(format!("{}:{line}: {}", source.path, code.trim()));
            }
        }
    }
    complain("a turn and its view wait for nothing and know no world", &complaints);
}

#[test]
fn the_check_sees_a_forbidden_import() {
    let source = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let bad = source(
        "daemon/src/tools/shell.rs",
        "use crate::permission::Target;\nfn f() {\n    crate::store::open();\n}\n",
    );
    assert_eq!(forbidden(&bad), ["daemon/src/tools/shell.rs:3: tools may not import crate::store"]);
    let fine =
        source("daemon/src/turn/mod.rs", "//! Not crate::store.\nuse crate::turn::phase::Phase;\n");
    assert_eq!(forbidden(&fine), Vec::<String>::new());
}

/// Whether a chain of `super::` ends outside of the file's module of the daemon.
fn leaves_module(path: &str, code: &str) -> bool {
    let Some(inside) = path.strip_prefix("daemon/src/") else { return false };
    let depth = inside.trim_end_matches("/mod.rs").split('/').count();
    code.contains(&"super::".repeat(depth))
}

#[test]
fn imports_name_one_module_each() {
    let mut complaints = Vec::new();
    for source in sources("rs").iter().filter(|source| !source.is_test()) {
        for (line, code) in source.code() {
            if code.contains("use crate::{") || leaves_module(&source.path, code) {
                complaints.push(format!("{}:{line}: {}", source.path, code.trim()));
            }
        }
    }
    complain("write `use crate::module::…`, one module a line", &complaints);
}

#[test]
fn crates_depend_only_on_what_they_may() {
    let allowed = [
        ("protocol", &[][..]),
        ("daemon", &["agentd-protocol", "agentd"]),
        ("client", &["agentd-protocol"]),
        ("tests", &["agentd-protocol", "agentd", "agentctl"]),
    ];
    let ours: BTreeSet<&str> = ["agentd-protocol", "agentd", "agentctl", "agentd-tests"].into();
    let mut complaints = Vec::new();
    for (name, allowed) in allowed {
        let path = root().join(name).join("Cargo.toml");
        let manifest = std::fs::read_to_string(&path).expect("each crate has a manifest");
        let dependencies = manifest
            .split_once("dependencies]")
            .map_or("", |(_, dependencies)| dependencies)
            .lines()
            .filter_map(|line| line.split(['.', ' ', '=']).next());
        for dependency in dependencies.filter(|name| ours.contains(name)) {
            if !allowed.contains(&dependency) {
                complaints.push(format!("{name} depends on {dependency}"));
            }
        }
    }
    complain("tests -> client, daemon -> protocol", &complaints);
}
