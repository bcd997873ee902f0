//! What real servers do, seen from a client: cases of streams and habits by their ids, those that
//! take a whole turn. (The bytes alone are tested beside the decoder.)
//!
//! Receives the harness; hands out what a turn made of a server's habits.

use harness::{Answer, ModelServer};
use serde_json::{Value, json};

use crate::scene::{FULL, Scene, end_of, of_type, statuses};

/// A configuration of the model with these keys of its provider.
fn with_keys(model: &ModelServer, keys: &str) -> String {
    let config = model.config();
    config.replacen("max_retries = 2\n", &format!("max_retries = 2\n{keys}\n"), 1)
}

/// The warnings that were seen, by their code.
fn warnings<'a>(seen: &'a [Value], code: &str) -> Vec<&'a Value> {
    of_type(seen, "warning").into_iter().filter(|warning| warning["code"] == code).collect()
}

/// Whether a message of the request has the key.
fn has_key(body: &Value, key: &str) -> bool {
    let messages = body["messages"].as_array().into_iter().flatten();
    messages.filter(|message| message.get(key).is_some()).count() > 0
}

/// After its first call the model answers.
fn call_then_text(body: &Value) -> Answer {
    let last = body["messages"].as_array().and_then(|messages| messages.last());
    if last.is_some_and(|last| last["role"] == "tool") {
        Answer::saying("Done.")
    } else {
        Answer::new().reasoning("r").call("list", &json!({ "path": "." }))
    }
}

#[tokio::test]
async fn a13_a_finish_for_calls_without_any_is_no_loop() {
    let mut scene = Scene::start("").await;
    scene.model.improvise(|_| Answer::new().finish_reason("tool_calls"));
    let seen = scene.turn("s1", "Answer.").await;
    assert_eq!(end_of(&seen), "turn.completed");
    assert_eq!(warnings(&seen, "no_text").len(), 1);
    assert!(scene.model.asked().len() <= 2, "one more time at most");
    scene.check().await;
}

/// Ours are unique, also where the provider gives none or the same for all.
#[tokio::test]
async fn a5_a10_a_call_without_id_and_arguments_runs() {
    let mut scene = Scene::start("").await;
    scene.model.push(Answer::new().delta(&json!({ "tool_calls": [
        { "index": 0, "id": "", "function": { "name": "list", "arguments": "" } },
        { "index": 1, "function": { "name": "list", "arguments": { "path": "." } } },
    ] })));
    scene.model.push(Answer::saying("Done."));
    let seen = scene.turn("s1", "List.").await;
    assert_eq!(end_of(&seen), "turn.completed");
    assert_eq!(statuses(&seen)[0], "ok");
    let messages = scene.messages(1);
    let sent = messages[2]["tool_calls"].as_array().unwrap();
    let arguments: Vec<&Value> = sent.iter().map(|call| &call["function"]["arguments"]).collect();
    assert_eq!(arguments, [&json!("{}"), &json!("{\"path\":\".\"}")]);
    for (call, result) in sent.iter().zip(&messages[3..]) {
        assert!(call["id"].as_str().is_some_and(|id| !id.is_empty()), "{call}");
        assert_eq!(call["id"], result["tool_call_id"]);
    }
    scene.check().await;
}

#[tokio::test]
async fn a28_an_error_in_the_stream_keeps_what_was_said() {
    let mut scene = Scene::start("").await;
    let error = json!({ "message": "m", "type": "server_error", "param": null, "code": 400 });
    scene.model.push(Answer::saying("Half of it").raw(&format!("data: {{\"error\":{error}}}\n\n")));
    scene.model.push(Answer::saying("Next."));
    let seen = scene.turn("s1", "Answer.").await;
    let failed = &seen.last().unwrap()["error"];
    assert_eq!(
        (&failed["code"], &failed["provider_code"]),
        (&json!("provider_refused"), &json!("400"))
    );
    assert_eq!(failed["attempts"], 1);
    let kept = of_type(&seen, "message.completed").pop().unwrap();
    assert_eq!(
        (&kept["item"]["status"], &kept["item"]["content"][0]["text"]),
        (&json!("partial"), &json!("Half of it"))
    );
    assert_eq!(end_of(&scene.turn("s2", "Again.").await), "turn.completed");
    scene.check().await;
}

