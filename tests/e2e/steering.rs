//! A turn that is spoken to while it runs: steered, replaced, configured, resumed.
//!
//! Receives the harness; hands out the requests that follow.

use harness::{Answer, Gate};
use serde_json::{Value, json};

use crate::scene::{FULL, Scene, end_of, of_type, said, statuses};

fn started(seen: &[Value]) -> Vec<&Value> {
    of_type(seen, "turn.started").into_iter().map(|event| &event["submission_id"]).collect()
}

/// What is steered goes in after the results, as the last thing the model reads.
#[tokio::test]
async fn what_is_steered_ends_the_next_request() {
    let mut scene = Scene::start("").await;
    scene.daemon.write_file("a.txt", "words\n");
    let gate = Gate::new();
    scene.model.push(
        Answer::saying("Reading").wait(&gate).text(".").call("read", &json!({ "path": "a.txt" })),
    );
    scene.model.push(Answer::saying("In French, then."));
    scene.submit("s1", "Read a.txt.").await;
    gate.reached().await;
    let steered = scene.submit("s2", "Answer in French.").await;
    assert_eq!(steered["disposition"], "steered");
    gate.open();
    let seen = scene.end().await;
    assert_eq!(end_of(&seen), "turn.completed");
    assert_eq!(started(&seen), ["s1"]);
    let event = of_type(&seen, "input.steered");
    assert_eq!(event[0]["submission_id"], "s2");
    let item = of_type(&seen, "message.completed")
        .into_iter()
        .find(|message| message["item"]["item_id"] == event[0]["item_id"])
        .expect("what was steered is an item");
    assert_eq!(item["item"]["origin"], "steer");
    let roles: Vec<String> = scene.messages(1).iter().map(|message| said(message).0).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "user"]);
    assert_eq!(scene.last_message(1).1, "Answer in French.");
    scene.check().await;
}

/// A plain answer does not end a turn that has more to answer.
#[tokio::test]
async fn steered_into_a_plain_answer_the_turn_goes_on() {
    let mut scene = Scene::start("").await;
    let gate = Gate::new();
    scene.model.push(Answer::saying("One").wait(&gate).text("."));
    scene.model.push(Answer::saying("Two."));
    scene.submit("s1", "Say one.").await;
    gate.reached().await;
    scene.deliver("s2", "Say two.", "steer").await;
    gate.open();
    let seen = scene.end().await;
    assert_eq!(
        (end_of(&seen), &seen.last().unwrap()["iterations"]),
        (&json!("turn.completed"), &json!(2))
    );
    assert_eq!(scene.last_message(1), ("user".to_owned(), "Say two.".to_owned()));
    scene.check().await;
}

/// Steered while a prompt is open: it waits for the batch, and the prompt is not touched.
#[tokio::test]
async fn steered_at_a_prompt_it_waits_for_the_answer() {
    let mut scene = Scene::start("").await;
    scene.model.push(Answer::calling("write", &json!({ "path": "a.txt", "content": "x\n" })));
    scene.model.push(Answer::saying("Done."));
    scene.submit("s1", "Write a.txt.").await;
    let prompt = scene.until("permission.requested").await["prompt"].clone();
    let steered = scene.submit("s2", "And be brief.").await;
    assert_eq!(steered["disposition"], "steered");
    assert_eq!(scene.state().await["state"], "waiting");
    scene.reply(&prompt, json!({ "decision": "allow" })).await;
    let seen = scene.end().await;
    assert_eq!(statuses(&seen), ["ok"]);
    assert_eq!(scene.last_message(1).1, "And be brief.");
    scene.check().await;
}

