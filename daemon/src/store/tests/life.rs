//! A session's life as its writer knows it: random steps, and the events and rows that they make.

use agentd_protocol::event::{AbortReason, ContextSize, EventBody, Resolved, TurnTotals};
use agentd_protocol::id::{CallId, ItemId, ProcessId, PromptId, SessionId, SubmissionId, TurnId};
use agentd_protocol::item::Content;
use agentd_protocol::permission::{Prompt, Resolution, Risk};
use agentd_protocol::process::{Process, ProcessEnd, ProcessExit};
use agentd_protocol::progress::DeltaKind;
use agentd_protocol::session::{Session, SessionState, Usage};
use agentd_protocol::submission::Disposition;
use proptest::prelude::*;

use super::fixture::{self, accepted, event, input, turn_event};
use crate::store::{NewEvent, Row};

/// A step of a session's life; the numbers choose among what is there.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    StartTurn,
    StartQueued,
    EndTurn(u8),
    Item,
    Attempt,
    Text(u8),
    Reset,
    Answer,
    Call,
    Result(u8),
    Ask,
    Resolve(u8),
    Queue(u8),
    Dequeue(u8),
    Steer,
    Drain,
    Requeue,
    Use(u8),
    Rename(u8),
    Hold(bool),
    Start,
    Exit(u8),
    Iterate,
}

