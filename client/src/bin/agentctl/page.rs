//! A session as it happens, on a terminal or through a pipe.
//!
//! Answers go to standard output, everything else to standard error. On a terminal text appears
//! as it comes; through a pipe an answer appears when it is complete, since what was written
//! cannot be taken back when a stream breaks and starts again.
//!
//! Invariants: all that is shown comes from the view and its changes; nothing of a model or a tool
//! reaches the terminal with control characters in it.
//!
//! Receives messages of a watch; hands lines to the user.

use std::collections::HashSet;
use std::io::{self, IsTerminal, Write};

use agentd_client::protocol::event::{
    Change as FileChange, Event, EventBody, Resolved, TurnTotals,
};
use agentd_client::protocol::id::{ItemId, SubmissionId};
use agentd_client::protocol::item::{Item, ItemBody, Origin, ToolItem, ToolStatus, parts_text};
use agentd_client::protocol::permission::{Prompt, Resolution};
use agentd_client::protocol::progress::{DeltaKind, Marker, StreamMessage};
use agentd_client::protocol::view::conversation::{Change, View};

use crate::render;
use crate::terminal::{Palette, Style, harmless, one_line};

/// Characters of a note's line.
const NOTE_CHARS: usize = 160;
/// Lines of a preview before the rest is only counted.
const PREVIEW_LINES: usize = 40;

/// What is said when the daemon is gone.
pub(crate) const LOST: &str = "the connection was lost: waiting for the daemon";

/// A page that grows at its end.
#[derive(Debug)]
pub(crate) struct Page {
    view: View,
    /// Submissions whose text the user has before their eyes already.
    own: HashSet<SubmissionId>,
    live: bool,
    /// Answers are shown.
    answers: bool,
    notes: Palette,
    /// The item whose text was written last and has no line break at its end yet.
    open: Option<ItemId>,
    /// The same for a tool's output.
    output_open: bool,
}

impl Page {
    /// An empty page.
    pub(crate) fn new() -> Self {
        Self {
            view: View::default(),
            own: HashSet::new(),
            live: io::stdout().is_terminal(),
            answers: true,
            notes: Palette::of(&io::stderr()),
            open: None,
            output_open: false,
        }
    }

    /// Leaves answers out: only what happens beside them is shown.
    pub(crate) fn without_answers(mut self) -> Self {
        (self.live, self.answers) = (false, false);
        self
    }

    /// Leaves out the text of this submission: it was typed on this terminal.
    pub(crate) fn leave_out(&mut self, submission_id: SubmissionId) {
        self.own.insert(submission_id);
    }

    /// What is known of the session.
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    /// Takes note of an event without showing anything.
    pub(crate) fn pass_over(&mut self, seq: u64) {
        self.view.pass_over(seq);
    }

    /// Takes in a message without showing anything.
    pub(crate) fn absorb(&mut self, message: &StreamMessage) {
        self.view.apply(message);
    }

    /// Takes in a message and shows what it brings.
    pub(crate) fn show(&mut self, message: &StreamMessage) -> io::Result<()> {
        let is_new = match message {
            StreamMessage::Event(event) => event.seq > self.view.seq,
            StreamMessage::Progress(_) | StreamMessage::Marker(_) => true,
        };
        if let StreamMessage::Event(event) = message
            && is_new
        {
            self.before(event)?;
        }
        for change in self.view.apply(message) {
            self.change(&change)?;
        }
        match message {
            StreamMessage::Event(event) if is_new => self.event(event),
            StreamMessage::Marker(marker) => self.marker(marker),
            StreamMessage::Event(_) | StreamMessage::Progress(_) => Ok(()),
        }
    }

    /// A line of the client's own.
    pub(crate) fn note(&mut self, style: Style, text: &str) -> io::Result<()> {
        self.end_line()?;
        writeln!(io::stderr().lock(), "{}", self.notes.paint(style, &harmless(text)))
    }

    /// A question for permission, with what is needed to judge it.
    pub(crate) fn prompt(&mut self, prompt: &Prompt) -> io::Result<()> {
        let risk = render::word(&prompt.risk);
        let summary = one_line(&prompt.summary, NOTE_CHARS);
        self.note(Style::Yellow, &format!("? {} wants to: {summary} ({risk})", prompt.tool))?;
        let arguments = prompt.arguments.to_string();
        let preview = prompt.preview.as_deref().unwrap_or(&arguments);
        let mut lines = preview.lines();
        for line in lines.by_ref().take(PREVIEW_LINES) {
            let style = match line.as_bytes().first() {
                Some(b'+') => Style::Green,
                Some(b'-') => Style::Red,
                _ => Style::Dim,
            };
            self.note(style, &format!("  {line}"))?;
        }
        match lines.count() {
            0 => Ok(()),
            more => self.note(Style::Yellow, &format!("  … and {more} more lines")),
        }
    }

