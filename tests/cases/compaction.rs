//! b6, b7, b10: a conversation that outgrows its model's window, over each wire format.
//!
//! The server is as strict about the request for a summary, and about what follows a summary, as
//! about any other. Its reports of usage are what fills the window of 32,768 tokens; what is due at
//! 85 % of what the output reserve leaves is due at 24,371.
//!
//! Receives the harness; hands out the requests before, for and after a summary.

use harness::{Answer, Dialect};
use serde_json::{Value, json};

use crate::wires::Scene;

over_each_wire! {
    compaction:
    b7_b10_a_full_window_is_summed_up_and_the_turn_goes_on,
    b6_a_window_that_is_full_between_calls_keeps_them_and_their_results_together,
    old_results_are_pruned_before_anything_is_summed_up,
    an_overflow_in_the_servers_words_is_summed_up,
}

/// More than the window takes.
const FULL_WINDOW: u64 = 28_000;

const SUMMARY: &str = "Three questions were answered.";

/// A long answer after which the window is this full.
fn long(tokens: u64) -> Answer {
    Answer::new().reasoning("Let me see.").text(&"A long answer. ".repeat(1_600)).usage(tokens, 500)
}

/// Three turns, after which the window is as full as this says.
async fn filled(scene: &mut Scene, tokens: [u64; 3]) {
    for (turn, tokens) in (1..).zip(tokens) {
        scene.model.push(long(tokens));
        scene.completes(&format!("s{turn}"), &format!("Question {turn}.")).await;
    }
}

fn of_type<'a>(seen: &'a [Value], kind: &str) -> Vec<&'a Value> {
    seen.iter().filter(|message| message["type"] == kind).collect()
}

/// The texts of a request, in one.
fn text_of(scene: &Scene, request: usize) -> String {
    scene.said(request).into_iter().map(|(_, text)| text + "\n").collect()
}

fn assert_asks_for_a_summary(scene: &Scene, request: usize) {
    let (role, text) = scene.said(request).pop().unwrap();
    assert_eq!(role, "user");
    assert!(text.contains("Write a summary"), "{text}");
}

/// Automatic, with the cached prefix; the task stays word for word; the same bytes after a crash.
pub(crate) async fn b7_b10_a_full_window_is_summed_up_and_the_turn_goes_on(dialect: Dialect) {
    let mut scene = Scene::start(dialect, "ask").await;
    filled(&mut scene, [6_000, 12_000, FULL_WINDOW]).await;
    scene.model.push(Answer::saying(SUMMARY).usage(FULL_WINDOW, 50));
    scene.model.push(Answer::saying("The fourth answer.").usage(3_000, 10));
    let seen = scene.completes("s4", "Question 4.").await;
    assert_eq!(seen.last().unwrap()["iterations"], 1, "a summary is no iteration");
    assert_eq!(seen.last().unwrap()["usage"]["input"], FULL_WINDOW + 3_000, "and is paid for");
    assert_eq!(of_type(&seen, "warning"), Vec::<&Value>::new());
    let compacted = of_type(&seen, "context.compacted")[0];
    let of = |field: &str| compacted[field].as_u64().unwrap();
    assert!(of("tokens_before") > FULL_WINDOW, "{compacted}");
    assert!(of("tokens_after") * 2 < FULL_WINDOW, "{compacted}");

    scene.assert_extends(3, 2);
    assert_asks_for_a_summary(&scene, 3);
    assert!(text_of(&scene, 3).contains("Question 4."), "the open task is in it");
    let after = text_of(&scene, 4);
    for part in ["Question 1.", "Question 2.", "Question 3.", SUMMARY, "Question 4."] {
        assert!(after.contains(part), "{part}: {after}");
    }
    assert!(after.len() * 2 < text_of(&scene, 2).len(), "{after}");
    let shown = of_type(&seen, "message.delta");
    let says =
        |delta: &&&Value| delta["delta"].as_str().is_some_and(|delta| delta.contains("Three"));
    assert_eq!(shown.iter().find(says), None, "a summary is not shown as an answer");

    scene.crash().await;
    scene.model.push(Answer::saying("The fifth.").usage(3_100, 10));
    for _ in 1..=4 {
        scene.end().await;
    }
    scene.completes("s5", "Question 5.").await;
    scene.assert_extends(5, 4);
    scene.model.assert_all_taken();
}

