//! The fold of events into a [`Session`]: what it is after this event.
//!
//! The daemon's hub uses it to say what a session is when a watcher joins, the store to bring a
//! row up to date, a client to keep its copy true; one fold, so that they cannot differ.
//!
//! Invariants: an event at or below `head_seq` changes nothing; folding from `session.created` on
//! gives the same as folding from any snapshot in between. Nothing is concluded that an event
//! does not say: `state` and `queue_held` change by `session.state` only, a prompt goes by its
//! resolution only. `lease` is no event's and stays as it is.
//!
//! Receives a snapshot and the events after it; hands back the snapshot after them.

use crate::event::{Event, EventBody};
use crate::id::{ProcessId, PromptId, SubmissionId};
use crate::item::Content;
use crate::permission::Prompt;
use crate::process::Process;
use crate::session::{QueueEntry, Session};

/// How many characters of a queued input its preview has.
pub const PREVIEW_CHARS: usize = 80;

/// The queue's entry for this input.
pub fn queue_entry(submission_id: SubmissionId, content: &Content) -> QueueEntry {
    QueueEntry { submission_id, preview: content.preview(PREVIEW_CHARS) }
}

/// Brings `session` up to `event`, which is the next one or an old one.
pub fn apply(session: &mut Session, event: &Event) {
    if event.seq <= session.head_seq {
        return;
    }
    match &event.body {
        EventBody::SessionCreated { session: made, .. } => created(session, made),
        EventBody::SessionUpdated { session: new, .. } => updated(session, new),
        EventBody::SessionState { state, queue_held } => {
            session.state = *state;
            session.queue_held = queue_held.unwrap_or(session.queue_held);
        }
        EventBody::InputQueued { submission_id, content, position } => {
            queued(&mut session.queue, queue_entry(submission_id.clone(), content), *position);
        }
        EventBody::InputSteered { submission_id, .. }
        | EventBody::InputDropped { submission_id, .. } => {
            dequeued(&mut session.queue, submission_id);
        }
        EventBody::TurnStarted { submission_id, .. } => {
            session.active_turn_id.clone_from(&event.turn_id);
            dequeued(&mut session.queue, submission_id);
        }
        EventBody::MessageCompleted { item } | EventBody::ToolCompleted { item, .. } => {
            session.item_count = session.item_count.max(item.index);
        }
        EventBody::PermissionRequested { prompt } | EventBody::QuestionRequested { prompt } => {
            asked(&mut session.prompts, prompt);
        }
        EventBody::PermissionResolved(resolved) | EventBody::QuestionResolved(resolved) => {
            answered(&mut session.prompts, &resolved.prompt_id);
        }
        EventBody::UsageUpdated { session: usage, .. } => session.usage = *usage,
        EventBody::ProcessStarted(process) => started(&mut session.processes, process),
        EventBody::ProcessExited(exit) => exited(&mut session.processes, &exit.process_id),
        EventBody::TurnCompleted { .. }
        | EventBody::TurnExhausted { .. }
        | EventBody::TurnAborted { .. }
        | EventBody::TurnFailed { .. } => session.active_turn_id = None,
        EventBody::SubmissionAccepted { .. }
        | EventBody::IterationStarted { .. }
        | EventBody::ItemStarted { .. }
        | EventBody::MessageReset { .. }
        | EventBody::ToolCalled { .. }
        | EventBody::ToolStarted { .. }
        | EventBody::RetryScheduled { .. }
        | EventBody::ContextPruned { .. }
        | EventBody::ContextCompacted { .. }
        | EventBody::PlanUpdated { .. }
        | EventBody::HookRan { .. }
        | EventBody::MemoryCandidate { .. }
        | EventBody::SkillCandidate { .. }
        | EventBody::SessionRolledBack { .. }
        | EventBody::Warning { .. } => {}
    }
    session.head_seq = event.seq;
    session.updated_at = event.time;
}

fn created(session: &mut Session, made: &Session) {
    let lease = session.lease.take();
    *session = made.clone();
    session.lease = lease;
}

