//! A rig that drives a machine: it commits what the machine records and keeps what it asks for.

use std::collections::BTreeSet;

use agentd_protocol::event::{Event, EventBody, Resolved, TurnError, TurnErrorCode};
use agentd_protocol::id::{CallId, ItemId, PromptId, SessionId, TurnId};
use agentd_protocol::item::{Origin, Part, ToolStatus};
use agentd_protocol::permission::{PermissionMode, Prompt, Resolution, Risk};
use agentd_protocol::process::{Process, ProcessEnd, ProcessExit};
use agentd_protocol::progress::{DeltaKind, InFlightItem};
use agentd_protocol::session::{Limits, Usage};
use agentd_protocol::submission::Submission;
use agentd_protocol::time::Time;
use serde_json::{Value, json};

use crate::turn::{
    Action, Cut, DuplicateRule, Found, Full, Input, Judgement, Machine, Moment, Opening, Outcome,
    Overflow, Pruning, Record, Settings, Start, Step, StreamInput, Traits,
};

pub(super) struct Rig {
    pub(super) machine: Machine,
    pub(super) limits: Limits,
    pub(super) mode: PermissionMode,
    /// Everything committed.
    pub(super) events: Vec<Event>,
    pub(super) in_flight: Option<InFlightItem>,
    /// Actions not yet answered.
    pub(super) open: Vec<Action>,
    /// Transactions so far.
    pub(super) commits: usize,
    steps: u64,
    /// Time that passed without a step.
    pub(super) passed_ms: u64,
}

fn start(limits: Limits, permission_mode: PermissionMode, compacts: bool) -> Start {
    let submission: Submission =
        serde_json::from_value(json!({"id": "s1", "op": {"type": "resume"}})).expect("an op");
    Start {
        settings: Settings { max_parallel: 3, duplicates: DuplicateRule::Unchanged },
        turn_id: TurnId::from("turn_1"),
        submission_id: submission.id,
        model: "demo/demo".to_owned(),
        window: 1_000,
        compacts,
        limits,
        permission_mode,
        session_usage: Usage::default(),
        next_index: 1,
        running: BTreeSet::new(),
        exited: Vec::new(),
    }
}

impl Rig {
    pub(super) fn new(limits: Limits) -> Self {
        let mut rig = Self::bare(limits, false);
        rig.tell(Input::Begin(Opening {
            system: Some(vec![Part::text("system")]),
            input: vec![Part::text("hello")],
            origin: Origin::User,
        }));
        rig
    }

    /// A turn that does nothing but compact.
    pub(super) fn compacting() -> Self {
        let mut rig = Self::bare(Limits::default(), true);
        rig.tell(Input::Compact);
        rig
    }

    fn bare(limits: Limits, compacts: bool) -> Self {
        let moment = Moment::new(Time::from_unix_millis(10), 10, "m0".to_owned());
        Self {
            machine: Machine::new(start(limits, PermissionMode::Ask, compacts), &moment),
            limits,
            mode: PermissionMode::Ask,
            events: Vec::new(),
            in_flight: None,
            open: Vec::new(),
            commits: 0,
            steps: 0,
            passed_ms: 0,
        }
    }

    pub(super) fn moment(&mut self) -> Moment {
        self.steps += 1;
        self.reading("m")
    }

    fn reading(&self, base: &str) -> Moment {
        let boot_ms = self.steps * 10 + self.passed_ms;
        let now = Time::from_unix_millis(i64::try_from(boot_ms).expect("small"));
        Moment::new(now, boot_ms, format!("{base}{:05}", self.steps))
    }

    pub(super) fn tell(&mut self, input: Input) {
        let mut moment = self.moment();
        let step = self.machine.step(input, &mut moment);
        self.commit(step, moment.now);
    }

