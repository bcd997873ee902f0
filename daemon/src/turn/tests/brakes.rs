//! Every brake, soft and hard: the last request that fits is announced, calls made all the same are
//! not run, and the turn says which limit it was.

use agentd_protocol::event::{EventBody, Limit, LimitScope};
use agentd_protocol::item::ToolStatus;
use agentd_protocol::session::{Limits, Usage};
use serde_json::json;

use super::cases::broken;
use super::rig::{Rig, overflow};
use crate::turn::{Action, Input, StreamInput};

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

/// A request that broke off after it was paid for: of its 80 tokens and 0.8 USD, and after 800 ms.
fn break_off(rig: &mut Rig) {
    let usage = Usage { input: 80, output: 0, cost_usd: Some(0.8), ..Usage::default() };
    rig.tell(Input::Stream(StreamInput::Usage(usage)));
    rig.passed_ms += 800;
    rig.tell(broken(true));
    rig.open.clear();
}

/// Limits in tokens, and as much in money and time.
fn of_attempts(tokens: u32) -> [(Limits, Limit, Option<LimitScope>); 5] {
    let none = Limits::default();
    let (usd, ms) = (Some(f64::from(tokens) / 100.0), u64::from(tokens) * 10);
    let tokens = Some(u64::from(tokens));
    let (turn, session) = (None, Some(LimitScope::Session));
    [
        (Limits { max_tokens: tokens, ..none }, Limit::Tokens, turn),
        (Limits { max_cost_usd: usd, ..none }, Limit::Cost, turn),
        (Limits { max_duration_ms: Some(ms), ..none }, Limit::Duration, turn),
        (Limits { max_session_tokens: tokens, ..none }, Limit::Tokens, session),
        (Limits { max_session_cost_usd: usd, ..none }, Limit::Cost, session),
    ]
}

fn assert_exhausted(rig: &Rig, limit: Limit, scope: Option<LimitScope>) {
    let EventBody::TurnExhausted { limit: by, scope: of, .. } = rig.last() else {
        panic!("{limit:?}, {scope:?}: {:?}", rig.last());
    };
    assert_eq!((*by, *of), (limit, scope));
}

#[test]
fn an_attempt_that_does_not_fit_any_more_is_not_made() {
    for (limits, limit, scope) in of_attempts(72) {
        let mut rig = Rig::new(limits);
        break_off(&mut rig);
        rig.tell(Input::RetryDue);
        assert_eq!(rig.open, [], "{limit:?}, {scope:?}: no request goes out");
        assert_exhausted(&rig, limit, scope);
        let item = rig.events.iter().rev().find_map(|event| event.body.item());
        let item = serde_json::to_value(item.expect("the booked item")).expect("JSON");
        assert_eq!((&item["status"], &item["content"]), (&json!("partial"), &json!([])));
    }
}

#[test]
fn an_attempt_that_is_the_last_that_fits_is_announced_and_counted_on() {
    for (limits, limit, scope) in of_attempts(120) {
        let mut rig = Rig::new(limits);
        assert!(!announced(&rig), "{limit:?}, {scope:?}");
        break_off(&mut rig);
        rig.tell(Input::RetryDue);
        assert!(announced(&rig), "{limit:?}, {scope:?}");
        let [Action::Request { attempt: 2, .. }] = &rig.open[..] else { panic!("{:?}", rig.open) };
        rig.model_calls("write", json!({}));
        rig.settle();
        rig.end("tool_calls");
        assert_eq!(rig.results().last().expect("a result").0, ToolStatus::NotRun);
        assert_exhausted(&rig, limit, scope);
    }
}

#[test]
fn a_summary_and_each_attempt_at_it_have_to_fit_too() {
    for (limits, limit, scope) in of_attempts(72) {
        // After an answer that used all of it up.
        let mut rig = Rig::new(limits);
        let usage = Usage { input: 80, cost_usd: Some(0.8), ..Usage::default() };
        rig.tell(Input::Stream(StreamInput::Usage(usage)));
        rig.passed_ms += 800;
        rig.full(None, None);
        assert_exhausted(&rig, limit, scope);
        assert!(!rig.open.iter().any(|a| matches!(a, Action::Summarize { .. })), "{:?}", rig.open);
        // The request for it broke off, or was too long.
        for again in [true, false] {
            let mut rig = Rig::new(limits);
            rig.full(None, None);
            rig.planned(0);
            if again {
                break_off(&mut rig);
                rig.tell(Input::RetryDue);
            } else {
                rig.tell(Input::Stream(StreamInput::Usage(usage)));
                rig.passed_ms += 800;
                rig.open.clear();
                let error = overflow();
                rig.tell(Input::Stream(StreamInput::Broken { error, retry: None }));
            }
            assert_eq!(rig.open, [], "{limit:?}, {scope:?}");
            assert_exhausted(&rig, limit, scope);
        }
    }
}

#[test]
fn of_a_turns_limit_and_its_sessions_the_tighter_one_counts() {
    for (turn, session, scope) in [(60, 100, None), (100, 60, Some(LimitScope::Session))] {
        let limits = Limits {
            max_tokens: Some(turn),
            max_session_tokens: Some(session),
            ..Limits::default()
        };
        let mut rig = Rig::new(limits);
        assert!(iterate(&mut rig, 1));
        assert!(!iterate(&mut rig, 2), "40 are used, and 80 would be");
        assert_exhausted(&rig, Limit::Tokens, scope);
    }
}

#[test]
fn an_answer_that_broke_off_and_is_tried_again_is_paid_for() {
    let mut rig = Rig::new(Limits { max_tokens: Some(165), ..Limits::default() });
    break_off(&mut rig);
    rig.tell(Input::RetryDue);
    assert!(iterate(&mut rig, 1));
    assert!(!iterate(&mut rig, 2), "80 of the attempt that failed, 40 of the next, and 80 more");
    assert_exhausted(&rig, Limit::Tokens, None);
}
