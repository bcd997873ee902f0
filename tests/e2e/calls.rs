//! Calls: their order and concurrency, the duplicate guard, and results that a model can read.
//!
//! Receives the harness; hands out results and the requests that carry them.

use harness::Answer;
use serde_json::{Value, json};

use crate::scene::{FULL, Scene, end_of, of_type, place, said, statuses};

fn read(path: &str) -> Value {
    json!({ "path": path })
}

fn ids<'a>(seen: &'a [Value], kind: &str) -> Vec<&'a Value> {
    of_type(seen, kind).into_iter().map(|event| &event["call_id"]).collect()
}

/// Safe reads share the gate: all of them start before one has ended.
#[tokio::test]
async fn three_reads_run_side_by_side_and_answer_in_order() {
    let mut scene = Scene::start("").await;
    // The first is the slowest.
    scene.daemon.write_file("a.txt", &"alpha line\n".repeat(200_000));
    scene.daemon.write_file("b.txt", "beta\n");
    scene.daemon.write_file("c.txt", "gamma\n");
    let mut answer = Answer::saying("I read all three.");
    for path in ["a.txt", "b.txt", "c.txt"] {
        answer = answer.call("read", &read(path));
    }
    scene.model.push(answer);
    scene.model.push(Answer::saying("Read."));
    let seen = scene.turn("s1", "Read a, b and c.").await;
    assert_eq!(end_of(&seen), "turn.completed");

    let called = ids(&seen, "tool.called");
    assert_eq!(called.len(), 3);
    assert_eq!(ids(&seen, "tool.started"), called);
    assert_eq!(ids(&seen, "tool.completed"), called, "results come in the order of the calls");
    let last_start = seen.iter().rposition(|message| message["type"] == "tool.started").unwrap();
    assert!(last_start < place(&seen, "tool.completed"), "one ended before another started");
    let results = scene.results(1);
    for (result, word) in results.iter().zip(["alpha", "beta", "gamma"]) {
        assert!(result.contains(word), "{result}");
    }
    scene.check().await;
}

/// A write holds the gate alone: what is before it has ended, what is after it sees its effect.
#[tokio::test]
async fn a_read_after_a_write_in_one_batch_sees_it() {
    let mut scene = Scene::start("[permission]\nmode = \"auto-edit\"\n").await;
    scene.daemon.write_file("notes.txt", "old words\n");
    let write = json!({ "path": "notes.txt", "content": "new words\n" });
    scene.model.push(
        Answer::new()
            .call("read", &read("notes.txt"))
            .call("write", &write)
            .call("read", &read("notes.txt")),
    );
    scene.model.push(Answer::saying("Done."));
    let seen = scene.turn("s1", "Read, write, read.").await;
    assert_eq!(statuses(&seen), ["ok", "ok", "ok"]);
    let order: Vec<&str> = seen
        .iter()
        .filter_map(|message| message["type"].as_str())
        .filter(|kind| ["tool.started", "tool.completed"].contains(kind))
        .collect();
    assert_eq!(order, ["tool.started", "tool.completed"].repeat(3), "one after another");
    let results = scene.results(1);
    assert!(results[0].contains("old words"), "{results:?}");
    assert!(results[2].contains("new words") && !results[2].contains("old"), "{results:?}");
    scene.check().await;
}

/// What waits behind a prompt waits: the second read runs when the write was allowed.
#[tokio::test]
async fn what_follows_a_prompt_waits_behind_it() {
    let mut scene = Scene::start("").await;
    scene.daemon.write_file("a.txt", "before\n");
    let write = json!({ "path": "b.txt", "content": "asked for\n" });
    scene.model.push(
        Answer::new()
            .call("read", &read("a.txt"))
            .call("write", &write)
            .call("read", &read("b.txt")),
    );
    scene.model.push(Answer::saying("Done."));
    scene.submit("s1", "Go.").await;
    let mut seen = scene.client.watch_until_type("permission.requested").await;
    assert_eq!(of_type(&seen, "tool.started").len(), 1);
    let prompt = seen.last().unwrap()["prompt"].clone();
    scene.reply(&prompt, json!({ "decision": "allow" })).await;
    seen.extend(scene.end().await);
    assert_eq!(statuses(&seen), ["ok", "ok", "ok"]);
    assert!(scene.results(1)[2].contains("asked for"));
    scene.check().await;
}

/// The second of two equal calls is not run: the model is told to use the first one's result.
#[tokio::test]
async fn a_call_that_succeeded_is_not_run_again() {
    let mut scene = Scene::start("").await;
    scene.daemon.write_file("a.txt", "once\n");
    scene.model.push(Answer::new().call("read", &read("a.txt")).call("read", &read("a.txt")));
    scene.model.push(Answer::calling("read", &read("a.txt")));
    scene.model.push(Answer::saying("I have it."));
    let seen = scene.turn("s1", "Read a.txt.").await;
    assert_eq!(end_of(&seen), "turn.completed");
    assert_eq!(statuses(&seen), ["ok", "duplicate", "duplicate"]);
    assert_eq!(of_type(&seen, "tool.started").len(), 1);
    assert!(scene.results(2)[1].contains("earlier result"), "{:?}", scene.results(2));
    scene.check().await;
}

/// Three answers in a row of nothing but refused calls: no progress.
#[tokio::test]
async fn refused_calls_only_exhaust_the_turn() {
    let mut scene = Scene::start("").await;
    scene.daemon.write_file("a.txt", "once\n");
    scene.model.improvise(|_| Answer::calling("read", &read("a.txt")));
    let seen = scene.turn("s1", "Read a.txt.").await;
    let end = seen.last().unwrap();
    assert_eq!((&end["type"], &end["limit"]), (&json!("turn.exhausted"), &json!("no_progress")));
    assert_eq!(statuses(&seen), ["ok", "duplicate", "duplicate", "duplicate"]);
    scene.check().await;
}

