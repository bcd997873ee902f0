//! Calls that start while their answer streams: which, when, and what becomes of them.

use agentd_protocol::event::{AbortReason, EventBody, RetryCause, TurnErrorCode};
use agentd_protocol::id::CallId;
use agentd_protocol::item::ToolStatus;
use agentd_protocol::permission::Resolution;
use agentd_protocol::session::Limits;
use serde_json::json;

use super::rig::{Rig, overflow};
use crate::turn::{Action, Input, Retry, StreamInput};

/// An answer that streams and has called these tools so far; those that are let go have started.
fn streaming(calls: &[(&str, u64)]) -> Rig {
    let mut rig = Rig::new(Limits::default());
    rig.text("I look");
    for (name, n) in calls {
        rig.model_calls(name, json!({ "n": n }));
    }
    rig.settle();
    rig.tell(Input::CheckpointDue);
    rig.settle();
    rig
}

/// Names of the calls that run, in order.
fn running(rig: &mut Rig) -> Vec<String> {
    let runs = rig.take_runs();
    runs.iter()
        .map(|run| {
            let call = rig.machine.call(run).expect("it is of this answer");
            format!("{} {}", call.name, call.arguments["n"])
        })
        .collect()
}

fn broken(rig: &mut Rig) {
    let error = overflow();
    let cause =
        RetryCause { code: TurnErrorCode::BadResponse, message: String::new(), status: None };
    let retry = Some(Retry { delay_ms: 1, max_attempts: 6, cause });
    rig.tell(Input::Stream(StreamInput::Broken { error, retry }));
}

fn statuses(rig: &Rig) -> Vec<ToolStatus> {
    rig.results().into_iter().map(|(status, _)| status).collect()
}

#[test]
fn which_calls_start_early() {
    type Case = (&'static [(&'static str, u64)], &'static [&'static str]);
    let cases: [Case; 8] = [
        (&[("read", 1), ("read", 2)], &["read 1", "read 2"]),
        // At most three at once here.
        (&[("read", 1), ("read", 2), ("read", 3), ("read", 4)], &["read 1", "read 2", "read 3"]),
        (&[("read", 1), ("write", 2), ("read", 3)], &["read 1"]),
        (&[("ask_write", 1), ("read", 2)], &[]),
        (&[("ask_read", 1), ("read", 2)], &["read 2"]),
        // Neither will run.
        (&[("bad", 1), ("no_read", 2), ("read", 3)], &["read 3"]),
        // The second waits for the first one's result, and is refused.
        (&[("read", 1), ("read", 1), ("read", 2)], &["read 1", "read 2"]),
        (&[], &[]),
    ];
    for (calls, early) in cases {
        assert_eq!(running(&mut streaming(calls)), early, "{calls:?}");
    }
}

#[test]
fn an_early_call_starts_with_a_checkpoint_and_costs_no_commit() {
    let mut rig = Rig::new(Limits::default());
    rig.text("I look");
    rig.model_calls("read", json!({}));
    rig.settle();
    let before = rig.commits;
    assert_eq!(rig.take_runs(), [], "not before it is on record");
    assert!(rig.machine.has_unsaved());
    rig.tell(Input::CheckpointDue);
    assert_eq!(rig.commits, before + 1);
    assert!(rig.names().ends_with(&["tool.called", "tool.started"]), "{:?}", rig.names());
    assert!(!rig.machine.has_unsaved());
    let runs = rig.take_runs();
    rig.finish(&runs[0], ToolStatus::Ok);
    assert_eq!(rig.commits, before + 1, "its result is recorded after its answer");
    rig.end("tool_calls");
    assert_eq!(rig.commits, before + 2);
    let names = rig.names();
    let place = |name| names.iter().rposition(|seen| *seen == name).expect("it is recorded");
    assert!(place("message.completed") < place("tool.completed"));
    assert!(place("tool.completed") < place("iteration.started"), "the next request goes out");
}

#[test]
fn a_granted_call_starts_when_something_else_was_committed_meanwhile() {
    let mut rig = Rig::new(Limits::default());
    rig.model_calls("read", json!({}));
    rig.settle();
    let (code, message) = ("quirk".to_owned(), "a warning".to_owned());
    rig.tell(Input::Stream(StreamInput::Warning { code, message }));
    assert!(rig.names().ends_with(&["tool.called", "warning"]), "{:?}", rig.names());
    assert!(rig.machine.has_unsaved(), "its start is due");
    rig.tell(Input::CheckpointDue);
    assert_eq!(running(&mut rig).len(), 1);
}

#[test]
fn what_has_to_be_asked_is_asked_when_the_answer_is_whole() {
    let mut rig = streaming(&[("ask_read", 1), ("read", 2)]);
    assert_eq!(rig.open_prompts(), []);
    rig.end("tool_calls");
    rig.settle();
    let prompt_id = rig.open_prompts().remove(0);
    rig.answer(prompt_id, Resolution::Allow, false);
    assert_eq!(running(&mut rig), ["read 2", "ask_read 1"]);
    // Judged while it streamed, and the answer comes when it is whole.
    let mut rig = Rig::new(Limits::default());
    rig.model_calls("ask_read", json!({}));
    let call_id = rig.machine.batch.calls().next().expect("a call").call_id.clone();
    rig.prepare(&call_id);
    assert!(rig.open.contains(&Action::Judge { call_id: call_id.clone(), early: true }));
    rig.end("tool_calls");
    rig.judge(&call_id, true);
    rig.settle();
    assert_eq!(rig.open_prompts().len(), 1);
}