/// Steps that make sense where they can.
pub(crate) fn steps(count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Step>> {
    use Step::*;
    let step = prop_oneof![
        3 => Just(StartTurn), 2 => Just(StartQueued), 2 => any::<u8>().prop_map(EndTurn),
        3 => Just(Item), 1 => Just(Attempt), 4 => any::<u8>().prop_map(Text),
        1 => Just(Reset), 3 => Just(Answer), 3 => Just(Call), 3 => any::<u8>().prop_map(Result),
        2 => Just(Ask), 2 => any::<u8>().prop_map(Resolve), 3 => any::<u8>().prop_map(Queue),
        1 => any::<u8>().prop_map(Dequeue), 2 => Just(Steer), 1 => Just(Drain),
        1 => Just(Requeue), 1 => any::<u8>().prop_map(Use), 1 => any::<u8>().prop_map(Rename),
        1 => any::<bool>().prop_map(Hold), 2 => Just(Start),
        2 => any::<u8>().prop_map(Exit), 2 => Just(Iterate),
    ];
    proptest::collection::vec(step, count)
}

/// What a writer would know.
pub(crate) struct Life {
    pub(crate) session_id: SessionId,
    pub(crate) session: Session,
    pub(crate) turn: Option<TurnId>,
    pub(crate) streaming: Option<(ItemId, u64, u32, String)>,
    pub(crate) next_index: u64,
    pub(crate) calls: Vec<CallId>,
    pub(crate) prompts: Vec<PromptId>,
    pub(crate) queue: Vec<SubmissionId>,
    pub(crate) steered: Vec<SubmissionId>,
    pub(crate) exited: Vec<ProcessExit>,
    pub(crate) made: u32,
}

impl Life {
    /// A session that was just made.
    pub(crate) fn new(session: Session) -> Self {
        Self {
            session_id: session.session_id.clone(),
            session,
            turn: None,
            streaming: None,
            next_index: 1,
            calls: Vec::new(),
            prompts: Vec::new(),
            queue: Vec::new(),
            steered: Vec::new(),
            exited: Vec::new(),
            made: 0,
        }
    }

    fn name(&mut self, prefix: &str) -> String {
        self.made += 1;
        format!("{prefix}{}", self.made)
    }

    fn index(&mut self) -> u64 {
        self.next_index += 1;
        self.next_index - 1
    }

    /// The events and rows of a step; none where it makes no sense now.
    pub(crate) fn take(&mut self, step: Step) -> (Vec<NewEvent>, Vec<Row>) {
        let (bodies, rows) = match &self.turn {
            None => self.outside(step),
            Some(turn) => {
                let turn = turn.clone();
                self.inside(step, &turn)
            }
        };
        let turn = self.turn.clone();
        let in_turn = |body: EventBody| match (&body, &turn) {
            (EventBody::InputQueued { .. } | EventBody::SessionUpdated { .. }, _) | (_, None) => {
                event(body)
            }
            (_, Some(turn)) => turn_event(turn, body),
        };
        let events: Vec<NewEvent> = bodies.into_iter().map(in_turn).collect();
        if events.iter().any(|event| event.body.is_terminal()) {
            self.turn = None;
            self.streaming = None;
        }
        (events, rows)
    }

    fn outside(&mut self, step: Step) -> (Vec<EventBody>, Vec<Row>) {
        match step {
            Step::StartTurn => {
                let (turn, id) = (TurnId::from(self.name("turn_")), self.name("s"));
                let params = input(&self.session_id, &id, "do it");
                let rows = vec![accepted(params, Disposition::Started, &turn)];
                let (item, index) = (ItemId::from(self.name("item_")), self.index());
                let bodies = vec![
                    fixture::turn_started(&id),
                    EventBody::SessionState { state: SessionState::Running, queue_held: None },
                    fixture::user_item(&item, index, &turn, "do it"),
                ];
                self.turn = Some(turn);
                (bodies, rows)
            }
            Step::StartQueued if !self.queue.is_empty() => {
                let turn = TurnId::from(self.name("turn_"));
                let id = self.queue.remove(0);
                self.turn = Some(turn);
                (vec![fixture::turn_started(id.as_str())], vec![])
            }
            Step::Queue(at) => self.enqueue(at),
            Step::Dequeue(at) => self.dequeue(at),
            Step::Rename(to) => (self.rename(to), vec![]),
            Step::Exit(at) => (self.exit(at), vec![]),
            Step::Hold(held) => {
                let state = SessionState::Idle;
                (vec![EventBody::SessionState { state, queue_held: Some(held) }], vec![])
            }
            _ => (vec![], vec![]),
        }
    }

    fn inside(&mut self, step: Step, turn: &TurnId) -> (Vec<EventBody>, Vec<Row>) {
        match step {
            Step::Queue(at) => self.enqueue(at),
            Step::Dequeue(at) => self.dequeue(at),
            Step::Text(length) => (vec![], self.text(length)),
            Step::Steer => {
                let id = self.name("s");
                let params = input(&self.session_id, &id, "also this");
                self.steered.push(params.submission.id.clone());
                (vec![], vec![accepted(params, Disposition::Steered, turn)])
            }
            step => (self.events(step, turn), vec![]),
        }
    }

    fn events(&mut self, step: Step, turn: &TurnId) -> Vec<EventBody> {
        match step {
            Step::EndTurn(how) => self.end(how),
            Step::Item if self.streaming.is_none() => {
                let (item, index) = (ItemId::from(self.name("item_")), self.index());
                self.streaming = Some((item.clone(), index, 1, String::new()));
                vec![fixture::item_started(&item, 1)]
            }
            Step::Attempt | Step::Reset => {
                let Some((item, _, attempt, text)) = &mut self.streaming else { return vec![] };
                text.clear();
                *attempt += 1;
                let (item_id, over) = (item.clone(), *attempt - 1);
                let discarded = std::mem::take(&mut self.calls);
                let reset = EventBody::MessageReset { item_id, attempt: over, discarded };
                match step {
                    Step::Reset => vec![reset],
                    _ => vec![reset, fixture::item_started(item, *attempt)],
                }
            }
            Step::Answer => {
                let Some((item, index, _, text)) = self.streaming.take() else { return vec![] };
                vec![fixture::assistant_item(&item, index, turn, &text)]
            }
            Step::Call => {
                let call = CallId::from(self.name("call_"));
                self.calls.push(call.clone());
                vec![EventBody::ToolCalled {
                    call_id: call,
                    item_id: ItemId::from("item_1"),
                    name: "read".to_owned(),
                    arguments: serde_json::json!({ "path": "a" }),
                }]
            }
            Step::Result(at) if !self.calls.is_empty() && self.streaming.is_none() => {
                self.result(at, turn)
            }
            Step::Ask => vec![self.ask(turn)],
            Step::Resolve(at) if !self.prompts.is_empty() => {
                let prompt_id = self.prompts.remove(usize::from(at) % self.prompts.len());
                vec![EventBody::PermissionResolved(Resolved {
                    prompt_id,
                    decision: Resolution::Allow,
                    scope: None,
                    rule: None,
                    message: None,
                    by: None,
                })]
            }
            Step::Drain if !self.steered.is_empty() && self.streaming.is_none() => {
                let submission_id = self.steered.remove(0);
                let (item, index) = (ItemId::from(self.name("item_")), self.index());
                vec![
                    EventBody::InputSteered { submission_id, item_id: item.clone() },
                    fixture::user_item(&item, index, turn, "also this"),
                ]
            }
            Step::Requeue if !self.steered.is_empty() => {
                let submission_id = self.steered.remove(0);
                self.queue.insert(0, submission_id.clone());
                let content = Content::Text("also this".to_owned());
                vec![EventBody::InputQueued { submission_id, content, position: 1 }]
            }
            Step::Use(tokens) => vec![used(tokens)],
            Step::Rename(to) => self.rename(to),
            Step::Start => vec![self.start()],
            Step::Exit(at) => self.exit(at),
            Step::Iterate => {
                self.exited.clear();
                vec![EventBody::IterationStarted { index: 1, limit: 50, permission_mode: None }]
            }
            _ => vec![],
        }
    }

    fn result(&mut self, at: u8, turn: &TurnId) -> Vec<EventBody> {
        let call = self.calls.remove(usize::from(at) % self.calls.len());
        let (item, index) = (ItemId::from(self.name("item_")), self.index());
        vec![
            EventBody::ToolStarted {
                call_id: call.clone(),
                summary: "read a".to_owned(),
                risk: Risk::Read,
                arguments: None,
            },
            fixture::tool_completed(&call, &item, index, turn, "content"),
        ]
    }

    fn end(&mut self, how: u8) -> Vec<EventBody> {
        let totals = TurnTotals::default();
        let end = match how % 2 {
            0 => EventBody::TurnCompleted { totals },
            _ => EventBody::TurnAborted { reason: AbortReason::Interrupted, by: None, totals },
        };
        // Drops what was steered and not drained.
        let dropped = self.steered.drain(..).map(|submission_id| EventBody::InputDropped {
            submission_id,
            reason: "test".to_owned(),
        });
        let state = EventBody::SessionState { state: SessionState::Idle, queue_held: None };
        dropped.chain([state, end]).collect()
    }

    fn enqueue(&mut self, at: u8) -> (Vec<EventBody>, Vec<Row>) {
        let (turn, id) = (TurnId::from(self.name("turn_")), self.name("s"));
        let text = format!("input {id}");
        let params = input(&self.session_id, &id, &text);
        let submission_id = params.submission.id.clone();
        let place = usize::from(at) % (self.queue.len() + 1);
        self.queue.insert(place, submission_id.clone());
        let position = place as u64 + 1;
        let queued =
            EventBody::InputQueued { submission_id, content: Content::Text(text), position };
        (vec![queued], vec![accepted(params, Disposition::Queued, &turn)])
    }

    fn dequeue(&mut self, at: u8) -> (Vec<EventBody>, Vec<Row>) {
        if self.queue.is_empty() {
            return (vec![], vec![]);
        }
        let submission_id = self.queue.remove(usize::from(at) % self.queue.len());
        let reason = "asked".to_owned();
        (vec![EventBody::InputDropped { submission_id, reason }], vec![])
    }

    fn text(&mut self, length: u8) -> Vec<Row> {
        let Some((item, _, attempt, text)) = &mut self.streaming else { return vec![] };
        let piece = "é".repeat(usize::from(length % 5));
        let row = Row::Checkpoint {
            item_id: item.clone(),
            attempt: *attempt,
            kind: DeltaKind::Text,
            offset: text.len() as u64,
            text: piece.clone(),
        };
        text.push_str(&piece);
        vec![row]
    }

    fn ask(&mut self, turn: &TurnId) -> EventBody {
        let prompt_id = PromptId::from(self.name("prm_"));
        self.prompts.push(prompt_id.clone());
        EventBody::PermissionRequested {
            prompt: Box::new(Prompt {
                prompt_id,
                session_id: self.session_id.clone(),
                turn_id: turn.clone(),
                call_id: CallId::from("call_x"),
                tool: "write".to_owned(),
                summary: "write a".to_owned(),
                risk: Risk::Write,
                arguments: serde_json::json!({ "path": "a", "content": "\"item\":null" }),
                preview: None,
                suggestions: Vec::new(),
                requested_at: fixture::time(),
                expires_at: None,
            }),
        }
    }

    fn start(&mut self) -> EventBody {
        EventBody::ProcessStarted(Process {
            process_id: ProcessId::from(self.name("proc_")),
            call_id: CallId::from("call_x"),
            command: "npm run dev".to_owned(),
        })
    }

    fn exit(&mut self, at: u8) -> Vec<EventBody> {
        let running = &self.session.processes;
        if running.is_empty() {
            return vec![];
        }
        let Process { process_id, call_id, command } =
            running[usize::from(at) % running.len()].clone();
        let exit = ProcessExit {
            process_id,
            call_id,
            command,
            exit: at.is_multiple_of(2).then_some(i32::from(at)),
            signal: None,
            reason: ProcessEnd::Exited,
        };
        self.exited.push(exit.clone());
        vec![EventBody::ProcessExited(exit)]
    }

    fn rename(&mut self, to: u8) -> Vec<EventBody> {
        let mut session = self.session.clone();
        session.title = format!("Title {to}");
        session.archived = to.is_multiple_of(2);
        session.labels.insert("n".to_owned(), to.to_string());
        let changed = vec!["title".to_owned()];
        vec![EventBody::SessionUpdated { session: Box::new(session), changed }]
    }
}

fn used(tokens: u8) -> EventBody {
    let usage = Usage {
        input: u64::from(tokens),
        cost_usd: Some(f64::from(tokens) / 7.0),
        ..Usage::default()
    };
    EventBody::UsageUpdated { turn: usage, session: usage, context: ContextSize::default() }
}
