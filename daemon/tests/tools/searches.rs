//! `glob` and `grep`: what they find, leave out, and how they stop.
//!
//! Receives nothing; hands verdicts to the test runner.

use std::fs::File;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use agentd_protocol::item::ToolStatus;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::workspace::{Workspace, ok, text};

#[tokio::test]
async fn globs_find_files_newest_first() {
    let ws = Workspace::new();
    for (age, name) in [(3, "src/old.rs"), (1, "src/deep/new.rs"), (2, "top.rs"), (0, "a.txt")] {
        ws.put(name, "");
        let file = File::options().write(true).open(ws.at(name)).expect("it is there");
        let changed_at = SystemTime::now() - Duration::from_secs(age * 100);
        file.set_modified(changed_at).expect("it is ours");
    }
    for (pattern, path, expected) in [
        ("**/*.rs", ".", "src/deep/new.rs\ntop.rs\nsrc/old.rs"),
        ("*.rs", ".", "top.rs"),
        ("./src/*.rs", ".", "src/old.rs"),
        ("**/*.{rs,txt}", "src", "src/deep/new.rs\nsrc/old.rs"),
        ("*.md", ".", "[no file matches; **/ before it looks below as well]\n"),
    ] {
        let output = ws.call("glob", &json!({ "pattern": pattern, "path": path })).await;
        assert_eq!(ok(&output), expected, "{pattern} in {path}");
    }
    for (pattern, answer) in [("/etc/*", "starts at"), ("../*", "starts at"), ("a[", "the pattern")]
    {
        let output = ws.call("glob", &json!({ "pattern": pattern })).await;
        assert_eq!(output.status, ToolStatus::Invalid);
        assert!(text(&output).contains(answer), "{}", text(&output));
    }
}

#[tokio::test]
async fn c32_links_do_not_cycle_and_a_cancel_stops_the_walk() {
    let ws = Workspace::new();
    for n in 0..1_200 {
        ws.put(&format!("a/{}/x{n}", n % 40), "needle\n");
    }
    symlink("../a", ws.at("a/b")).expect("a link");
    let output = ws.call("glob", &json!({ "pattern": "**/*x*" })).await;
    assert_eq!(ok(&output).lines().filter(|line| line.starts_with("a/")).count(), 1_000);
    assert!(text(&output).ends_with("[the newest 1000 of 1200; narrow the pattern]\n"));
    for (tool, arguments) in [
        ("glob", json!({ "pattern": "**/*x*" })),
        ("grep", json!({ "pattern": "needle" })),
        ("list", json!({})),
        ("read", json!({ "path": "a/0/x0" })),
    ] {
        let prepare = ws.prepare(tool, &arguments).expect("a call");
        let approved = ws.approve(&prepare);
        let cancel = CancellationToken::new();
        cancel.cancel();
        let (run, _live) = ws.start(&cancel);
        let output = prepare.tool.run(&approved, run).await;
        assert_eq!(output.status, ToolStatus::Interrupted, "{tool}");
    }
}

#[tokio::test]
async fn c33_binaries_and_what_is_ignored_are_left_out() {
    let ws = Workspace::new();
    ws.put(".gitignore", "node_modules/\n");
    ws.put(".git/objects/x", "needle\n");
    ws.put("node_modules/y/index.js", "needle\n");
    ws.put("nul", b"\0needle\n");
    ws.put(".env", "needle\n");
    ws.put("src/a.rs", "one\nneedle here\nthree\r\nneedle\r\n");
    let huge = File::create(ws.at("huge")).expect("a file");
    huge.set_len(1 << 30).expect("a sparse file");
    let output = ws.call("grep", &json!({ "pattern": "needle" })).await;
    let notes = "[2 binary files left out]\n[1 secret file left out]\n";
    assert_eq!(ok(&output), format!("src/a.rs\n2:needle here\n4:needle\n{notes}"));
}

#[tokio::test]
async fn grep_shows_lines_files_or_counts() {
    let ws = Workspace::new();
    ws.put("a.rs", "1\n2\nx\n4\n5\n6\n7\n8\nx\n");
    ws.put("b.txt", "x\n");
    for (arguments, expected) in [
        (json!({ "pattern": "x" }), "a.rs\n3:x\n9:x\n\nb.txt\n1:x\n"),
        (json!({ "pattern": "x", "glob": "*.rs" }), "a.rs\n3:x\n9:x\n"),
        (json!({ "pattern": "x", "glob": "!*.rs" }), "b.txt\n1:x\n"),
        (json!({ "pattern": "x", "path": "b.txt" }), "b.txt\n1:x\n"),
        (
            json!({ "pattern": "x", "context": 1, "path": "a.rs" }),
            "a.rs\n2-2\n3:x\n4-4\n--\n8-8\n9:x\n",
        ),
        (json!({ "pattern": "x", "mode": "files" }), "a.rs\nb.txt\n"),
        (json!({ "pattern": "x", "mode": "count" }), "a.rs: 2\nb.txt: 1\n"),
        (
            json!({ "pattern": "x", "max": 1 }),
            "a.rs\n3:x\n[the first 1 matches; there may be more: narrow the search]\n",
        ),
        (json!({ "pattern": "^X$" }), "[nothing matches]\n"),
        (json!({ "pattern": "(?i)^X$", "path": "b.txt" }), "b.txt\n1:x\n"),
    ] {
        let output = ws.call("grep", &arguments).await;
        assert_eq!(ok(&output), expected, "{arguments}");
    }
    let output = ws.call("grep", &json!({ "pattern": "(" })).await;
    assert_eq!(output.status, ToolStatus::Invalid);
    assert!(text(&output).contains("no regular expression"), "{}", text(&output));
    // Long lines are cut between characters, and the whole is bounded.
    ws.put("long", format!("x{}\n", "é".repeat(1_000)).repeat(500));
    let output = ws.call("grep", &json!({ "pattern": "x", "path": "long", "max": 5_000 })).await;
    assert!(ok(&output).len() <= 50 * 1024);
    assert!(text(&output).contains("there may be more"));
}