    /// Ends a line that is being written, so that another can begin.
    fn end_line(&mut self) -> io::Result<()> {
        if self.open.take().is_some() {
            writeln!(io::stdout().lock())?;
        }
        if std::mem::take(&mut self.output_open) {
            writeln!(io::stderr().lock())?;
        }
        Ok(())
    }

    fn change(&mut self, change: &Change) -> io::Result<()> {
        match change {
            Change::Text { item_id, kind: DeltaKind::Text, text } if self.live => {
                self.text(item_id, text)
            }
            Change::Text { .. } => Ok(()),
            Change::Withdrawn { item_id } => {
                if !self.live {
                    return Ok(());
                }
                if self.open.as_ref() != Some(item_id) {
                    self.open = None;
                }
                self.note(Style::Yellow, "(that broke off; it starts again)")
            }
            Change::Output { missed, text, .. } => self.output(*missed, text),
        }
    }

    fn text(&mut self, item_id: &ItemId, text: &str) -> io::Result<()> {
        if self.open.as_ref() != Some(item_id) {
            self.end_line()?;
        }
        let mut stdout = io::stdout().lock();
        write!(stdout, "{}", harmless(text))?;
        stdout.flush()?;
        self.open = (!text.ends_with('\n')).then(|| item_id.clone());
        Ok(())
    }

    /// What a tool writes while it runs, for those who can see it pass by.
    fn output(&mut self, missed: u64, text: &str) -> io::Result<()> {
        if !io::stderr().is_terminal() {
            return Ok(());
        }
        if missed > 0 {
            self.note(Style::Dim, &format!("  │ … {missed} bytes left out …"))?;
        }
        if self.open.is_some() {
            self.end_line()?;
        }
        let mut stderr = io::stderr().lock();
        for line in harmless(text).split_inclusive('\n') {
            let start = if self.output_open { "" } else { "  │ " };
            let painted = self.notes.paint(Style::Dim, line.trim_end_matches('\n'));
            write!(stderr, "{start}{painted}")?;
            self.output_open = !line.ends_with('\n');
            if !self.output_open {
                writeln!(stderr)?;
            }
        }
        stderr.flush()
    }

    /// What has to be read from the view before the event changes it.
    fn before(&mut self, event: &Event) -> io::Result<()> {
        let EventBody::ToolCompleted { call_id, item, status, duration_ms, changes } = &event.body
        else {
            return Ok(());
        };
        let ItemBody::Tool(tool) = &item.body else { return Ok(()) };
        let started = self.view.call(call_id).and_then(|call| call.started.clone());
        self.tool_ended(started.is_some(), tool, *status, *duration_ms, changes.as_deref())
    }

    fn tool_ended(
        &mut self,
        started: bool,
        tool: &ToolItem,
        status: ToolStatus,
        millis: u64,
        changes: Option<&[FileChange]>,
    ) -> io::Result<()> {
        if status == ToolStatus::Ok {
            for file in changes.unwrap_or_default() {
                let path = one_line(&file.path, NOTE_CHARS);
                let text = format!("  {path} +{} -{}", file.added, file.removed);
                self.note(Style::Green, &text)?;
            }
            if started && millis >= 1000 {
                self.note(Style::Dim, &format!("  done in {}", render::duration(millis)))?;
            }
            return Ok(());
        }
        let reason = one_line(&parts_text(&tool.content), NOTE_CHARS);
        let name = if started { String::new() } else { format!("{} ", tool.name) };
        self.note(Style::Red, &format!("  ✗ {name}{}: {reason}", render::word(&status)))
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        match &event.body {
            EventBody::MessageCompleted { item } => self.item(item),
            EventBody::ToolStarted { summary, .. } => {
                self.note(Style::Bold, &format!("● {}", one_line(summary, NOTE_CHARS)))
            }
            EventBody::PermissionResolved(resolved) => self.resolved(resolved),
            EventBody::InputQueued { content, position, .. } => {
                let text = content.preview(NOTE_CHARS);
                self.note(Style::Dim, &format!("queued ({position}): {text}"))
            }
            EventBody::InputDropped { reason, .. } => {
                self.note(Style::Yellow, &format!("an input was dropped: {reason}"))
            }
            EventBody::RetryScheduled { attempt, max_attempts, delay_ms, cause } => {
                let wait = render::duration(*delay_ms);
                let cause = one_line(&cause.message, NOTE_CHARS);
                let text = format!("attempt {attempt} of {max_attempts} in {wait}: {cause}");
                self.note(Style::Yellow, &text)
            }
            EventBody::ContextCompacted { tokens_before, tokens_after, .. } => {
                let text = format!("(compacted: {tokens_before} to {tokens_after} tokens)");
                self.note(Style::Dim, &text)
            }
            EventBody::ProcessStarted(process) => {
                let text = format!("  goes on in the background as {}", process.process_id);
                self.note(Style::Dim, &text)
            }
            EventBody::ProcessExited(exit) => {
                let command = one_line(&exit.command, NOTE_CHARS);
                let text = format!("{} ({command}) {}", exit.process_id, exit.how());
                self.note(if exit.exit == Some(0) { Style::Dim } else { Style::Yellow }, &text)
            }
            EventBody::Warning { message, .. } => {
                self.note(Style::Yellow, &format!("warning: {message}"))
            }
            EventBody::PlanUpdated { entries } => {
                for entry in entries {
                    let status = render::word(&entry.status);
                    let text = format!("  {status:7} {}", one_line(&entry.content, NOTE_CHARS));
                    self.note(Style::Dim, &text)?;
                }
                Ok(())
            }
            EventBody::TurnCompleted { totals } => self.ended(Style::Dim, "completed", totals),
            EventBody::TurnExhausted { limit, totals, .. } => {
                let text = format!("stopped: the {} budget is used up", render::word(limit));
                self.ended(Style::Yellow, &text, totals)
            }
            EventBody::TurnAborted { reason, totals, .. } => {
                self.ended(Style::Yellow, &format!("aborted: {}", render::word(reason)), totals)
            }
            EventBody::TurnFailed { error, totals } => {
                let when = error.retry_at.map(|at| format!("; try again in {}", render::until(at)));
                let what = format!("failed: {}{}", error.message, when.unwrap_or_default());
                self.ended(Style::Red, &what, totals)
            }
            _ => Ok(()),
        }
    }

