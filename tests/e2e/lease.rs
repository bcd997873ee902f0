//! Two daemons over one state directory: a session has one writer, whatever happens to it.
//!
//! Receives the harness; hands out logs that one daemon at a time has written.

use harness::client::{input, is_turn_end};
use harness::{Answer, Client, Daemon, Gate, ModelServer, wait};
use rustix::process::{Pid, Signal, test_kill_process};
use serde_json::{Value, json};

/// The shortest that is taken; a test that must see one expire waits for it.
const SHORT: &str = "1s";
/// Longer than any test.
const LONG: &str = "1h";

/// Two daemons that share a state directory and a model, a client of each, and a session.
struct Rivals {
    model: ModelServer,
    one: Daemon,
    two: Daemon,
    first: Client,
    second: Client,
    session: String,
}

impl Rivals {
    async fn start(lease_ttl: &str, mode: &str) -> Self {
        let model = ModelServer::start().await;
        let config = format!(
            "{}[daemon]\nlease_ttl = \"{lease_ttl}\"\n[store]\nshared = true\n\
             [permission]\nmode = \"{mode}\"\n",
            model.config()
        );
        let one = Daemon::start(&config).await;
        let mut two = one.sibling("two");
        two.spawn();
        two.ready().await;
        let (mut first, mut second) = (one.client().await, two.client().await);
        let session = first.create_session(&one.work_dir()).await;
        for client in [&mut first, &mut second] {
            client.subscribe(&session, Some(0)).await;
        }
        Self { model, one, two, first, second, session }
    }

    /// Has the first daemon stand in the middle of an answer.
    async fn busy(&mut self) -> Gate {
        let gate = Gate::new();
        self.model.push(Answer::saying("Half of it,").wait(&gate).text(" and the rest."));
        self.first.submit(&self.session, "s1", "Talk.").await;
        self.first.watch_until_text("Half of it,").await;
        gate
    }

    /// The session as the second daemon sees it.
    async fn seen_by_second(&mut self) -> Value {
        self.second.call("session/get", json!({ "session_id": self.session })).await
    }

    /// Stops the first daemon until its lease has expired.
    async fn stop_past_expiry(&mut self) {
        self.one.signal(Signal::STOP);
        wait::until("the lease to expire", async || {
            match self.seen_by_second().await.get("lease") {
                None => Ok(()),
                Some(lease) => Err(lease.clone()),
            }
        })
        .await;
    }

    /// The log, which both tell alike and without a hole.
    async fn log(&mut self) -> Vec<Value> {
        let log = self.first.events(&self.session).await;
        assert_eq!(log, self.second.events(&self.session).await);
        for (index, event) in log.iter().enumerate() {
            assert_eq!(event["seq"], index + 1, "a hole before {event}");
        }
        log
    }
}

fn ends(log: &[Value]) -> Vec<(&str, &str)> {
    log.iter()
        .filter(|event| is_turn_end(event))
        .map(|event| (event["type"].as_str().unwrap(), event["reason"].as_str().unwrap_or("")))
        .collect()
}

const LEASE_LOST: (&str, &str) = ("turn.aborted", "lease_lost");
const COMPLETED: (&str, &str) = ("turn.completed", "");

fn is_detached(message: &Value) -> bool {
    message["type"] == "subscription.detached"
}

/// *single writer*: a holder that is stopped past its lease's end, and goes on when another daemon
/// has the session, writes nothing. Its watchers are told, and miss nothing.
#[tokio::test]
async fn single_writer() {
    let mut rivals = Rivals::start(SHORT, "ask").await;
    let gate = rivals.busy().await;
    rivals.stop_past_expiry().await;
    rivals.model.push(Answer::saying("Mine now."));
    rivals.second.submit(&rivals.session, "s2", "Go on.").await;
    let mut by_second = rivals.second.watch_until(is_turn_end).await;
    assert_eq!(ends(&by_second), [LEASE_LOST], "the new holder closes the old one's turn");
    by_second = rivals.second.watch_until(is_turn_end).await;
    assert_eq!(ends(&by_second), [COMPLETED]);
    let before = rivals.second.events(&rivals.session).await;

    // The rest of the old answer is there to be read before anything else.
    gate.open();
    rivals.one.signal(Signal::CONT);
    let told = rivals.first.watch_until(is_detached).await;
    assert_eq!(told.last().unwrap()["reason"], "lease_lost");
    let followed = rivals.first.watch_until(|message| message["seq"] == before.len()).await;
    assert_eq!(ends(&followed), [LEASE_LOST, COMPLETED]);
    assert_eq!(rivals.log().await, before, "nothing was written by who lost the lease");

    // It is nobody's now, so the first may have it again.
    rivals.model.push(Answer::saying("Mine again."));
    rivals.first.submit(&rivals.session, "s3", "And now?").await;
    assert_eq!(ends(&rivals.second.watch_until(is_turn_end).await), [COMPLETED]);
    assert_eq!(ends(&rivals.log().await), [LEASE_LOST, COMPLETED, COMPLETED]);
    rivals.model.assert_all_taken();
}