/// On the last step there is no next request: what was steered gets a turn of its own.
#[tokio::test]
async fn steered_into_the_last_step_it_is_the_next_turn() {
    let mut scene = Scene::start("").await;
    let gate = Gate::new();
    scene.model.push(Answer::saying("Only").wait(&gate).text(" this."));
    scene.model.push(Answer::saying("More."));
    let mut params = harness::client::input(&scene.session, "s1", "One step.");
    params["limits"] = json!({ "max_iterations": 1 });
    scene.client.call("session/submit", params).await;
    gate.reached().await;
    scene.submit("s2", "And another.").await;
    gate.open();
    let mut seen = scene.end().await;
    assert_eq!(end_of(&seen), "turn.completed", "a plain answer on the last step is one");
    seen.extend(scene.end().await);
    assert_eq!(started(&seen), ["s1", "s2"]);
    assert_eq!(scene.last_message(1).1, "And another.");
    scene.check().await;
}

/// The new input goes before the queue; the old turn's text stays in the conversation.
#[tokio::test]
async fn a_replaced_turn_gives_way_at_once() {
    let mut scene = Scene::start("").await;
    let gate = Gate::new();
    scene.model.push(Answer::saying("The wrong answer").wait(&gate));
    scene.model.push(Answer::saying("The right answer."));
    scene.model.push(Answer::saying("The queued answer."));
    scene.submit("s1", "First.").await;
    gate.reached().await;
    scene.client.watch_until_text("The wrong answer").await;
    assert_eq!(scene.deliver("s2", "Queued.", "queue").await["disposition"], "queued");
    let replaced = scene.deliver("s3", "Instead.", "replace").await;
    assert_eq!(replaced["disposition"], "replaced");
    let mut seen = scene.end().await;
    let end = seen.last().unwrap();
    assert_eq!((&end["type"], &end["reason"]), (&json!("turn.aborted"), &json!("replaced")));
    assert_ne!(end["turn_id"], replaced["turn_id"]);
    for _ in 0..2 {
        seen.extend(scene.end().await);
        assert_eq!(end_of(&seen), "turn.completed");
    }
    assert_eq!(started(&seen), ["s3", "s2"]);
    let said: Vec<_> = scene.messages(1)[1..].iter().map(said).collect();
    let said: Vec<_> = said.iter().map(|(role, text)| (role.as_str(), text.as_str())).collect();
    assert_eq!(said, [("user", "First."), ("assistant", "The wrong answer"), ("user", "Instead.")]);
    scene.model.hangups(1).await;
    scene.check().await;
}

/// A mode that was changed while the answer streamed does not hold for the calls of that answer, not
/// even after a restart, but for those of the next.
#[tokio::test]
async fn a_mode_is_in_force_from_the_next_iteration() {
    let mut scene = Scene::start("").await;
    let gate = Gate::new();
    let write = |name: &str| json!({ "path": name, "content": "x\n" });
    let both = Answer::saying("Writing").wait(&gate).text(".");
    scene.model.push(both.call("write", &write("a")).call("write", &write("b")));
    scene.model.push(Answer::calling("write", &write("c")));
    scene.model.push(Answer::saying("Done."));
    scene.submit("s1", "Write a, b and c.").await;
    gate.reached().await;
    let configure = json!({ "type": "configure", "permission_mode": "auto-edit" });
    assert_eq!(scene.op("c1", configure).await["disposition"], "applied");
    gate.open();
    let first = scene.until("permission.requested").await["prompt"].clone();
    assert_eq!(scene.state().await["permission_mode"], "auto-edit");
    scene.crash().await;
    scene.until("permission.requested").await;
    scene.reply(&first, json!({ "decision": "allow" })).await;
    let second = scene.until("permission.requested").await["prompt"].clone();
    scene.reply(&second, json!({ "decision": "allow" })).await;
    let seen = scene.end().await;
    assert_eq!(end_of(&seen), "turn.completed");
    assert_eq!(of_type(&seen, "permission.requested").len(), 0);
    let log = scene.client.events(&scene.session).await;
    assert_eq!(statuses(&log), ["ok", "ok", "ok"]);
    let modes: Vec<_> =
        of_type(&log, "iteration.started").iter().map(|event| &event["permission_mode"]).collect();
    assert_eq!(modes, ["ask", "auto-edit", "auto-edit"]);
    scene.check().await;
}