#[test]
fn an_attempt_that_breaks_off_throws_early_results_away() {
    let mut rig = streaming(&[("read", 1), ("read", 2)]);
    let runs = rig.take_runs();
    rig.finish(&runs[0], ToolStatus::Ok);
    broken(&mut rig);
    let EventBody::RetryScheduled { .. } = rig.last() else { panic!("{:?}", rig.last()) };
    let reset = rig.events.iter().find_map(|event| match &event.body {
        EventBody::MessageReset { discarded, .. } => Some(discarded.clone()),
        _ => None,
    });
    assert_eq!(reset, Some(runs.clone()));
    rig.finish(&runs[1], ToolStatus::Ok);
    assert_eq!(rig.results(), [], "it comes too late");
    rig.tell(Input::RetryDue);
    rig.answer_with(&[("read", 1)]);
    let again = rig.take_runs();
    assert_eq!(again.len(), 1, "what was thrown away is no earlier result");
    rig.finish(&again[0], ToolStatus::Ok);
    assert_eq!(statuses(&rig), [ToolStatus::Ok]);
}

#[test]
fn a_discarded_call_is_stopped() {
    let mut rig = streaming(&[("read", 1)]);
    assert_eq!(rig.open.iter().filter(|action| matches!(action, Action::Run { .. })).count(), 1);
    broken(&mut rig);
    assert_eq!(rig.take_runs(), []);
}

#[test]
fn a_cancel_waits_for_early_calls() {
    let mut rig = streaming(&[("read", 1), ("read", 2), ("write", 3)]);
    let runs = rig.take_runs();
    rig.finish(&runs[0], ToolStatus::Ok);
    rig.tell(Input::Cancel { reason: AbortReason::Interrupted, by: None });
    assert!(rig.open.contains(&Action::StopTools));
    assert!(!rig.machine.has_ended());
    rig.finish(&runs[1], ToolStatus::Interrupted);
    assert!(rig.machine.has_ended());
    let interrupted = ToolStatus::Interrupted;
    assert_eq!(statuses(&rig), [ToolStatus::Ok, interrupted, interrupted]);
    let names = rig.names();
    let place = |name| names.iter().position(|seen| *seen == name).expect("it is recorded");
    assert!(place("message.completed") < place("tool.completed"), "the half answer comes first");
}

#[test]
fn a_restart_closes_a_turn_whose_answer_streamed() {
    let mut rig = streaming(&[("read", 1), ("read", 2)]);
    let runs = rig.take_runs();
    assert_eq!(rig.restored().started_calls(), runs, "so that nothing of them is left");
    rig.finish(&runs[0], ToolStatus::Ok);
    rig.restart(Input::TakeUp { otherwise: AbortReason::Crashed });
    assert!(matches!(rig.last(), EventBody::TurnAborted { .. }), "{:?}", rig.last());
    assert_eq!(statuses(&rig), [ToolStatus::Interrupted; 2]);
}

#[test]
fn a_restart_goes_on_where_an_early_call_is_behind_a_prompt() {
    let mut rig = streaming(&[("ask_read", 1), ("read", 2)]);
    rig.end("tool_calls");
    rig.settle();
    rig.restart(Input::TakeUp { otherwise: AbortReason::Crashed });
    let prompt_id = rig.open_prompts().remove(0);
    rig.answer(prompt_id, Resolution::Allow, false);
    rig.settle();
    for run in rig.take_runs() {
        rig.finish(&run, ToolStatus::Ok);
        rig.settle();
    }
    assert_eq!(statuses(&rig), [ToolStatus::Ok; 2]);
    let started = rig.names().iter().filter(|name| **name == "tool.started").count();
    assert_eq!(started, 2, "each start is recorded once");
}

#[test]
fn the_last_call_of_an_answer_that_was_cut_does_not_count() {
    for done in [false, true] {
        let mut rig = streaming(&[("read", 1), ("read", 2)]);
        let runs: Vec<CallId> = rig.take_runs();
        rig.finish(&runs[0], ToolStatus::Ok);
        if done {
            rig.finish(&runs[1], ToolStatus::Ok);
        }
        rig.end("length");
        rig.finish(&runs[1], ToolStatus::Ok);
        assert_eq!(statuses(&rig), [ToolStatus::Ok, ToolStatus::NotRun]);
        assert_eq!(rig.restored().started_calls(), []);
    }
}

#[test]
fn no_call_of_a_last_step_starts_early() {
    let limits = Limits { max_iterations: Some(1), ..Limits::default() };
    let mut rig = Rig::new(limits);
    rig.text("I look");
    rig.model_calls("read", json!({}));
    rig.settle();
    rig.tell(Input::CheckpointDue);
    assert_eq!(rig.take_runs(), []);
    rig.end("tool_calls");
    assert_eq!(statuses(&rig), [ToolStatus::NotRun]);
}
