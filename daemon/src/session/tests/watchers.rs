//! Who watches, as watchers are told of each other.

use std::time::Duration;

use agentd_protocol::daemon::{ClientInfo, Role};
use agentd_protocol::progress::{Marker, StreamMessage, Watchers};
use serde_json::{Value, json};

use super::house::{Eyes, House, caller};
use crate::clock::Clock;
use crate::session::Caller;
use crate::tools::Tools;

fn named(connection: u64, name: &str) -> Caller {
    let client = ClientInfo { name: name.to_owned(), version: "1".to_owned() };
    Caller { client, ..caller(connection) }
}

/// What comes next: the number of an event, or who watches.
async fn next(eyes: &mut Eyes) -> Value {
    match eyes.message().await {
        StreamMessage::Event(event) => json!(event.seq),
        StreamMessage::Marker(Marker::Joined { watchers, .. } | Marker::Watchers(watchers)) => {
            names(&watchers)
        }
        other => panic!("{other:?}"),
    }
}

fn names(watchers: &Watchers) -> Value {
    let names = watchers.clients.iter().map(|client| json!([client.name, client.count]));
    json!({ "count": watchers.count, "names": names.collect::<Vec<_>>() })
}

#[tokio::test]
async fn watchers_see_each_other_come_and_go_and_no_number_is_used_for_it() {
    let clock = Clock::manual();
    let house = House::with(clock.clone(), Tools::builtin("/nonexistent/agentd".into(), "dmn_1"));
    let session = house.session(json!({})).await;
    let id = &session.session_id;
    let mut one = house.watch_as(id, &named(1, "vim"), Role::Controller).await;
    assert_eq!(next(&mut one).await, json!(1));
    assert_eq!(next(&mut one).await, json!({ "count": 1, "names": [["vim", 1]] }));

    let mut two = house.watch_as(id, &named(2, "agentctl"), Role::Observer).await;
    let both = json!({ "count": 2, "names": [["agentctl", 1], ["vim", 1]] });
    assert_eq!(next(&mut one).await, both);
    assert_eq!([next(&mut two).await, next(&mut two).await], [json!(1), both]);

    // The second subscription of a connection replaces the first: nobody came, nobody went.
    let again = house.watch_as(id, &named(2, "agentctl"), Role::Observer).await;
    drop(two);
    // Whoever comes and goes in a moment is not told, how often it may be.
    for connection in 3..200 {
        drop(house.watch_as(id, &named(connection, "passing"), Role::Observer).await);
    }
    let long = "n".repeat(1000);
    let many = (200..220).map(|number| (number, format!("{number}{long}")));
    let mut crowd = Vec::new();
    for (connection, name) in many {
        crowd.push(house.watch_as(id, &named(connection, &name), Role::Observer).await);
    }
    house.rename(id, "other").await.expect("renamed");
    assert_eq!(next(&mut one).await, json!(2), "an event does not wait for it");
    clock.advance(Duration::from_millis(100));
    let told = next(&mut one).await;
    assert_eq!(told["count"], 22, "all are counted");
    let names = told["names"].as_array().expect("names");
    assert_eq!(names.len(), 16, "and some are named");
    assert!(names[0][0].as_str().is_some_and(|name| name.len() == 64), "{names:?}");

    drop((crowd, again));
    house.rename(id, "third").await.expect("renamed");
    assert_eq!(next(&mut one).await, json!(3));
    clock.advance(Duration::from_millis(100));
    assert_eq!(next(&mut one).await, json!({ "count": 1, "names": [["vim", 1]] }));
}

/// Who wants no progress is told at the join, and not of each change.
#[tokio::test]
async fn without_progress_only_the_join_says_it() {
    let house = House::new();
    let session = house.session(json!({})).await;
    let params = serde_json::from_value(json!({
        "session_id": session.session_id, "progress": false,
    }));
    let watch = house.registry.subscribe(&named(1, "vim"), Role::Observer, params.unwrap()).await;
    let mut quiet = Eyes::of(watch.unwrap());
    assert_eq!(next(&mut quiet).await, json!({ "count": 1, "names": [["vim", 1]] }));
    let other = house.watch(&session.session_id).await;
    house.rename(&session.session_id, "other").await.expect("renamed");
    assert_eq!(next(&mut quiet).await, json!(2));
    drop(other);
}
