//! `read`, `write` and `list`: what they show, what they keep, what they refuse.
//!
//! Receives nothing; hands verdicts to the test runner.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use agentd::permission::Verdict;
use agentd::testing;
use agentd_protocol::event::ChangeKind;
use agentd_protocol::item::{Part, ToolStatus};
use agentd_protocol::permission::PermissionMode;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{Mode, Timestamps};
use serde_json::{Value, json};

use crate::workspace::{Workspace, error, is_inside, ok, text};

fn mode_of(ws: &Workspace, name: &str) -> u32 {
    ws.at(name).metadata().expect("the file is there").mode() & 0o7777
}

fn set_mode(ws: &Workspace, name: &str, mode: u32) {
    std::fs::set_permissions(ws.at(name), PermissionsExt::from_mode(mode)).expect("it is ours");
}

#[tokio::test]
async fn reading_shows_numbered_lines() {
    let ws = Workspace::new();
    ws.put("a", "one\ntwo\r\nthree");
    let output = ws.call("read", &json!({ "path": "a" })).await;
    assert_eq!(ok(&output), "     1\tone\n     2\ttwo\n     3\tthree\n");
    let output = ws.call("read", &json!({ "path": "a", "offset": 2, "limit": 1 })).await;
    assert_eq!(ok(&output), "     2\ttwo\n[lines 2 to 2 of 3; go on with offset 3]\n");
    let output = ws.call("read", &json!({ "path": "a", "offset": 4 })).await;
    assert!(error(&output).contains("has 3 lines, line 4 is past its end"), "{}", text(&output));
    ws.put("empty", "");
    assert_eq!(ok(&ws.call("read", &json!({ "path": "empty" })).await), "[an empty file]");
    let output = ws.call("read", &json!({ "path": "none" })).await;
    assert!(error(&output).ends_with("none does not exist"), "{}", text(&output));
    let output = ws.call("read", &json!({ "path": "." })).await;
    assert!(error(&output).ends_with("is a directory; use list"), "{}", text(&output));
}

#[tokio::test]
async fn reading_is_bounded() {
    let ws = Workspace::new();
    ws.put("long", "line\n".repeat(5_000));
    let output = ws.call("read", &json!({ "path": "long" })).await;
    assert!(ok(&output).ends_with("[lines 1 to 2000 of 5000; go on with offset 2001]\n"));
    ws.put("wide", format!("{}\nnext\n", "é".repeat(40_000)));
    let output = ws.call("read", &json!({ "path": "wide" })).await;
    assert!(ok(&output).contains("bytes of this line left out]\n     2\tnext\n"));
    assert!(!text(&output).contains('\u{FFFD}'), "a cut line is no mistake of the file's");
    ws.put("both", format!("{}\n", "x".repeat(1_900)).repeat(100));
    let output = ws.call("read", &json!({ "path": "both" })).await;
    assert!(ok(&output).len() <= 50 * 1024);
    assert!(text(&output).contains("of 100; go on with offset"));
}

#[tokio::test]
async fn images_are_seen_and_binaries_are_said() {
    let ws = Workspace::new();
    ws.put("a.png", b"\x89PNG\r\n\x1a\nrest");
    let output = ws.call("read", &json!({ "path": "a.png" })).await;
    assert_eq!(ok(&output), "[image/png, 12 bytes]");
    let Some(Part::Image { mime_type, data: Some(data), .. }) = output.content.get(1) else {
        panic!("an image, not {:?}", output.content)
    };
    assert_eq!((mime_type.as_str(), data.as_str()), ("image/png", "iVBORw0KGgpyZXN0"));
    ws.put("b", b"a\0b");
    let output = ws.call("read", &json!({ "path": "b" })).await;
    assert_eq!(ok(&output), "[a binary file of 3 bytes; it is not shown]");
}

