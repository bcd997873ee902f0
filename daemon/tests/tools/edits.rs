//! `edit`: the bytes it changes, and what it says when it changes none.
//!
//! Receives nothing; hands verdicts to the test runner.

use std::sync::Arc;

use agentd_protocol::item::ToolStatus;
use serde_json::json;

use crate::workspace::{Kept, Workspace, error, ok, text};

/// Each edit of a fresh file: content, old, new, content after it.
async fn check(table: &[(&[u8], &str, &str, &[u8])]) {
    for (before, old, new, after) in table {
        let ws = Workspace::new();
        ws.put("f", before);
        ok(&ws.call("edit", &json!({ "path": "f", "old": old, "new": new })).await);
        assert_eq!(
            ws.get("f").escape_ascii().to_string(),
            after.escape_ascii().to_string(),
            "{old:?} to {new:?}"
        );
    }
}

#[tokio::test]
async fn c15_mixed_line_endings_match() {
    let file = b"alpha\nbeta\r\ngamma\ndelta\n";
    check(&[
        (file, "gamma\ndelta", "gamma\nD", b"alpha\nbeta\r\ngamma\nD\n"),
        (file, "alpha\nbeta", "A\nbeta", b"A\nbeta\r\ngamma\ndelta\n"),
        (file, "beta\ngamma", "beta\nnew\ngamma", b"alpha\nbeta\r\nnew\r\ngamma\ndelta\n"),
        (file, "alpha\nbeta\ngamma\n", "alpha\ngamma\n", b"alpha\ngamma\ndelta\n"),
    ])
    .await;
}

#[tokio::test]
async fn c16_other_lines_keep_their_endings() {
    check(&[(b"a\r\nb\r\nc", "c", "C", b"a\r\nb\r\nC")]).await;
}

#[tokio::test]
async fn c17_either_ending_in_the_text_matches() {
    check(&[
        (b"a\nb\n", "a\r\nb", "x\r\ny", b"x\ny\n"),
        (b"a\r\nb\r\n", "a\nb", "x\ny", b"x\r\ny\r\n"),
        (b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n"),
        (b"a\r\nb", "\nb", "\nc", b"a\r\nc"),
        (b"a\r\nb", "\nb", "", b"a"),
        (b"a\r\nb\r\n", "a\n", "", b"b\r\n"),
    ])
    .await;
}

#[tokio::test]
async fn c18_a_mark_at_the_start_hides_no_line() {
    check(&[
        (b"\xEF\xBB\xBFx=1\n", "x=1", "x=2", b"\xEF\xBB\xBFx=2\n"),
        (b"\xEF\xBB\xBFx=1\n", "\u{FEFF}x=1", "\u{FEFF}x=2", b"\xEF\xBB\xBFx=2\n"),
    ])
    .await;
}

#[tokio::test]
async fn c20_bytes_that_are_no_text_stay() {
    check(&[(b"x=1\ncaf\xE9\n", "x=1", "x=2", b"x=2\ncaf\xE9\n")]).await;
    let ws = Workspace::new();
    ws.put("f", b"x=1\ncaf\xE9\n");
    let output = ws.call("read", &json!({ "path": "f" })).await;
    assert!(ok(&output).ends_with("[bytes that are no UTF-8 are shown as \u{FFFD}]\n"));
}

#[tokio::test]
async fn c36_the_last_newline_stays_as_it_is() {
    check(&[
        (b"a\nb\n", "b", "c", b"a\nc\n"),
        (b"a\nb", "b", "c", b"a\nc"),
        (b"a\nb\n", "b\n", "c\n", b"a\nc\n"),
    ])
    .await;
}

#[tokio::test]
async fn an_edit_shows_what_it_did() {
    let ws = Workspace::new();
    ws.put("src/a.rs", "one\ntwo\nthree\n");
    let arguments = json!({ "path": "src/a.rs", "old": "two", "new": "2" });
    let prepare = ws.prepare("edit", &arguments).expect("a call");
    let diff = "--- src/a.rs\n+++ src/a.rs\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n";
    assert_eq!(prepare.tool.preview(&arguments, &ws.context).as_deref(), Some(diff));
    let output = ws.call("edit", &arguments).await;
    assert_eq!(ok(&output), format!("edited src/a.rs (+1 -1)\n{diff}"));
    assert_eq!(output.changes[0].diff.as_deref(), Some(diff));
    assert_eq!(output.seen.len(), 1);
}

#[tokio::test]
async fn what_is_not_there_or_too_often_is_told() {
    let ws = Workspace::new();
    let file = "fn one() {\n    body();\n}\n\nfn two() {\n    body();\n}\n";
    ws.put("f", file);
    for (old, answer) in [
        (
            "    body();",
            "old is in f 2 times, on the lines 2, 6; give more of the text around it, or set \
             replace_all",
        ),
        (
            "fn two() {\n  body();",
            "old is not in f; only white space differs, from line 5:\n     5\tfn two() {\n     \
             6\t    body();",
        ),
        (
            "fn two() {\n    bodi();\n}",
            "old is not in f; the nearest is, from line 5:\n     5\tfn two() {\n     6\t    \
             body();\n     7\t}",
        ),
        ("fn twoo() {", "old is not in f; the nearest is, from line 5:\n     5\tfn two() {"),
        ("zzzzzz", "old is not in f, nor anything like it; read it again"),
    ] {
        let output = ws.call("edit", &json!({ "path": "f", "old": old, "new": "x" })).await;
        assert_eq!(error(&output), format!("Tool failed: {answer}"));
        assert_eq!(ws.get("f"), file.as_bytes());
    }
    let all = json!({ "path": "f", "old": "body", "new": "b", "replace_all": true });
    assert!(ok(&ws.call("edit", &all).await).starts_with("edited f (+2 -2)\n"));
    let same = json!({ "path": "f", "old": "a", "new": "a" });
    let output = ws.call("edit", &same).await;
    assert_eq!(output.status, ToolStatus::Invalid, "{}", text(&output));
    let none = json!({ "path": "none", "old": "a", "new": "b" });
    assert!(error(&ws.call("edit", &none).await).contains("none does not exist; use write"));
}

#[tokio::test]
async fn what_cannot_be_kept_is_not_changed() {
    let ws = Workspace::new().with(|context| context.keeper = Arc::new(Kept { refuses: true }));
    ws.put("f", "before");
    ws.call("read", &json!({ "path": "f" })).await;
    for (tool, arguments) in [
        ("edit", json!({ "path": "f", "old": "before", "new": "after" })),
        ("write", json!({ "path": "f", "content": "after" })),
        ("write", json!({ "path": "g", "content": "after" })),
    ] {
        assert_eq!(error(&ws.call(tool, &arguments).await), "Tool failed: the disk is full");
    }
    assert_eq!(ws.get("f"), b"before");
    assert!(!ws.at("g").exists());
}
