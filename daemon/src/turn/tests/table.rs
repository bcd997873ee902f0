//! Every phase with every input: what is recorded, what is asked for, and which phase follows.
//!
//! The table is a snapshot, so that a change of any rule shows as a change of its rows.

use std::fmt::Write;

use agentd_protocol::event::{AbortReason, RetryCause, TurnError, TurnErrorCode};
use agentd_protocol::id::CallId;
use agentd_protocol::item::{Part, ToolStatus};
use agentd_protocol::permission::{PermissionMode, Resolution};
use agentd_protocol::process::ProcessEnd;
use agentd_protocol::progress::DeltaKind;
use agentd_protocol::session::{Limits, Usage};
use serde_json::json;

use super::rig::{Rig, exit, overflow, pruning};
use crate::turn::{
    Action, Full, Input, Judgement, Outcome, Overflow, Phase, Pruning, Retry, StreamInput, Traits,
};

/// Rigs in every phase, by name.
fn phases() -> Vec<(&'static str, Rig)> {
    let new = || Rig::new(Limits::default());
    let mut streaming = new();
    streaming.text("half");
    streaming.model_calls("read", json!({}));
    streaming.settle();
    let mut reading = new();
    reading.text("half");
    reading.model_calls("read", json!({}));
    reading.settle();
    reading.tell(Input::CheckpointDue);
    let mut retry_wait = new();
    retry_wait.text("half");
    retry_wait.tell(broken(true));
    let mut summarizing = new();
    summarizing.full(None, None);
    summarizing.planned(0);
    summarizing.text("so far");
    let mut summary_wait = new();
    summary_wait.full(None, None);
    summary_wait.tell(broken(true));
    let mut running = new();
    calls(&mut running, "write");
    let mut prompted = new();
    calls(&mut prompted, "ask_write");
    let mut stopping = new();
    calls(&mut stopping, "write");
    stopping.tell(Input::Cancel { reason: AbortReason::Interrupted, by: None });
    let mut ended = new();
    ended.text("done");
    ended.end("stop");
    vec![
        ("streaming", streaming),
        ("streaming while a read runs", reading),
        ("waiting for a retry", retry_wait),
        ("writing a summary", summarizing),
        ("waiting for a summary's retry", summary_wait),
        ("running a call", running),
        ("asking about a call", prompted),
        ("stopping", stopping),
        ("ended", ended),
    ]
}

fn calls(rig: &mut Rig, name: &str) {
    rig.model_calls(name, json!({}));
    rig.settle();
    rig.end("tool_calls");
    rig.settle();
}

fn error() -> TurnError {
    TurnError {
        code: TurnErrorCode::ProviderUnreachable,
        message: "gone".to_owned(),
        retryable: true,
        status: None,
        provider_code: None,
        attempts: 1,
        retry_at: None,
    }
}

fn broken(again: bool) -> Input {
    let error = error();
    let cause = RetryCause { code: error.code, message: error.message.clone(), status: None };
    let retry = again.then_some(Retry { delay_ms: 500, max_attempts: 6, cause });
    Input::Stream(StreamInput::Broken { error, retry })
}

fn full(pruning: Option<Pruning>, overflow: Option<TurnError>) -> Input {
    let overflow = overflow.map(|error| Overflow { error, asked: 900, window: None });
    Input::Stream(StreamInput::Full(Full { tokens: 900, pruning, overflow }))
}

