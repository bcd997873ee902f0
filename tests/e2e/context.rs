//! A conversation that outgrows its model's window: pruned, summed up, gone on with.
//!
//! That each server takes such requests is shown over each wire format in `cases/compaction.rs`. The
//! reports of usage are what fills the window of 32,768 tokens; what is due at 85 % of what the
//! output reserve leaves is due at 24,371.
//!
//! Receives the harness; hands out the requests before, for and after a summary.

use harness::{Answer, Gate};
use serde_json::{Value, json};

use crate::scene::{Scene, end_of, of_type};

/// More than the window takes.
const FULL_WINDOW: u64 = 28_000;

const SUMMARY: &str = "Three questions were answered.";

/// A long answer after which the window is this full.
fn long(tokens: u64) -> Answer {
    Answer::saying(&"A long answer. ".repeat(1_600)).usage(tokens, 500)
}

/// Three turns, after which the window is full.
async fn filled(scene: &mut Scene) {
    for (turn, tokens) in [(1, 6_000), (2, 12_000), (3, FULL_WINDOW)] {
        scene.model.push(long(tokens));
        let seen = scene.turn(&format!("s{turn}"), &format!("Question {turn}.")).await;
        assert_eq!(end_of(&seen), "turn.completed");
    }
}

/// The codes of the warnings among these events.
fn warnings(seen: &[Value]) -> Vec<&str> {
    of_type(seen, "warning").into_iter().filter_map(|warning| warning["code"].as_str()).collect()
}

/// The texts of a request's messages, in one.
fn text_of(scene: &Scene, request: usize) -> String {
    json!(scene.messages(request)).to_string()
}

fn assert_asks_for_a_summary(scene: &Scene, request: usize) {
    let (role, text) = scene.last_message(request);
    assert_eq!(role, "user");
    assert!(text.contains("Write a summary"), "{text}");
}

/// On request: a turn of its own, refused while one runs; the next turn reads the summary.
#[tokio::test]
async fn compact_runs_as_a_turn() {
    let mut scene = Scene::start("").await;
    let compact = json!({ "type": "compact" });
    let params = |scene: &Scene, id: &str| json!({ "session_id": scene.session, "submission": { "id": id, "op": compact } });
    let early = params(&scene, "c0");
    let error = scene.client.try_call("session/submit", early).await.unwrap_err();
    assert_eq!(error["data"]["kind"], "invalid_state", "{error}");
    let gate = Gate::new();
    scene.model.push(long(3_000));
    scene.turn("s1", "Question 1.").await;
    scene.model.push(long(4_000).wait(&gate));
    scene.submit("s2", "Question 2.").await;
    gate.reached().await;
    let early = params(&scene, "c0");
    let error = scene.client.try_call("session/submit", early).await.unwrap_err();
    assert_eq!(error["data"]["kind"], "turn_active", "{error}");
    gate.open();
    scene.end().await;

    scene.model.push(Answer::saying(SUMMARY));
    let accepted = scene.op("c1", compact.clone()).await;
    assert_eq!(accepted["disposition"], "started");
    let seen = scene.end().await;
    assert_eq!(end_of(&seen), "turn.completed");
    assert_eq!(of_type(&seen, "context.compacted").len(), 1);
    assert_eq!(of_type(&seen, "iteration.started").len(), 0);
    assert_eq!(scene.op("c1", compact.clone()).await["replayed"], true);
    assert_asks_for_a_summary(&scene, 2);
    scene.model.push(Answer::saying("The third answer."));
    scene.turn("s3", "Question 3.").await;
    let text = text_of(&scene, 3);
    assert!(text.contains(SUMMARY));
    let long = "A long answer. ".repeat(1_600);
    assert_eq!(text.matches(&long).count(), 1, "the last one is left as it is");
    scene.model.assert_all_taken();
}

