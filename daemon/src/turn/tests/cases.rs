//! Cases of the loop, one rule each.

use agentd_protocol::event::{AbortReason, EventBody, Limit, RetryCause, TurnError, TurnErrorCode};
use agentd_protocol::item::{AssistantStatus, ItemBody, Origin, Part, ToolStatus, parts_text};
use agentd_protocol::permission::Resolution;
use agentd_protocol::process::ProcessEnd;
use agentd_protocol::session::{Limits, Usage};
use serde_json::json;

use super::rig::{Rig, exit};
use crate::turn::{Action, Input, Retry, StreamInput};

fn rig() -> Rig {
    Rig::new(Limits::default())
}

fn limited(max_iterations: u32) -> Rig {
    Rig::new(Limits { max_iterations: Some(max_iterations), ..Limits::default() })
}

#[test]
fn a_plain_answer_completes_the_turn() {
    let mut rig = rig();
    rig.text("Hel");
    rig.text("lo");
    rig.end("stop");
    assert_eq!(
        rig.names(),
        [
            "turn.started",
            "message.completed",
            "message.completed",
            "iteration.started",
            "item.started",
            "message.completed",
            "usage.updated",
            "turn.completed"
        ]
    );
    assert_eq!(rig.commits, 2, "one before the request, one after it");
}

#[test]
fn the_finish_reason_does_not_decide() {
    let mut rig = rig();
    rig.model_calls("read", json!({}));
    rig.settle();
    rig.end("stop");
    rig.settle();
    assert_eq!(rig.take_runs().len(), 1);
    let mut rig = self::rig();
    rig.text("done");
    rig.end("tool_calls");
    assert!(matches!(rig.last(), EventBody::TurnCompleted { .. }));
}

#[test]
fn two_commits_an_iteration() {
    let mut rig = rig();
    for round in 0..5 {
        let before = rig.commits;
        rig.text("next");
        rig.model_calls("write", json!({ "round": round }));
        rig.settle();
        rig.end("tool_calls");
        rig.settle();
        let runs = rig.take_runs();
        assert_eq!(rig.commits - before, 1, "the answer, its calls and their starts");
        rig.finish(&runs[0], ToolStatus::Ok);
        assert_eq!(rig.commits - before, 2, "the results and the next request");
    }
}

#[test]
fn safe_reads_run_together_and_a_write_alone() {
    let mut rig = rig();
    for (place, name) in ["read", "read", "write", "read"].into_iter().enumerate() {
        rig.model_calls(name, json!({ "place": place }));
    }
    rig.settle();
    rig.end("tool_calls");
    rig.settle();
    let reads = rig.take_runs();
    assert_eq!(reads.len(), 2, "both reads before the write");
    rig.finish(&reads[1], ToolStatus::Ok);
    assert!(rig.results().is_empty(), "results wait for those before them");
    rig.finish(&reads[0], ToolStatus::Ok);
    rig.settle();
    let write = rig.take_runs();
    assert_eq!((write.len(), rig.results().len()), (1, 2), "the write alone");
    rig.finish(&write[0], ToolStatus::Ok);
    rig.settle();
    assert_eq!(rig.take_runs().len(), 1, "the read after it");
}

#[test]
fn at_most_so_many_reads_at_once() {
    let mut rig = rig();
    for place in 0..5 {
        rig.model_calls("read", json!({ "place": place }));
    }
    rig.settle();
    rig.end("tool_calls");
    rig.settle();
    let first = rig.take_runs();
    assert_eq!(first.len(), 3);
    rig.finish(&first[0], ToolStatus::Ok);
    rig.settle();
    assert_eq!(rig.take_runs().len(), 1);
}