    fn item(&mut self, item: &Item) -> io::Result<()> {
        match &item.body {
            ItemBody::Assistant(answer) => {
                let text = answer.text();
                if self.answers && !self.live && !text.is_empty() {
                    let end = if text.ends_with('\n') { "" } else { "\n" };
                    return write!(io::stdout().lock(), "{text}{end}");
                }
                self.end_line()
            }
            ItemBody::User { content, origin, submission_id } => {
                let own = submission_id.as_ref().is_some_and(|id| self.own.contains(id));
                if own || matches!(origin, Origin::Hook | Origin::Agentd) {
                    return Ok(());
                }
                self.end_line()?;
                let text = self.notes.paint(Style::Bold, &harmless(&parts_text(content)));
                writeln!(io::stderr().lock(), "> {text}")
            }
            ItemBody::System { .. } | ItemBody::Tool(_) | ItemBody::Marker { .. } => Ok(()),
        }
    }

    fn resolved(&mut self, resolved: &Resolved) -> io::Result<()> {
        let word = match resolved.decision {
            Resolution::Allow => "allowed",
            Resolution::Deny => "denied",
            Resolution::Cancelled => "no longer asked",
            Resolution::Expired => "denied: nobody answered in time",
        };
        let mut text = format!("  {word}");
        if let Some(by) = &resolved.by {
            text = format!("{text} by {} (connection {})", by.client.name, by.connection);
        }
        if let Some(rule) = &resolved.rule {
            let pattern = rule.pattern.as_deref().unwrap_or("every call");
            text = format!("{text}, and from now on: {} {pattern}", rule.tool);
        }
        if let Some(message) = &resolved.message {
            text = format!("{text}: {}", one_line(message, NOTE_CHARS));
        }
        self.note(Style::Dim, &text)
    }

    fn ended(&mut self, style: Style, how: &str, totals: &TurnTotals) -> io::Result<()> {
        let requests = if totals.iterations == 1 { "request" } else { "requests" };
        let text = format!(
            "{how} · {} {requests} · {} · {}",
            totals.iterations,
            render::usage(&totals.usage),
            render::duration(totals.duration_ms)
        );
        self.note(style, &text)
    }

    fn marker(&mut self, marker: &Marker) -> io::Result<()> {
        match marker {
            Marker::Joined { .. } | Marker::Watchers(_) => Ok(()),
            Marker::Detached { holder, .. } => {
                let holder = holder.as_ref();
                let who = holder.map(|lease| format!(": process {} on {}", lease.pid, lease.host));
                let text = format!("another process runs the session{}", who.unwrap_or_default());
                self.note(Style::Yellow, &text)
            }
            Marker::StoreFailed { cause } => {
                self.note(Style::Red, &format!("the store cannot be written: {cause}"))
            }
            Marker::Closed { reason } => {
                self.note(Style::Yellow, &format!("the session is gone: {reason}"))
            }
        }
    }
}
