//! What a turn may use and what it used: the iteration budget, usage and cost, empty answers.
//!
//! Receives the harness; hands out totals and how turns ended.

use harness::{Answer, Gate};
use serde_json::{Value, json};

use crate::scene::{Scene, end_of, of_type, said, statuses};

const LAST_STEP: &str = "Not run: this was the last step.";

/// Soft, then hard: told that it is the last step, calls all the same are not run.
#[tokio::test]
async fn the_last_step_is_announced_and_its_calls_are_not_run() {
    let mut scene = Scene::start("").await;
    scene.model.improvise(|body| {
        let depth = body["messages"].as_array().map_or(1, Vec::len);
        Answer::saying("Looking.").call("list", &json!({ "path": ".", "depth": depth }))
    });
    let mut params = harness::client::input(&scene.session, "s1", "Look around.");
    params["limits"] = json!({ "max_iterations": 2 });
    scene.client.call("session/submit", params).await;
    let seen = scene.end().await;
    let end = seen.last().unwrap();
    assert_eq!((&end["type"], &end["limit"]), (&json!("turn.exhausted"), &json!("iterations")));
    assert_eq!(end["iterations"], 2);
    assert_eq!(scene.state().await["state"], "idle");
    assert_eq!(statuses(&seen), ["ok", "not_run"]);
    assert_eq!(of_type(&seen, "tool.started").len(), 1);
    let (role, notice) = scene.last_message(1);
    assert_eq!(role, "user");
    assert!(notice.contains("last step"), "{notice}");
    let asked = scene.model.asked();
    assert_eq!(asked[0].body["tools"], asked[1].body["tools"], "the tools stay in the request");
    let noticed = of_type(&seen, "message.completed")
        .into_iter()
        .find(|message| message["item"]["content"][0]["text"] == json!(notice))
        .expect("the notice is a stored item");
    assert_eq!(noticed["item"]["origin"], "agentd");

    // A new budget: the same limits begin again.
    scene.model.push(Answer::saying("All is done."));
    scene.op("r1", json!({ "type": "resume" })).await;
    let seen = scene.end().await;
    assert_eq!(
        (end_of(&seen), &seen.last().unwrap()["iterations"]),
        (&json!("turn.completed"), &json!(1))
    );
    let messages: Vec<_> = scene.messages(2).iter().map(said).collect();
    let [.., (tool, result), (user, note)] = &messages[..] else { panic!("{messages:?}") };
    assert_eq!((tool.as_str(), result.as_str()), ("tool", LAST_STEP));
    assert_eq!(user, "user");
    assert!(note.contains("Go on"), "{note}");
    scene.check().await;
}

/// The tokens of all requests add up, also over turns, and cost what the table says.
#[tokio::test]
async fn usage_and_cost_add_up() {
    let price = "price = { input = 2.0, cached_input = 1.0, cache_write = 0.0, output = 10.0 }\n";
    let mut scene = Scene::start(price).await;
    let report = json!({
        "prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100,
        "prompt_tokens_details": { "cached_tokens": 400 },
        "completion_tokens_details": { "reasoning_tokens": 30 },
    });
    scene.model.push(Answer::calling("list", &json!({})).usage_report(report));
    scene.model.push(Answer::saying("Listed.").usage(2000, 50));
    let seen = scene.turn("s1", "List.").await;
    let expected = |input: u64, output: u64, cached: u64, reasoning: u64, cost: f64| {
        move |usage: &Value| {
            assert_eq!(usage["input"], input, "{usage}");
            assert_eq!(usage["output"], output, "{usage}");
            assert_eq!(usage["cache_read"], cached, "{usage}");
            assert_eq!(usage["reasoning"], reasoning, "{usage}");
            assert!((usage["cost_usd"].as_f64().unwrap() - cost).abs() < 1e-9, "{usage}");
        }
    };
    let updates = of_type(&seen, "usage.updated");
    assert_eq!(updates.len(), 2);
    let first = expected(1000, 100, 400, 30, 0.0026);
    let both = expected(3000, 150, 400, 30, 0.0071);
    first(&updates[0]["turn"]);
    both(&updates[1]["turn"]);
    both(&updates[1]["session"]);
    both(&seen.last().unwrap()["usage"]);
    assert_eq!(updates[1]["context"], json!({ "tokens": 2050, "window": 32768 }));
    scene.model.push(Answer::saying("Again.").usage(1000, 0));
    let seen = scene.turn("s2", "Again.").await;
    expected(1000, 0, 0, 0, 0.002)(&seen.last().unwrap()["usage"]);
    expected(4000, 150, 400, 30, 0.0091)(&scene.state().await["usage"]);
    scene.check().await;
}