/// Every input, by name; those about a call are about the rig's first one.
fn inputs(call_id: &CallId) -> Vec<(&'static str, Input)> {
    let call_id = || call_id.clone();
    let traits = Traits {
        summary: "summary".to_owned(),
        risk: agentd_protocol::permission::Risk::Read,
        parallel: true,
        polls: false,
    };
    let end = |reason: &str| {
        let finish_reason = Some(reason.to_owned());
        Input::Stream(StreamInput::End { finish_reason, continues: false })
    };
    vec![
        (
            "delta",
            Input::Stream(StreamInput::Delta { kind: DeltaKind::Text, text: "x".to_owned() }),
        ),
        (
            "call",
            Input::Stream(StreamInput::Call {
                provider_call_id: None,
                name: "write".to_owned(),
                arguments: json!({}),
            }),
        ),
        ("usage", Input::Stream(StreamInput::Usage(Usage::default()))),
        ("end", end("stop")),
        ("end, cut", end("length")),
        ("broken", broken(false)),
        ("broken, to be retried", broken(true)),
        ("overflow", Input::Stream(StreamInput::Broken { error: overflow(), retry: None })),
        ("measured", Input::Stream(StreamInput::Measured { tokens: 9, fixed: Some(900) })),
        ("full", full(None, None)),
        ("full, can be pruned", full(Some(pruning()), None)),
        ("full, by the provider", full(None, Some(overflow()))),
        ("nothing to compact", Input::Stream(StreamInput::NothingToCompact)),
        ("retry due", Input::RetryDue),
        ("prepared", Input::Prepared { call_id: call_id(), traits: Ok(traits) }),
        ("not understood", Input::Prepared { call_id: call_id(), traits: Err("why".to_owned()) }),
        ("judged", Input::Judged { call_id: call_id(), judgement: Judgement::Allow }),
        (
            "judged to fail",
            Input::Judged { call_id: call_id(), judgement: Judgement::Fail("why".to_owned()) },
        ),
        ("judged too early", Input::Judged { call_id: call_id(), judgement: Judgement::Later }),
        (
            "finished",
            Input::Finished {
                call_id: call_id(),
                outcome: Outcome::not_run(ToolStatus::Ok, "result"),
            },
        ),
        (
            "steered",
            Input::Steered {
                submission_id: String::from("s2").try_into().expect("an id"),
                content: vec![Part::text("more")],
            },
        ),
        ("exited", Input::Exited(exit("proc_1", ProcessEnd::Exited))),
        ("limits", Input::Limits(Limits::default())),
        ("mode", Input::PermissionMode(PermissionMode::Plan)),
        ("model", Input::Model { model: "other/one".to_owned(), window: 1 }),
        ("checkpoint due", Input::CheckpointDue),
        ("cancel", Input::Cancel { reason: AbortReason::Interrupted, by: None }),
        ("fail", Input::Fail(error())),
        ("take up", Input::TakeUp { otherwise: AbortReason::Crashed }),
    ]
}

fn phase(rig: &Rig) -> &'static str {
    match rig.machine.phase {
        Phase::Streaming(ref stream) if stream.is_summary() => "summary",
        Phase::Streaming(_) => "streaming",
        Phase::RetryWait(ref stream) if stream.is_summary() => "summary wait",
        Phase::RetryWait(_) => "retry wait",
        Phase::Calls => "calls",
        Phase::Stopping { .. } => "stopping",
        Phase::Ended => "ended",
    }
}

fn action(action: &Action) -> &'static str {
    match action {
        Action::Request { .. } => "request",
        Action::Summarize { .. } => "summarize",
        Action::StopRequest => "stop request",
        Action::Progress(_) => "progress",
        Action::Prepare { .. } => "prepare",
        Action::Judge { .. } => "judge",
        Action::Run { .. } => "run",
        Action::Discard { .. } => "discard",
        Action::StopTools => "stop tools",
        Action::WaitRetry { .. } => "wait",
    }
}

fn first_call(rig: &Rig) -> CallId {
    let first = rig.machine.batch.calls().next().map(|call| call.call_id.clone());
    first.unwrap_or_else(|| CallId::from("call_none"))
}

fn row(table: &mut String, rig: &mut Rig, name: &str, input: Input) {
    let recorded = rig.events.len();
    rig.open.clear();
    rig.tell(input);
    let events: Vec<_> = rig.events[recorded..].iter().map(|event| event.body.name()).collect();
    let actions: Vec<_> = rig.open.iter().map(action).collect();
    write!(table, "  {name:<22} -> {}", phase(rig)).expect("a string takes everything");
    if !events.is_empty() {
        write!(table, " | {}", events.join(", ")).expect("a string takes everything");
    }
    if !actions.is_empty() {
        write!(table, " | then {}", actions.join(", ")).expect("a string takes everything");
    }
    table.push('\n');
}

#[test]
fn every_phase_with_every_input() {
    let mut table = String::new();
    for place in 0..phases().len() {
        let (name, rig) = phases().swap_remove(place);
        writeln!(table, "{name}").expect("a string takes everything");
        for number in 0..inputs(&first_call(&rig)).len() {
            let (_, mut rig) = phases().swap_remove(place);
            let (name, input) = inputs(&first_call(&rig)).swap_remove(number);
            row(&mut table, &mut rig, name, input);
        }
        for (name, decision, interrupt) in [
            ("allowed", Resolution::Allow, false),
            ("denied", Resolution::Deny, false),
            ("denied, to interrupt", Resolution::Deny, true),
            ("expired", Resolution::Expired, false),
        ] {
            let (_, mut rig) = phases().swap_remove(place);
            let open = rig.open_prompts().pop();
            let prompt_id = open.unwrap_or_else(|| "prm_none".into());
            let resolved = agentd_protocol::event::Resolved {
                prompt_id,
                decision,
                scope: None,
                rule: None,
                message: None,
                by: None,
            };
            row(&mut table, &mut rig, name, Input::Answered { resolved, interrupt });
        }
    }
    insta::assert_snapshot!(table);
}
