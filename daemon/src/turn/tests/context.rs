//! Cases of a view that grows too large, one rule each.

use agentd_protocol::event::{AbortReason, EventBody, Limit, RetryCause, TurnError, TurnErrorCode};
use agentd_protocol::item::{ItemBody, Marker, ToolStatus};
use agentd_protocol::session::{Limits, Usage};
use serde_json::json;

use super::rig::{Rig, overflow, pruning};
use crate::turn::{Action, Input, Retry, StreamInput};

fn rig() -> Rig {
    Rig::new(Limits::default())
}

fn used(input: u64, output: u64) -> Input {
    Input::Stream(StreamInput::Usage(Usage { input, output, ..Usage::default() }))
}

fn refused() -> Input {
    let error = TurnError { code: TurnErrorCode::ProviderRefused, ..overflow() };
    Input::Stream(StreamInput::Broken { error, retry: None })
}

fn markers(rig: &Rig) -> Vec<Marker> {
    rig.events
        .iter()
        .filter_map(|event| match &event.body.item()?.body {
            ItemBody::Marker { marker } => Some(marker.clone()),
            _ => None,
        })
        .collect()
}

fn warnings(rig: &Rig) -> Vec<&str> {
    rig.events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::Warning { code, .. } => Some(code.as_str()),
            _ => None,
        })
        .collect()
}

fn summary(rig: &mut Rig, failed: u32) {
    rig.planned(failed);
    rig.text("so far");
    rig.end("stop");
}

#[test]
fn a_view_that_is_full_is_summed_up_and_the_request_sent_again_in_its_iteration() {
    let mut rig = rig();
    let before = rig.events.len();
    rig.full(None, None);
    assert_eq!(
        rig.names()[before..],
        ["message.reset", "message.completed", "usage.updated", "item.started"]
    );
    assert!(rig.open.contains(&Action::Summarize { attempt: 1, narrowed: 0 }));
    rig.tell(used(800, 40));
    let before = rig.events.len();
    summary(&mut rig, 0);
    assert_eq!(
        rig.names()[before..],
        ["usage.updated", "message.completed", "context.compacted", "item.started"]
    );
    let [Marker::Compaction { until, summary, kept, useless: false }] = &markers(&rig)[..] else {
        panic!("{:?}", markers(&rig))
    };
    assert_eq!((until.as_str(), kept.len()), ("item_old", 1));
    for part in ["so far", "- read: a.rs", "Go on with the work"] {
        assert!(summary.contains(part), "{summary}");
    }
    let again =
        rig.open.iter().any(|a| matches!(a, Action::Request { attempt: 1, fit: false, .. }));
    assert!(again, "whatever its size by now: {:?}", rig.open);
    rig.text("done");
    rig.end("stop");
    let EventBody::TurnCompleted { totals } = rig.last() else { panic!("{:?}", rig.last()) };
    assert_eq!((totals.iterations, totals.usage.input), (1, 800), "paid for, and no iteration");
}

#[test]
fn a_pruning_that_is_enough_asks_for_no_summary() {
    let mut rig = rig();
    rig.full(Some(pruning()), None);
    assert!(matches!(markers(&rig)[..], [Marker::Pruning { .. }]));
    let pruned = rig.events.iter().find_map(|event| match &event.body {
        EventBody::ContextPruned { tokens_before, tokens_after, .. } => {
            Some((*tokens_before, *tokens_after))
        }
        _ => None,
    });
    assert_eq!(pruned, Some((900, 700)));
    assert!(rig.open.iter().any(|action| matches!(action, Action::Request { fit: true, .. })));
}

#[test]
fn what_the_model_reads_no_longer_may_be_asked_for_again() {
    let mut rig = rig();
    for (again, status) in [(false, ToolStatus::Ok), (true, ToolStatus::Ok)] {
        if again {
            rig.full(Some(pruning()), None);
        }
        rig.answer_with(&[("read", 1)]);
        for call_id in rig.take_runs() {
            rig.finish(&call_id, ToolStatus::Ok);
        }
        assert_eq!(rig.results().last().expect("a result").0, status);
    }
}

