//! Random schedules: whatever happens in whatever order, the invariants hold, and a machine that
//! is dropped after any commit is the same machine again.

use std::collections::{BTreeMap, BTreeSet};

use agentd_protocol::event::{AbortReason, EventBody, RetryCause, TurnError, TurnErrorCode};
use agentd_protocol::item::{ItemBody, Part, ToolStatus};
use agentd_protocol::permission::{PermissionMode, Resolution};
use agentd_protocol::session::{Limits, Usage};
use proptest::prelude::*;
use serde_json::json;

use super::rig::{Rig, overflow, pruning};
use crate::turn::calls::Stage;
use crate::turn::stream::{Purpose, Stream};
use crate::turn::{Action, Input, Machine, Phase, Retry, StreamInput};

#[derive(Debug, Clone)]
enum Move {
    Text,
    Call(usize),
    Usage,
    End(bool),
    Broken(bool),
    /// The view is too large: it can be pruned, the provider said so.
    Full(bool, bool),
    /// The provider says that the request is too long, and nothing can be done about an answer's.
    Overflow,
    NothingToCompact,
    /// Answer one of the open actions.
    Open(prop::sample::Index),
    Answer(bool, bool),
    Steer,
    Checkpoint,
    Cancel,
    Limits(u32),
    Mode(bool),
}

const NAMES: [&str; 7] = ["read", "write", "ask_read", "ask_write", "no_read", "no_write", "bad"];

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        4 => Just(Move::Text),
        4 => (0..NAMES.len()).prop_map(Move::Call),
        1 => Just(Move::Usage),
        4 => any::<bool>().prop_map(Move::End),
        1 => any::<bool>().prop_map(Move::Broken),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(a, b)| Move::Full(a, b)),
        1 => Just(Move::Overflow),
        1 => Just(Move::NothingToCompact),
        12 => any::<prop::sample::Index>().prop_map(Move::Open),
        3 => (any::<bool>(), any::<bool>()).prop_map(|(a, b)| Move::Answer(a, b)),
        1 => Just(Move::Steer),
        1 => Just(Move::Checkpoint),
        1 => Just(Move::Cancel),
        1 => (1u32..6).prop_map(Move::Limits),
        1 => any::<bool>().prop_map(Move::Mode),
    ];
    prop::collection::vec(one, 1..80)
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

fn play(rig: &mut Rig, step: usize, played: &Move) {
    match played {
        Move::Text => rig.text("word "),
        Move::Call(name) => rig.model_calls(NAMES[*name], json!({ "n": step % 3 })),
        Move::Usage => {
            let usage = Usage { input: 10, output: 5, ..Usage::default() };
            rig.tell(Input::Stream(StreamInput::Usage(usage)));
        }
        Move::End(cut) => rig.end(if *cut { "length" } else { "stop" }),
        Move::Broken(again) => {
            let error = error();
            let cause =
                RetryCause { code: error.code, message: error.message.clone(), status: None };
            let retry = again.then_some(Retry { delay_ms: 1, max_attempts: 6, cause });
            rig.tell(Input::Stream(StreamInput::Broken { error, retry }));
        }
        Move::Full(prune, said) => {
            rig.full(prune.then(pruning), said.then(overflow));
        }
        Move::Overflow => {
            rig.tell(Input::Stream(StreamInput::Broken { error: overflow(), retry: None }));
        }
        Move::NothingToCompact => rig.tell(Input::Stream(StreamInput::NothingToCompact)),
        Move::Open(index) => answer_open(rig, *index),
        Move::Answer(allow, interrupt) => {
            let decision = if *allow { Resolution::Allow } else { Resolution::Deny };
            if let Some(prompt_id) = rig.open_prompts().first() {
                rig.answer(prompt_id.clone(), decision, *interrupt);
            }
        }
        Move::Steer => rig.tell(Input::Steered {
            submission_id: format!("steer{step}").try_into().expect("an id"),
            content: vec![Part::text("more")],
        }),
        Move::Checkpoint => rig.tell(Input::CheckpointDue),
        Move::Cancel => {
            rig.tell(Input::Cancel { reason: AbortReason::Interrupted, by: None });
        }
        Move::Limits(max_iterations) => {
            rig.limits.max_iterations = Some(*max_iterations);
            rig.tell(Input::Limits(rig.limits));
        }
        Move::Mode(full) => {
            rig.mode = if *full { PermissionMode::Full } else { PermissionMode::Plan };
            rig.tell(Input::PermissionMode(rig.mode));
        }
    }
}

fn answer_open(rig: &mut Rig, index: prop::sample::Index) {
    if rig.open.is_empty() {
        return;
    }
    let place = index.index(rig.open.len());
    match rig.open[place].clone() {
        Action::Prepare { call_id } => {
            rig.open.remove(place);
            rig.prepare(&call_id);
        }
        Action::Judge { call_id, early } => {
            rig.open.remove(place);
            rig.judge(&call_id, early);
        }
        Action::Run { call_id } => {
            rig.open.remove(place);
            rig.finish(&call_id, ToolStatus::Ok);
        }
        Action::Summarize { narrowed, .. } => {
            rig.open.remove(place);
            rig.planned(narrowed);
        }
        Action::WaitRetry { .. } => {
            rig.open.remove(place);
            rig.tell(Input::RetryDue);
        }
        _ => {}
    }
}

/// Brings a turn to its end: everything open is answered, then it is cancelled.
fn finish(rig: &mut Rig) {
    rig.tell(Input::Cancel { reason: AbortReason::Interrupted, by: None });
    for _ in 0..200 {
        rig.settle();
        for call_id in rig.take_runs() {
            rig.finish(&call_id, ToolStatus::Interrupted);
        }
    }
}

