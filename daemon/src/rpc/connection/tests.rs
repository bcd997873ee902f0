//! Connections over a real socket pair, with methods that wait, count and panic as they are told.

use std::sync::atomic::Ordering;

use agentd_protocol::error::ErrorData;
use serde_json::{Value, json};

use super::*;
use crate::rpc::outbound::QUEUE_BYTES;
use crate::rpc::testing::{Client, Lab, until};

fn ok(id: &Value, result: impl Into<Value>) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result.into() })
}

/// The id, the code and `data.kind` of an error.
fn error(answer: &Value) -> (Value, i64, String) {
    let error = &answer["error"];
    let kind = error["data"]["kind"].as_str().unwrap_or_default().to_owned();
    (answer["id"].clone(), error["code"].as_i64().unwrap(), kind)
}

#[tokio::test]
async fn f5_an_id_decides_whether_there_is_an_answer() {
    let mut client = Client::to(&Lab::default());
    client
        .write(concat!(
            r#"{"jsonrpc":"2.0","id":5,"method":"session/event"}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":6,"method":"no.such"}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"no.such"}"#,
            "\n",
            r#"{"jsonrpc":"2.0","method":"ping"}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
            "\n",
        ))
        .await;
    client.half_close().await;
    let answers = client.rest().await;
    assert_eq!(answers.len(), 3);
    assert_eq!(error(&answers[0]), (json!(5), -32601, "method_not_found".into()));
    assert_eq!(error(&answers[1]), (json!(6), -32601, "method_not_found".into()));
    assert_eq!(answers[2], ok(&json!(null), "pong"));
}

