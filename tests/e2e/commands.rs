//! `agentctl` for scripts and for looking after things, against a real daemon and a model server.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Output, Stdio};

use harness::model_server::Answer;
use harness::{Daemon, ModelServer};
use serde_json::{Value, json};

async fn run(daemon: &Daemon, arguments: &[&str]) -> Output {
    fed(daemon, arguments, "").await
}

/// The same with this on its standard input.
async fn fed(daemon: &Daemon, arguments: &[&str], input: &str) -> Output {
    let mut command = daemon.agentctl(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let input = input.to_owned();
    let ran = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().expect("agentctl was built");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(input.as_bytes()).expect("it reads");
        drop(stdin);
        child.wait_with_output().expect("it ends")
    });
    ran.await.expect("no panic")
}

fn out(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

#[tokio::test]
async fn an_answer_that_must_fit_a_schema_is_asked_for_again_at_most_twice() {
    let model = ModelServer::start().await;
    let daemon = Daemon::start(&model.config()).await;
    let schema = json!({ "type": "object", "required": ["count"],
        "properties": { "count": { "type": "integer" } } });
    daemon.write_file("schema.json", &schema.to_string());
    let arguments = ["run", "--output-schema", "schema.json", "count"];
    model.push(Answer::saying("There are three."));
    model.push(Answer::saying("Of course:\n```json\n{\"count\": 3}\n```\n"));
    let fits = run(&daemon, &arguments).await;
    assert_eq!(out(&fits), r#"{"count":3}"#, "nothing else on standard output");
    let asked = model.asked().last().unwrap().body.to_string();
    assert!(asked.contains("does not fit") && asked.contains("no JSON"), "{asked}");

    for _ in 0..3 {
        model.push(Answer::saying(r#"{"count": "three"}"#));
    }
    let never = run(&daemon, &arguments).await;
    let said = String::from_utf8_lossy(&never.stderr);
    assert_eq!((never.status.code(), never.stdout.as_slice()), (Some(1), &b""[..]), "{said}");
    assert!(said.contains("at /count"), "{said}");
    model.assert_all_taken();
    daemon.write_file("schema.json", "{");
    assert_eq!(run(&daemon, &arguments).await.status.code(), Some(2));
}

#[tokio::test]
async fn images_pipes_and_directories_go_along() {
    let model = ModelServer::start().await;
    let daemon = Daemon::start(&model.config()).await;
    std::fs::write(daemon.work_dir().join("a.png"), b"\x89PNG\r\n\x1a\n....").unwrap();
    std::fs::create_dir(daemon.path("beside")).unwrap();
    std::fs::write(daemon.path("beside/b.txt"), "from beside").unwrap();
    let beside = daemon.path("beside").display().to_string();
    model.push(Answer::calling("read", &json!({ "path": format!("{beside}/b.txt") })));
    model.push(Answer::saying("seen"));
    let arguments = ["run", "-i", "a.png", "--add-dir", &beside, "look", "at", "it"];
    let output = fed(&daemon, &arguments, "and at this").await;
    assert_eq!(out(&output), "seen");
    let asked = model.asked();
    let first = asked[0].body.to_string();
    assert!(first.contains("data:image/png;base64,iVBORw0KGgo"), "{first}");
    assert!(first.contains(r"look at it\n\nand at this"), "{first}");
    let second = asked[1].body.to_string();
    assert!(second.contains("from beside"), "allowed without a question: {second}");
    daemon.write_file("a.png", "text");
    assert_eq!(run(&daemon, &["run", "-i", "a.png", "x"]).await.status.code(), Some(2));
}

#[tokio::test]
async fn sessions_are_kept_and_copied() {
    let daemon = Daemon::start("").await;
    let text = "write a.txt with one";
    out(&run(&daemon, &["run", "-m", "demo/demo", "--mode", "auto-edit", text]).await);
    assert!(daemon.work_dir().join("a.txt").exists());
    let id = out(&run(&daemon, &["rename", text, "a", "better", "title"]).await);
    let id = id.split_whitespace().next().unwrap().to_owned();
    let found: Value =
        serde_json::from_str(&out(&run(&daemon, &["search", "better", "--json"]).await)).unwrap();
    assert_eq!(found[0]["session_id"], id);

    out(&run(&daemon, &["export", &id, "-o", "copy.json"]).await);
    let mode = daemon.work_dir().join("copy.json").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = run(&daemon, &["export", &id, "-o", "copy.json"]).await;
    assert_eq!(again.status.code(), Some(1), "nothing is overwritten");
    let imported = out(&run(&daemon, &["import", "copy.json"]).await);
    let forked = out(&run(&daemon, &["fork", &id, "--after", "2"]).await);
    let listed = out(&run(&daemon, &["ls"]).await);
    assert!([&id, &imported, &forked].iter().all(|id| listed.contains(*id)), "{listed}");

    let said = out(&run(&daemon, &["undo", &id, "--dry-run"]).await);
    assert!(said.contains("would be given back: a.txt"), "{said}");
    let said = out(&run(&daemon, &["undo", &id]).await);
    assert!(said.contains("given back: a.txt") && !daemon.work_dir().join("a.txt").exists());
    out(&run(&daemon, &["archive", &id]).await);
    assert!(!out(&run(&daemon, &["ls"]).await).contains(&id));
    out(&run(&daemon, &["rm", &imported, &forked]).await);
    let gone = run(&daemon, &["show", &imported]).await;
    assert_eq!(gone.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&gone.stderr).contains("agentctl ls -a"));
}

#[tokio::test]
async fn a_key_is_stored_for_the_daemon_and_never_shown() {
    let model = ModelServer::start().await;
    let address = model.config();
    let daemon = Daemon::start(&address).await;
    let stored = fed(&daemon, &["login", "openai"], "sk-of-nobody\n").await;
    assert!(!out(&stored).contains("sk-of-nobody"));
    let file = daemon.path("home/.config/agentd/credentials/openai.key");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "sk-of-nobody\n");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let config = out(&run(&daemon, &["config", "--json"]).await);
    assert!(config.contains("openai.key") && !config.contains("sk-of-nobody"), "taken in at once");
    for (name, key) in [("a/b", "x"), ("openai", ""), ("openai", "two words")] {
        assert!(!fed(&daemon, &["login", name], key).await.status.success());
    }
    out(&run(&daemon, &["login", "openai", "--forget"]).await);
    assert!(!file.exists());
}

#[tokio::test]
async fn the_daemon_is_looked_after() {
    let mut daemon = Daemon::start("").await;
    let checked = run(&daemon, &["doctor", "--json"]).await;
    let checked: Value = serde_json::from_str(&out(&checked)).unwrap();
    let verdict = |name: &str| {
        let checks = checked["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == name).unwrap()["verdict"].clone()
    };
    assert_eq!((verdict("daemon"), verdict("database")), (json!("well"), json!("well")));
    out(&run(&daemon, &["backup", "copy.db"]).await);
    assert!(daemon.work_dir().join("copy.db").exists());
    // One that a person started logs elsewhere, and it is said where.
    let elsewhere = run(&daemon, &["logs"]).await;
    assert!(String::from_utf8_lossy(&elsewhere.stderr).contains("journalctl"));
    daemon.stop().await;
    assert_eq!(run(&daemon, &["--no-start", "status"]).await.status.code(), Some(5));
    // The one that agentctl starts itself.
    assert!(out(&run(&daemon, &["restart"]).await).contains("runs as process"));
    assert!(out(&run(&daemon, &["logs"]).await).contains("ready"));
    assert_eq!(out(&run(&daemon, &["shutdown"]).await), "stopped");
}

#[tokio::test]
async fn a_shell_completes_what_only_the_daemon_knows() {
    let daemon = Daemon::start("").await;
    let id = out(&run(&daemon, &["new", "-m", "demo/demo"]).await);
    let mut command = daemon.agentctl(&["--", "agentctl", "show", "ses_"]);
    command.env("COMPLETE", "fish");
    let completed = command.output().expect("agentctl was built");
    assert!(out(&completed).contains(&id), "{completed:?}");
    assert!(out(&run(&daemon, &["completions", "bash"]).await).contains("COMPLETE"));
}
