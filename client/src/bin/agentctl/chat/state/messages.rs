//! What the watched session says, as entries of the scrollback.
//!
//! Receives messages of the watch; hands entries to the state.

use agentd_client::Body;
use agentd_client::protocol::event::{
    Change as FileChange, Event, EventBody, Resolved, TurnTotals,
};
use agentd_client::protocol::item::{
    AssistantItem, AssistantPart, Item, ItemBody, Origin, Part, ToolItem, ToolStatus,
};
use agentd_client::protocol::permission::{Resolution, Risk};
use agentd_client::protocol::progress::{Marker, StreamMessage};
use agentd_client::protocol::view::conversation::{Change, OpenCall};

use super::{Answer, COMMAND_RAN, Draft, Effect, Link, State};
use crate::chat::entry::{EndedCall, Entry, Tone};
use crate::render;
use crate::terminal::one_line;

/// Characters of a line about something.
const LINE_CHARS: usize = 400;
/// Lines of a command's output that are shown when it ended.
pub(super) const OUTPUT_LINES: usize = 5;
/// Lines of an input that was typed elsewhere or before.
const INPUT_LINES: usize = 20;

impl State {
    pub(super) fn message(&mut self, body: &Body) -> Vec<Effect> {
        match body {
            Body::Message(message) => {
                if self.link == Link::Lost {
                    self.link = Link::Opening;
                    self.note(Tone::Good, "the daemon is back");
                }
                self.stream(message);
            }
            Body::Lost => {
                self.link = Link::Lost;
                self.note(Tone::Warning, "the daemon is gone: waiting for it");
            }
            Body::Unknown { seq, .. } => self.view.pass_over(seq.unwrap_or(0)),
        }
        Vec::new()
    }

    fn stream(&mut self, message: &StreamMessage) {
        let is_new = match message {
            StreamMessage::Event(event) => event.seq > self.view.seq,
            StreamMessage::Progress(_) | StreamMessage::Marker(_) => true,
        };
        if !is_new {
            return;
        }
        let call = match message {
            StreamMessage::Event(event) => self.ending_call(&event.body),
            _ => None,
        };
        for change in self.view.apply(message) {
            if let Change::Withdrawn { .. } = change {
                self.answer = Answer::default();
                self.note(Tone::Warning, "(what was being written broke off and does not count)");
            }
        }
        match message {
            StreamMessage::Event(event) => self.event(event, call.as_ref()),
            StreamMessage::Marker(marker) => self.marker(marker),
            StreamMessage::Progress(_) => {}
        }
    }

    /// The call that an event ends, as long as the view has it.
    fn ending_call(&self, body: &EventBody) -> Option<OpenCall> {
        match body {
            EventBody::ToolCompleted { call_id, .. } => self.view.call(call_id).cloned(),
            _ => None,
        }
    }

    fn event(&mut self, event: &Event, call: Option<&OpenCall>) {
        let at = u64::try_from(event.time.unix_millis()).unwrap_or(0);
        match &event.body {
            EventBody::SubmissionAccepted { submission_id, op, client, .. }
                if !self.own.contains(submission_id) =>
            {
                self.senders.insert(submission_id.clone(), client.name.clone());
                if self.joined && op == "interrupt" {
                    let text = format!("interrupted by {}, elsewhere", client.name);
                    self.note(Tone::Quiet, text);
                }
            }
            EventBody::SessionUpdated { session, changed } => {
                for what in changed {
                    let to = match what.as_str() {
                        "model" => session.model.clone().unwrap_or_default(),
                        "permission_mode" => render::word(&session.permission_mode),
                        _ => continue,
                    };
                    self.note(Tone::Quiet, format!("{}: {to}", what.replace('_', " ")));
                }
            }
            EventBody::TurnStarted { .. } => self.turn_since = Some(at),
            EventBody::MessageCompleted { item } => self.item(item),
            EventBody::ToolStarted { call_id, .. } => {
                self.started.insert(call_id.clone(), at);
            }
            EventBody::ToolCompleted { call_id, item, status, duration_ms, changes } => {
                self.started.remove(call_id);
                if let ItemBody::Tool(tool) = &item.body {
                    let changes = changes.clone().unwrap_or_default();
                    self.call_ended(call, tool, *status, *duration_ms, changes);
                }
            }
            EventBody::PermissionResolved(resolved) | EventBody::QuestionResolved(resolved) => {
                self.resolved(resolved);
            }
            EventBody::InputQueued { submission_id, .. } => {
                self.settle(submission_id.as_str());
            }
            EventBody::InputSteered { submission_id, .. } => {
                for pending in &mut self.pending {
                    pending.steered |= pending.id == *submission_id;
                }
            }
            EventBody::InputDropped { submission_id, reason } => {
                self.settle(submission_id.as_str());
                self.input_dropped(reason);
            }
            EventBody::ContextCompacted { tokens_before, tokens_after, .. } => {
                let text = format!("compacted: {tokens_before} to {tokens_after} tokens");
                self.note(Tone::Quiet, text);
            }
            EventBody::SessionRolledBack { hidden, files, .. } => {
                let text = format!(
                    "taken back: {}, {} restored",
                    render::counted(hidden.len(), "item"),
                    render::counted(files.restored.len(), "file")
                );
                self.note(Tone::Quiet, text);
                for path in files.conflicts.iter().chain(&files.not_undoable) {
                    self.note(Tone::Warning, format!("not taken back: {path}"));
                }
            }
            EventBody::ProcessStarted(process) => {
                let text = format!("  goes on in the background as {}", process.process_id);
                self.note(Tone::Quiet, text);
            }
            EventBody::ProcessExited(exit) => {
                let command = one_line(&exit.command, LINE_CHARS);
                let tone = if exit.exit == Some(0) { Tone::Quiet } else { Tone::Warning };
                self.note(tone, format!("{} ({command}) {}", exit.process_id, exit.how()));
            }
            EventBody::PlanUpdated { entries } => self.push(Entry::Plan(entries.clone())),
            EventBody::Warning { message, .. } => {
                self.note(Tone::Warning, format!("warning: {message}"));
            }
            body if body.is_terminal() => self.turn_ended(body),
            _ => {}
        }
    }