    fn commit(&mut self, step: Step, time: Time) {
        if !step.records.is_empty() {
            self.commits += 1;
        }
        for record in step.records {
            match record {
                Record::Event(body) => {
                    if body.item().is_some() || matches!(body, EventBody::MessageReset { .. }) {
                        self.in_flight = None;
                    }
                    self.events.push(Event {
                        seq: self.events.len() as u64 + 1,
                        time,
                        session_id: SessionId::from("ses_1"),
                        turn_id: Some(TurnId::from("turn_1")),
                        body,
                    });
                }
                Record::Checkpoint { item_id, attempt, kind, offset, text } => {
                    let so_far = self.in_flight.get_or_insert_with(|| InFlightItem {
                        item_id,
                        attempt,
                        text: String::new(),
                        reasoning: String::new(),
                    });
                    let track = match kind {
                        DeltaKind::Text => &mut so_far.text,
                        DeltaKind::Reasoning => &mut so_far.reasoning,
                    };
                    assert_eq!(track.len() as u64, offset, "checkpoints fit together");
                    track.push_str(&text);
                }
                Record::FileSeen { .. } => {}
            }
        }
        for action in step.actions {
            match action {
                Action::StopRequest => {
                    self.open.retain(|action| {
                        !matches!(action, Action::Request { .. } | Action::Summarize { .. })
                    });
                }
                Action::Discard { calls } => {
                    self.open.retain(|action| {
                        !matches!(action, Action::Run { call_id } if calls.contains(call_id))
                    });
                }
                Action::Progress(_) => {}
                action => self.open.push(action),
            }
        }
    }

    /// The machine that a restart makes of what is committed.
    pub(super) fn restored(&self) -> Machine {
        let found = Found {
            events: self.events.clone(),
            in_flight: self.in_flight.clone(),
            steered: Vec::new(),
            next_model: None,
        };
        let start = start(self.limits, self.mode, self.machine.compacts());
        Machine::restore(start, found, &self.reading("r"))
    }

    /// Dies and starts again.
    pub(super) fn restart(&mut self, first: Input) {
        self.machine = self.restored();
        self.open.clear();
        self.tell(first);
        self.settle();
    }

    /// An answer whose calls are ready to run.
    pub(super) fn answer_with(&mut self, calls: &[(&str, u64)]) {
        for (name, n) in calls {
            self.model_calls(name, json!({ "n": n }));
        }
        self.settle();
        self.end("tool_calls");
        self.settle();
    }

    pub(super) fn text(&mut self, text: &str) {
        let (kind, text) = (DeltaKind::Text, text.to_owned());
        self.tell(Input::Stream(StreamInput::Delta { kind, text }));
    }

    pub(super) fn model_calls(&mut self, name: &str, arguments: Value) {
        self.tell(Input::Stream(StreamInput::Call {
            provider_call_id: None,
            name: name.to_owned(),
            arguments,
        }));
    }

    pub(super) fn end(&mut self, reason: &str) {
        self.open
            .retain(|action| !matches!(action, Action::Request { .. } | Action::Summarize { .. }));
        let finish_reason = Some(reason.to_owned());
        self.tell(Input::Stream(StreamInput::End { finish_reason, continues: false }));
    }

    /// The request is not sent, since the view is too large.
    pub(super) fn full(&mut self, pruning: Option<Pruning>, overflow: Option<TurnError>) {
        self.open.retain(|action| !matches!(action, Action::Request { .. }));
        let overflow = overflow.map(|error| Overflow { error, asked: 900, window: None });
        self.tell(Input::Stream(StreamInput::Full(Full { tokens: 900, pruning, overflow })));
    }

    /// The request for a summary goes out.
    pub(super) fn planned(&mut self, failed: u32) {
        self.tell(Input::Stream(StreamInput::Planned(Cut {
            until: ItemId::from("item_old"),
            kept: vec![ItemId::from("item_word")],
            files: "- read: a.rs\n".to_owned(),
            tokens: 900,
            rest: 300,
            failed,
        })));
    }

    /// The calls that the machine wants to be started, in order.
    pub(super) fn take_runs(&mut self) -> Vec<CallId> {
        let mut runs = Vec::new();
        self.open.retain(|action| match action {
            Action::Run { call_id } => {
                runs.push(call_id.clone());
                false
            }
            _ => true,
        });
        runs
    }

    pub(super) fn finish(&mut self, call_id: &CallId, status: ToolStatus) {
        let outcome = Outcome::not_run(status, "result");
        self.tell(Input::Finished { call_id: call_id.clone(), outcome });
    }

    /// A call started a command in the background.
    pub(super) fn finish_in_background(&mut self, call_id: &CallId, id: &str) {
        let process = Process {
            process_id: id.into(),
            call_id: call_id.clone(),
            command: "npm run dev".to_owned(),
        };
        let outcome = Outcome::not_run(ToolStatus::Ok, "running in the background");
        let outcome = Outcome { background: Some(process), ..outcome };
        self.tell(Input::Finished { call_id: call_id.clone(), outcome });
    }