/// What would fail is known before anybody is asked, and no content is told that was not read.
#[tokio::test]
async fn what_would_fail_is_refused_before_it_is_asked_about() {
    let ws = Workspace::new();
    ws.put("a.txt", "one\ntwo\n");
    let refusal = |tool: &str, arguments: &Value| {
        ws.prepare(tool, arguments).expect("a call").tool.refusal(arguments, &ws.context)
    };
    let write = json!({ "path": "a.txt", "content": "new" });
    let edit = json!({ "path": "a.txt", "old": "tow", "new": "2" });
    let said = refusal("write", &write).expect("it was not read");
    assert!(said.contains("was not read in this session"), "{said}");
    assert_eq!(refusal("edit", &edit), None, "a person sees why, the model does not");
    assert_eq!(refusal("write", &json!({ "path": "b.txt", "content": "" })), None);
    ok(&ws.call("read", &json!({ "path": "a.txt" })).await);
    assert_eq!(refusal("write", &write), None);
    let said = refusal("edit", &edit).expect("it is not there");
    assert!(said.contains("old is not in a.txt"), "{said}");
    ws.put("a.txt", "somebody else's");
    for (tool, arguments) in [("write", &write), ("edit", &edit)] {
        let said = refusal(tool, arguments).expect("it changed");
        assert!(said.contains("has changed since it was read"), "{tool}: {said}");
    }
}

#[tokio::test]
async fn writing_makes_files_and_directories() {
    let ws = Workspace::new();
    let arguments = json!({ "path": "new/deep/a.txt", "content": "one\ntwo" });
    let prepare = ws.prepare("write", &arguments).expect("a call");
    assert_eq!(prepare.prepared.summary, "write new/deep/a.txt (7 bytes)");
    let preview = prepare.tool.preview(&arguments, &ws.context).expect("a diff");
    assert!(preview.contains("+++ new/deep/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two"), "{preview}");
    assert!(!ws.at("new").exists(), "a preview changes nothing");
    let output = ws.call("write", &arguments).await;
    assert_eq!(ok(&output), "created new/deep/a.txt (7 bytes)");
    let change = &output.changes[0];
    assert_eq!((change.kind, change.added, change.removed), (ChangeKind::Created, 2, 0));
    assert_eq!(change.path, "new/deep/a.txt");
    assert_eq!(ws.get("new/deep/a.txt"), b"one\ntwo");
    let left: Vec<_> = std::fs::read_dir(ws.at("new/deep")).expect("a directory").collect();
    assert_eq!(left.len(), 1, "no temporary file is left");
    // A file in the place of a directory.
    let output = ws.call("write", &json!({ "path": "new/deep/a.txt/b", "content": "" })).await;
    assert!(text(&output).contains("not a directory"), "{}", text(&output));
}

#[tokio::test]
async fn c24_a_file_that_changed_since_is_not_overwritten() {
    let ws = Workspace::new();
    ws.put("f", "one");
    let write = json!({ "path": "f", "content": "mine" });
    let output = ws.call("write", &write).await;
    assert!(error(&output).contains("was not read in this session; read it first"));
    ws.call("read", &json!({ "path": "f" })).await;
    // The same size and the same times.
    let before = ws.at("f").metadata().expect("the file is there");
    ws.put("f", "two");
    let stamp = |seconds, nanos| rustix::fs::Timespec { tv_sec: seconds, tv_nsec: nanos };
    let times = Timestamps {
        last_access: stamp(before.atime(), before.atime_nsec()),
        last_modification: stamp(before.mtime(), before.mtime_nsec()),
    };
    let file = std::fs::File::open(ws.at("f")).expect("the file is there");
    rustix::fs::futimens(&file, &times).expect("it is ours");
    for (tool, arguments) in
        [("write", write), ("edit", json!({ "path": "f", "old": "two", "new": "mine" }))]
    {
        let output = ws.call(tool, &arguments).await;
        assert!(error(&output).contains("has changed since it was read; read it again"), "{tool}");
        assert_eq!(ws.get("f"), b"two");
    }
}

#[tokio::test]
async fn c25_own_changes_and_a_touch_are_no_surprise() {
    let ws = Workspace::new();
    ws.put("f", "a b c");
    let edit = |old: &str, new: &str| json!({ "path": "f", "old": old, "new": new });
    ws.call("read", &json!({ "path": "f" })).await;
    ok(&ws.call("edit", &edit("a", "x")).await);
    ok(&ws.call("edit", &edit("b", "y")).await);
    ok(&ws.call("write", &json!({ "path": "f", "content": "a b c" })).await);
    ws.call("shell", &json!({ "command": "touch -d '2 hours' f" })).await;
    ok(&ws.call("edit", &edit("a", "x")).await);
    ws.call("shell", &json!({ "command": "sed -i s/c/z/ f" })).await;
    let output = ws.call("edit", &edit("b", "y")).await;
    assert!(error(&output).contains("has changed since it was read"), "{}", text(&output));
    ws.call("read", &json!({ "path": "f" })).await;
    ok(&ws.call("edit", &edit("b", "y")).await);
    assert_eq!(ws.get("f"), b"x y z");
}