fn check(rig: &Rig) {
    let terminal = rig.events.iter().filter(|event| event.body.is_terminal()).count();
    assert_eq!(terminal, 1, "*every turn ends*, once");
    assert!(rig.last().is_terminal(), "nothing follows the end");
    let mut streaming = BTreeMap::new();
    let mut calls = Vec::new();
    let mut results = Vec::new();
    let mut started = BTreeSet::new();
    let mut indexes = BTreeMap::new();
    for event in &rig.events {
        if let Some(item) = event.body.item() {
            assert!(indexes.insert(item.index, item.item_id.clone()).is_none(), "one item a place");
        }
        match &event.body {
            EventBody::MessageCompleted { item } => {
                if let ItemBody::Assistant(answer) = &item.body {
                    streaming.clear();
                    assert_eq!(calls, results, "*every call has one result*, in order");
                    calls.extend(answer.calls.iter().map(|call| call.call_id.clone()));
                }
            }
            EventBody::ToolCalled { call_id, name, .. } => {
                streaming.insert(call_id.clone(), name.as_str());
            }
            EventBody::MessageReset { .. } => streaming.clear(),
            EventBody::ToolStarted { call_id, .. } => {
                let early = streaming.get(call_id);
                assert!(early.is_none_or(|name| *name == "read"), "{early:?} starts early");
                assert!(started.insert(call_id.clone()), "a call starts once");
            }
            EventBody::ToolCompleted { call_id, status, .. } => {
                assert!(
                    *status != ToolStatus::Ok || started.contains(call_id),
                    "*recorded before run*"
                );
                results.push(call_id.clone());
            }
            _ => {}
        }
    }
    assert_eq!(calls, results, "*every call has one result*, in order");
    let places: Vec<u64> = indexes.keys().copied().collect();
    let dense: Vec<u64> = (1..=places.len() as u64).collect();
    assert_eq!(places, dense, "items are dense");
    assert_eq!(rig.open_prompts(), [], "no prompt outlives its turn");
}

fn attempt(stream: &Stream) -> String {
    let narrowed = match &stream.purpose {
        Purpose::Answer => None,
        Purpose::Summary { narrowed, .. } => Some(narrowed),
    };
    format!("{} {} {narrowed:?}", stream.item_id, stream.attempt)
}

/// What decides: the fold, without questions that are asked again after a restart.
fn essence(machine: &Machine) -> String {
    let phase = match &machine.phase {
        Phase::Streaming(stream) => format!("streaming {}", attempt(stream)),
        Phase::RetryWait(stream) => format!("waiting {}", attempt(stream)),
        Phase::Calls => "calls".to_owned(),
        Phase::Stopping { .. } => "stopping".to_owned(),
        Phase::Ended => "ended".to_owned(),
    };
    let calls: Vec<String> = machine
        .batch
        .states()
        .map(|state| {
            let stage = match &state.stage {
                Stage::Finished(_) if state.started => format!("{:?}", Stage::Started),
                Stage::Preparing
                | Stage::Ready
                | Stage::Later
                | Stage::Judging
                | Stage::Finished(_) => "open".to_owned(),
                stage @ (Stage::Prompted(_)
                | Stage::Granted
                | Stage::Started
                | Stage::Recorded(_)) => format!("{stage:?}"),
            };
            format!("{}:{stage}", state.call.call_id)
        })
        .collect();
    format!(
        "{phase} {calls:?} {} {:?} {:?} {:?} {} {:?} {:?} {:?} {:?} {} {} {} {} {} {} {} {} {} {}",
        machine.model,
        machine.mode,
        machine.next_mode,
        machine.limits,
        machine.iterations,
        machine.usage,
        machine.guard,
        machine.longest_answer,
        machine.last_step,
        machine.refused_in_a_row,
        machine.asked_for_text,
        machine.rechecked,
        machine.next_index,
        machine.last_user_index,
        machine.last_assistant_index,
        machine.continued,
        machine.context.overflows,
        machine.context.overflowing,
        machine.context.fitted,
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("AGENTD_SOAK").map_or(500, |_| 10_000),
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_schedule_keeps_the_invariants(
        moves in moves(),
        max_iterations in prop::option::of(1u32..4),
        max_tokens in prop::option::of(20u64..60),
        compacts in prop::bool::weighted(0.1),
    ) {
        let limits = Limits { max_iterations, max_tokens, ..Limits::default() };
        let mut rig = if compacts { Rig::compacting() } else { Rig::new(limits) };
        for (step, played) in moves.iter().enumerate() {
            play(&mut rig, step, played);
        }
        finish(&mut rig);
        check(&rig);
    }

    #[test]
    fn the_machine_is_a_fold(moves in moves(), max_iterations in prop::option::of(1u32..4)) {
        let mut rig = Rig::new(Limits { max_iterations, ..Limits::default() });
        for (step, played) in moves.iter().enumerate() {
            let before = rig.commits;
            play(&mut rig, step, played);
            let nothing_held = rig.machine.outbox.records.is_empty();
            let stopping = rig.machine.is_stopping();
            if rig.commits > before && nothing_held && !stopping {
                prop_assert_eq!(essence(&rig.restored()), essence(&rig.machine));
            }
        }
    }

    #[test]
    fn a_restart_after_any_commit_ends_or_goes_on(moves in moves()) {
        let mut rig = Rig::new(Limits::default());
        for (step, played) in moves.iter().enumerate() {
            play(&mut rig, step, played);
        }
        if rig.events.iter().any(|event| event.body.is_terminal()) {
            return Ok(());
        }
        rig.machine = rig.restored();
        rig.open.clear();
        rig.tell(Input::TakeUp { otherwise: AbortReason::Crashed });
        finish(&mut rig);
        check(&rig);
    }
}