/// A denial may end the turn; the model reads it when it goes on.
#[tokio::test]
async fn a_denial_that_interrupts_ends_the_turn_and_resume_goes_on() {
    let mut scene = Scene::start("").await;
    let write = json!({ "path": "a.txt", "content": "x\n" });
    scene.model.push(Answer::new().call("write", &write).call("read", &json!({ "path": "a.txt" })));
    scene.model.push(Answer::saying("I stop."));
    scene.submit("s1", "Write a.txt.").await;
    let prompt = scene.until("permission.requested").await["prompt"].clone();
    let reply = json!({ "decision": "deny", "message": "not there", "interrupt": true });
    scene.reply(&prompt, reply).await;
    let seen = scene.end().await;
    let end = seen.last().unwrap();
    assert_eq!((&end["type"], &end["reason"]), (&json!("turn.aborted"), &json!("interrupted")));
    assert_eq!(statuses(&seen), ["denied", "interrupted"]);
    let resumed = scene.op("r1", json!({ "type": "resume" })).await;
    assert_eq!(resumed["disposition"], "started");
    assert_eq!(end_of(&scene.end().await), "turn.completed");
    let results = scene.results(1);
    assert!(results[0].contains("not there"), "{results:?}");
    assert!(results[1].contains("interrupted before"), "{results:?}");
    assert_eq!(scene.last_message(1).0, "user");
    scene.check().await;
}

/// An interrupt in a running command: `resume` tells the model what is not known.
#[tokio::test]
async fn after_an_interrupt_in_a_command_resume_tells_what_is_unknown() {
    let mut scene = Scene::start(FULL).await;
    let command = json!({ "command": "echo started; sleep 1000" });
    let later = json!({ "command": "touch never" });
    scene.model.push(Answer::new().call("shell", &command).call("shell", &later));
    scene.model.push(Answer::saying("I check first."));
    scene.submit("s1", "Run it.").await;
    scene
        .client
        .watch_until(|message| message["chunk"].as_str().is_some_and(|c| c.contains("started")))
        .await;
    scene.op("i1", json!({ "type": "interrupt" })).await;
    let seen = scene.end().await;
    assert_eq!(statuses(&seen), ["interrupted", "interrupted"]);
    scene.op("r1", json!({ "type": "resume" })).await;
    assert_eq!(end_of(&scene.end().await), "turn.completed");
    let results = scene.results(1);
    assert!(results[0].contains("started"), "what it said is kept: {results:?}");
    assert!(results[1].contains("must be retried if still needed"), "{results:?}");
    assert!(!scene.daemon.work_dir().join("never").exists());
    let error = scene
        .client
        .try_call(
            "session/submit",
            json!({
                "session_id": scene.session,
                "submission": { "id": "r2", "op": { "type": "resume" } },
            }),
        )
        .await
        .unwrap_err();
    assert_eq!(error["data"]["kind"], "invalid_state", "{error}");
    scene.check().await;
}

/// Two connections send the same submission at the same time: it runs once.
#[tokio::test]
async fn one_submission_from_two_connections_runs_once() {
    let mut scene = Scene::start("").await;
    scene.model.improvise(|_| Answer::saying("Once."));
    let mut other = scene.daemon.client().await;
    let params = harness::client::input(&scene.session, "s1", "Hi.");
    let first = scene.client.request("session/submit", params.clone()).await;
    let second = other.request("session/submit", params).await;
    let first = scene.client.response(&json!(first)).await["result"].clone();
    let second = other.response(&json!(second)).await["result"].clone();
    assert_ne!(first["replayed"], second["replayed"], "{first} {second}");
    for same in ["turn_id", "seq", "disposition", "submission_id"] {
        assert_eq!(first[same], second[same]);
    }
    scene.end().await;
    assert_eq!(scene.model.asked().len(), 1);
    scene.check().await;
}