/// Takes what a request can change; what events count stays, so that a stale snapshot in an event
/// does no harm.
fn updated(session: &mut Session, new: &Session) {
    session.title.clone_from(&new.title);
    session.cwd.clone_from(&new.cwd);
    session.model.clone_from(&new.model);
    session.model_options.clone_from(&new.model_options);
    session.permission_mode = new.permission_mode;
    session.limits = new.limits;
    session.roots.clone_from(&new.roots);
    session.labels.clone_from(&new.labels);
    session.parent_id.clone_from(&new.parent_id);
    session.archived = new.archived;
}

/// `position` counts from 1; one past the end appends. An input that is queued again moves.
fn queued(queue: &mut Vec<QueueEntry>, entry: QueueEntry, position: u64) {
    dequeued(queue, &entry.submission_id);
    let index = usize::try_from(position.saturating_sub(1)).unwrap_or(usize::MAX);
    queue.insert(index.min(queue.len()), entry);
}

fn dequeued(queue: &mut Vec<QueueEntry>, submission_id: &SubmissionId) {
    queue.retain(|entry| entry.submission_id != *submission_id);
}

fn asked(prompts: &mut Vec<Prompt>, prompt: &Prompt) {
    answered(prompts, &prompt.prompt_id);
    prompts.push(prompt.clone());
}

fn answered(prompts: &mut Vec<Prompt>, prompt_id: &PromptId) {
    prompts.retain(|prompt| prompt.prompt_id != *prompt_id);
}

fn started(processes: &mut Vec<Process>, process: &Process) {
    exited(processes, &process.process_id);
    processes.push(process.clone());
}