#[tokio::test]
async fn a35_nothing_of_a_broken_attempt_is_run_or_kept() {
    let mut scene = Scene::start(FULL).await;
    let good = json!({ "command": "echo good > ran" });
    scene.model.push(
        Answer::saying("Hel").call_with_text("shell", "{\"command\":\"echo bad > ran; rm ").cut(),
    );
    scene.model.push(Answer::saying("Hello.").call("shell", &good));
    scene.model.push(Answer::saying("Done."));
    scene.submit("s1", "Go.").await;
    scene.until("retry.scheduled").await;
    scene.op("n1", json!({ "type": "retry_now" })).await;
    assert_eq!(end_of(&scene.end().await), "turn.completed");
    let events = scene.client.events(&scene.session).await;
    assert_eq!(of_type(&events, "message.reset").len(), 1, "the partial text is taken back");
    let called = of_type(&events, "tool.called");
    assert_eq!(called.len(), 1, "one call, of the second attempt");
    assert_eq!(called[0]["arguments"], good);
    let ran = std::fs::read_to_string(scene.daemon.work_dir().join("ran")).unwrap();
    assert_eq!(ran, "good\n");
    let answer = &scene.messages(2)[2];
    assert_eq!(answer["content"], "Hello.", "the text is stored once");
    scene.check().await;
}

#[tokio::test]
async fn a37_a_call_that_the_output_limit_cut_is_not_run() {
    for arguments in ["{\"path\":\"a\",\"content\":\"par", "{\"path\":\"a\",\"content\":\"par\"}"] {
        let mut scene = Scene::start(FULL).await;
        let answer = Answer::new().call_with_text("write", arguments).finish_reason("length");
        scene.model.push(answer);
        scene.model.push(Answer::saying("I see."));
        let seen = scene.turn("s1", "Write.").await;
        assert_eq!(end_of(&seen), "turn.completed");
        assert_eq!(of_type(&seen, "tool.started").len(), 0);
        assert_eq!(statuses(&seen), ["not_run"]);
        assert!(!scene.daemon.work_dir().join("a").exists());
        assert!(scene.results(1)[0].contains("cut off"), "{:?}", scene.results(1));
        scene.check().await;
    }
}

#[tokio::test]
async fn a38_a39_reasoning_goes_back_where_it_is_demanded_and_only_there() {
    let model = ModelServer::start().await;
    let picky = ModelServer::start().await;
    let other = picky.config();
    let (_, other) = other.split_once('\n').unwrap();
    let config =
        format!("{}{}{FULL}", model.config(), other.replace("providers.test", "providers.other"));
    model.improvise(|body| {
        let answered = body["messages"].as_array().into_iter().flatten();
        let silent = answered
            .filter(|message| message["role"] == "assistant" && message.get("tool_calls").is_some())
            .any(|message| message["reasoning_content"] != "r");
        if silent {
            let message =
                "The `reasoning_content` in the thinking mode must be passed back to the API.";
            return Answer::refusing(400, message);
        }
        call_then_text(body)
    });
    picky.improvise(|body| {
        if has_key(body, "reasoning_content") {
            return Answer::refusing(
                422,
                "messages.2.reasoning_content: Extra inputs are not permitted",
            );
        }
        Answer::saying("Other.")
    });
    let mut scene = Scene::with(model, &config).await;
    let seen = scene.turn("s1", "List.").await;
    assert_eq!(end_of(&seen), "turn.completed");
    assert_eq!(warnings(&seen, "quirk_learned").len(), 1);
    assert_eq!(scene.model.asked().len(), 3, "one refusal, one more attempt");

    // Another server never gets it; a restart forgets the lesson, and one refusal brings it back.
    scene.op("c1", json!({ "type": "configure", "model": "other/model" })).await;
    let seen = scene.turn("s2", "And you?").await;
    assert_eq!(
        (end_of(&seen), warnings(&seen, "quirk_learned").len()),
        (&json!("turn.completed"), 0)
    );
    assert_eq!(picky.asked().len(), 1);
    scene.op("c2", json!({ "type": "configure", "model": "test/model" })).await;
    let before = scene.model.asked().len();
    let seen = scene.turn("s3", "List again.").await;
    assert_eq!(
        (end_of(&seen), warnings(&seen, "quirk_learned").len()),
        (&json!("turn.completed"), 0)
    );
    assert!(
        scene.model.asked()[before..].iter().all(|asked| has_key(&asked.body, "reasoning_content"))
    );
    scene.model.assert_all_taken();
    picky.assert_all_taken();
}