    /// Takes an input that was sent from here off the list of those on their way; how it stood in
    /// the editor.
    fn settle(&mut self, id: &str) -> Option<Draft> {
        let at = self.pending.iter().position(|pending| pending.id.as_str() == id)?;
        Some(self.pending.remove(at).draft)
    }

    fn item(&mut self, item: &Item) {
        match &item.body {
            ItemBody::User { content, origin, submission_id } => {
                if matches!(origin, Origin::Hook | Origin::Agentd) {
                    return;
                }
                let id = submission_id.as_ref();
                let from = id.and_then(|id| self.senders.remove(id));
                let from = from.filter(|_| self.joined);
                let draft = id.and_then(|id| self.settle(id.as_str()));
                let text = match draft {
                    // The history has it.
                    Some(draft) => draft.text,
                    None => self.input_from_elsewhere(content),
                };
                self.push(Entry::Input { text, from });
            }
            ItemBody::Assistant(answer) => self.assistant(item, answer),
            ItemBody::System { .. } | ItemBody::Tool(_) | ItemBody::Marker { .. } => {}
        }
    }

    fn input_dropped(&mut self, reason: &str) {
        if reason == "dequeued" {
            self.note(Tone::Quiet, "an input was taken out of the queue");
        } else {
            self.note(Tone::Warning, format!("an input was dropped: {reason}"));
        }
    }

    /// An input that was typed elsewhere or before.
    fn input_from_elsewhere(&mut self, content: &[Part]) -> String {
        let texts = content.iter().map(|part| match part {
            Part::Text { text } => text.clone(),
            Part::Image { path, .. } => format!("[image {}]", path.as_deref().unwrap_or("")),
            Part::File { .. } => String::new(),
        });
        let texts: Vec<_> = texts.filter(|text| !text.is_empty()).collect();
        // What a command said was not typed, and would go along again.
        let typed = texts.iter().filter(|text| !text.trim_start().starts_with(COMMAND_RAN));
        let typed: Vec<_> = typed.map(String::as_str).collect();
        self.editor.remember(Draft::of(&typed.join("\n")));
        let text = texts.join("\n");
        let more = text.lines().count().saturating_sub(INPUT_LINES);
        if more == 0 {
            return text;
        }
        let head: Vec<&str> = text.lines().take(INPUT_LINES).collect();
        let head = format!("{}\n… {more} more lines (Ctrl-O)", head.join("\n"));
        self.fold("Input", text);
        head
    }

    fn assistant(&mut self, item: &Item, answer: &AssistantItem) {
        let reasoning = answer.content.iter().filter_map(|part| match part {
            AssistantPart::Reasoning { text, .. } => Some(text.as_str()),
            AssistantPart::Text { .. } => None,
        });
        let reasoning: String = reasoning.collect();
        let state = std::mem::take(&mut self.answer);
        let state =
            if state.item_id.as_ref() == Some(&item.item_id) { state } else { Answer::default() };
        let Answer { written, open, .. } = state;
        if !reasoning.trim().is_empty() && written == 0 {
            self.push(Entry::Reasoning { lines: reasoning.lines().count() });
            self.fold("Reasoning", reasoning);
        }
        let text = answer.text();
        let rest = text.get(written..).unwrap_or("");
        if !rest.trim().is_empty() {
            self.push(Entry::Answer { text: rest.to_owned(), open });
        }
    }