#[test]
fn a_prompt_keeps_its_place_and_an_allow_starts_the_call() {
    let mut rig = rig();
    rig.model_calls("ask_write", json!({}));
    rig.model_calls("read", json!({}));
    rig.settle();
    rig.end("tool_calls");
    rig.settle();
    assert!(rig.machine.is_waiting());
    assert!(rig.take_runs().is_empty(), "what follows a write that is asked about waits");
    let prompt_id = rig.open_prompts().remove(0);
    rig.answer(prompt_id, Resolution::Allow, false);
    let runs = rig.take_runs();
    assert_eq!(runs.len(), 1);
    assert!(!rig.machine.is_waiting());
    rig.finish(&runs[0], ToolStatus::Ok);
    rig.settle();
    assert_eq!(rig.take_runs().len(), 1);
}

#[test]
fn a_denial_is_a_result_and_may_end_the_turn() {
    for interrupt in [false, true] {
        let mut rig = rig();
        rig.model_calls("ask_write", json!({}));
        rig.settle();
        rig.end("tool_calls");
        rig.settle();
        let prompt_id = rig.open_prompts().remove(0);
        rig.answer(prompt_id, Resolution::Deny, interrupt);
        assert_eq!(rig.results()[0].0, ToolStatus::Denied);
        assert_eq!(rig.machine.has_ended(), interrupt);
    }
}

#[test]
fn an_invalid_call_is_never_judged() {
    let mut rig = rig();
    rig.model_calls("bad", json!("{"));
    rig.settle();
    rig.end("tool_calls");
    assert!(!rig.open.iter().any(|action| matches!(action, Action::Judge { .. })));
    assert_eq!(rig.results(), [(ToolStatus::Invalid, "Tool failed: no such tool".to_owned())]);
}

#[test]
fn the_last_step_is_announced_and_its_calls_are_not_run() {
    let mut rig = limited(2);
    rig.model_calls("read", json!({}));
    rig.settle();
    rig.end("tool_calls");
    rig.settle();
    let runs = rig.take_runs();
    rig.finish(&runs[0], ToolStatus::Ok);
    let notice = rig.events.iter().rev().find_map(|event| match &event.body {
        EventBody::MessageCompleted { item } => match &item.body {
            ItemBody::User { content, .. } => Some(parts_text(content)),
            _ => None,
        },
        _ => None,
    });
    assert!(notice.expect("a notice").starts_with("This is the last step"));
    rig.model_calls("write", json!({}));
    rig.settle();
    rig.end("tool_calls");
    assert_eq!(rig.results()[1].0, ToolStatus::NotRun);
    let EventBody::TurnExhausted { limit, totals, .. } = rig.last() else {
        panic!("{:?}", rig.last())
    };
    assert_eq!((*limit, totals.iterations), (Limit::Iterations, 2));
}

#[test]
fn a_plain_answer_on_the_last_step_is_completed() {
    let mut rig = limited(1);
    rig.text("done");
    rig.end("stop");
    assert!(matches!(rig.last(), EventBody::TurnCompleted { .. }));
}

#[test]
fn a_token_budget_announces_the_last_step_that_fits() {
    let mut rig = Rig::new(Limits { max_tokens: Some(100), ..Limits::default() });
    for (round, expected) in [(0, false), (1, true)] {
        let usage = Usage { input: 30, output: 10, ..Usage::default() };
        rig.tell(Input::Stream(StreamInput::Usage(usage)));
        rig.model_calls("write", json!({ "round": round }));
        rig.settle();
        rig.end("tool_calls");
        rig.settle();
        let runs = rig.take_runs();
        rig.finish(&runs[0], ToolStatus::Ok);
        let noticed = rig.events.iter().any(|event| {
            serde_json::to_string(&event.body).expect("JSON").contains("This is the last step")
        });
        assert_eq!(noticed, expected, "after {} tokens", 40 * (round + 1));
    }
}

#[test]
fn a_call_that_succeeded_is_not_run_again_unless_something_changed() {
    let mut rig = rig();
    let mut iterate = |name: &str| {
        rig.model_calls(name, json!({}));
        rig.settle();
        rig.end("tool_calls");
        rig.settle();
        for call_id in rig.take_runs() {
            rig.finish(&call_id, ToolStatus::Ok);
        }
        rig.results().last().expect("a result").0
    };
    assert_eq!(iterate("read"), ToolStatus::Ok);
    assert_eq!(iterate("read"), ToolStatus::Duplicate);
    assert_eq!(iterate("write"), ToolStatus::Ok);
    assert_eq!(iterate("read"), ToolStatus::Ok, "something may have changed");
    assert_eq!(iterate("write"), ToolStatus::Duplicate, "nothing but itself changed anything");
}