/// In the middle of a turn, whose calls came two at a time.
pub(crate) async fn b6_a_window_that_is_full_between_calls_keeps_them_and_their_results_together(
    dialect: Dialect,
) {
    let mut scene = Scene::start(dialect, "full").await;
    scene.daemon.write_file("a.txt", "the first\n");
    let last = Answer::saying("Once more.").usage(FULL_WINDOW, 50);
    for (depth, answer) in (1..).zip([long(6_000), long(12_000), last]) {
        let both = answer
            .call("read", &json!({ "path": "a.txt", "limit": depth }))
            .call("list", &json!({ "depth": depth }));
        scene.model.push(both);
    }
    scene.model.push(Answer::saying(SUMMARY).usage(FULL_WINDOW, 50));
    scene.model.push(long(5_000).call("read", &json!({ "path": "a.txt" })));
    scene.model.push(Answer::saying("Read."));
    let seen = scene.completes("s1", "Read and list.").await;
    assert_eq!(of_type(&seen, "context.compacted").len(), 1, "{seen:#?}");
    assert_asks_for_a_summary(&scene, 3);
    assert_eq!(scene.results(3).len() % 2, 0, "{:?}", scene.said(3));
    let after = scene.said(4);
    assert!(text_of(&scene, 4).contains(SUMMARY), "{after:?}");
    assert!(text_of(&scene, 4).contains("Read and list."), "the task stays: {after:?}");
    let results = scene.results(4);
    assert!(results.len() == 2 && results[0].contains("the first"), "the last two: {after:?}");
    assert_eq!(scene.results(5).len(), 3);
    scene.model.assert_all_taken();
}

/// Old results go first; no model is asked for it.
pub(crate) async fn old_results_are_pruned_before_anything_is_summed_up(dialect: Dialect) {
    let mut scene = Scene::start(dialect, "full").await;
    for (number, tokens) in (1..).zip([5_000, 9_000, 12_000, 20_000]) {
        let name = format!("{number}.txt");
        scene.daemon.write_file(&name, &format!("{number} of it\n").repeat(2_000));
        scene.model.push(Answer::calling("read", &json!({ "path": name })).usage(tokens, 50));
    }
    scene.model.push(Answer::saying("Read.").usage(14_000, 10));
    let seen = scene.completes("s1", "Read all.").await;
    assert_eq!(of_type(&seen, "context.pruned").len(), 1);
    assert_eq!(of_type(&seen, "context.compacted").len(), 0);
    assert_eq!(scene.model.asked().len(), 5);
    let results = scene.results(4);
    assert!(results[0].contains("was removed to make room"), "{}", results[0]);
    assert!(results[3].contains("4 of it"), "the newest is whole");
    scene.crash().await;
    scene.end().await;
    scene.model.push(Answer::saying("Yes.").usage(14_100, 10));
    scene.completes("s2", "Sure?").await;
    scene.assert_extends(5, 4);
    scene.model.assert_all_taken();
}

/// Summed up and sent again in the same iteration.
pub(crate) async fn an_overflow_in_the_servers_words_is_summed_up(dialect: Dialect) {
    let refusal = match dialect {
        Dialect::Chat => "This model's maximum context length is 9000 tokens.",
        Dialect::Responses => "Your input exceeds the context window of this model.",
        Dialect::Messages => "prompt is too long: 9500 tokens > 9000 maximum",
    };
    let mut scene = Scene::start(dialect, "ask").await;
    filled(&mut scene, [1_000, 2_000, 3_000]).await;
    scene.model.push(Answer::refusing(400, refusal));
    scene.model.push(Answer::saying(SUMMARY).usage(3_000, 50));
    scene.model.push(Answer::saying("The fourth answer.").usage(3_000, 10));
    let seen = scene.completes("s4", "Question 4.").await;
    let codes: Vec<_> = of_type(&seen, "warning").iter().map(|warning| &warning["code"]).collect();
    assert_eq!(codes, ["context_overflow"]);
    assert_asks_for_a_summary(&scene, 4);
    assert!(text_of(&scene, 4).len() < text_of(&scene, 3).len(), "all of it would not fit either");
    let after = text_of(&scene, 5);
    assert!(after.contains(SUMMARY) && after.contains("Question 4."), "{after}");
    scene.model.assert_all_taken();
}