    fn call_ended(
        &mut self,
        call: Option<&OpenCall>,
        tool: &ToolItem,
        status: ToolStatus,
        millis: u64,
        changes: Vec<FileChange>,
    ) {
        let started = call.and_then(|call| call.started.as_ref());
        let summary = match (started, call) {
            (Some((summary, _)), _) => one_line(summary, LINE_CHARS),
            (None, Some(call)) => call_line(&call.name, &call.arguments),
            (None, None) => tool.name.clone(),
        };
        let ok = status == ToolStatus::Ok;
        let text = uncoloured(&tool.text());
        let runs = started.is_some_and(|(_, risk)| *risk == Risk::Execute);
        let (output, folded) = match (ok, runs) {
            (true, false) => (Vec::new(), 0),
            (false, false) => (vec![one_line(&text, LINE_CHARS)], 0),
            (_, true) => tail(&text, OUTPUT_LINES),
        };
        self.fold(summary.clone(), text);
        let status = (!ok && status != ToolStatus::Error).then(|| render::word(&status));
        let ended = EndedCall { summary, ok, status, millis, output, folded, changes };
        self.push(Entry::Call(ended));
    }

    fn resolved(&mut self, resolved: &Resolved) {
        let (tone, word) = match resolved.decision {
            Resolution::Allow => (Tone::Quiet, "allowed"),
            Resolution::Deny => (Tone::Quiet, "denied"),
            Resolution::Cancelled => (Tone::Quiet, "no longer asked"),
            Resolution::Expired => (Tone::Warning, "denied: nobody answered in time"),
        };
        let mut text = format!("  {word}");
        let ours = self.answered.remove(&resolved.prompt_id);
        if let Some(by) = resolved.by.as_ref().filter(|_| !ours && self.joined) {
            text = format!("{text} by {}, elsewhere", by.client.name);
        }
        if let Some(rule) = &resolved.rule {
            let pattern = rule.pattern.as_deref().unwrap_or("every call");
            text = format!("{text}, and from now on: {} {pattern}", rule.tool);
        }
        if let Some(message) = &resolved.message {
            text = format!("{text}: {}", one_line(message, LINE_CHARS));
        }
        self.note(tone, text);
    }

    fn turn_ended(&mut self, body: &EventBody) {
        self.turn_since = None;
        self.started.clear();
        let (tone, how, totals) = match body {
            EventBody::TurnCompleted { totals } => (Tone::Quiet, "completed".to_owned(), totals),
            EventBody::TurnExhausted { limit, totals, .. } => {
                let how = format!("stopped: the {} budget is used up", render::word(limit));
                (Tone::Warning, how, totals)
            }
            EventBody::TurnAborted { reason, totals, .. } => {
                let how = format!("stopped: {} (/continue goes on)", render::word(reason));
                (Tone::Warning, how, totals)
            }
            EventBody::TurnFailed { error, totals } => {
                let when = error.retry_at.map(|at| format!("; try again in {}", render::until(at)));
                let when = when.unwrap_or_default();
                (
                    Tone::Bad,
                    format!("failed: {}{when} (/continue tries again)", error.message),
                    totals,
                )
            }
            _ => return,
        };
        self.note(tone, ended(&how, totals));
    }

    fn marker(&mut self, marker: &Marker) {
        match marker {
            Marker::Joined { session, .. } => {
                self.link = Link::Live;
                self.joined = true;
                let turn = session.active_turn_id.is_some();
                self.turn_since = self.turn_since.filter(|_| turn).or(turn.then_some(self.now));
            }
            Marker::Watchers(_) => {}
            Marker::Detached { holder, .. } => {
                let who = holder.as_ref();
                let who = who.map(|lease| format!(": process {} on {}", lease.pid, lease.host));
                let text = format!("another process runs the session{}", who.unwrap_or_default());
                self.note(Tone::Warning, text);
            }
            Marker::StoreFailed { cause } => {
                self.note(Tone::Bad, format!("the store cannot be written: {cause}"));
            }
            Marker::Closed { reason } => {
                self.note(Tone::Warning, format!("the session is gone: {reason}"));
                self.leave_session();
            }
        }
    }
}

fn ended(how: &str, totals: &TurnTotals) -> String {
    let requests = if totals.iterations == 1 { "request" } else { "requests" };
    format!(
        "{how} · {} {requests} · {} · {}",
        totals.iterations,
        render::usage(&totals.usage),
        render::duration(totals.duration_ms)
    )
}

/// A call in a line, as long as nothing better is known.
pub(in crate::chat) fn call_line(name: &str, arguments: &serde_json::Value) -> String {
    one_line(&format!("{name} {arguments}"), LINE_CHARS)
}

/// What a program wrote without the colours it gave it. Not for questions: there all is shown.
pub(super) fn uncoloured(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// The last lines of a program's output, and how many there are before.
pub(in crate::chat) fn tail(output: &str, count: usize) -> (Vec<String>, usize) {
    let text = uncoloured(output);
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(count);
    (lines[from..].iter().map(|line| (*line).to_owned()).collect(), from)
}