/// An answer that reached a holder while it was stopped comes too late: its tool does not run.
#[tokio::test]
async fn single_writer_runs_no_tool_under_a_lease_that_is_lost() {
    let mut rivals = Rivals::start(SHORT, "ask").await;
    rivals.model.push(Answer::calling("shell", &json!({ "command": "touch ran" })));
    rivals.model.push(Answer::saying("Understood."));
    rivals.first.submit(&rivals.session, "s1", "Run it.").await;
    let asked = rivals.first.watch_until_type("permission.requested").await;
    let prompt_id = asked.last().unwrap()["prompt"]["prompt_id"].clone();
    rivals.stop_past_expiry().await;
    let reply = |decision: &str| json!({ "prompt_id": prompt_id, "decision": decision });
    let late = rivals.first.request("permission/reply", reply("allow")).await;
    // The turn waits for people, so the new holder goes on with it where it is.
    rivals.second.call("permission/reply", reply("deny")).await;
    let seen = rivals.second.watch_until(is_turn_end).await;
    assert_eq!(ends(&seen), [COMPLETED]);

    rivals.one.signal(Signal::CONT);
    let response = rivals.first.response(&late.into()).await;
    assert!(response.get("error").is_some(), "{response}");
    rivals.first.watch_until(is_detached).await;
    // Asked again, it says who decided what.
    let error = rivals.first.try_call("permission/reply", reply("allow")).await.unwrap_err();
    assert_eq!(
        (&error["data"]["kind"], &error["data"]["decision"]),
        (&json!("prompt_resolved"), &json!("deny"))
    );
    assert!(!rivals.one.work_dir().join("ran").exists());
    let log = rivals.log().await;
    let resolved = log.iter().filter(|event| event["type"] == "permission.resolved").count();
    assert_eq!((resolved, ends(&log)), (1, vec![COMPLETED]));
    rivals.model.assert_all_taken();
}

/// Nobody took it: the holder renews it late, and its turn goes on as if nothing had been.
#[tokio::test]
async fn a_lease_that_nobody_took_is_renewed_late() {
    let mut rivals = Rivals::start(SHORT, "ask").await;
    let gate = rivals.busy().await;
    rivals.stop_past_expiry().await;
    rivals.one.signal(Signal::CONT);
    wait::until("the lease to be renewed", async || {
        let session = rivals.seen_by_second().await;
        session["lease"]["pid"].as_i64().ok_or(session)
    })
    .await;
    gate.open();
    let seen = rivals.first.watch_until(is_turn_end).await;
    assert_eq!(ends(&seen), [COMPLETED]);
    assert!(!seen.iter().any(is_detached));
    assert_eq!(ends(&rivals.log().await), [COMPLETED]);
}

/// Takeover on purpose ends the old holder's turn; its watchers are told and follow the log.
#[tokio::test]
async fn takeover_ends_the_holders_turn() {
    let mut rivals = Rivals::start(SHORT, "ask").await;
    let gate = rivals.busy().await;
    let session =
        rivals.second.call("session/takeover", json!({ "session_id": rivals.session })).await;
    assert_eq!(session["state"], "idle", "{session}");
    assert_eq!(ends(&rivals.second.watch_until(is_turn_end).await), [LEASE_LOST]);
    rivals.first.watch_until(is_detached).await;
    rivals.model.hangups(1).await;
    gate.open();
    let followed = rivals.first.watch_until(is_turn_end).await;
    assert_eq!(ends(&followed), [LEASE_LOST]);
    assert_eq!(followed.last().unwrap()["reason"], "lease_lost");
    rivals.model.push(Answer::saying("Hello from two."));
    rivals.second.submit(&rivals.session, "s2", "Hi.").await;
    assert_eq!(ends(&rivals.first.watch_until(is_turn_end).await), [COMPLETED]);
    assert_eq!(ends(&rivals.log().await), [LEASE_LOST, COMPLETED]);
    rivals.model.assert_all_taken();
}