    /// Answers the tools' and the policy's questions: `read` is a safe read, everything else
    /// writes; names that start with `ask` ask, with `no` are denied, with `bad` are not
    /// understood.
    pub(super) fn settle(&mut self) {
        while let Some(place) = self
            .open
            .iter()
            .position(|action| matches!(action, Action::Prepare { .. } | Action::Judge { .. }))
        {
            match self.open.remove(place) {
                Action::Prepare { call_id } => self.prepare(&call_id),
                Action::Judge { call_id, early } => self.judge(&call_id, early),
                _ => {}
            }
        }
    }

    fn name(&self, call_id: &CallId) -> String {
        self.machine.call(call_id).map(|call| call.name.clone()).unwrap_or_default()
    }

    pub(super) fn prepare(&mut self, call_id: &CallId) {
        let name = self.name(call_id);
        let reads = name.ends_with("read");
        let traits = if name.starts_with("bad") {
            Err("no such tool".to_owned())
        } else {
            Ok(Traits {
                summary: name,
                risk: if reads { Risk::Read } else { Risk::Write },
                parallel: reads,
                polls: false,
            })
        };
        self.tell(Input::Prepared { call_id: call_id.clone(), traits });
    }

    pub(super) fn judge(&mut self, call_id: &CallId, early: bool) {
        let name = self.name(call_id);
        let judgement = if name.starts_with("ask") && early {
            Judgement::Later
        } else if name.starts_with("ask") {
            Judgement::Ask(Box::new(prompt(call_id, &name)))
        } else if name.starts_with("no") {
            Judgement::Deny("a rule".to_owned())
        } else {
            Judgement::Allow
        };
        self.tell(Input::Judged { call_id: call_id.clone(), judgement });
    }

    pub(super) fn open_prompts(&self) -> Vec<PromptId> {
        let mut open = Vec::new();
        for event in &self.events {
            match &event.body {
                EventBody::PermissionRequested { prompt } => open.push(prompt.prompt_id.clone()),
                EventBody::PermissionResolved(resolved) => {
                    open.retain(|id| *id != resolved.prompt_id);
                }
                _ => {}
            }
        }
        open
    }

    pub(super) fn answer(&mut self, prompt_id: PromptId, decision: Resolution, interrupt: bool) {
        let resolved =
            Resolved { prompt_id, decision, scope: None, rule: None, message: None, by: None };
        self.tell(Input::Answered { resolved, interrupt });
    }

    /// The types of the events, in order.
    pub(super) fn names(&self) -> Vec<&'static str> {
        self.events.iter().map(|event| event.body.name()).collect()
    }

    pub(super) fn last(&self) -> &EventBody {
        &self.events.last().expect("there are events").body
    }

    /// The status and text of each result, in order.
    pub(super) fn results(&self) -> Vec<(ToolStatus, String)> {
        self.events
            .iter()
            .filter_map(|event| match &event.body {
                EventBody::ToolCompleted { item, status, .. } => match &item.body {
                    agentd_protocol::item::ItemBody::Tool(tool) => Some((*status, tool.text())),
                    _ => None,
                },
                _ => None,
            })
            .collect()
    }
}

/// The provider's word that a request is too long.
pub(super) fn overflow() -> TurnError {
    TurnError {
        code: TurnErrorCode::ContextOverflow,
        message: "too long".to_owned(),
        retryable: false,
        status: Some(400),
        provider_code: None,
        attempts: 1,
        retry_at: None,
    }
}

/// The end of a command in the background.
pub(super) fn exit(id: &str, reason: ProcessEnd) -> ProcessExit {
    ProcessExit {
        process_id: id.into(),
        call_id: "call_1".into(),
        command: "npm run\n  dev".to_owned(),
        exit: (reason == ProcessEnd::Exited).then_some(1),
        signal: None,
        reason,
    }
}

pub(super) fn pruning() -> Pruning {
    Pruning { items: vec![ItemId::from("item_result")], text: "gone".to_owned(), freed: 200 }
}

fn prompt(call_id: &CallId, tool: &str) -> Prompt {
    Prompt {
        prompt_id: PromptId::from_unique(call_id),
        session_id: SessionId::from("ses_1"),
        turn_id: TurnId::from("turn_1"),
        call_id: call_id.clone(),
        tool: tool.to_owned(),
        summary: tool.to_owned(),
        risk: Risk::Write,
        arguments: json!({}),
        preview: None,
        suggestions: Vec::new(),
        requested_at: Time::from_unix_millis(0),
        expires_at: None,
    }
}
