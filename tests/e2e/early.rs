//! Calls that start while their answer streams: what a watcher sees, and what becomes of them
//! when the answer does not come to its end.
//!
//! Receives the harness; hands out results and the requests that carry them.

use harness::{Answer, Gate};
use serde_json::{Value, json};

use crate::scene::{FULL, Scene, end_of, of_type, place, statuses};

fn read(path: &str) -> Value {
    json!({ "path": path })
}

/// A session with an answer that has called a read, and whose stream stands still; what was seen
/// up to the read's start.
async fn reading(
    config: &str,
    answer: impl FnOnce(Answer, &Gate) -> Answer,
) -> (Scene, Gate, Vec<Value>) {
    let mut scene = Scene::start(config).await;
    for (name, text) in [("a.txt", "alpha\n"), ("b.txt", "beta\n"), ("c.txt", "gamma\n")] {
        scene.daemon.write_file(name, text);
    }
    let gate = Gate::new();
    // A call is whole when the next one begins.
    let begun = Answer::saying("I look.").call("read", &read("a.txt"));
    scene.model.push(answer(begun, &gate));
    scene.submit("s1", "Look.").await;
    let seen = scene.client.watch_until_type("tool.started").await;
    assert!(of_type(&seen, "message.completed").len() < 3, "the answer is not whole");
    (scene, gate, seen)
}

/// What is safe starts while the model writes on; what is not waits, with all that follows it.
#[tokio::test]
async fn safe_reads_start_before_the_answer_is_whole() {
    let write = json!({ "path": "b.txt", "content": "new\n" });
    let (mut scene, gate, mut seen) = reading(FULL, |answer, gate| {
        answer
            .call("read", &read("b.txt"))
            .call("write", &write)
            .call("read", &read("b.txt"))
            .wait(gate)
            .text("That is all I need.")
    })
    .await;
    scene.model.push(Answer::saying("Done."));
    seen.extend(scene.client.watch_until_type("tool.started").await);
    gate.open();
    seen.extend(scene.end().await);
    assert_eq!(end_of(&seen), "turn.completed");
    assert_eq!(statuses(&seen), ["ok"; 4]);

    let answered = seen
        .iter()
        .position(|event| event["item"]["calls"].as_array().is_some_and(|calls| calls.len() == 4))
        .unwrap();
    let started = |range: &[Value]| of_type(range, "tool.started").len();
    assert_eq!((started(&seen[..answered]), started(&seen[answered..])), (2, 2));
    assert!(answered < place(&seen, "tool.completed"), "results follow their answer");
    let ids = |kind| of_type(&seen, kind).iter().map(|event| &event["call_id"]).collect::<Vec<_>>();
    assert_eq!(ids("tool.completed"), ids("tool.called"));
    let results = scene.results(1);
    assert!(results[1].contains("beta") && results[3].contains("new"), "{results:?}");
    scene.check().await;
}

/// A stream that breaks takes its calls along, also those that have run: the model never sees
/// their results, and no guard counts them.
#[tokio::test]
async fn a_stream_that_breaks_takes_early_calls_along() {
    let (mut scene, gate, mut seen) =
        reading("", |answer, gate| answer.call("read", &read("b.txt")).wait(gate).cut()).await;
    scene.model.push(Answer::calling("read", &read("a.txt")));
    scene.model.push(Answer::saying("Read."));
    gate.open();
    seen.extend(scene.client.watch_until_type("retry.scheduled").await);
    scene.op("n1", json!({ "type": "retry_now" })).await;
    seen.extend(scene.end().await);
    assert_eq!(end_of(&seen), "turn.completed");
    let reset = of_type(&seen, "message.reset")[0];
    let started = of_type(&seen, "tool.started");
    assert!(reset["discarded"].as_array().unwrap().contains(&started[0]["call_id"]), "{reset}");
    assert_eq!(statuses(&seen), ["ok"], "the read of the second attempt, which is no duplicate");
    assert_eq!(scene.model.asked()[0].bytes, scene.model.asked()[1].bytes, "the same request");
    scene.check().await;
}

/// An interrupt keeps the half answer, its calls, and what those that ran came to.
#[tokio::test]
async fn an_interrupt_keeps_the_results_of_early_calls() {
    let (mut scene, _gate, mut seen) =
        reading("", |answer, gate| answer.call("read", &read("b.txt")).wait(gate)).await;
    scene.op("i1", json!({ "type": "interrupt" })).await;
    seen.extend(scene.end().await);
    assert_eq!(end_of(&seen), "turn.aborted");
    let results = statuses(&seen);
    // Whether it ended before the interrupt came is nobody's promise.
    assert!(["ok", "interrupted"].contains(&results[0]), "{results:?}");
    let answer = of_type(&seen, "message.completed").pop().unwrap();
    assert_eq!(answer["item"]["status"], "partial");
    scene.check().await;
}

/// After a crash the turn is closed, and no call of it is left open.
#[tokio::test]
async fn a_crash_while_early_calls_run_closes_the_turn() {
    let (mut scene, _gate, _) =
        reading("", |answer, gate| answer.call("read", &read("b.txt")).wait(gate)).await;
    scene.crash().await;
    let seen = scene.end().await;
    assert_eq!(end_of(&seen), "turn.aborted");
    assert_eq!(seen.last().unwrap()["reason"], "crashed");
    assert_eq!(statuses(&seen)[0], "interrupted");
    scene.check().await;
}

/// What a person has to allow is asked when the answer is whole; a safe read after it that does
/// not need asking has started before.
#[tokio::test]
async fn no_prompt_comes_before_the_answer_is_whole() {
    let outside = json!({ "path": "/etc/hostname" });
    let mut scene = Scene::start("").await;
    scene.daemon.write_file("a.txt", "alpha\n");
    let gate = Gate::new();
    scene.model.push(
        Answer::saying("I look.")
            .call("read", &outside)
            .call("read", &read("a.txt"))
            .call("list", &read("."))
            .wait(&gate),
    );
    scene.submit("s1", "Look.").await;
    let mut seen = scene.client.watch_until_type("tool.started").await;
    assert_eq!(of_type(&seen, "permission.requested").len(), 0);
    gate.open();
    seen.extend(scene.client.watch_until_type("permission.requested").await);
    let called = of_type(&seen, "tool.called");
    let started = of_type(&seen, "tool.started");
    assert_eq!(started[0]["call_id"], called[1]["call_id"]);
    let prompt = seen.last().unwrap()["prompt"].clone();
    assert_eq!(prompt["call_id"], called[0]["call_id"]);
    scene.model.push(Answer::saying("Done."));
    scene.reply(&prompt, json!({ "decision": "deny" })).await;
    seen.extend(scene.end().await);
    assert_eq!(statuses(&seen), ["denied", "ok", "ok"]);
    scene.check().await;
}
