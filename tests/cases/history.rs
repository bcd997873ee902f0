//! b3, b8, b9, b10: histories that servers refuse, and that no session is left with.
//!
//! `harness::history` refuses what any real server refuses; b9 refuses more.
//!
//! Receives the harness; hands out the requests that follow a bad moment.

use harness::client::is_turn_end;
use harness::{Answer, Client, Daemon, ModelServer};
use serde_json::{Value, json};

/// A daemon, its model, and a session that is watched.
async fn watched(config: impl FnOnce(String) -> String) -> (ModelServer, Daemon, Client, String) {
    let model = ModelServer::start().await;
    let daemon = Daemon::start(&config(model.config())).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, Some(0)).await;
    (model, daemon, client, session)
}

async fn turn(client: &mut Client, session: &str, id: &str, text: &str) -> Value {
    client.submit(session, id, text).await;
    client.watch_until(is_turn_end).await.pop().unwrap()
}

/// The roles and texts of a request, without its system message.
fn said(model: &ModelServer, request: usize) -> Vec<(String, String)> {
    let asked = model.asked();
    let messages = asked[request].body["messages"].as_array().unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    messages[1..].iter().map(|m| (text(&m["role"]), text(&m["content"]))).collect()
}

/// A provider's ids come again in later answers: a crashed call is not taken for answered.
#[tokio::test]
async fn b3_an_id_that_comes_again_does_not_hide_an_orphan() {
    let (model, mut daemon, mut client, session) =
        watched(|config| config + "[permission]\nmode = \"full\"\n").await;
    // The test server gives every first call of an answer the same id.
    model.push(Answer::calling("shell", &json!({ "command": "echo one" })));
    model.push(Answer::calling("shell", &json!({ "command": "echo started; sleep 1000" })));
    client.submit(&session, "s1", "Run both.").await;
    client
        .watch_until(|message| message["chunk"].as_str().is_some_and(|c| c.contains("started")))
        .await;
    daemon.kill();
    daemon.restart().await;
    let mut client = daemon.client().await;
    client.subscribe(&session, Some(0)).await;
    client.watch_until(is_turn_end).await;
    model.push(Answer::saying("ok"));
    let end = turn(&mut client, &session, "s2", "Go on.").await;
    assert_eq!(end["type"], "turn.completed");
    let asked = model.asked();
    let messages = asked[2].body["messages"].as_array().unwrap();
    let ids: Vec<&Value> = messages
        .iter()
        .filter(|message| message["role"] == "assistant")
        .map(|message| &message["tool_calls"][0]["id"])
        .collect();
    assert_eq!(ids, ["provider-0", "provider-0"]);
    let results: Vec<(String, String)> =
        said(&model, 2).into_iter().filter(|(role, _)| role == "tool").collect();
    assert!(results[0].1.contains("one"), "{results:?}");
    assert!(results[1].1.contains("its outcome is unknown"), "{results:?}");
    model.assert_all_taken();
}

/// An answer without text and calls is never sent, however often it comes.
#[tokio::test]
async fn b8_an_empty_answer_is_not_sent() {
    let (model, _daemon, mut client, session) = watched(|config| config).await;
    model.push(Answer::new());
    model.push(Answer::new().text(" \n").reasoning("Hm."));
    let end = turn(&mut client, &session, "s1", "Hello?").await;
    assert_eq!(end["type"], "turn.completed");
    model.push(Answer::saying("ok"));
    let end = turn(&mut client, &session, "s2", "Still there?").await;
    assert_eq!(end["type"], "turn.completed");
    let roles: Vec<String> = said(&model, 2).into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, ["user"; 3], "input, note, input");
    model.assert_all_taken();
}

/// Answers as a server whose template demands that roles alternate; results are no turn of their
/// own for it, nor is an answer that only calls.
fn alternating(body: &Value) -> Answer {
    let messages = body["messages"].as_array().unwrap();
    let mut roles = messages[1..].iter().filter_map(|message| match &message["role"] {
        role if role == "tool" || message.get("tool_calls").is_some() => None,
        role => role.as_str(),
    });
    if roles.clone().zip(["user", "assistant"].iter().cycle()).all(|(a, b)| a == *b) {
        return Answer::saying(&format!("ok, {}", roles.next().unwrap_or_default()));
    }
    Answer::refusing(
        500,
        "Value is not callable: Conversation roles must alternate user/assistant/user/assistant",
    )
}

fn requests(model: &ModelServer) -> usize {
    model.asked().len()
}

