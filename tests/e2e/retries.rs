//! A provider that fails: what is tried again, how that shows, and how it ends.
//!
//! Waits are ended by `retry_now`, or asked for by the server and short.
//!
//! Receives the harness; hands out retries, resets and failures.

use harness::{Answer, Gate, ModelServer};
use serde_json::{Value, json};

use crate::scene::{Scene, end_of, of_type, place, statuses};

/// Waits for the next retry to be planned and lets it go at once.
async fn hurry(scene: &mut Scene, id: &str) -> Vec<Value> {
    let seen = scene.client.watch_until_type("retry.scheduled").await;
    scene.op(id, json!({ "type": "retry_now" })).await;
    seen
}

fn text_of(item: &Value) -> &str {
    item["content"][0]["text"].as_str().unwrap_or_default()
}

/// What was shown of the broken attempt is taken back, and the second attempt is the answer.
#[tokio::test]
async fn a_stream_that_breaks_is_reset_and_tried_again() {
    let mut scene = Scene::start("").await;
    let list = json!({ "path": "." });
    // The first call is complete, and on record, when the second begins.
    scene
        .model
        .push(Answer::saying("Half an ans").call("list", &list).call("read", &json!({})).cut());
    scene.model.push(Answer::saying("A whole answer.").call("list", &list));
    scene.model.push(Answer::saying("Listed."));
    scene.submit("s1", "Answer.").await;
    let mut seen = hurry(&mut scene, "n1").await;
    seen.extend(scene.end().await);
    assert_eq!(end_of(&seen), "turn.completed");

    let reset = of_type(&seen, "message.reset")[0];
    let called = of_type(&seen, "tool.called");
    assert_eq!(reset["attempt"], 1);
    assert_eq!(reset["discarded"], json!([called[0]["call_id"]]));
    let retry = of_type(&seen, "retry.scheduled")[0];
    assert_eq!((&retry["attempt"], &retry["max_attempts"]), (&json!(2), &json!(3)));
    assert_eq!(retry["cause"]["code"], "provider_unreachable");
    assert!((450..=550).contains(&retry["delay_ms"].as_u64().unwrap()), "{retry}");
    assert!(place(&seen, "message.reset") < place(&seen, "retry.scheduled"));
    // Deltas say of which attempt they are, and begin at 0 again.
    for (attempt, text) in [(1, "Half an ans"), (2, "A whole answer.")] {
        let deltas: Vec<&Value> = of_type(&seen, "message.delta")
            .into_iter()
            .filter(|delta| delta["attempt"] == attempt && delta["item_id"] == reset["item_id"])
            .collect();
        let said: String = deltas.iter().filter_map(|delta| delta["delta"].as_str()).collect();
        assert_eq!((said.as_str(), &deltas[0]["offset"]), (text, &json!(0)));
    }
    let answer = of_type(&seen, "message.completed")
        .into_iter()
        .find(|message| message["item"]["item_id"] == reset["item_id"])
        .unwrap();
    assert_eq!(text_of(&answer["item"]), "A whole answer.");
    assert_eq!(statuses(&seen), ["ok"], "a discarded call neither runs nor counts");
    assert_eq!(scene.model.asked()[0].bytes, scene.model.asked()[1].bytes, "the same request");
    scene.check().await;
}