/// A turn that waits for people is not ended by a takeover: it waits on, in its new home.
#[tokio::test]
async fn takeover_of_a_prompt_goes_on_with_it() {
    let mut rivals = Rivals::start(SHORT, "ask").await;
    rivals.model.push(Answer::calling("write", &json!({ "path": "new.txt", "content": "x\n" })));
    rivals.model.push(Answer::saying("Written."));
    rivals.first.submit(&rivals.session, "s1", "Write.").await;
    let asked = rivals.first.watch_until_type("permission.requested").await;
    let prompt_id = asked.last().unwrap()["prompt"]["prompt_id"].clone();
    let session =
        rivals.second.call("session/takeover", json!({ "session_id": rivals.session })).await;
    assert_eq!(session["state"], "waiting");
    assert_eq!(session["lease"]["pid"], rivals.two.pid().as_raw_nonzero().get());
    let told = rivals.first.watch_until(is_detached).await;
    assert_eq!(told.last().unwrap()["holder"]["owner"], session["lease"]["owner"]);
    // Who asks the wrong daemon is told which is the right one.
    let reply = json!({ "prompt_id": prompt_id, "decision": "allow" });
    let error = rivals.first.try_call("permission/reply", reply.clone()).await.unwrap_err();
    assert_eq!(error["data"]["pid"], session["lease"]["pid"], "{error}");
    rivals.second.call("permission/reply", reply).await;
    assert_eq!(ends(&rivals.first.watch_until(is_turn_end).await), [COMPLETED]);
    assert!(rivals.one.work_dir().join("new.txt").exists());
    let log = rivals.log().await;
    assert_eq!(log.iter().filter(|event| event["type"] == "turn.started").count(), 1);
    rivals.model.assert_all_taken();
}

/// A holder that is gone is not waited for: whoever writes next closes its turn.
#[tokio::test]
async fn a_dead_holders_turn_is_closed_by_the_next_writer() {
    let mut rivals = Rivals::start(LONG, "ask").await;
    rivals.busy().await;
    let pid = rivals.one.pid().as_raw_nonzero().get();
    assert_eq!(rivals.seen_by_second().await["lease"]["pid"], pid);
    rivals.one.kill();
    assert_eq!(rivals.seen_by_second().await.get("lease"), None);
    rivals.model.push(Answer::saying("Mine now."));
    rivals.second.submit(&rivals.session, "s2", "Go on.").await;
    let crashed = rivals.second.watch_until(is_turn_end).await;
    assert_eq!(ends(&crashed), [("turn.aborted", "crashed")]);
    assert_eq!(ends(&rivals.second.watch_until(is_turn_end).await), [COMPLETED]);
    rivals.one.restart().await;
    rivals.first = rivals.one.client().await;
    assert_eq!(ends(&rivals.log().await), [("turn.aborted", "crashed"), COMPLETED]);
    rivals.model.assert_all_taken();
}

/// Whatever would write is refused while another daemon runs the session, and says who it is. A
/// refusal leaves no trace, not even for those who watch.
#[tokio::test]
async fn who_does_not_hold_the_lease_is_told_who_does() {
    let mut rivals = Rivals::start(LONG, "ask").await;
    let gate = rivals.busy().await;
    let holder = rivals.seen_by_second().await["lease"].clone();
    let before = rivals.second.events(&rivals.session).await;
    let session = rivals.session.clone();
    let op = |op: Value| {
        let submission = json!({ "id": "other", "op": op });
        ("session/submit", json!({ "session_id": session, "submission": submission }))
    };
    let input = |delivery: &str| {
        op(json!({ "type": "user_input", "content": "Hi.", "delivery": delivery }))
    };
    for (method, params) in [
        input("auto"),
        input("steer"),
        input("queue"),
        input("replace"),
        input("reject"),
        op(json!({ "type": "interrupt" })),
        op(json!({ "type": "resume" })),
        op(json!({ "type": "configure", "permission_mode": "full" })),
        op(json!({ "type": "dequeue", "submission_id": "s1" })),
        ("session/update", json!({ "session_id": session, "title": "Mine" })),
        ("session/delete", json!({ "session_id": session })),
    ] {
        let error = rivals.second.try_call(method, params.clone()).await.unwrap_err();
        let data = &error["data"];
        assert_eq!(
            (&error["code"], &data["kind"], &data["owner"], &data["pid"], &data["host"]),
            (
                &json!(-32003),
                &json!("lease_held"),
                &holder["owner"],
                &json!(rivals.one.pid().as_raw_nonzero().get()),
                &holder["host"]
            ),
            "{method} {params}: {error}"
        );
        let expires = data["expires_in_ms"].as_u64().unwrap();
        assert!((1..=3_600_000).contains(&expires), "{error}");
    }
    assert_eq!(rivals.log().await, before);
    gate.open();
    let seen = rivals.second.watch_until(is_turn_end).await;
    assert_eq!(ends(&seen), [COMPLETED]);
    assert!(!seen.iter().any(is_detached), "it never had the session: {seen:?}");
    // The id that was refused is free.
    rivals.model.push(Answer::saying("Now."));
    rivals.second.submit(&rivals.session, "other", "Hi.").await;
    assert_eq!(ends(&rivals.first.watch_until(is_turn_end).await), [COMPLETED]);
}

