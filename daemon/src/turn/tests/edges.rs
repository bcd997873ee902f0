//! Edges of the loop: what happens late, twice, at once, or after a restart.

use agentd_protocol::event::{AbortReason, EventBody, RetryCause, TurnError, TurnErrorCode};
use agentd_protocol::item::{ItemBody, ToolStatus, parts_text};
use agentd_protocol::permission::Resolution;
use agentd_protocol::session::{Limits, Usage};
use serde_json::json;

use super::rig::Rig;
use crate::turn::{Action, Input, Retry, StreamInput};

const AN_HOUR_MS: u64 = 3_600_000;

fn rig() -> Rig {
    Rig::new(Limits::default())
}

fn take_up() -> Input {
    Input::TakeUp { otherwise: AbortReason::Crashed }
}

fn cancel() -> Input {
    Input::Cancel { reason: AbortReason::Interrupted, by: None }
}

fn error() -> TurnError {
    TurnError {
        code: TurnErrorCode::Store,
        message: "gone".to_owned(),
        retryable: true,
        status: None,
        provider_code: None,
        attempts: 1,
        retry_at: None,
    }
}

fn is_judge(action: &Action) -> bool {
    matches!(action, Action::Judge { .. })
}

#[test]
fn a_second_call_is_refused_also_where_the_first_waits_to_be_recorded() {
    let mut rig = rig();
    rig.answer_with(&[("read", 1), ("read", 2), ("read", 2)]);
    let runs = rig.take_runs();
    assert_eq!(runs.len(), 2);
    rig.finish(&runs[1], ToolStatus::Ok);
    rig.settle();
    assert_eq!(rig.take_runs(), [], "it succeeded, though its result waits for the first call's");
    rig.finish(&runs[0], ToolStatus::Ok);
    rig.settle();
    let statuses: Vec<_> = rig.results().into_iter().map(|(status, _)| status).collect();
    assert_eq!(statuses, [ToolStatus::Ok, ToolStatus::Ok, ToolStatus::Duplicate]);
}

#[test]
fn a_call_does_not_wait_for_a_cut_one_like_it() {
    let mut rig = rig();
    rig.model_calls("read", json!({ "n": 1 }));
    rig.model_calls("read", json!({ "n": 1 }));
    rig.settle();
    rig.end("length");
    rig.settle();
    let runs = rig.take_runs();
    assert_eq!(runs.len(), 1);
    rig.finish(&runs[0], ToolStatus::Ok);
    let statuses: Vec<_> = rig.results().into_iter().map(|(status, _)| status).collect();
    assert_eq!(statuses, [ToolStatus::Ok, ToolStatus::NotRun]);
}

#[test]
fn a_cancel_does_not_wait_for_an_open_question() {
    let mut rig = rig();
    rig.answer_with(&[("read", 1), ("read", 2), ("read", 3), ("read", 4)]);
    let runs = rig.take_runs();
    rig.finish(&runs[0], ToolStatus::Ok);
    assert!(rig.open.iter().any(is_judge), "the fourth is being judged");
    rig.tell(cancel());
    assert!(rig.open.contains(&Action::StopTools), "the tools are told at once");
    rig.finish(&runs[1], ToolStatus::Interrupted);
    rig.finish(&runs[2], ToolStatus::Interrupted);
    assert!(rig.machine.has_ended(), "nobody waits for the judgement");
}

#[test]
fn what_waits_for_a_question_is_committed_when_it_is_due() {
    let mut rig = rig();
    rig.text("I read");
    rig.model_calls("read", json!({}));
    let before = rig.commits;
    rig.end("tool_calls");
    assert_eq!(rig.commits, before, "the tool is still being asked");
    assert!(rig.machine.has_unsaved());
    rig.tell(Input::CheckpointDue);
    assert_eq!(rig.commits, before + 1);
    assert!(rig.names().contains(&"tool.called"));
    assert!(!rig.machine.has_unsaved());
}

#[test]
fn what_a_broken_attempt_used_counts() {
    let mut rig = rig();
    let used = |input| Input::Stream(StreamInput::Usage(Usage { input, ..Usage::default() }));
    rig.text("Hel");
    rig.tell(used(10));
    let cause = RetryCause { code: TurnErrorCode::Store, message: String::new(), status: None };
    let retry = Some(Retry { delay_ms: 1, max_attempts: 6, cause });
    rig.tell(Input::Stream(StreamInput::Broken { error: error(), retry }));
    assert_eq!(rig.machine.session_usage().input, 10);
    rig.tell(Input::RetryDue);
    rig.text("Hello");
    rig.tell(used(20));
    rig.end("stop");
    let EventBody::TurnCompleted { totals } = rig.last() else { panic!("{:?}", rig.last()) };
    assert_eq!(totals.usage.input, 30);
}