#[tokio::test]
async fn c26_permission_bits_stay() {
    // The mask belongs to the process.
    if !testing::alone(module_path!(), "c26_permission_bits_stay") {
        return;
    }
    for mask in [0o077, 0o022] {
        let ws = Workspace::new();
        rustix::process::umask(Mode::from_raw_mode(mask));
        for mode in [0o755, 0o600, 0o664, 0o444, 0o4755] {
            ws.put("f", "one");
            set_mode(&ws, "f", mode);
            ws.call("read", &json!({ "path": "f" })).await;
            ok(&ws.call("edit", &json!({ "path": "f", "old": "one", "new": "two" })).await);
            assert_eq!(mode_of(&ws, "f"), mode, "{mode:o} after an edit");
            ok(&ws.call("write", &json!({ "path": "f", "content": "three" })).await);
            assert_eq!(mode_of(&ws, "f"), mode, "{mode:o} after a write");
            std::fs::remove_file(ws.at("f")).expect("it is ours");
        }
        ok(&ws.call("write", &json!({ "path": "d/new", "content": "" })).await);
        assert_eq!(mode_of(&ws, "d/new"), 0o666 & !mask);
        assert_eq!(mode_of(&ws, "d"), 0o777 & !mask);
    }
}

#[tokio::test]
async fn c27_links_stay_links() {
    let ws = Workspace::new();
    ws.put("real.txt", "one");
    symlink("real.txt", ws.at("link.txt")).expect("a link");
    ok(&ws.call("edit", &json!({ "path": "link.txt", "old": "one", "new": "two" })).await);
    assert!(ws.at("link.txt").is_symlink());
    assert!(!ws.at("real.txt").is_symlink());
    assert_eq!(ws.get("real.txt"), b"two");
    // A file with two names: the one that is written gets the new content, the other keeps the old.
    ws.put("first", "one");
    std::fs::hard_link(ws.at("first"), ws.at("second")).expect("a link");
    let output = ws.call("edit", &json!({ "path": "first", "old": "one", "new": "two" })).await;
    assert!(ok(&output).contains("another hard link, which keeps the old content"));
    assert_eq!((ws.get("first"), ws.get("second")), (b"two".to_vec(), b"one".to_vec()));
}