#[test]
fn the_provider_may_say_twice_in_a_turn_that_it_is_too_long() {
    let mut rig = rig();
    for _ in 0..2 {
        rig.text("shown and taken back");
        rig.full(None, Some(overflow()));
        summary(&mut rig, 0);
    }
    assert_eq!(warnings(&rig), ["context_overflow", "context_overflow"]);
    rig.full(None, Some(overflow()));
    let EventBody::TurnFailed { error, .. } = rig.last() else { panic!("{:?}", rig.last()) };
    assert_eq!(error.code, TurnErrorCode::ContextOverflow);
}

#[test]
fn a_summary_that_fails_leaves_all_as_it_was_and_the_request_is_sent() {
    let mut rig = rig();
    rig.full(None, None);
    rig.planned(1);
    rig.tell(refused());
    assert!(matches!(markers(&rig)[..], [Marker::CompactionFailed { .. }]));
    assert_eq!(warnings(&rig), ["compaction_failed"]);
    assert!(rig.open.iter().any(|action| matches!(action, Action::Request { fit: false, .. })));
    rig.text("done");
    rig.end("stop");
    assert!(matches!(rig.last(), EventBody::TurnCompleted { .. }));
}

#[test]
fn a_summary_that_fails_fails_a_turn_whose_request_was_refused() {
    let mut rig = rig();
    rig.full(None, Some(overflow()));
    rig.planned(0);
    rig.tell(refused());
    let EventBody::TurnFailed { error, .. } = rig.last() else { panic!("{:?}", rig.last()) };
    assert_eq!(error.code, TurnErrorCode::ProviderRefused);
}

#[test]
fn an_empty_summary_is_none() {
    let mut rig = rig();
    rig.full(None, None);
    rig.planned(0);
    rig.model_calls("read", json!({}));
    rig.end("tool_calls");
    assert_eq!(warnings(&rig), ["compaction_failed"]);
    assert!(!rig.names().contains(&"tool.called"), "calls of a summary are left alone");
}

#[test]
fn the_third_failure_in_a_row_says_that_it_is_off() {
    for useless in [false, true] {
        let mut rig = rig();
        rig.full(None, None);
        rig.planned(2);
        if useless {
            // 300 tokens stay beside it, of 900 in a window of 1,000.
            rig.text(&"long ".repeat(480));
            rig.end("stop");
            assert!(matches!(markers(&rig)[..], [Marker::Compaction { useless: true, .. }]));
        } else {
            rig.tell(refused());
        }
        assert_eq!(warnings(&rig).last(), Some(&"compaction_off"));
    }
}

#[test]
fn a_request_for_a_summary_that_is_too_long_is_narrowed_three_times() {
    let mut rig = rig();
    rig.full(None, None);
    for narrowed in 0..3 {
        assert!(rig.open.contains(&Action::Summarize { attempt: 1, narrowed }));
        rig.open.clear();
        rig.planned(0);
        rig.tell(Input::Stream(StreamInput::Broken { error: overflow(), retry: None }));
    }
    assert_eq!(warnings(&rig), Vec::<&str>::new());
    rig.tell(Input::Stream(StreamInput::Broken { error: overflow(), retry: None }));
    assert_eq!(warnings(&rig), ["compaction_failed"]);
}

#[test]
fn a_summary_is_retried_like_any_request() {
    let mut rig = rig();
    rig.full(None, None);
    rig.planned(0);
    rig.text("half of ");
    let cause = RetryCause {
        code: TurnErrorCode::ProviderUnreachable,
        message: "gone".to_owned(),
        status: None,
    };
    let retry = Some(Retry { delay_ms: 500, max_attempts: 6, cause });
    rig.tell(Input::Stream(StreamInput::Broken { error: overflow(), retry }));
    assert!(rig.open.contains(&Action::WaitRetry { delay_ms: 500 }));
    rig.tell(Input::RetryDue);
    assert!(rig.open.contains(&Action::Summarize { attempt: 2, narrowed: 0 }));
    summary(&mut rig, 0);
    let [Marker::Compaction { summary, .. }] = &markers(&rig)[..] else { panic!("no summary") };
    assert!(!summary.contains("half of"), "{summary}");
}

