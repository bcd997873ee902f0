//! Watching: joining in mid-stream, coming back, both framings, slow watchers.
//!
//! Receives the harness; hands out what each watcher saw.

use std::collections::BTreeMap;

use harness::client::{Framing, is_turn_end, replay};
use harness::{Answer, Client, Daemon, Gate, ModelServer};
use serde_json::{Value, json};

/// The text of the assistant's items as a watcher would show it, made of what it was told.
#[derive(Default)]
struct Screen(BTreeMap<String, String>);

impl Screen {
    fn show(&mut self, messages: &[Value]) {
        for message in messages {
            match message["type"].as_str().unwrap() {
                "subscription.joined" => {
                    if let Some(item) = message["in_flight"].get("item") {
                        let text = item["text"].as_str().unwrap().to_owned();
                        self.0.insert(item["item_id"].to_string(), text);
                    }
                }
                "message.delta" => {
                    let text = self.0.entry(message["item_id"].to_string()).or_default();
                    let offset = usize::try_from(message["offset"].as_u64().unwrap()).unwrap();
                    assert_eq!(offset, text.len(), "a piece is missing or twice: {message}");
                    text.push_str(message["delta"].as_str().unwrap());
                }
                "message.completed" if message["item"]["role"] == "assistant" => {
                    let whole = message["item"]["content"][0]["text"].as_str().unwrap();
                    let shown = self.0.insert(message["item"]["item_id"].to_string(), whole.into());
                    assert!(
                        shown.is_none_or(|shown| whole.starts_with(&shown)),
                        "what was shown is no part of what was said"
                    );
                }
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn joining_at_any_point_of_a_stream_shows_the_same_text() {
    let model = ModelServer::start().await;
    let gates: Vec<Gate> = (0..6).map(|_| Gate::new()).collect();
    let answer = gates.iter().enumerate().fold(Answer::new(), |answer, (index, gate)| {
        answer.text(&format!("Part {index} with ümlauts. ")).wait(gate)
    });
    model.push(answer.text("The end."));
    let daemon = Daemon::start(&model.config()).await;
    let mut author = daemon.client().await;
    let session = author.create_session(&daemon.work_dir()).await;
    author.subscribe(&session, Some(0)).await;
    author.submit(&session, "s1", "Tell me.").await;
    let mut watchers = Vec::new();
    for (index, gate) in gates.iter().enumerate() {
        gate.reached().await;
        let framing = if index % 2 == 0 { Framing::Lines } else { Framing::Headers };
        let mut watcher = Client::connect(&daemon.socket(), framing).await;
        watcher.subscribe(&session, Some(0)).await;
        watchers.push(watcher);
        gate.open();
    }
    let seen = author.watch_until(is_turn_end).await;
    let mut screen = Screen::default();
    screen.show(&seen);
    for mut watcher in watchers {
        let watched = watcher.watch_until(is_turn_end).await;
        let mut other = Screen::default();
        other.show(&watched);
        assert_eq!(other.0, screen.0);
        assert_eq!(replay(&watched), replay(&seen));
    }
}

#[tokio::test]
async fn who_comes_back_with_a_number_misses_nothing_and_sees_nothing_twice() {
    let daemon = Daemon::start("model = \"demo/demo\"\n").await;
    let mut author = daemon.client().await;
    let session = author.create_session(&daemon.work_dir()).await;
    author.subscribe(&session, Some(0)).await;
    author.submit(&session, "s1", "Hello.").await;
    let seen = replay(&author.watch_until(is_turn_end).await);
    for since in 0..seen.len() {
        let mut watcher = daemon.client().await;
        watcher.subscribe(&session, Some(since as u64)).await;
        let messages = watcher.watch_until(is_turn_end).await;
        assert_eq!(replay(&messages), seen[since..], "since {since}");
    }
    let params = json!({ "session_id": session, "since": 100_000 });
    let error = author.try_call("session/subscribe", params).await.unwrap_err();
    assert_eq!((&error["code"], &error["data"]["kind"]), (&json!(-32006), &json!("cursor_ahead")));
}

#[tokio::test]
async fn a_watcher_that_does_not_read_holds_up_nobody_and_gets_all_in_the_end() {
    let model = ModelServer::start().await;
    let text = "All of this is said to everybody. ".repeat(400);
    model.improvise(move |_| Answer::saying(&text));
    let daemon = Daemon::start(&model.config()).await;
    let mut author = daemon.client().await;
    let session = author.create_session(&daemon.work_dir()).await;
    author.subscribe(&session, Some(0)).await;
    let mut slow = daemon.client().await;
    slow.subscribe(&session, Some(0)).await;
    let mut seen = Vec::new();
    for index in 0..4 {
        author.submit(&session, &format!("s{index}"), "Go on.").await;
        seen.extend(author.watch_until(is_turn_end).await);
    }
    let mut ends = 0;
    let mut watched = Vec::new();
    while ends < 4 {
        watched.extend(slow.watch_until(is_turn_end).await);
        ends += 1;
    }
    assert_eq!(replay(&watched), replay(&seen));
}

#[tokio::test]
async fn progress_can_be_left_out() {
    let daemon = Daemon::start("model = \"demo/demo\"\n").await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    let params = json!({ "session_id": session, "since": 0, "progress": false });
    client.call("session/subscribe", params).await;
    client.submit(&session, "s1", "Hello.").await;
    let seen = client.watch_until(is_turn_end).await;
    assert!(seen.iter().all(|message| message["type"] != "message.delta"), "{seen:?}");
    let answer = client.call("session/unsubscribe", json!({ "session_id": session })).await;
    assert_eq!(answer, json!({ "unsubscribed": true }));
}