/// What was given while a compaction ran waits for its own turn, and is not lost.
#[tokio::test]
async fn an_input_during_a_compaction_waits_for_its_end() {
    let mut scene = Scene::start("").await;
    let gate = Gate::new();
    scene.model.push(long(3_000));
    scene.turn("s1", "Question 1.").await;
    scene.model.push(Answer::saying(SUMMARY).wait(&gate));
    scene.model.push(Answer::saying("The second answer."));
    scene.op("c1", json!({ "type": "compact" })).await;
    gate.reached().await;
    assert_eq!(scene.submit("s2", "Question 2.").await["disposition"], "queued");
    gate.open();
    scene.end().await;
    let seen = scene.end().await;
    assert_eq!(of_type(&seen, "turn.started")[0]["submission_id"], "s2");
    assert_eq!(scene.last_message(2).1, "Question 2.");
    scene.model.assert_all_taken();
}

/// The provider says that it is too long: summed up and tried again, twice a turn at most.
#[tokio::test]
async fn an_overflow_is_summed_up_and_tried_again() {
    let refused = || Answer::refusing(400, "This model's maximum context length is 9000 tokens");
    let mut scene = Scene::start("").await;
    for turn in 1..=3 {
        scene.model.push(long(1_000 * turn));
        scene.turn(&format!("s{turn}"), &format!("Question {turn}.")).await;
    }
    scene.model.push(refused());
    scene.model.push(Answer::saying(SUMMARY));
    scene.model.push(Answer::saying("The fourth answer."));
    let seen = scene.turn("s4", "Question 4.").await;
    assert_eq!(end_of(&seen), "turn.completed");
    assert_eq!(warnings(&seen), ["context_overflow"]);
    assert_asks_for_a_summary(&scene, 4);
    let (whole, narrowed) = (text_of(&scene, 3).len(), text_of(&scene, 4).len());
    assert!(narrowed < whole, "the whole of it would not fit either: {narrowed} of {whole}");
    assert!(text_of(&scene, 5).contains(SUMMARY));

    scene.model.push(long(3_000));
    scene.turn("s5", "Question 5.").await;
    for _ in 0..2 {
        scene.model.push(refused());
        scene.model.push(refused());
        scene.model.push(Answer::saying(SUMMARY));
    }
    scene.model.push(refused());
    let seen = scene.turn("s6", "Question 6.").await;
    let end = seen.last().unwrap();
    assert_eq!(
        (&end["type"], &end["error"]["code"]),
        (&json!("turn.failed"), &json!("context_overflow"))
    );
    scene.model.assert_all_taken();
}

/// Where nobody knows the window, the first refusal teaches it: the next compaction comes before the
/// provider has to refuse again, after a restart too.
#[tokio::test]
async fn a_window_that_nobody_knows_is_learned_from_a_refusal_and_kept() {
    let model = harness::ModelServer::start().await;
    let config = model.config().replace("context_window = 32768\n", "");
    let mut scene = Scene::with(model, &config).await;
    filled(&mut scene).await;
    scene.model.push(Answer::refusing(400, "prompt is too long"));
    scene.model.push(Answer::saying(SUMMARY).usage(22_000, 50));
    scene.model.push(Answer::saying("The fourth answer.").usage(3_000, 10));
    let seen = scene.turn("s4", "Question 4.").await;
    assert_eq!(
        (end_of(&seen), warnings(&seen)),
        (&json!("turn.completed"), vec!["context_overflow"])
    );
    scene.crash().await;
    for _ in 1..=4 {
        scene.end().await;
    }
    scene.model.push(long(22_000));
    scene.turn("s5", "Question 5.").await;
    scene.model.push(Answer::saying(SUMMARY).usage(22_000, 50));
    scene.model.push(Answer::saying("The sixth answer.").usage(3_000, 10));
    let seen = scene.turn("s6", "Question 6.").await;
    assert_eq!((end_of(&seen), warnings(&seen)), (&json!("turn.completed"), vec![]));
    assert_eq!(of_type(&seen, "context.compacted").len(), 1);
    scene.model.assert_all_taken();
}

/// A cut answer goes on, by a note that is stored.
#[tokio::test]
async fn an_answer_cut_by_the_output_limit_goes_on() {
    let mut scene = Scene::start("").await;
    scene.model.push(Answer::saying("First half,").finish_reason("length"));
    scene.model.push(Answer::saying(" second half."));
    let seen = scene.turn("s1", "Write it.").await;
    assert_eq!((end_of(&seen), warnings(&seen).len()), (&json!("turn.completed"), 0));
    let (role, note) = scene.last_message(1);
    assert_eq!(role, "user");
    assert!(note.contains("cut off by the output limit"), "{note}");
    scene.check().await;
}