#[test]
fn an_identical_call_in_one_batch_waits_for_the_first() {
    for (status, second) in
        [(ToolStatus::Ok, ToolStatus::Duplicate), (ToolStatus::Error, ToolStatus::Ok)]
    {
        let mut rig = rig();
        rig.model_calls("read", json!({}));
        rig.model_calls("read", json!({}));
        rig.settle();
        rig.end("tool_calls");
        rig.settle();
        let runs = rig.take_runs();
        assert_eq!(runs.len(), 1);
        rig.finish(&runs[0], status);
        rig.settle();
        for call_id in rig.take_runs() {
            rig.finish(&call_id, ToolStatus::Ok);
        }
        assert_eq!(rig.results()[1].0, second);
    }
}

#[test]
fn three_iterations_of_refused_calls_make_no_progress() {
    let mut rig = rig();
    for _ in 0..4 {
        rig.model_calls("read", json!({}));
        rig.settle();
        rig.end("tool_calls");
        rig.settle();
        for call_id in rig.take_runs() {
            rig.finish(&call_id, ToolStatus::Ok);
        }
    }
    assert!(matches!(rig.last(), EventBody::TurnExhausted { limit: Limit::NoProgress, .. }));
}

#[test]
fn a_cut_answer_does_not_run_its_last_call() {
    let mut rig = rig();
    rig.model_calls("read", json!({}));
    rig.model_calls("write", json!({"text": "par"}));
    rig.settle();
    rig.end("length");
    rig.settle();
    let runs = rig.take_runs();
    assert_eq!(runs.len(), 1);
    rig.finish(&runs[0], ToolStatus::Ok);
    assert_eq!(rig.results()[1].0, ToolStatus::NotRun);
    assert!(rig.results()[1].1.contains("cut off"));
}

#[test]
fn an_empty_answer_is_asked_for_once_more() {
    let mut rig = rig();
    rig.end("stop");
    assert!(!rig.machine.has_ended());
    rig.end("stop");
    assert!(rig.names().contains(&"warning"));
    assert!(matches!(rig.last(), EventBody::TurnCompleted { .. }));
}

#[test]
fn a_steered_input_goes_into_the_next_iteration() {
    let mut rig = rig();
    rig.text("working");
    let steered = Input::Steered {
        submission_id: String::from("s2").try_into().expect("an id"),
        content: vec![Part::text("also this")],
    };
    rig.tell(steered);
    rig.end("stop");
    assert!(rig.names().contains(&"input.steered"));
    assert!(!rig.machine.has_ended(), "it is answered in the same turn");
    rig.text("done");
    rig.end("stop");
    assert!(matches!(rig.last(), EventBody::TurnCompleted { .. }));
}

#[test]
fn an_interrupt_keeps_the_text_and_closes_the_calls() {
    let mut rig = rig();
    rig.text("half an ans");
    rig.model_calls("read", json!({}));
    rig.settle();
    rig.tell(Input::Cancel { reason: AbortReason::Interrupted, by: None });
    let partial = rig.events.iter().find_map(|event| match &event.body {
        EventBody::MessageCompleted { item } => match &item.body {
            ItemBody::Assistant(answer) => Some(answer.clone()),
            _ => None,
        },
        _ => None,
    });
    let partial = partial.expect("the partial item");
    assert_eq!(
        (partial.status, partial.text().as_str()),
        (AssistantStatus::Partial, "half an ans")
    );
    assert_eq!(rig.results()[0].0, ToolStatus::Interrupted);
    assert!(matches!(rig.last(), EventBody::TurnAborted { reason: AbortReason::Interrupted, .. }));
}

