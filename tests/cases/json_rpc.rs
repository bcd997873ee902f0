//! What only the whole daemon can show about its connections: f8, f11, f13. The other cases of
//! JSON-RPC are tests beside the dispatcher.
//!
//! Receives the harness; hands out what connections were answered and what they cost.

use harness::client::{input, is_turn_end};
use harness::{Answer, Client, Daemon, ModelServer, wait};
use serde_json::json;

/// A line without an end: an error, and the connection is closed when its bytes pass the bound.
#[tokio::test]
async fn f8_unterminated_line_exhausts_daemon_memory() {
    let daemon = Daemon::start("").await;
    let mut other = daemon.client().await;
    let before = memory(&mut other).await;
    let mut client = daemon.client().await;
    let piece = vec![b'x'; 1 << 20];
    let mut sent = 0_usize;
    // 64 MiB and what buffers hold; then the daemon no longer reads.
    while sent < 80 << 20 {
        if client.try_write(&piece).await.is_err() {
            break;
        }
        sent += piece.len();
    }
    assert!(sent < 80 << 20, "the daemon reads for ever");
    let mut answers = Vec::new();
    while let Some(answer) = client.read().await {
        answers.push(answer);
    }
    assert!(answers.len() <= 1, "{answers:?}");
    assert!(answers.iter().all(|answer| answer["error"]["code"].is_number()), "{answers:?}");
    let after = memory(&mut other).await;
    assert!(after < before + (16 << 20), "memory went from {before} to {after} bytes");
}

async fn memory(client: &mut Client) -> u64 {
    let status = client.call("daemon/status", json!({})).await;
    status["memory_bytes"].as_u64().unwrap_or(0)
}

#[tokio::test]
async fn f11_eof_causes_a_busy_loop() {
    let daemon = Daemon::start("").await;
    let log = daemon.log().len();
    let before = cpu_ticks(&daemon);
    let mut client = daemon.client().await;
    for _ in 0..10 {
        // Fewer than the daemon takes at once, since it may not be as fast as we are.
        for index in 0..100 {
            let mut other = daemon.client().await;
            if index % 2 == 0 {
                other.write(b"{\"jsonrpc\":\"2.0\",").await;
            }
        }
        wait::until("the connections to be gone", async || {
            let status = client.call("daemon/status", json!({})).await;
            if status["connections"] == 1 { Ok(()) } else { Err(status["connections"].clone()) }
        })
        .await;
    }
    // A loop at the end of input would burn a whole core from the first connection on; a thousand
    // connections cost a small part of a second.
    let spent = cpu_ticks(&daemon) - before;
    assert!(spent < 1_000, "{spent} ticks of CPU");
    let grown = daemon.log().len() - log;
    assert!(grown < 64 << 10, "the log grew by {grown} bytes");
}

/// User and system time of the daemon's process, in ticks of the system's clock (100 a second).
fn cpu_ticks(daemon: &Daemon) -> u64 {
    let path = format!("/proc/{}/stat", daemon.pid().as_raw_nonzero());
    let Ok(stat) = std::fs::read_to_string(path) else { return 0 };
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)
}

/// An interrupt that is sent right behind a submission, in one write, always finds its turn.
#[tokio::test]
async fn f13_cancel_overtakes_request_it_cancels() {
    let rounds = if std::env::var_os("AGENTD_SOAK").is_some() { 1_000 } else { 50 };
    let model = ModelServer::start().await;
    model.improvise(|_| Answer::saying("For ever").silence());
    let daemon = Daemon::start(&model.config()).await;
    let mut client = daemon.client().await;
    let session = client.create_session(&daemon.work_dir()).await;
    client.subscribe(&session, None).await;
    for round in 0..rounds {
        let submit = json!({
            "jsonrpc": "2.0", "id": format!("a{round}"), "method": "session/submit",
            "params": input(&session, &format!("s{round}"), "Hello."),
        });
        let interrupt = json!({
            "jsonrpc": "2.0", "id": format!("b{round}"), "method": "session/submit",
            "params": {
                "session_id": session,
                "submission": { "id": format!("i{round}"), "op": { "type": "interrupt" } },
            },
        });
        client.write(format!("{submit}\n{interrupt}\n").as_bytes()).await;
        let started = client.response(&json!(format!("a{round}"))).await;
        let applied = client.response(&json!(format!("b{round}"))).await;
        assert_eq!(applied["result"]["turn_id"], started["result"]["turn_id"], "round {round}");
        let end = client.watch_until(is_turn_end).await.pop().unwrap();
        assert_eq!((&end["type"], &end["reason"]), (&json!("turn.aborted"), &json!("interrupted")));
    }
}
