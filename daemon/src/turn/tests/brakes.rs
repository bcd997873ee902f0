//! Every brake, soft and hard: the last request that fits is announced, calls made all the same are
//! not run, and the turn says which limit it was.

use agentd_protocol::event::{EventBody, Limit, LimitScope};
use agentd_protocol::item::ToolStatus;
use agentd_protocol::session::{Limits, Usage};
use serde_json::json;

use super::cases::broken;
use super::rig::Rig;
use crate::turn::{Input, StreamInput};

/// Two iterations and not three, in each limit's own measure; an iteration uses 40 tokens, 0.4 USD
/// and a second.
fn table() -> [(&'static str, Limits, Limit, Option<LimitScope>); 6] {
    let none = Limits::default();
    let (turn, session) = (None, Some(LimitScope::Session));
    [
        ("iterations", Limits { max_iterations: Some(3), ..none }, Limit::Iterations, turn),
        ("tokens", Limits { max_tokens: Some(100), ..none }, Limit::Tokens, turn),
        ("cost", Limits { max_cost_usd: Some(1.0), ..none }, Limit::Cost, turn),
        ("duration", Limits { max_duration_ms: Some(2_600), ..none }, Limit::Duration, turn),
        ("tokens", Limits { max_session_tokens: Some(100), ..none }, Limit::Tokens, session),
        ("cost", Limits { max_session_cost_usd: Some(1.0), ..none }, Limit::Cost, session),
    ]
}

/// One answer with a call; whether the call was let go.
fn iterate(rig: &mut Rig, round: u32) -> bool {
    let usage = Usage { input: 30, output: 10, cost_usd: Some(0.4), ..Usage::default() };
    rig.tell(Input::Stream(StreamInput::Usage(usage)));
    rig.model_calls("write", json!({ "round": round }));
    rig.settle();
    rig.end("tool_calls");
    rig.settle();
    rig.passed_ms += 1_000;
    let runs = rig.take_runs();
    for call_id in &runs {
        rig.finish(call_id, ToolStatus::Ok);
    }
    !runs.is_empty()
}

fn announced(rig: &Rig) -> bool {
    let said = |body: &EventBody| serde_json::to_string(body).expect("JSON");
    rig.events.iter().any(|event| said(&event.body).contains("This is the last step"))
}

#[test]
fn every_limit_announces_the_last_step_and_then_ends_the_turn() {
    for (name, limits, limit, scope) in table() {
        let mut rig = Rig::new(limits);
        assert!(iterate(&mut rig, 1), "{name}, {scope:?}");
        assert!(!announced(&rig), "{name}, {scope:?}: two more fit");
        assert!(iterate(&mut rig, 2), "{name}, {scope:?}");
        assert!(announced(&rig), "{name}, {scope:?}: one more fits");
        assert!(!iterate(&mut rig, 3), "{name}, {scope:?}: it was the last step");
        assert_eq!(rig.results().last().expect("a result").0, ToolStatus::NotRun);
        let EventBody::TurnExhausted { limit: ended_by, scope: of, totals } = rig.last() else {
            panic!("{name}, {scope:?}: {:?}", rig.last());
        };
        assert_eq!((*ended_by, *of, totals.iterations), (limit, scope, 3), "{name}, {scope:?}");
    }
}

#[test]
fn a_plain_answer_on_any_last_step_completes_the_turn() {
    for (name, limits, _, scope) in table() {
        let mut rig = Rig::new(limits);
        iterate(&mut rig, 1);
        iterate(&mut rig, 2);
        rig.text("done");
        rig.end("stop");
        assert!(matches!(rig.last(), EventBody::TurnCompleted { .. }), "{name}, {scope:?}");
    }
}

#[test]
fn what_is_used_up_before_the_first_request_lets_none_through() {
    for limits in [
        Limits { max_iterations: Some(0), ..Limits::default() },
        Limits { max_session_tokens: Some(0), ..Limits::default() },
    ] {
        let rig = Rig::new(limits);
        assert!(matches!(rig.last(), EventBody::TurnExhausted { .. }), "{:?}", rig.last());
        assert!(!rig.names().contains(&"iteration.started"));
    }
}

#[test]
fn an_answer_that_broke_off_and_is_tried_again_is_paid_for() {
    let limits = Limits { max_tokens: Some(100), ..Limits::default() };
    let mut rig = Rig::new(limits);
    let usage = Usage { input: 80, output: 0, ..Usage::default() };
    rig.tell(Input::Stream(StreamInput::Usage(usage)));
    rig.tell(broken(true));
    rig.tell(Input::RetryDue);
    assert!(iterate(&mut rig, 1));
    assert!(
        matches!(rig.last(), EventBody::TurnExhausted { limit: Limit::Tokens, .. }),
        "80 of the attempt that failed and 40 of the next: {:?}",
        rig.last()
    );
}