#[tokio::test]
async fn a38_what_the_table_demands_is_sent_after_a_restart_too() {
    let model = ModelServer::start().await;
    model.improvise(call_then_text);
    let config = with_keys(&model, "reasoning_echo = \"always\"");
    let mut scene = Scene::with(model, &config).await;
    assert_eq!(end_of(&scene.turn("s1", "List.").await), "turn.completed");
    scene.crash().await;
    scene.until("subscription.joined").await;
    assert_eq!(end_of(&scene.turn("s2", "Again.").await), "turn.completed");
    let last = scene.model.asked().pop().unwrap();
    let answered = last.body["messages"].as_array().unwrap();
    let echoed = answered.iter().filter(|message| message["reasoning_content"] == "r").count();
    assert_eq!(echoed, 2);
    scene.check().await;
}

#[tokio::test]
async fn a44_reasoning_alone_ends_visibly() {
    let mut scene = Scene::start("").await;
    scene.model.push(Answer::new().reasoning("only thoughts"));
    scene.model.push(Answer::new().reasoning("and more"));
    scene.model.push(Answer::saying("Words."));
    let seen = scene.turn("s1", "Answer.").await;
    assert_eq!(end_of(&seen), "turn.completed");
    assert_eq!(warnings(&seen, "no_text").len(), 1);
    let kept = of_type(&seen, "message.completed")
        .into_iter()
        .filter(|message| message["item"]["content"][0]["type"] == "reasoning");
    assert_eq!(kept.count(), 2, "the reasoning is kept");
    assert_eq!(end_of(&scene.turn("s2", "Again.").await), "turn.completed");
    scene.check().await;
}

#[tokio::test]
async fn a45_a_flagged_model_thinks_in_its_text() {
    let model = ModelServer::start().await;
    let config = with_keys(&model, "think_tags = \"on\"");
    let mut scene = Scene::with(model, &config).await;
    scene.model.push(Answer::saying("why</think>\n\nanswer"));
    scene.model.push(Answer::saying("Next."));
    let seen = scene.turn("s1", "Answer.").await;
    let answer = of_type(&seen, "message.completed").pop().unwrap();
    assert_eq!(
        answer["item"]["content"],
        json!([{ "type": "reasoning", "text": "why" }, { "type": "text", "text": "answer" }])
    );
    scene.turn("s2", "Again.").await;
    assert_eq!(scene.messages(1)[2]["content"], "answer");
    scene.check().await;
}

#[tokio::test]
async fn a52_a_server_that_takes_no_empty_schema_teaches_that() {
    let mut scene = Scene::start("").await;
    // No tool of ours is without parameters, so that the refusal costs one more attempt only.
    let refusal = "tools.0.function.parameters.properties: should be non-empty for OBJECT type";
    scene.model.push(Answer::refusing(400, refusal));
    scene.model.push(Answer::saying("Good."));
    let seen = scene.turn("s1", "Answer.").await;
    assert_eq!(end_of(&seen), "turn.completed");
    let warning = warnings(&seen, "quirk_learned")[0];
    assert!(warning["message"].as_str().unwrap().contains("empty_parameters"), "{warning}");
}

#[tokio::test]
async fn a57_a_server_that_cuts_the_prompt_is_told_of_once_a_turn() {
    let mut scene = Scene::start("").await;
    scene.model.push(Answer::calling("list", &json!({ "path": "." })).usage(2_048, 5));
    scene.model.push(Answer::saying("Done.").usage(2_048, 5));
    let seen = scene.turn("s1", &"word ".repeat(12_000)).await;
    assert_eq!(end_of(&seen), "turn.completed");
    let told = warnings(&seen, "prompt_truncated");
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0]["message"].as_str().unwrap().contains("2048"), "{}", told[0]);
    scene.check().await;
}

#[tokio::test]
async fn a59_what_is_wrong_with_a_request_is_sent_once() {
    let mut scene = Scene::start("").await;
    for (index, status) in [400_u16, 401, 403, 404, 422].into_iter().enumerate() {
        scene.model.push(Answer::refusing(status, "bad"));
        let seen = scene.turn(&format!("s{index}"), "Answer.").await;
        assert_eq!(end_of(&seen), "turn.failed");
        assert_eq!(scene.model.asked().len(), index + 1, "{status}");
    }
    scene.check().await;
}