/// Found out by the refusal: the request is sent again, but not unchanged, and from then on right.
#[tokio::test]
async fn b9_user_messages_in_a_row_are_merged_once_that_is_known() {
    let (model, mut daemon, mut client, session) = watched(|config| config).await;
    model.push(Answer::refusing(401, "no such key"));
    turn(&mut client, &session, "s1", "One.").await;
    model.improvise(alternating);
    let end = turn(&mut client, &session, "s2", "Two.").await;
    assert_eq!(end["type"], "turn.completed", "{end}");
    assert_eq!(requests(&model), 3, "refused, then merged");
    let expected = [("user", "One."), ("assistant", "(no answer yet)"), ("user", "Two.")]
        .map(|(role, text)| (role.to_owned(), text.to_owned()));
    assert_eq!(said(&model, 2), expected);
    assert_eq!(said(&model, 1), [expected[0].clone(), expected[2].clone()]);

    // It is known: nothing is refused any more, and the prefix stays.
    turn(&mut client, &session, "s3", "Three.").await;
    assert_eq!(requests(&model), 4);
    let [.., before, after] = &model.asked()[..] else { panic!("there were four") };
    assert!(after.bytes.starts_with(before.bytes.strip_suffix(b"]}").unwrap()));

    // The next daemon finds it out again.
    daemon.restart().await;
    let mut client = daemon.client().await;
    client.subscribe(&session, None).await;
    let end = turn(&mut client, &session, "s4", "Four.").await;
    assert_eq!(end["type"], "turn.completed");
    assert_eq!(requests(&model), 6);
    model.assert_all_taken();
}

/// Results, steered input, an empty answer: with `merge_roles = true` nothing is ever refused.
#[tokio::test]
async fn b9_where_the_table_says_so_roles_alternate_from_the_start() {
    let (model, _daemon, mut client, session) = watched(|config| {
        config.replace("max_retries = 2\n", "max_retries = 2\nmerge_roles = true\n")
    })
    .await;
    let gate = harness::Gate::new();
    model.push(Answer::new());
    model.push(Answer::new().text("Listing").wait(&gate).call("list", &json!({})));
    model.improvise(alternating);
    client.submit(&session, "s1", "List.").await;
    gate.reached().await;
    client.submit(&session, "s2", "And be brief.").await;
    gate.open();
    let end = client.watch_until(is_turn_end).await.pop().unwrap();
    assert_eq!(end["type"], "turn.completed", "{end}");
    let end = turn(&mut client, &session, "s3", "Again.").await;
    assert_eq!(end["type"], "turn.completed", "{end}");
    assert_eq!(requests(&model), 4, "no request was sent twice");
    for pair in model.asked().windows(2) {
        assert!(pair[1].bytes.starts_with(pair[0].bytes.strip_suffix(b"]}").unwrap()));
    }
    model.assert_all_taken();
}

/// A server that is never content: the form was changed once, and nothing is sent a third time.
#[tokio::test]
async fn b9_a_refusal_that_stays_is_final() {
    let refused = || Answer::refusing(500, "Conversation roles must alternate");
    let (model, _daemon, mut client, session) = watched(|config| config).await;
    model.improvise(move |_| refused());
    for (id, expected) in [("s1", 2), ("s2", 3)] {
        let end = turn(&mut client, &session, id, "Hello.").await;
        assert_eq!(end["type"], "turn.failed");
        assert_eq!(end["error"]["retryable"], false, "{end}");
        assert_eq!(requests(&model), expected);
    }
    let (model, _daemon, mut client, session) = watched(|config| {
        config.replace("max_retries = 2\n", "max_retries = 2\nmerge_roles = false\n")
    })
    .await;
    model.improvise(move |_| refused());
    turn(&mut client, &session, "s1", "Hello.").await;
    assert_eq!(requests(&model), 1);
}

/// Whatever agentd itself has to say to the model comes as a user's message.
#[tokio::test]
async fn b10_there_is_one_system_message_and_it_is_the_first() {
    let (model, mut daemon, mut client, session) = watched(|config| config).await;
    // A note about an empty answer, one about the last step, and one about a crash.
    model.push(Answer::new());
    let gate = harness::Gate::new();
    model.push(Answer::calling("list", &json!({})));
    let mut params = harness::client::input(&session, "s1", "List.");
    params["limits"] = json!({ "max_iterations": 2 });
    client.call("session/submit", params).await;
    let end = client.watch_until(is_turn_end).await.pop().unwrap();
    assert_eq!(end["type"], "turn.exhausted");
    model.push(Answer::saying("Going on").wait(&gate));
    client.submit_op(&session, "r1", json!({ "type": "resume" })).await;
    gate.reached().await;
    daemon.kill();
    daemon.restart().await;
    let mut client = daemon.client().await;
    client.subscribe(&session, None).await;
    model.push(Answer::saying("ok"));
    client.submit_op(&session, "r2", json!({ "type": "resume" })).await;
    let end = client.watch_until(is_turn_end).await.pop().unwrap();
    assert_eq!(end["type"], "turn.completed");
    for asked in model.asked() {
        let messages = asked.body["messages"].as_array().unwrap();
        let roles: Vec<&Value> = messages.iter().map(|message| &message["role"]).collect();
        assert_eq!(roles.iter().filter(|role| **role == "system").count(), 1);
        assert_eq!(roles[0], "system");
    }
    let notes = said(&model, 3);
    for words in ["was empty", "last step", "ended early", "without warning"] {
        let note = notes.iter().find(|(_, text)| text.contains(words));
        assert_eq!(note.unwrap_or_else(|| panic!("{words}: {notes:?}")).0, "user");
    }
    model.assert_all_taken();
}