/// A call of each tool on this path.
fn each(path: &str) -> [(&'static str, Value); 6] {
    [
        ("read", json!({ "path": path })),
        ("write", json!({ "path": path, "content": "pwn" })),
        ("edit", json!({ "path": path, "old": "a", "new": "b" })),
        ("list", json!({ "path": path })),
        ("glob", json!({ "path": path, "pattern": "**" })),
        ("grep", json!({ "path": path, "pattern": "a" })),
    ]
}

#[tokio::test]
async fn c28_a_linked_directory_is_outside_where_it_leads_there() {
    let mut ws = Workspace::new();
    std::fs::create_dir(ws.outside().join("elsewhere")).expect("a directory");
    ws.put("../elsewhere/x", "secret a\n");
    ws.put("in/x", "a\n");
    symlink(ws.outside().join("elsewhere"), ws.at("out")).expect("a link");
    symlink("in", ws.at("within")).expect("a link");
    for mode in [PermissionMode::Ask, PermissionMode::AutoEdit, PermissionMode::Plan] {
        ws.mode = mode;
        for (tool, arguments) in each("out/x").into_iter().chain(each("in/../out/x")) {
            let verdict = ws.judge(tool, &arguments);
            assert!(!matches!(verdict, Verdict::Allow(_)), "{mode:?} {tool} {arguments}");
        }
    }
    for (tool, arguments) in each("within/x") {
        assert!(is_inside(&ws.prepare(tool, &arguments).expect("a call")), "{tool}");
    }
    // Searching the workspace does not go through the link.
    ws.mode = PermissionMode::Ask;
    for (tool, arguments) in [
        ("grep", json!({ "pattern": "a" })),
        ("glob", json!({ "pattern": "**" })),
        ("list", json!({ "depth": 9 })),
    ] {
        let output = ws.call(tool, &arguments).await;
        assert!(!ok(&output).contains("secret") && !text(&output).contains("out/x"), "{tool}");
    }
    // A workspace that is itself under a link.
    symlink(&ws.context.cwd, ws.outside().join("door")).expect("a link");
    let ws = ws.with(|context| context.cwd = context.cwd.with_file_name("door"));
    let prepare = ws.prepare("read", &json!({ "path": "in/x" })).expect("a call");
    assert!(is_inside(&prepare));
    assert_eq!(prepare.prepared.summary, "read in/x");
    assert_eq!(ok(&ws.call("read", &json!({ "path": "in/x" })).await), "     1\ta\n");
    let absolute = ws.at("in/x");
    assert!(is_inside(&ws.prepare("read", &json!({ "path": absolute })).expect("a call")));
}

#[tokio::test]
async fn c29_a_link_at_the_end_is_outside_where_it_leads_there() {
    let mut ws = Workspace::new();
    ws.mode = PermissionMode::AutoEdit;
    ws.put("../there", "old");
    symlink(ws.outside().join("there"), ws.at("n")).expect("a link");
    symlink(ws.outside().join("new"), ws.at("d")).expect("a link");
    symlink("../new", ws.at("r")).expect("a link");
    symlink("loop", ws.at("loop")).expect("a link");
    for name in ["n", "d", "r"] {
        let arguments = json!({ "path": name, "content": "pwn" });
        let Verdict::Ask { reason, .. } = ws.judge("write", &arguments) else {
            panic!("{name} should ask")
        };
        assert!(reason.contains("outside the workspace"), "{reason}");
        let prepare = ws.prepare("write", &arguments).expect("a call");
        let resolved = if name == "n" { "there" } else { "new" };
        let resolved = ws.outside().join(resolved).display().to_string();
        assert!(prepare.prepared.summary.contains(&resolved), "{}", prepare.prepared.summary);
    }
    let refused = ws.prepare("read", &json!({ "path": "loop" })).err().expect("no path");
    assert!(refused.contains("more than 40 links"), "{refused}");
    // Granted, it goes there and nowhere else.
    ok(&ws.call("write", &json!({ "path": "d", "content": "granted" })).await);
    assert_eq!(ws.get("../new"), b"granted");
    assert!(ws.at("d").is_symlink());
}

type Swap = fn(&Workspace);

#[tokio::test]
async fn a_link_that_appears_after_the_judgement_is_refused() {
    let ws = Workspace::new();
    ws.put("../secret", "secret");
    ws.put("dir/f", "harmless");
    ws.put("../elsewhere/f", "secret");
    let swaps: [Swap; 2] = [
        |ws| {
            std::fs::remove_file(ws.at("dir/f")).expect("it is ours");
            symlink(ws.outside().join("secret"), ws.at("dir/f")).expect("a link");
        },
        |ws| {
            std::fs::remove_dir_all(ws.at("dir")).expect("it is ours");
            symlink(ws.outside().join("elsewhere"), ws.at("dir")).expect("a link");
        },
    ];
    for swap in swaps {
        for (tool, arguments) in [
            ("read", json!({ "path": "dir/f" })),
            ("edit", json!({ "path": "dir/f", "old": "secret", "new": "pwn" })),
            ("write", json!({ "path": "dir/f", "content": "pwn" })),
            ("write", json!({ "path": "dir/new", "content": "pwn" })),
        ] {
            let _ = std::fs::remove_file(ws.at("dir"));
            let _ = std::fs::remove_dir_all(ws.at("dir"));
            ws.put("dir/f", "harmless");
            ws.call("read", &json!({ "path": "dir/f" })).await;
            let prepare = ws.prepare(tool, &arguments).expect("a call");
            let approved = ws.approve(&prepare);
            swap(&ws);
            let (run, _live) = ws.start(&tokio_util::sync::CancellationToken::new());
            let output = prepare.tool.run(&approved, run).await;
            if arguments["path"] == "dir/new" && !ws.at("dir").is_symlink() {
                ok(&output);
                continue;
            }
            assert!(error(&output).contains("changed into a link meanwhile"), "{}", text(&output));
        }
    }
    assert_eq!(ws.get("../secret"), b"secret");
    assert_eq!(ws.get("../elsewhere/f"), b"secret");
    assert!(!ws.outside().join("elsewhere/new").exists());
}

#[tokio::test]
async fn c31_what_is_no_file_is_refused_at_once() {
    let ws = Workspace::new();
    let fifo = ws.at("p");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        Mode::from_raw_mode(0o600),
        0,
    )
    .expect("a FIFO");
    // Opening it would wake whoever writes to it.
    let watch = inotify::init(CreateFlags::NONBLOCK).expect("an inotify");
    inotify::add_watch(&watch, &fifo, WatchFlags::OPEN).expect("a watch");
    for (tool, arguments) in [
        ("read", json!({ "path": "p" })),
        ("write", json!({ "path": "p", "content": "" })),
        ("edit", json!({ "path": "p", "old": "a", "new": "b" })),
        ("grep", json!({ "path": "p", "pattern": "a" })),
    ] {
        let output = ws.call(tool, &arguments).await;
        assert!(error(&output).contains("is a FIFO, no ordinary file"), "{tool}");
        let preview = ws.prepare(tool, &arguments).expect("a call");
        let _ = preview.tool.preview(&arguments, &ws.context);
    }
    // Among others it is passed over.
    ws.put("f", "a\n");
    assert_eq!(ok(&ws.call("grep", &json!({ "pattern": "a" })).await), "f\n1:a\n");
    let opened = rustix::io::read(&watch, &mut [0; 64]);
    assert_eq!(opened, Err(rustix::io::Errno::AGAIN), "nobody opened it");
    for (path, refused) in [
        ("/dev/zero", "is a character device"),
        ("/proc/self/mem", "is no ordinary file"),
        ("/proc/self/environ", "is no ordinary file"),
    ] {
        let output = ws.call("read", &json!({ "path": path })).await;
        assert_ne!(output.status, ToolStatus::Ok);
        assert!(text(&output).contains(refused), "{}", text(&output));
    }
}