/// A lesson is learned once, told once, and outlives a reload of the configuration.
#[tokio::test]
async fn a_lesson_outlives_a_reload() {
    let model = ModelServer::start().await;
    let config = model.config().replace("max_retries = 2", "max_retries = 0");
    let mut scene = Scene::with(model, &config).await;
    scene.model.improvise(|body| {
        let roles: Vec<&Value> =
            body["messages"].as_array().unwrap().iter().map(|message| &message["role"]).collect();
        if roles.windows(2).any(|pair| pair[0] == pair[1]) {
            return Answer::refusing(400, "Conversation roles must alternate user/assistant");
        }
        Answer::saying("Good.")
    });
    scene.model.push(Answer::refusing(400, "bad"));
    assert_eq!(end_of(&scene.turn("s1", "First.").await), "turn.failed");
    let seen = scene.turn("s2", "Second.").await;
    assert_eq!(end_of(&seen), "turn.completed", "tried once more although retries are off");
    assert_eq!(warnings(&seen, "quirk_learned").len(), 1);
    let retry = of_type(&seen, "retry.scheduled")[0];
    assert_eq!((&retry["delay_ms"], &retry["attempt"]), (&json!(0), &json!(2)));

    scene.daemon.configure(&format!("{config}[limits]\nmax_iterations = 7\n"));
    scene.client.call("daemon/reload", json!({})).await;
    let asked = scene.model.asked().len();
    let seen = scene.turn("s3", "Third.").await;
    assert_eq!(
        (end_of(&seen), warnings(&seen, "quirk_learned").len()),
        (&json!("turn.completed"), 0)
    );
    assert_eq!(scene.model.asked().len(), asked + 1);
}

/// A transport that breaks in use takes another way each time: at last without streaming.
#[tokio::test]
async fn a_broken_transport_takes_another_way() {
    let model = ModelServer::start().await;
    let config = model.config().replace("max_retries = 2", "max_retries = 4");
    let mut scene = Scene::with(model, &config).await;
    for _ in 0..3 {
        scene.model.push(Answer::saying("Half").cut());
    }
    scene.model.push(Answer::saying("Whole.").call("list", &json!({ "path": "." })));
    scene.model.push(Answer::saying("Streamed again."));
    scene.submit("s1", "Answer.").await;
    for attempt in 0..3 {
        scene.until("retry.scheduled").await;
        scene.op(&format!("n{attempt}"), json!({ "type": "retry_now" })).await;
    }
    assert_eq!(end_of(&scene.end().await), "turn.completed");
    let streams: Vec<Value> =
        scene.model.asked().iter().map(|asked| asked.body["stream"].clone()).collect();
    assert_eq!(streams, [true, true, true, false, true].map(Value::from));
    assert_eq!(scene.messages(4)[2]["content"], "Whole.");
    scene.model.assert_all_taken();
}

/// A bug report: what was recorded by `agentctl run --record` plays in place of the server.
#[tokio::test]
async fn a_recorded_run_plays_without_its_server() {
    let mut scene = Scene::start(FULL).await;
    scene.model.improvise(call_then_text);
    let file = scene.daemon.path("session.jsonl");
    let record = file.to_str().unwrap();
    let arguments = ["run", "--json", "--record", record, "List."];
    let live = tokio::task::spawn_blocking({
        let mut command = scene.daemon.agentctl(&arguments);
        move || command.output().unwrap()
    });
    let live = live.await.unwrap();
    assert!(live.status.success(), "{}", String::from_utf8_lossy(&live.stderr));
    let asked = scene.model.asked().len();
    assert_eq!(asked, 2);

    let replay = format!(
        "model = \"bug/model\"\n[providers.bug]\nwire = \"openai-chat\"\nreplay = {record:?}\n{FULL}"
    );
    scene.daemon.configure(&replay);
    scene.client.call("daemon/reload", json!({})).await;
    scene.session = scene.client.create_session(&scene.daemon.work_dir()).await;
    scene.client.subscribe(&scene.session, Some(0)).await;
    let seen = scene.turn("s1", "List.").await;
    assert_eq!(end_of(&seen), "turn.completed");
    assert_eq!(statuses(&seen), ["ok"]);
    assert_eq!(scene.model.asked().len(), asked, "nobody was asked");
    let seen = scene.turn("s2", "Once more.").await;
    let error = &seen.last().unwrap()["error"];
    assert!(error["message"].as_str().unwrap().contains("ends after 2 requests"), "{error}");
}