/// The model reads what was wrong with its call, and with what; its turn goes on.
#[tokio::test]
async fn wrong_calls_come_back_as_readable_results() {
    let mut scene = Scene::start("").await;
    scene.model.push(
        Answer::saying("Trying.")
            .call("raed", &read("a.txt"))
            .call("read", &json!({ "file": "a.txt" }))
            .call("read", &json!({ "path": 7 }))
            .call_with_text("read", "{\"path\": \"a.t")
            .call("read", &read("nothing.txt")),
    );
    scene.model.push(Answer::saying("I see."));
    let seen = scene.turn("s1", "Read a.txt.").await;
    assert_eq!(end_of(&seen), "turn.completed");
    assert_eq!(statuses(&seen), ["invalid", "invalid", "invalid", "invalid", "error"]);
    assert_eq!(of_type(&seen, "permission.requested").len(), 0);
    let results = scene.results(1);
    let expected = [&["raed", "read", "grep"][..], &["file", "path"], &["path"], &["JSON"]];
    for (result, words) in results.iter().zip(expected) {
        for word in words {
            assert!(result.contains(word), "{word} is not in: {result}");
        }
    }
    assert!(results.iter().all(|result| result.starts_with("Tool failed: ")), "{results:#?}");
    assert!(results[4].contains("nothing.txt"), "{results:#?}");
    scene.check().await;
}

/// Invariant *every call has one result*: whatever became of each call of one answer, its result
/// stands at its place, in the log and in the request.
#[tokio::test]
async fn every_call_has_one_result() {
    let deny = "[permission]\nrules = [{ tool = \"shell\", action = \"deny\" }]\n";
    let mut scene = Scene::start(deny).await;
    scene.daemon.write_file("a.txt", "words\n");
    let write = |path: &str| json!({ "path": path, "content": "x\n" });
    scene.model.push(
        Answer::new()
            .call("read", &read("a.txt"))
            .call("read", &read("a.txt"))
            .call("raed", &json!({}))
            .call("shell", &json!({ "command": "touch never" }))
            .call("write", &write("b.txt"))
            .call("write", &write("c.txt"))
            .call_with_text("list", "{\"path\":")
            .finish_reason("length"),
    );
    scene.model.push(Answer::saying("Well."));
    scene.submit("s1", "Do all of it.").await;
    let mut seen = Vec::new();
    for decision in ["allow", "deny"] {
        seen.extend(scene.client.watch_until_type("permission.requested").await);
        let prompt = seen.last().unwrap()["prompt"].clone();
        scene.reply(&prompt, json!({ "decision": decision })).await;
    }
    seen.extend(scene.end().await);
    let expected = ["ok", "duplicate", "invalid", "denied", "ok", "denied", "not_run"];
    assert_eq!(statuses(&seen), expected);
    assert_eq!(ids(&seen, "tool.completed"), ids(&seen, "tool.called"));
    let results = scene.results(1);
    assert_eq!(results.len(), expected.len());
    assert!(results[6].contains("cut off by the output limit"), "{results:?}");
    assert!(!scene.daemon.work_dir().join("never").exists());
    scene.check().await;
}

/// The model gets head and tail and the place of the whole, which it may read without asking.
#[tokio::test]
async fn a_long_output_is_cut_and_kept_whole() {
    let rules =
        "[permission]\nrules = [{ tool = \"shell\", match = \"seq *\", action = \"allow\" }]\n";
    let mut scene = Scene::start(rules).await;
    scene.model.push(Answer::calling("shell", &json!({ "command": "seq 1 60000" })));
    scene.model.push(Answer::saying("Long."));
    let seen = scene.turn("s1", "Count.").await;
    let item = &of_type(&seen, "tool.completed")[0]["item"];
    let full = &item["full_output"];
    let lines: Vec<String> = (1..=60_000).map(|line: u32| line.to_string()).collect();
    let whole = lines.join("\n");
    let path = full["path"].as_str().unwrap_or_else(|| panic!("no full output: {item}"));
    assert!(std::fs::read_to_string(path).unwrap().contains(&whole));
    let result = &scene.results(1)[0];
    assert!(result.len() <= 50 * 1024, "{} bytes", result.len());
    assert!(result.contains(path) && result.contains("\n60000\n"), "{result}");

    let middle = json!({ "path": path, "offset": 30_000, "limit": 3 });
    scene.model.push(Answer::calling("read", &middle));
    scene.model.push(Answer::saying("There."));
    let seen = scene.turn("s2", "What is in the middle?").await;
    assert_eq!(of_type(&seen, "permission.requested").len(), 0);
    assert_eq!(statuses(&seen), ["ok"]);
    assert!(scene.results(3).last().unwrap().contains("30001"), "{:?}", scene.results(3).last());
    scene.check().await;
}

/// A command that fails is a result with its exit code and what it said.
#[tokio::test]
async fn a_command_that_fails_is_a_result() {
    let mut scene = Scene::start(FULL).await;
    let command = json!({ "command": "echo to-out; echo to-err >&2; exit 3" });
    scene.model.push(Answer::calling("shell", &command));
    scene.model.push(Answer::saying("It failed."));
    let seen = scene.turn("s1", "Run it.").await;
    assert_eq!(statuses(&seen), ["error"]);
    let (role, text) = said(scene.messages(1).last().unwrap());
    assert_eq!(role, "tool");
    for word in ["to-out", "to-err", "3"] {
        assert!(text.contains(word), "{text}");
    }
    scene.check().await;
}