fn exited(processes: &mut Vec<Process>, process_id: &ProcessId) {
    processes.retain(|process| process.process_id != *process_id);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::{SessionState, Usage};
    use serde_json::{Value, json};

    fn session() -> Session {
        serde_json::from_value(json!({
            "session_id": "ses_1", "title": "", "cwd": "/w", "permission_mode": "ask",
            "state": "idle", "created_at": "2026-01-01T00:00:00.000Z",
            "updated_at": "2026-01-01T00:00:00.000Z", "head_seq": 0, "item_count": 0,
            "usage": Usage::default(), "limits": {}, "queue": [], "queue_held": false,
            "roots": [], "prompts": [], "labels": {}, "archived": false
        }))
        .unwrap()
    }

    fn event(seq: u64, mut fields: Value) -> Event {
        let envelope = fields.as_object_mut().unwrap();
        envelope.insert("seq".to_owned(), seq.into());
        envelope.insert("time".to_owned(), format!("2026-01-01T00:00:{seq:02}.000Z").into());
        envelope.insert("session_id".to_owned(), "ses_1".into());
        serde_json::from_value(fields).unwrap()
    }

    /// A session's life: queue, prompt, items, usage, end.
    fn life() -> Vec<Event> {
        let prompt = |id: &str| {
            json!({
                "prompt_id": id, "session_id": "ses_1", "turn_id": "turn_1", "call_id": "call_1",
                "tool": "shell", "summary": "run", "risk": "execute", "arguments": {},
                "suggestions": [], "requested_at": "2026-01-01T00:00:00.000Z"
            })
        };
        let item = |index: u64| {
            json!({
                "item_id": format!("item_{index}"), "index": index, "turn_id": "turn_1",
                "created_at": "2026-01-01T00:00:00.000Z", "role": "user", "content": [],
                "origin": "user"
            })
        };
        let queued = |id: &str, text: &str, position: u64| json!({ "type": "input.queued", "submission_id": id, "content": text, "position": position });
        let started = |id: &str| json!({ "type": "process.started", "process_id": id, "call_id": "call_1", "command": "make" });
        let totals = |kind: &str| {
            json!({
                "type": kind, "turn_id": "turn_1", "usage": Usage::default(), "iterations": 1,
                "duration_ms": 5
            })
        };
        [
            json!({ "type": "session.created", "session": session(), "changed": [] }),
            json!({
                "type": "turn.started", "turn_id": "turn_1", "submission_id": "a", "model": "m/m",
                "limits": {}
            }),
            json!({ "type": "session.state", "state": "running" }),
            json!({ "type": "message.completed", "turn_id": "turn_1", "item": item(1) }),
            queued("b", "second\nline", 1),
            queued("c", "third", 2),
            queued("d", "first", 1),
            json!({ "type": "permission.requested", "turn_id": "turn_1", "prompt": prompt("prm_1") }),
            json!({ "type": "session.state", "state": "waiting" }),
            json!({ "type": "question.requested", "turn_id": "turn_1", "prompt": prompt("prm_2") }),
            json!({
                "type": "permission.resolved", "prompt_id": "prm_1", "decision": "allow"
            }),
            json!({ "type": "input.dropped", "submission_id": "c", "reason": "dequeued" }),
            json!({
                "type": "usage.updated", "turn": Usage::default(),
                "session": Usage { input: 7, ..Usage::default() },
                "context": { "tokens": 7, "window": 0 }
            }),
            json!({ "type": "message.completed", "turn_id": "turn_1", "item": item(2) }),
            started("proc_1"),
            started("proc_2"),
            totals("turn.completed"),
            json!({
                "type": "process.exited", "process_id": "proc_1", "call_id": "call_1",
                "command": "make", "exit": 2
            }),
            json!({ "type": "session.state", "state": "idle", "queue_held": true }),
            queued("b", "moved to the end", 9),
        ]
        .into_iter()
        .zip(1..)
        .map(|(fields, seq)| event(seq, fields))
        .collect()
    }

    fn folded(events: &[Event]) -> Session {
        let mut session = session();
        for event in events {
            apply(&mut session, event);
        }
        session
    }

    #[test]
    fn a_life() {
        let life = life();
        let waiting = folded(&life[..10]);
        assert_eq!(waiting.state, SessionState::Waiting);
        assert_eq!(waiting.active_turn_id, Some("turn_1".into()));
        let previews: Vec<_> = waiting.queue.iter().map(|entry| entry.preview.as_str()).collect();
        assert_eq!(previews, ["first", "second", "third"]);
        assert_eq!(waiting.prompts.len(), 2);

        let end = folded(&life);
        assert_eq!(end.state, SessionState::Idle);
        assert!(end.queue_held);
        assert_eq!(end.active_turn_id, None);
        let previews: Vec<_> = end.queue.iter().map(|entry| entry.preview.as_str()).collect();
        assert_eq!(previews, ["first", "moved to the end"]);
        assert_eq!(end.prompts[0].prompt_id.as_str(), "prm_2");
        let running: Vec<_> = end.processes.iter().map(|p| p.process_id.as_str()).collect();
        assert_eq!(running, ["proc_2"]);
        assert_eq!((end.usage.input, end.item_count, end.head_seq), (7, 2, 20));
        assert_eq!(end.updated_at, life[19].time);
    }

    #[test]
    fn every_snapshot_leads_to_the_same_end() {
        let life = life();
        for taken in 0..=life.len() {
            for again in 0..=taken {
                let mut session = folded(&life[..taken]);
                for event in &life[again..] {
                    apply(&mut session, event);
                }
                assert_eq!(session, folded(&life), "from {taken}, replayed from {again}");
            }
        }
    }

    #[test]
    fn an_update_changes_what_requests_change_and_nothing_else() {
        let mut before = folded(&life());
        before.lease = Some(crate::session::Lease {
            owner: "dmn_1".into(),
            pid: 1,
            host: "h".into(),
            epoch: 1,
            expires_in_ms: 1,
        });
        let stale = Session { title: "new".into(), archived: true, ..session() };
        let fields = json!({ "type": "session.updated", "session": stale, "changed": ["title"] });
        let mut after = before.clone();
        apply(&mut after, &event(21, fields));
        let updated_at = after.updated_at;
        let expected =
            Session { title: "new".into(), archived: true, head_seq: 21, updated_at, ..before };
        assert_eq!(after, expected);
    }
}