#[test]
fn a_read_that_had_started_runs_again_and_its_start_is_recorded_once() {
    let mut rig = rig();
    rig.answer_with(&[("ask_read", 1), ("read", 2)]);
    assert_eq!(rig.take_runs().len(), 1);
    rig.restart(take_up());
    let runs = rig.take_runs();
    assert_eq!(runs.len(), 1, "the read runs again");
    let starts = rig.names().iter().filter(|name| **name == "tool.started").count();
    assert_eq!(starts, 1);
    rig.finish(&runs[0], ToolStatus::Ok);
    let prompt_id = rig.open_prompts().remove(0);
    rig.answer(prompt_id, Resolution::Allow, false);
    let runs = rig.take_runs();
    rig.finish(&runs[0], ToolStatus::Ok);
    let statuses: Vec<_> = rig.results().into_iter().map(|(status, _)| status).collect();
    assert_eq!(statuses, [ToolStatus::Ok, ToolStatus::Ok]);
}

#[test]
fn a_cut_call_does_not_run_after_a_restart_either() {
    let mut rig = rig();
    rig.model_calls("ask_read", json!({ "n": 1 }));
    rig.model_calls("write", json!({ "text": "par" }));
    rig.settle();
    rig.end("length");
    rig.settle();
    rig.restart(take_up());
    rig.settle();
    let prompt_id = rig.open_prompts().remove(0);
    rig.answer(prompt_id, Resolution::Allow, false);
    let runs = rig.take_runs();
    assert_eq!(runs.len(), 1, "only what was allowed");
    rig.finish(&runs[0], ToolStatus::Ok);
    let statuses: Vec<_> = rig.results().into_iter().map(|(status, _)| status).collect();
    assert_eq!(statuses, [ToolStatus::Ok, ToolStatus::NotRun]);
}

#[test]
fn a_recorded_denial_goes_on_after_a_restart() {
    let mut rig = rig();
    rig.answer_with(&[("read", 1), ("ask_read", 2)]);
    assert_eq!(rig.take_runs().len(), 1);
    let prompt_id = rig.open_prompts().remove(0);
    rig.answer(prompt_id, Resolution::Deny, false);
    rig.restart(take_up());
    let runs = rig.take_runs();
    rig.finish(&runs[0], ToolStatus::Ok);
    let statuses: Vec<_> = rig.results().into_iter().map(|(status, _)| status).collect();
    assert_eq!(statuses, [ToolStatus::Ok, ToolStatus::Denied]);
}

#[test]
fn a_turn_that_something_failed_under_waits_for_no_tool() {
    let mut rig = rig();
    rig.answer_with(&[("write", 1)]);
    assert_eq!(rig.take_runs().len(), 1);
    rig.restart(Input::Fail(error()));
    assert!(matches!(rig.last(), EventBody::TurnFailed { .. }), "{:?}", rig.last());
    assert!(rig.results()[0].1.contains("may have taken effect"));
}

#[test]
fn waiting_for_people_costs_no_time_also_over_a_restart() {
    for restarts in [false, true] {
        let limits = Limits { max_duration_ms: Some(60_000), ..Limits::default() };
        let mut rig = Rig::new(limits);
        rig.answer_with(&[("ask_write", 1)]);
        rig.passed_ms += AN_HOUR_MS;
        if restarts {
            rig.tell(Input::CheckpointDue);
            rig.restart(take_up());
            rig.passed_ms += AN_HOUR_MS;
        }
        let prompt_id = rig.open_prompts().remove(0);
        rig.answer(prompt_id, Resolution::Allow, false);
        let runs = rig.take_runs();
        rig.finish(&runs[0], ToolStatus::Ok);
        assert_eq!(notes(&rig), Vec::<String>::new(), "it is not the last step");
        rig.text("done");
        rig.end("stop");
        assert!(matches!(rig.last(), EventBody::TurnCompleted { .. }), "{:?}", rig.last());
    }
}

#[test]
fn another_model_answers_from_the_next_iteration_on_and_is_told() {
    let mut rig = rig();
    rig.tell(Input::Model { model: "other/one".to_owned(), window: 9 });
    assert_eq!(rig.machine.model(), "demo/demo", "this request has been sent");
    rig.answer_with(&[("write", 1)]);
    let runs = rig.take_runs();
    rig.finish(&runs[0], ToolStatus::Ok);
    assert_eq!(rig.machine.model(), "other/one");
    assert_eq!(notes(&rig), ["From here on, the model of this session is other/one."]);
    assert_eq!(rig.restored().model(), "other/one");
    rig.text("done");
    rig.end("stop");
    let models: Vec<_> = rig
        .events
        .iter()
        .filter_map(|event| match &event.body.item()?.body {
            ItemBody::Assistant(answer) => Some(answer.model.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(models, ["demo/demo", "other/one"]);
}

fn notes(rig: &Rig) -> Vec<String> {
    rig.events
        .iter()
        .filter_map(|event| match &event.body.item()?.body {
            ItemBody::User { content, origin: agentd_protocol::item::Origin::Agentd, .. } => {
                Some(parts_text(content))
            }
            _ => None,
        })
        .collect()
}