/// A cost limit for a model without a known price is refused, of a turn and of a session, whoever
/// sets it, and whether the limit is there first or the model.
#[tokio::test]
async fn a_cost_limit_needs_a_price() {
    let price = "[providers.test.models.priced]\nprice = { input = 1.0, output = 2.0 }\n";
    let mut scene = Scene::start(price).await;
    let configure = async |scene: &mut Scene, id: &str, op: Value| {
        let mut op = op;
        op["type"] = json!("configure");
        let submission = json!({ "id": id, "op": op });
        let params = json!({ "session_id": scene.session, "submission": submission });
        scene.client.try_call("session/submit", params).await
    };
    let refused = |answer: Result<Value, Value>, limit: &str| {
        let error = answer.expect_err("there is no price");
        assert!(error["message"].as_str().unwrap().contains("price of test/model"), "{error}");
        assert_eq!(error["data"]["field"], format!("limits.{limit}"), "{error}");
    };
    for limit in ["max_cost_usd", "max_session_cost_usd"] {
        let mut params = harness::client::input(&scene.session, "s1", "Hi.");
        params["limits"] = json!({ limit: 1.0 });
        refused(scene.client.try_call("session/submit", params).await, limit);
        refused(configure(&mut scene, "c1", json!({ "limits": { limit: 1.0 } })).await, limit);
    }
    assert_eq!(scene.model.asked().len(), 0);

    // The running turn's own limit, then the session's.
    configure(&mut scene, "c1", json!({ "model": "test/priced" })).await.expect("it is free");
    let gate = Gate::new();
    scene.model.push(Answer::saying("Hi.").wait(&gate));
    let mut params = harness::client::input(&scene.session, "s1", "Hi.");
    params["limits"] = json!({ "max_cost_usd": 1.0 });
    scene.client.call("session/submit", params).await;
    gate.reached().await;
    refused(configure(&mut scene, "c2", json!({ "model": "test/model" })).await, "max_cost_usd");
    gate.open();
    assert_eq!(end_of(&scene.end().await), "turn.completed");
    let limits = json!({ "limits": { "max_session_cost_usd": 1.0 } });
    configure(&mut scene, "c3", limits).await.expect("it has a price");
    let unpriced = configure(&mut scene, "c4", json!({ "model": "test/model" })).await;
    refused(unpriced, "max_session_cost_usd");
    scene.check().await;
}

/// An answer without text and calls is asked for once more, by a note that is stored.
#[tokio::test]
async fn an_empty_answer_is_asked_for_once_more() {
    let mut scene = Scene::start("").await;
    scene.model.push(Answer::new().reasoning("What would I say?"));
    scene.model.push(Answer::saying("Here I am."));
    let seen = scene.turn("s1", "Hello?").await;
    assert_eq!(end_of(&seen), "turn.completed");
    assert_eq!(of_type(&seen, "warning").len(), 0);
    let messages: Vec<_> = scene.messages(1).iter().map(|message| said(message).0).collect();
    assert_eq!(messages, ["system", "user", "user"], "nothing empty is sent");
    assert!(scene.last_message(1).1.contains("empty"));
    scene.check().await;
}

/// Twice in a row it is the model's last word, and said so; its reasoning is kept.
#[tokio::test]
async fn two_empty_answers_complete_with_a_warning() {
    let mut scene = Scene::start("").await;
    scene.model.push(Answer::new());
    scene.model.push(Answer::new().reasoning("Nothing to add."));
    let seen = scene.turn("s1", "Hello?").await;
    assert_eq!(end_of(&seen), "turn.completed");
    assert_eq!(of_type(&seen, "warning")[0]["code"], "no_text");
    let answers: Vec<&Value> = of_type(&seen, "message.completed")
        .into_iter()
        .map(|message| &message["item"])
        .filter(|item| item["role"] == "assistant")
        .collect();
    let reasoning = json!([{ "type": "reasoning", "text": "Nothing to add." }]);
    assert_eq!(answers[1]["content"], reasoning);
    scene.model.push(Answer::saying("Now."));
    assert_eq!(end_of(&scene.turn("s2", "And now?").await), "turn.completed");
    scene.check().await;
}

/// Reasoning is shown as it comes and kept apart from the text; other servers do not get it back.
#[tokio::test]
async fn reasoning_is_shown_and_kept_and_not_sent_back() {
    let mut scene = Scene::start("").await;
    scene
        .model
        .push(Answer::new().reasoning("First look.").text("Looking.").call("list", &json!({})));
    scene.model.push(Answer::new().reasoning("Now I know.").text("Known."));
    let seen = scene.turn("s1", "Look.").await;
    let shown: String = of_type(&seen, "message.delta")
        .into_iter()
        .filter(|delta| delta["kind"] == "reasoning")
        .filter_map(|delta| delta["delta"].as_str())
        .collect();
    assert_eq!(shown, "First look.Now I know.");
    let answer = &of_type(&seen, "message.completed").pop().unwrap()["item"];
    assert_eq!(
        answer["content"],
        json!([
            { "type": "reasoning", "text": "Now I know." }, { "type": "text", "text": "Known." },
        ])
    );
    assert_eq!(scene.messages(1)[2].get("reasoning_content"), None);
    scene.check().await;
}

/// Servers that want it back get it, word for word.
#[tokio::test]
async fn reasoning_is_sent_back_where_the_table_says_so() {
    let model = harness::ModelServer::start().await;
    let config = model
        .config()
        .replace("max_retries = 2\n", "max_retries = 2\nreasoning_echo = \"always\"\n");
    let mut scene = Scene::with(model, &config).await;
    scene
        .model
        .push(Answer::new().reasoning("First look.").text("Looking.").call("list", &json!({})));
    scene.model.push(Answer::saying("Known."));
    scene.turn("s1", "Look.").await;
    assert_eq!(scene.messages(1)[2]["reasoning_content"], "First look.");
    scene.check().await;
}