/// Three failures in a row: nothing is summed up unasked any more, until one succeeds on request.
#[tokio::test]
async fn the_circuit_breaker_opens_survives_a_crash_and_closes_on_request() {
    let mut scene = Scene::start("").await;
    filled(&mut scene).await;
    for (turn, code) in [(4, 1), (5, 1), (6, 2)] {
        scene.model.push(Answer::refusing(400, "no summaries here"));
        scene.model.push(long(FULL_WINDOW));
        let seen = scene.turn(&format!("s{turn}"), &format!("Question {turn}.")).await;
        assert_eq!(end_of(&seen), "turn.completed", "the history is as it was");
        assert_eq!(warnings(&seen), ["compaction_failed", "compaction_off"][..code]);
    }
    scene.crash().await;
    scene.model.push(long(FULL_WINDOW));
    scene.submit("s7", "Question 7.").await;
    scene.asked(10).await;
    assert_eq!(scene.last_message(9).1, "Question 7.", "no summary was asked for");
    for _ in 1..=7 {
        scene.end().await;
    }
    scene.model.push(Answer::saying(SUMMARY).usage(FULL_WINDOW, 50));
    scene.op("c1", json!({ "type": "compact" })).await;
    assert_eq!(end_of(&scene.end().await), "turn.completed");
    scene.model.push(long(12_000));
    scene.turn("s8", "Question 8.").await;
    scene.model.push(long(FULL_WINDOW));
    scene.turn("s9", "Question 9.").await;
    scene.model.push(Answer::saying(SUMMARY));
    scene.model.push(long(3_000));
    let seen = scene.turn("s10", "Question 10.").await;
    assert_eq!(of_type(&seen, "context.compacted").len(), 1, "it is on again");
    scene.model.assert_all_taken();
}

/// A crash in the middle of a summary: the turn is closed, nothing has changed, and it is resumed.
#[tokio::test]
async fn a_crash_in_a_summary_closes_the_turn_and_changes_nothing() {
    let mut scene = Scene::start("").await;
    filled(&mut scene).await;
    let gate = Gate::new();
    scene.model.push(Answer::saying("Three ques").wait(&gate));
    scene.submit("s4", "Question 4.").await;
    gate.reached().await;
    scene.crash().await;
    for _ in 1..=3 {
        scene.end().await;
    }
    let end = scene.end().await.pop().unwrap();
    assert_eq!((&end["type"], &end["reason"]), (&json!("turn.aborted"), &json!("crashed")));
    scene.model.push(Answer::saying(SUMMARY).usage(FULL_WINDOW, 50));
    scene.model.push(Answer::saying("The fourth answer."));
    scene.op("r1", json!({ "type": "resume" })).await;
    let seen = scene.end().await;
    assert_eq!(end_of(&seen), "turn.completed");
    assert_eq!(of_type(&seen, "context.compacted").len(), 1);
    assert_asks_for_a_summary(&scene, 4);
    scene.model.assert_all_taken();
}

/// An interrupt in a summary is obeyed like in any request; a compaction hides nothing to resume.
#[tokio::test]
async fn an_interrupt_in_a_summary_ends_the_turn_and_it_can_be_gone_on_with_after_a_compaction() {
    let mut scene = Scene::start("").await;
    filled(&mut scene).await;
    let gate = Gate::new();
    scene.model.push(Answer::saying("Three ques").wait(&gate));
    scene.submit("s4", "Question 4.").await;
    gate.reached().await;
    scene.op("i1", json!({ "type": "interrupt" })).await;
    assert_eq!(scene.end().await.last().unwrap()["reason"], "interrupted");
    scene.model.hangups(1).await;
    scene.model.push(Answer::saying(SUMMARY).usage(FULL_WINDOW, 50));
    scene.op("c1", json!({ "type": "compact" })).await;
    assert_eq!(end_of(&scene.end().await), "turn.completed");
    scene.model.push(Answer::saying("The fourth answer."));
    scene.op("r1", json!({ "type": "resume" })).await;
    let seen = scene.end().await;
    assert_eq!(end_of(&seen), "turn.completed");
    assert!(text_of(&scene, 5).contains("Question 4."), "what was interrupted is still asked");
    scene.model.assert_all_taken();
}