#[test]
fn an_interrupt_waits_for_running_tools_and_keeps_what_they_say() {
    let mut rig = rig();
    rig.model_calls("write", json!({}));
    rig.settle();
    rig.end("tool_calls");
    rig.settle();
    let runs = rig.take_runs();
    rig.tell(Input::Cancel { reason: AbortReason::Interrupted, by: None });
    assert!(rig.open.contains(&Action::StopTools));
    assert!(!rig.machine.has_ended());
    rig.finish(&runs[0], ToolStatus::Interrupted);
    assert_eq!(rig.results(), [(ToolStatus::Interrupted, "result".to_owned())]);
    assert!(rig.machine.has_ended());
}

#[test]
fn an_interrupt_cancels_open_prompts() {
    let mut rig = rig();
    rig.model_calls("ask_write", json!({}));
    rig.settle();
    rig.end("tool_calls");
    rig.settle();
    rig.tell(Input::Cancel { reason: AbortReason::Replaced, by: None });
    assert_eq!(rig.open_prompts(), []);
    assert!(rig.machine.has_ended());
}

pub(super) fn broken(retry: bool) -> Input {
    let error = TurnError {
        code: TurnErrorCode::ProviderUnreachable,
        message: "gone".to_owned(),
        retryable: true,
        status: None,
        provider_code: None,
        attempts: 1,
        retry_at: None,
    };
    let cause = RetryCause { code: error.code, message: error.message.clone(), status: None };
    let retry = retry.then_some(Retry { delay_ms: 500, max_attempts: 6, cause });
    Input::Stream(StreamInput::Broken { error, retry })
}

#[test]
fn a_broken_stream_without_retry_fails_the_turn_and_keeps_the_text() {
    let mut rig = rig();
    rig.text("half");
    rig.tell(broken(false));
    assert!(rig.names().contains(&"message.completed"));
    assert!(matches!(rig.last(), EventBody::TurnFailed { .. }));
}

#[test]
fn a_retried_stream_leaves_no_ghosts() {
    let mut rig = rig();
    rig.text("Hel");
    rig.model_calls("write", json!({"c": "rm "}));
    rig.settle();
    rig.tell(broken(true));
    assert!(rig.open.contains(&Action::WaitRetry { delay_ms: 500 }));
    let discarded = rig.events.iter().find_map(|event| match &event.body {
        EventBody::MessageReset { discarded, .. } => Some(discarded.len()),
        _ => None,
    });
    assert_eq!(discarded, Some(1));
    rig.tell(Input::RetryDue);
    rig.text("Hello");
    rig.end("stop");
    assert!(rig.take_runs().is_empty());
    let answers: Vec<_> = rig
        .events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::MessageCompleted { item } => match &item.body {
                ItemBody::Assistant(answer) => Some(answer.text()),
                _ => None,
            },
            _ => None,
        })
        .collect();
    assert_eq!(answers, ["Hello"]);
}

#[test]
fn text_is_checkpointed_when_it_has_waited() {
    let mut rig = rig();
    rig.text("Hel");
    assert!(rig.machine.has_unsaved());
    rig.tell(Input::CheckpointDue);
    rig.text("lo");
    rig.tell(Input::CheckpointDue);
    assert!(!rig.machine.has_unsaved());
    assert_eq!(rig.in_flight.as_ref().map(|so_far| so_far.text.as_str()), Some("Hello"));
}

#[test]
fn a_restart_goes_on_waiting_for_an_open_prompt() {
    let mut rig = rig();
    rig.model_calls("read", json!({}));
    rig.model_calls("ask_write", json!({}));
    rig.settle();
    rig.end("tool_calls");
    rig.settle();
    let runs = rig.take_runs();
    rig.finish(&runs[0], ToolStatus::Ok);
    rig.settle();
    let prompts = rig.open_prompts();
    rig.machine = rig.restored();
    rig.open.clear();
    rig.tell(Input::TakeUp { otherwise: AbortReason::Crashed });
    rig.settle();
    assert!(rig.machine.is_waiting());
    assert_eq!(rig.open_prompts(), prompts);
    rig.answer(prompts[0].clone(), Resolution::Allow, false);
    assert_eq!(rig.take_runs().len(), 1);
}