/// One that never recovers: every attempt is told, then the turn fails, and says how often.
#[tokio::test]
async fn a_provider_that_never_recovers_fails_the_turn() {
    let mut scene = Scene::start("").await;
    scene
        .model
        .improvise(|_| Answer::refusing(503, "down for repairs").header("retry-after-ms", "1"));
    scene.submit("s1", "Answer.").await;
    let queued = scene.deliver("s2", "And then?", "queue").await;
    assert_eq!(queued["disposition"], "queued");
    let seen = scene.end().await;
    let end = seen.last().unwrap();
    assert_eq!(end["type"], "turn.failed");
    let error = &end["error"];
    assert_eq!(error["code"], "provider_unreachable", "{error}");
    assert_eq!((&error["status"], &error["attempts"]), (&json!(503), &json!(3)), "{error}");
    assert_eq!(error["retryable"], true, "{error}");
    assert!(error["message"].as_str().unwrap().contains("down for repairs"), "{error}");
    let attempts: Vec<&Value> =
        of_type(&seen, "retry.scheduled").into_iter().map(|event| &event["attempt"]).collect();
    assert_eq!(attempts, [2, 3]);
    assert_eq!(scene.model.asked().len(), 3);
    let state = scene.state().await;
    assert_eq!((&state["state"], &state["queue_held"]), (&json!("failed"), &json!(true)));

    // A dead provider does not burn the queue; `resume` goes on, then lets it go.
    scene.model.improvise(|_| Answer::saying("Back again."));
    scene.op("r1", json!({ "type": "resume" })).await;
    for _ in 0..2 {
        assert_eq!(end_of(&scene.end().await), "turn.completed");
    }
    assert_eq!(scene.last_message(4).1, "And then?");
    scene.check().await;
}

/// Nobody listens where the provider should be: the same, in other words.
#[tokio::test]
async fn a_provider_that_is_not_there_fails_the_turn() {
    let model = ModelServer::start().await;
    let config = model.config().replace("max_retries = 2\n", "max_retries = 1\n");
    drop(model);
    let mut scene = Scene::with(ModelServer::start().await, &config).await;
    scene.submit("s1", "Answer.").await;
    hurry(&mut scene, "n1").await;
    let seen = scene.end().await;
    let error = &seen.last().unwrap()["error"];
    assert_eq!((&error["code"], &error["attempts"]), (&json!("provider_unreachable"), &json!(2)));
    assert!(error["message"].as_str().unwrap().contains("is it running?"), "{error}");
    scene.check().await;
}

/// The server's own wish wins over ours, in seconds and in milliseconds.
#[tokio::test]
async fn a_rate_limit_says_how_long_to_wait() {
    let mut scene = Scene::start("").await;
    scene.model.push(Answer::refusing(429, "slow down").header("retry-after", "7"));
    scene.model.push(Answer::refusing(429, "slow down").header("retry-after-ms", "3"));
    scene.model.push(Answer::saying("Now."));
    scene.submit("s1", "Answer.").await;
    let mut seen = hurry(&mut scene, "n1").await;
    seen.extend(scene.end().await);
    assert_eq!(end_of(&seen), "turn.completed");
    let retries = of_type(&seen, "retry.scheduled");
    let said: Vec<_> = retries
        .iter()
        .map(|retry| (retry["delay_ms"].as_u64(), retry["cause"]["status"].as_u64()))
        .collect();
    assert_eq!(said, [(Some(7000), Some(429)), (Some(3), Some(429))]);
    assert_eq!(retries[0]["cause"]["code"], "rate_limited");
    scene.check().await;
}

/// One that wants more patience than is configured ends the turn with the time to come back.
#[tokio::test]
async fn too_long_a_wait_fails_at_once_with_its_time() {
    let mut scene = Scene::start("").await;
    scene.model.push(Answer::refusing(429, "slow down").header("retry-after", "3600"));
    let seen = scene.turn("s1", "Answer.").await;
    let error = &seen.last().unwrap()["error"];
    assert_eq!((&error["code"], &error["attempts"]), (&json!("rate_limited"), &json!(1)));
    assert!(error["retry_at"].is_string(), "{error}");
    assert_eq!(of_type(&seen, "retry.scheduled").len(), 0);
    scene.check().await;
}