#[tokio::test]
async fn c36_a_write_stores_exactly_its_text() {
    let ws = Workspace::new();
    for content in ["a", "a\n", "a\n\n\n", "", "a\r\nb"] {
        ws.call("read", &json!({ "path": "f" })).await;
        ok(&ws.call("write", &json!({ "path": "f", "content": content })).await);
        assert_eq!(ws.get("f"), content.as_bytes());
    }
}

#[tokio::test]
async fn c18_a_mark_at_the_start_is_kept_and_not_shown() {
    let ws = Workspace::new();
    ws.put("f", b"\xEF\xBB\xBFx=1\n");
    assert_eq!(ok(&ws.call("read", &json!({ "path": "f" })).await), "     1\tx=1\n");
    ok(&ws.call("edit", &json!({ "path": "f", "old": "x=1", "new": "x=2" })).await);
    assert_eq!(ws.get("f"), b"\xEF\xBB\xBFx=2\n");
    ok(&ws.call("write", &json!({ "path": "f", "content": "y\n" })).await);
    assert_eq!(ws.get("f"), b"\xEF\xBB\xBFy\n");
}

#[tokio::test]
async fn c23_letters_match_however_they_are_composed() {
    let ws = Workspace::new();
    // In the file `e` and a combining accent, in the call one character.
    ws.put("f", b"\x65\xCC\x81\n\xC3\xA9 is whole\nth\x65\xCC\x81 end\r\n");
    ok(&ws.call("read", &json!({ "path": "f" })).await);
    ok(&ws.call("edit", &json!({ "path": "f", "old": "thé end\n", "new": "the END\n" })).await);
    assert_eq!(ws.get("f"), b"\x65\xCC\x81\n\xC3\xA9 is whole\nthe END\r\n");
    // What is there byte for byte goes before what is only equal.
    ok(&ws.call("edit", &json!({ "path": "f", "old": "\u{e9}", "new": "E" })).await);
    assert_eq!(ws.get("f"), b"\x65\xCC\x81\nE is whole\nthe END\r\n");
    ok(&ws.call("edit", &json!({ "path": "f", "old": "\u{e9}", "new": "e" })).await);
    assert_eq!(ws.get("f"), b"e\nE is whole\nthe END\r\n");
    // A letter is not cut from its mark.
    ws.put("g", "cafe\u{301}");
    ok(&ws.call("read", &json!({ "path": "g" })).await);
    let cut = ws.call("edit", &json!({ "path": "g", "old": "caf\u{e9}s", "new": "x" })).await;
    assert!(error(&cut).contains("not in g"), "{}", text(&cut));
    // Names likewise: the file that is there is meant, and no second one is made.
    ws.put("re\u{301}sume\u{301}/notes", "old\n");
    assert!(
        ok(&ws.call("read", &json!({ "path": "r\u{e9}sum\u{e9}/notes" })).await).contains("old")
    );
    let write = json!({ "path": "r\u{e9}sum\u{e9}/notes", "content": "new\n" });
    ok(&ws.call("write", &write).await);
    assert_eq!(ws.get("re\u{301}sume\u{301}/notes"), b"new\n");
    assert!(!ws.at("r\u{e9}sum\u{e9}").exists());
}