#[test]
fn a_cancel_or_a_crash_in_a_summary_leaves_no_trace_but_the_end() {
    for crash in [false, true] {
        let mut rig = rig();
        rig.full(None, None);
        rig.planned(0);
        rig.text("so f");
        if crash {
            rig.restart(Input::TakeUp { otherwise: AbortReason::Crashed });
        } else {
            rig.tell(Input::Cancel { reason: AbortReason::Interrupted, by: None });
            assert!(!rig.open.iter().any(|action| matches!(action, Action::Summarize { .. })));
        }
        assert!(matches!(rig.last(), EventBody::TurnAborted { .. }), "{:?}", rig.last());
        assert_eq!(markers(&rig), []);
    }
}

#[test]
fn a_budget_that_is_used_up_has_no_room_for_a_summary_or_for_what_follows_it() {
    let limits = Limits { max_tokens: Some(100), ..Limits::default() };
    let mut rig = Rig::new(limits);
    rig.full(None, None);
    rig.tell(used(90, 20));
    summary(&mut rig, 0);
    assert!(matches!(rig.last(), EventBody::TurnExhausted { limit: Limit::Tokens, .. }));
    let mut rig = Rig::new(limits);
    rig.tell(used(90, 20));
    rig.full(None, Some(overflow()));
    assert!(matches!(rig.last(), EventBody::TurnExhausted { limit: Limit::Tokens, .. }));
}

#[test]
fn a_turn_that_only_compacts() {
    let mut rig = Rig::compacting();
    assert_eq!(rig.names(), ["turn.started", "item.started"]);
    rig.tell(used(800, 40));
    summary(&mut rig, 0);
    assert_eq!(
        rig.names()[2..],
        ["usage.updated", "message.completed", "context.compacted", "turn.completed"]
    );
    let [Marker::Compaction { summary, useless: false, .. }] = &markers(&rig)[..] else {
        panic!("{:?}", markers(&rig))
    };
    assert!(!summary.contains("Go on with the work"), "{summary}");
    let EventBody::TurnCompleted { totals } = rig.last() else { panic!("{:?}", rig.last()) };
    assert_eq!((totals.iterations, totals.usage.input), (0, 800));
}

#[test]
fn a_turn_that_only_compacts_says_what_was_wrong_or_that_there_is_nothing() {
    let mut rig = Rig::compacting();
    rig.planned(0);
    rig.tell(refused());
    assert!(matches!(rig.last(), EventBody::TurnFailed { .. }));
    assert_eq!(markers(&rig), [], "what was asked for does not count as a failure");
    let mut rig = Rig::compacting();
    rig.tell(Input::Stream(StreamInput::NothingToCompact));
    assert_eq!(warnings(&rig), ["nothing_to_compact"]);
    assert!(matches!(rig.last(), EventBody::TurnCompleted { .. }));
}

#[test]
fn a_window_that_system_and_tools_fill_half_of_is_warned_about() {
    for (fixed, warned) in [(Some(500), false), (Some(501), true), (None, false)] {
        let mut rig = rig();
        rig.tell(Input::Stream(StreamInput::Measured { tokens: 600, fixed }));
        assert_eq!(warnings(&rig).contains(&"small_window"), warned, "{fixed:?} of 1,000");
    }
}

#[test]
fn a_context_that_no_provider_counts_is_estimated() {
    let mut rig = rig();
    rig.tell(Input::Stream(StreamInput::Measured { tokens: 600, fixed: None }));
    rig.text(&"word".repeat(10));
    rig.end("stop");
    let context = rig.events.iter().rev().find_map(|event| match &event.body {
        EventBody::UsageUpdated { context, .. } => Some((context.tokens, context.window)),
        _ => None,
    });
    assert_eq!(context, Some((610, 1_000)));
}

#[test]
fn an_answer_that_the_output_limit_cut_goes_on_three_times() {
    let mut rig = rig();
    for _ in 0..3 {
        rig.text("and then ");
        rig.end("length");
        assert!(!rig.machine.has_ended());
    }
    rig.text("and then ");
    rig.end("length");
    assert!(matches!(rig.last(), EventBody::TurnCompleted { .. }));
    assert_eq!(warnings(&rig), ["output_limit"]);
}

#[test]
fn a_cut_answer_on_the_last_step_does_not_go_on() {
    let mut rig = Rig::new(Limits { max_iterations: Some(1), ..Limits::default() });
    rig.text("and then ");
    rig.end("length");
    assert!(matches!(rig.last(), EventBody::TurnCompleted { .. }));
}