/// Both want the session at once, again and again: each input runs once or is refused.
#[tokio::test]
async fn two_that_want_a_session_at_once_share_it() {
    const INPUTS: usize = 12;
    let mut rivals = Rivals::start(LONG, "ask").await;
    rivals.model.improvise(|_| Answer::saying("Yes."));
    let mut accepted = Vec::new();
    for round in 0..INPUTS {
        let mut requests = Vec::new();
        for (client, name) in [(&mut rivals.first, "one"), (&mut rivals.second, "two")] {
            let id = format!("{name}-{round}");
            let params = input(&rivals.session, &id, "Hi.");
            requests.push((id, client.request("session/submit", params).await));
        }
        for (client, (id, request)) in
            [&mut rivals.first, &mut rivals.second].into_iter().zip(requests)
        {
            let response = client.response(&request.into()).await;
            match response["error"]["data"]["kind"].as_str() {
                None => accepted.push(id),
                Some("lease_held" | "overloaded") => {}
                Some(_) => panic!("{response}"),
            }
        }
    }
    wait::until("the session to rest", async || {
        let session = rivals.seen_by_second().await;
        if session["state"] == "idle" && session.get("lease").is_none() {
            Ok(())
        } else {
            Err(session)
        }
    })
    .await;
    let log = rivals.log().await;
    let told: Vec<&str> = log
        .iter()
        .filter(|event| event["type"] == "submission.accepted")
        .map(|event| event["submission_id"].as_str().unwrap())
        .collect();
    assert_eq!(told.len(), accepted.len());
    assert!(accepted.iter().all(|id| told.contains(&id.as_str())));
    assert!(accepted.len() >= INPUTS, "one of the two is accepted each time: {accepted:?}");
    let started = log.iter().filter(|event| event["type"] == "turn.started").count();
    assert!(ends(&log).iter().all(|end| *end == COMPLETED), "{:?}", ends(&log));
    assert_eq!(started, ends(&log).len());
    rivals.model.assert_all_taken();
}

/// A call that takes until the file `go` is there.
fn waiting_call() -> Answer {
    let command = "echo $$ > pid; until test -e go; do sleep 0.02; done; echo went";
    Answer::calling("shell", &json!({ "command": command }))
}

/// The process of [`waiting_call`].
async fn process(rivals: &Rivals) -> Pid {
    let path = rivals.one.work_dir().join("pid");
    wait::until("the command's process", async || {
        let text = std::fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let pid = text.trim().parse().map_err(|_| format!("{text:?}"))?;
        Pid::from_raw(pid).ok_or(text)
    })
    .await
}

/// Looking after what the dead left is not for the living: a command of the holder runs on.
#[tokio::test]
async fn a_living_holders_command_runs_on() {
    let mut rivals = Rivals::start(LONG, "full").await;
    rivals.model.push(waiting_call());
    rivals.model.push(Answer::saying("Done."));
    rivals.first.submit(&rivals.session, "s1", "Wait.").await;
    process(&rivals).await;
    let params = input(&rivals.session, "s2", "Mine?");
    let error = rivals.second.try_call("session/submit", params).await.unwrap_err();
    assert_eq!(error["data"]["kind"], "lease_held");
    rivals.one.write_file("go", "");
    let seen = rivals.second.watch_until(is_turn_end).await;
    assert_eq!(ends(&seen), [COMPLETED]);
    let completed = seen.iter().find(|message| message["type"] == "tool.completed").unwrap();
    assert!(completed["item"]["content"].to_string().contains("went"), "{completed}");
}

/// Who lost the session ends what it had running for it.
#[tokio::test]
async fn takeover_ends_the_holders_command() {
    let mut rivals = Rivals::start(SHORT, "full").await;
    rivals.model.push(waiting_call());
    rivals.first.submit(&rivals.session, "s1", "Wait.").await;
    let pid = process(&rivals).await;
    rivals.second.call("session/takeover", json!({ "session_id": rivals.session })).await;
    wait::until("the command to end", async || match test_kill_process(pid) {
        Err(_) => Ok(()),
        Ok(()) => Err(pid),
    })
    .await;
    rivals.first.watch_until(is_detached).await;
    let log = rivals.log().await;
    assert_eq!(ends(&log), [LEASE_LOST]);
    let completed = log.iter().find(|event| event["type"] == "tool.completed").unwrap();
    assert_eq!(completed["status"], "interrupted", "{completed}");
}