#[tokio::test]
async fn f6_a_bad_line_ends_nothing() {
    let mut client = Client::to(&Lab::default());
    client.write(b"{\"jsonrpc\":\n\xff\xfe\n\n   \n").await;
    client.write("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await;
    client.half_close().await;
    let answers = client.rest().await;
    assert_eq!(error(&answers[0]), (json!(null), -32700, "parse_error".into()));
    assert_eq!(error(&answers[1]), (json!(null), -32700, "parse_error".into()));
    assert_eq!(answers[2], ok(&json!(1), "pong"));
    assert_eq!(answers.len(), 3);
}

#[tokio::test]
async fn f8_an_endless_line_costs_one_error_and_the_connection() {
    let lab = Lab::default();
    let mut client = Client::of(lab.dispatch(1_000));
    let mut other = Client::to(&lab);
    let answers = tokio::spawn(async move {
        let piece = vec![b'x'; 1024 * 1024];
        for _ in 0..64 {
            client.write(&piece).await;
        }
        // One byte after the 64 MiB, the daemon has closed or is about to.
        client.write_or_closed(b"xx").await;
        client.rest().await
    });
    other.write("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await;
    assert_eq!(other.line().await, Some(ok(&json!(1), "pong")));
    let answers = answers.await.unwrap();
    assert_eq!(error(&answers[0]), (json!(null), -32600, "invalid_request".into()));
    assert_eq!(answers.len(), 1);
}

#[tokio::test]
async fn f9_what_came_before_an_oversized_message_is_answered() {
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let mut client = Client::of(Lab::default().dispatch(ping.len()));
    let over = format!(r#"{{"jsonrpc":"2.0","id":-7,"method":"ping","params":["{ping}"]}}"#);
    client.write(format!("{ping}\n{over}\n{ping}\r\n")).await;
    client.half_close().await;
    let answers = client.rest().await;
    assert_eq!(answers[0], ok(&json!(1), "pong"));
    // The id is looked for in what was kept of it.
    assert_eq!(error(&answers[1]), (json!(-7), -32600, "invalid_request".into()));
    assert_eq!(answers[2], ok(&json!(1), "pong"));
}

#[tokio::test]
async fn f10_a_half_closed_connection_gets_its_answers() {
    let lab = Lab::default();
    let mut client = Client::to(&lab);
    client
        .write(concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"wait","params":{"n":1}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#,
            "\n",
            // The last line needs no end.
            r#"{"jsonrpc":"2.0","id":3,"method":"ping"}"#,
        ))
        .await;
    client.half_close().await;
    assert_eq!(client.line().await, Some(ok(&json!(2), "pong")));
    assert_eq!(client.line().await, Some(ok(&json!(3), "pong")));
    lab.0.gate.add_permits(1);
    assert_eq!(client.line().await, Some(ok(&json!(1), json!({ "n": 1 }))));
    assert_eq!(client.line().await, None);
    client.served.await.unwrap();
}

#[tokio::test]
async fn f11_an_end_of_input_ends_the_connection() {
    for _ in 0..100 {
        let client = Client::to(&Lab::default());
        client.leave().await.unwrap();
        let mut client = Client::to(&Lab::default());
        client.write("Content-Length: 10\r\n\r\n{\"js").await;
        client.leave().await.unwrap();
        let mut client = Client::to(&Lab::default());
        client.write("{\"jsonrpc\":\"2.0\",\"id\":1,").await;
        client.half_close().await;
        let answers = client.rest().await;
        assert_eq!(error(&answers[0]), (json!(null), -32700, "parse_error".into()));
        client.served.await.unwrap();
    }
}

#[tokio::test]
async fn f12_a_long_call_holds_nothing_up() {
    let lab = Lab::default();
    let mut client = Client::to(&lab);
    client
        .write(concat!(
            r#"{"jsonrpc":"2.0","id":1,"method":"wait","params":{}}"#,
            "\n",
            r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#,
            "\n",
        ))
        .await;
    assert_eq!(client.line().await, Some(ok(&json!(2), "pong")));
    lab.0.gate.add_permits(1);
    assert_eq!(client.line().await, Some(ok(&json!(1), json!({}))));
}

#[tokio::test]
async fn f12_the_calls_of_a_connection_are_bounded() {
    let lab = Lab::default();
    let mut client = Client::to(&lab);
    let mut other = Client::to(&lab);
    for id in 0..=MAX_CALLS {
        client
            .write(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"wait","params":[{id}]}}"#))
            .await;
        client.write("\n").await;
    }
    until(|| lab.arrived().len() == MAX_CALLS).await;
    // One more is not even looked at, and another connection does not notice.
    other.write("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await;
    assert_eq!(other.line().await, Some(ok(&json!(1), "pong")));
    assert_eq!(lab.arrived().len(), MAX_CALLS);
    lab.0.gate.add_permits(1);
    until(|| lab.arrived().len() == MAX_CALLS + 1).await;
    lab.0.gate.add_permits(MAX_CALLS);
    client.half_close().await;
    assert_eq!(client.rest().await.len(), MAX_CALLS + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f13_calls_are_handed_over_in_the_order_of_arrival() {
    let lab = Lab::default();
    let mut client = Client::to(&lab);
    lab.0.gate.add_permits(2_000);
    for n in 0..1_000 {
        // In one write, as `start` and `interrupt` would be.
        client
            .write(format!(
                "{{\"jsonrpc\":\"2.0\",\"id\":\"a{n}\",\"method\":\"wait\",\"params\":[{n},0]}}\n\
                 {{\"jsonrpc\":\"2.0\",\"id\":\"b{n}\",\"method\":\"wait\",\"params\":[{n},1]}}\n"
            ))
            .await;
        client.line().await.unwrap();
        client.line().await.unwrap();
    }
    let expected: Vec<Value> = (0..1_000).flat_map(|n| [json!([n, 0]), json!([n, 1])]).collect();
    assert_eq!(lab.arrived(), expected);
}

#[tokio::test]
async fn f14_every_request_has_one_answer() {
    let lab = Lab::default();
    let mut client = Client::to(&lab);
    lab.0.gate.add_permits(10);
    for id in [json!(1), json!("1"), json!(-1), json!(null)] {
        for method in ["wait", "ping", "panic", "late_panic", "none"] {
            let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": [] });
            client.write(format!("{request}\n")).await;
            assert_eq!(client.line().await.unwrap()["id"], id);
        }
    }
    client.half_close().await;
    assert_eq!(client.rest().await, Vec::<Value>::new());
}

#[tokio::test]
async fn a_handler_that_panics_answers_internal() {
    let mut client = Client::to(&Lab::default());
    for method in ["panic", "late_panic"] {
        client.write(format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"{method}\"}}\n")).await;
        let answer = client.line().await.unwrap();
        assert_eq!(error(&answer), (json!(1), -32603, "internal".into()));
    }
}

#[tokio::test]
async fn ids_are_echoed_as_they_came() {
    let mut client = Client::to(&Lab::default());
    for id in ["0", "-0", "-9007199254740993", "123456789012345678901234567890", "\"\\u00e9\""] {
        client.write(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":{id}}}\n")).await;
        let expected = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":\"pong\"}}\n");
        assert_eq!(client.exactly(expected.len()).await, expected);
    }
    for id in ["1.5", "1e3", "true", "[]", "{}"] {
        client.write(format!("{{\"jsonrpc\":\"2.0\",\"method\":\"ping\",\"id\":{id}}}\n")).await;
        let answer = client.line().await.unwrap();
        assert_eq!(error(&answer), (json!(null), -32600, "invalid_request".into()));
    }
}

#[tokio::test]
async fn a_batch_has_one_answer() {
    let lab = Lab::default();
    let mut client = Client::to(&lab);
    client
        .write(concat!(
            r#"[{"jsonrpc":"2.0","id":1,"method":"wait","params":{}}, 7,"#,
            r#"{"jsonrpc":"2.0","method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]"#,
            "\n",
            r#"[{"jsonrpc":"2.0","method":"ping"}]"#,
            "\n[]\n[1\n",
        ))
        .await;
    let answers = [client.line().await.unwrap(), client.line().await.unwrap()];
    assert_eq!(error(&answers[0]), (json!(null), -32600, "invalid_request".into()));
    assert_eq!(error(&answers[1]), (json!(null), -32700, "parse_error".into()));
    lab.0.gate.add_permits(1);
    let answer = client.line().await.unwrap();
    assert_eq!(answer[0], ok(&json!(1), json!({})));
    assert_eq!(error(&answer[1]), (json!(null), -32600, "invalid_request".into()));
    assert_eq!(answer[2], ok(&json!(2), "pong"));
    assert_eq!(answer.as_array().unwrap().len(), 3);
}

#[tokio::test]
async fn an_answer_over_the_limit_is_an_error() {
    let mut client = Client::of(Lab::default().dispatch(1_000));
    client.write("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"big\",\"params\":[2000]}\n").await;
    assert_eq!(error(&client.line().await.unwrap()), (json!(1), -32602, "invalid_params".into()));
    // Two that fit alone do not fit together: the second is left out.
    let entry = r#"{"jsonrpc":"2.0","id":1,"method":"big","params":[500]}"#;
    client.write(format!("[{entry},{entry}]\n")).await;
    let answer = client.line().await.unwrap();
    assert_eq!(answer[0]["result"].as_str().map(str::len), Some(500));
    assert_eq!(error(&answer[1]).1, -32602);
}

#[tokio::test]
async fn a_client_with_headers_is_answered_with_headers() {
    let mut client = Client::to(&Lab::default());
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    client.write(format!("Content-Length: {}\r\n\r\n{ping}", ping.len())).await;
    let expected = "Content-Length: 40\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"pong\"}";
    assert_eq!(client.exactly(expected.len()).await, expected);
}

#[tokio::test]
async fn a_stopping_daemon_answers_what_it_was_asked() {
    let lab = Lab::default();
    let mut client = Client::to(&lab);
    client.write("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"wait\",\"params\":{}}\n").await;
    until(|| lab.arrived().len() == 1).await;
    client.stop.cancel();
    lab.0.gate.add_permits(1);
    assert_eq!(client.rest().await, [ok(&json!(1), json!({}))]);
    client.served.await.unwrap();
}

#[tokio::test]
async fn a_client_that_asks_for_many_pages_gets_a_few_at_once() {
    let lab = Lab::default();
    let mut client = Client::to(&lab);
    let request = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/items\"}\n";
    client.write(request.repeat(4 * MAX_PAGES)).await;
    for round in 1..=4 {
        until(|| lab.arrived().len() == round * MAX_PAGES).await;
        tokio::task::yield_now().await;
        assert_eq!(lab.arrived().len(), round * MAX_PAGES);
        lab.0.gate.add_permits(MAX_PAGES);
    }
    for _ in 0..4 * MAX_PAGES {
        assert_eq!(client.line().await.unwrap(), ok(&json!(1), "page"));
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_not_read_any_further() {
    let lab = Lab::default();
    let mut client = Client::to(&lab);
    let request = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"big\",\"params\":[20000]}\n";
    client.write(request.repeat(1_000)).await;
    let queued = QUEUE_BYTES / 20_000;
    until(|| lab.0.big.load(Ordering::Relaxed) > queued).await;
    // Answers that wait for room, those in the queue, and what the kernel takes.
    let held = MAX_UNREAD + queued + 20;
    for read in 0..1_000 {
        assert!(lab.0.big.load(Ordering::Relaxed) <= read + held);
        assert!(client.line().await.unwrap()["result"].is_string());
    }
}

#[test]
fn the_error_of_an_unknown_method_names_the_nearest() {
    let error = crate::rpc::params::unknown_method("session/lst");
    let ErrorData::MethodNotFound { nearest, .. } = error.data else { panic!("{error:?}") };
    assert_eq!(nearest.as_deref(), Some("session/list"));
}