#[tokio::test]
async fn guarded_paths_ask_even_inside() {
    let mut ws = Workspace::new();
    ws.mode = PermissionMode::AutoEdit;
    let asks = |tool: &str, path: &str| {
        let arguments = match tool {
            "read" => json!({ "path": path }),
            _ => json!({ "path": path, "content": "" }),
        };
        matches!(ws.judge(tool, &arguments), Verdict::Ask { .. })
    };
    for path in [
        ".git/hooks/pre-commit",
        ".git/config",
        "sub/.git/config",
        ".GIT/config",
        ".agentd/config.toml",
        ".envrc",
        ".vscode/tasks.json",
        ".bashrc",
        "home/.zshenv",
    ] {
        assert!(asks("write", path), "{path}");
        assert!(!asks("read", path), "{path}");
    }
    for path in [
        ".env",
        "deploy/.env.production",
        ".ssh/config",
        ".aws/credentials",
        "id_ed25519",
        "tls/server.key",
        ".npmrc",
        ".netrc",
        ".cargo/credentials.toml",
        ".m2/settings.xml",
    ] {
        assert!(asks("write", path) && asks("read", path), "{path}");
    }
    for path in [".env.example", "src/env.rs", ".github/workflows/ci.yml", "gitconfig", "key.rs"] {
        assert!(!asks("write", path) && !asks("read", path), "{path}");
    }
}

#[tokio::test]
async fn a_tree_leaves_out_what_is_ignored() {
    let ws = Workspace::new();
    ws.put(".gitignore", "target/\n");
    ws.put(".git/HEAD", "");
    ws.put("target/x", "");
    ws.put("src/deep/er/still/a.rs", "");
    ws.put(".github/ci.yml", "");
    symlink("src", ws.at("link")).expect("a link");
    let output = ws.call("list", &json!({ "depth": 3 })).await;
    let expected =
        "  .github/\n    ci.yml\n  .gitignore\n  link -> src\n  src/\n    deep/\n      er/\n";
    assert_eq!(ok(&output).split_once('\n').expect("a head").1, expected);
    let output = ws.call("list", &json!({ "path": "src/deep", "depth": 1 })).await;
    assert!(ok(&output).ends_with("deep/\n  er/\n"), "{}", text(&output));
    let output = ws.call("list", &json!({ "path": ".gitignore" })).await;
    assert!(error(&output).ends_with("is no directory"), "{}", text(&output));
    for n in 0..1_100 {
        ws.put(&format!("many/{n:04}"), "");
    }
    let output = ws.call("list", &json!({ "path": "many" })).await;
    assert!(
        ok(&output).ends_with("  0999\n[only the first 1000 entries; list a directory below]\n")
    );
}

#[tokio::test]
async fn mistakes_are_answered_with_what_is_right() {
    let ws = Workspace::new();
    for (tool, arguments, answer) in [
        (
            "raed",
            json!({}),
            "there is no tool \"raed\". Did you mean read? The tools are: read, write, edit, list, glob, grep, shell, shell_output, shell_kill.",
        ),
        (
            "read",
            json!({ "paht": "a" }),
            "there is no parameter \"paht\" (did you mean path?); \"path\" is a required property. The parameters of read are: path (string, required), limit (integer), offset (integer).",
        ),
        (
            "read",
            json!({ "path": "a", "limit": "x" }),
            "limit: \"x\" is not of type \"integer\". The parameters of read are: path (string, required), limit (integer), offset (integer).",
        ),
        (
            "read",
            json!("{\"path\": "),
            "the arguments are no JSON: EOF while parsing a value at line 1 column 9. The parameters of read are: path (string, required), limit (integer), offset (integer).",
        ),
        (
            "read",
            json!(["a"]),
            "the arguments are no JSON object. The parameters of read are: path (string, required), limit (integer), offset (integer).",
        ),
    ] {
        let output = ws.call(tool, &arguments).await;
        assert_eq!(output.status, ToolStatus::Invalid);
        assert_eq!(text(&output), answer);
    }
    // A `null` means that it is absent.
    ws.put("a", "x");
    ok(&ws.call("read", &json!({ "path": "a", "limit": null })).await);
}