/// What is wrong with the request stays wrong: one request, and the server's words.
#[tokio::test]
async fn a_bad_request_fails_at_once() {
    let mut scene = Scene::start("").await;
    for (index, (status, code)) in
        [(400, "provider_refused"), (404, "provider_refused"), (402, "quota_exhausted")]
            .into_iter()
            .enumerate()
    {
        scene.model.push(Answer::refusing(status, "temperature must be below 2"));
        let seen = scene.turn(&format!("s{index}"), "Answer.").await;
        let error = &seen.last().unwrap()["error"];
        assert_eq!(error["code"], code, "{error}");
        assert_eq!((&error["status"], &error["attempts"]), (&json!(status), &json!(1)), "{error}");
        assert_eq!(error["retryable"], false, "{error}");
        assert!(error["message"].as_str().unwrap().contains("below 2"), "{error}");
        assert_eq!(of_type(&seen, "retry.scheduled").len(), 0);
        assert_eq!(scene.model.asked().len(), index + 1);
    }
    scene.check().await;
}

/// An interrupt ends the wait for the next attempt, and the turn.
#[tokio::test]
async fn an_interrupt_ends_a_retrys_wait() {
    let mut scene = Scene::start("").await;
    scene.model.push(Answer::saying("Half an ans").cut());
    scene.model.push(Answer::saying("Whole."));
    scene.submit("s1", "Answer.").await;
    scene.until("retry.scheduled").await;
    scene.op("i1", json!({ "type": "interrupt" })).await;
    let seen = scene.end().await;
    assert_eq!(seen.last().unwrap()["reason"], "interrupted");
    assert_eq!(scene.model.asked().len(), 1);
    let seen = scene.turn("s2", "Again.").await;
    assert_eq!(end_of(&seen), "turn.completed");
    let texts: Vec<Value> = scene.messages(1)[1..].iter().map(|m| m["content"].clone()).collect();
    assert_eq!(texts, ["Answer.", "Again."], "nothing is left of what was taken back");
    scene.check().await;
}

/// Steered while a retry waits: it does not disturb the attempt, and comes after it.
#[tokio::test]
async fn what_is_steered_during_a_retry_comes_after_it() {
    let mut scene = Scene::start("").await;
    let gate = Gate::new();
    scene.model.push(Answer::saying("Half").cut());
    scene.model.push(Answer::saying("Whole").wait(&gate).text("."));
    scene.model.push(Answer::saying("And more."));
    scene.submit("s1", "Answer.").await;
    scene.until("retry.scheduled").await;
    assert_eq!(scene.submit("s2", "And more?").await["disposition"], "steered");
    scene.op("n1", json!({ "type": "retry_now" })).await;
    gate.reached().await;
    gate.open();
    assert_eq!(end_of(&scene.end().await), "turn.completed");
    assert_eq!(scene.model.asked()[0].bytes, scene.model.asked()[1].bytes);
    assert_eq!(scene.last_message(2).1, "And more?");
    scene.check().await;
}

/// A failed attempt that reported its usage was paid for.
#[tokio::test]
async fn the_usage_of_a_failed_attempt_counts() {
    let mut scene = Scene::start("").await;
    scene.model.push(Answer::saying("Half").usage(500, 5).usage_before_cut());
    scene.model.push(Answer::saying("Whole.").usage(600, 6));
    scene.submit("s1", "Answer.").await;
    hurry(&mut scene, "n1").await;
    let seen = scene.end().await;
    let usage = &seen.last().unwrap()["usage"];
    assert_eq!((&usage["input"], &usage["output"]), (&json!(1100), &json!(11)), "{usage}");
    scene.check().await;
}

/// Silence is a broken stream.
#[tokio::test]
async fn a_silent_stream_is_left_and_tried_again() {
    let model = ModelServer::start().await;
    let config = model.config().replace("max_retries = 2\n", "idle_timeout = \"200ms\"\n");
    let mut scene = Scene::with(model, &config).await;
    scene.model.push(Answer::saying("Half").silence());
    scene.model.push(Answer::saying("Whole."));
    scene.submit("s1", "Answer.").await;
    let seen = hurry(&mut scene, "n1").await;
    let cause = &seen.last().unwrap()["cause"];
    assert_eq!(cause["code"], "provider_unreachable", "{cause}");
    assert!(cause["message"].as_str().unwrap().contains("idle_timeout"), "{cause}");
    scene.model.hangups(1).await;
    assert_eq!(end_of(&scene.end().await), "turn.completed");
    scene.check().await;
}