#[test]
fn a_restart_closes_a_turn_that_was_streaming_or_running() {
    let mut streaming = rig();
    streaming.text("half");
    streaming.tell(Input::CheckpointDue);
    let mut running = rig();
    running.model_calls("write", json!({}));
    running.settle();
    running.end("tool_calls");
    running.settle();
    for mut rig in [streaming, running] {
        rig.machine = rig.restored();
        rig.open.clear();
        rig.tell(Input::TakeUp { otherwise: AbortReason::Crashed });
        assert!(matches!(rig.last(), EventBody::TurnAborted { reason: AbortReason::Crashed, .. }));
        for (status, text) in rig.results() {
            assert_eq!(status, ToolStatus::Interrupted);
            assert!(text.contains("may have taken effect"));
        }
    }
}

#[test]
fn the_next_iteration_tells_what_ended_in_the_background() {
    let notes = |rig: &Rig| -> Vec<String> {
        let items = rig.events.iter().filter_map(|event| event.body.item());
        items
            .filter_map(|item| match &item.body {
                ItemBody::User { content, origin: Origin::Agentd, .. } => Some(parts_text(content)),
                _ => None,
            })
            .collect()
    };
    let mut rig = rig();
    rig.answer_with(&[("write", 1)]);
    let call = rig.take_runs().remove(0);
    rig.finish_in_background(&call, "proc_1");
    let started = rig.names().iter().position(|name| *name == "process.started");
    assert!(started < rig.names().iter().position(|name| *name == "tool.completed"));
    rig.tell(Input::Exited(exit("proc_1", ProcessEnd::Exited)));
    rig.tell(Input::Exited(exit("proc_2", ProcessEnd::Killed)));
    rig.tell(Input::Exited(exit("proc_3", ProcessEnd::Stopped)));
    assert_eq!(notes(&rig), [""; 0], "the model is at work on its answer");
    rig.answer_with(&[("write", 2)]);
    let call = rig.take_runs().remove(0);
    rig.finish(&call, ToolStatus::Ok);
    let expected = "The background command proc_1 (`npm run dev`) exited with code 1.\n\
        The background command proc_3 (`npm run dev`) was ended, since agentd was stopped or \
        restarted.\nshell_output shows what was written last.";
    assert_eq!(notes(&rig), [expected]);
    // Once; and an end does not keep a turn from ending.
    rig.tell(Input::Exited(exit("proc_4", ProcessEnd::Exited)));
    rig.text("done");
    rig.end("stop");
    assert!(matches!(rig.last(), EventBody::TurnCompleted { .. }));
    assert_eq!(notes(&rig).len(), 1);
}

#[test]
fn what_a_model_had_ended_is_no_news() {
    let mut rig = rig();
    rig.tell(Input::Exited(exit("proc_1", ProcessEnd::Killed)));
    rig.answer_with(&[("read", 1)]);
    let call = rig.take_runs().remove(0);
    rig.finish(&call, ToolStatus::Ok);
    let users = |name: &&str| *name == "message.completed";
    assert_eq!(rig.names().iter().filter(|name| users(name)).count(), 3, "system, user, answer");
}

/// While a command runs beside the turn, things may change by themselves.
#[test]
fn a_repeat_is_none_while_something_runs_in_the_background() {
    let again = |rig: &mut Rig| -> bool {
        rig.answer_with(&[("read", 7)]);
        let runs = rig.take_runs();
        for call in &runs {
            rig.finish(call, ToolStatus::Ok);
        }
        !runs.is_empty()
    };
    let mut rig = rig();
    assert!(again(&mut rig));
    assert!(!again(&mut rig));
    rig.answer_with(&[("write", 1)]);
    let call = rig.take_runs().remove(0);
    rig.finish_in_background(&call, "proc_1");
    assert!(again(&mut rig) && again(&mut rig) && again(&mut rig));
    rig.tell(Input::Exited(exit("proc_1", ProcessEnd::Exited)));
    assert!(!again(&mut rig));
}
