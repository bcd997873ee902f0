//! All that the interface knows, and the one function that changes it.
//!
//! [`State::update`] takes an event and says what is to be done; [`State::entries`] hands out what
//! goes into the scrollback; `draw` shows the rest in the panel. Nothing here waits, reads a clock
//! or knows a terminal.
//!
//! Invariants: what is shown of a session comes from the protocol's view; what is in the
//! scrollback is final; a key that was pressed before a prompt could be read never answers it; an
//! input is shown once, and never lost: one that was refused goes back to where it was written.
//!
//! Receives events; hands effects to the loop, entries and itself to `draw`.

mod commands;
mod draft;
mod editor;
mod event;
mod history;
mod keys;
mod mention;
mod messages;
mod outcomes;
mod picker;
mod prompt;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use agentd_client::protocol::daemon::Role;
use agentd_client::protocol::id::{CallId, ItemId, PromptId, SessionId, SubmissionId};
use agentd_client::protocol::permission::PermissionMode;
use agentd_client::protocol::session::{Session, SessionState};
use agentd_client::protocol::submission::Op;
use agentd_client::protocol::view::conversation::View;
use ratatui::text::Line;

pub(super) use self::commands::COMMANDS;
pub(super) use self::draft::Draft;
pub(super) use self::editor::{COMPLETIONS, Editor};
pub(super) use self::event::{Effect, Event};
pub(super) use self::history::HISTORY;
pub(super) use self::mention::{image_type, matching};
pub(super) use self::messages::{call_line, tail};
pub(super) use self::picker::Picker;
pub(super) use self::prompt::{Panel, Stage, is_question, options, rule, suggestion};
use super::draw::{self, OpenCode};
use super::entry::{Entry, Tone};

/// The part of the screen that an answer may take while it is being written: one in so many.
const LIVE_PART: usize = 2;
/// Bytes of a local command's output that are kept, from its end.
const COMMAND_BYTES: usize = 64 * 1024;

/// What begins the part of an input that tells of a local command.
const COMMAND_RAN: &str = "I ran a command here: ";

/// How the session is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// There is none yet: the first input makes one.
    NoSession,
    /// It is being opened.
    Opening,
    /// All is told.
    Live,
    /// The daemon is gone; it is waited for.
    Lost,
}

/// An input that was sent from here and is not in the conversation yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) id: SubmissionId,
    pub(super) draft: Draft,
    /// It goes into the running turn.
    pub(super) steered: bool,
}

/// What is known of the answer that streams beside its text.
#[derive(Debug, Default)]
pub(super) struct Answer {
    item_id: Option<ItemId>,
    /// Bytes of its text that are in the scrollback.
    pub(super) written: usize,
    /// The block of code that is open behind them.
    open: Option<Box<OpenCode>>,
}

/// A command that runs here.
#[derive(Debug)]
pub(super) struct LocalCommand {
    pub(super) command: String,
    pub(super) output: String,
    pub(super) since: u64,
}

/// What the interface begins with.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    pub(super) role: Role,
    /// Columns and rows.
    pub(super) size: (u16, u16),
    /// What the ids of submissions begin with.
    pub(super) ids: String,
    /// For a session that is still to be made.
    pub(super) model: Option<String>,
    pub(super) mode: Option<PermissionMode>,
}

/// All that the interface knows.
#[derive(Debug)]
pub(super) struct State {
    pub(super) setup: Setup,
    /// Milliseconds since 1970.
    pub(super) now: u64,
    pub(super) link: Link,
    pub(super) session_id: Option<SessionId>,
    pub(super) view: View,
    pub(super) editor: Editor,
    pub(super) pending: Vec<Pending>,
    pub(super) answer: Answer,
    /// When calls were seen to start.
    pub(super) started: HashMap<CallId, u64>,
    /// When the turn that runs was seen to start.
    pub(super) turn_since: Option<u64>,
    pub(super) panel: Option<Panel>,
    pub(super) picker: Option<Picker>,
    pub(super) command: Option<LocalCommand>,
    /// Ctrl-C was pressed: the next one leaves.
    pub(super) leaving: bool,
    /// What was sought last among the files of the directory, and found.
    found: Option<(String, Vec<String>)>,
    /// What local commands said, for the next input.
    context: Vec<String>,
    /// The last thing that was shown folded: its title and all of it.
    folded: Option<(String, String)>,
    own: HashSet<SubmissionId>,
    answered: HashSet<PromptId>,
    /// Who sent the submissions that are not ours.
    senders: HashMap<SubmissionId, String>,
    joined: bool,
    count: u64,
    entries: Vec<Entry>,
    last: Option<Entry>,
}

impl State {
    pub(super) fn new(setup: Setup, now: u64) -> Self {
        Self {
            setup,
            now,
            link: Link::NoSession,
            session_id: None,
            view: View::default(),
            editor: Editor::default(),
            pending: Vec::new(),
            answer: Answer::default(),
            started: HashMap::new(),
            turn_since: None,
            panel: None,
            picker: None,
            command: None,
            leaving: false,
            found: None,
            context: Vec::new(),
            folded: None,
            own: HashSet::new(),
            answered: HashSet::new(),
            senders: HashMap::new(),
            joined: false,
            count: 0,
            entries: Vec::new(),
            last: None,
        }
    }

    /// Takes in what happened at `now`, in milliseconds since 1970.
    pub(super) fn update(&mut self, event: Event, now: u64) -> Vec<Effect> {
        self.now = now;
        let effects = match event {
            Event::Key(key) => self.key(key),
            Event::Paste(text) => self.paste(&text),
            Event::Resized(width, height) => {
                self.setup.size = (width, height);
                vec![Effect::Redraw]
            }
            Event::Tick => Vec::new(),
            Event::Message(body) => self.message(&body),
            Event::Unwatched(why) => {
                self.link = Link::Lost;
                self.note(Tone::Bad, why);
                Vec::new()
            }
            Event::Opened(session) => self.opened(*session),
            Event::NotOpened(why) => {
                self.link = if self.session_id.is_some() { self.link } else { Link::NoSession };
                self.note(Tone::Bad, why);
                Vec::new()
            }
            Event::Submitted(id, outcome) => self.submitted(&id, outcome),
            Event::Replied(outcome) => self.replied(outcome),
            Event::Models(models) => self.models(models),
            Event::Sessions(sessions) => self.sessions(sessions),
            Event::Renamed(outcome) => {
                if let Err(error) = outcome {
                    self.note(Tone::Bad, error.to_string());
                }
                Vec::new()
            }
            Event::Files { part, names } => {
                self.found = Some((part, names));
                self.complete()
            }
            Event::NotKept(why) => {
                self.note(Tone::Warning, why);
                Vec::new()
            }
            Event::CommandOutput(text) => {
                self.command_output(&text);
                Vec::new()
            }
            Event::CommandEnded(outcome, ok) => {
                self.command_ended(&outcome, ok);
                Vec::new()
            }
        };
        self.follow_prompts();
        effects
    }

    /// The rows for the scrollback since the last time.
    pub(super) fn entries(&mut self) -> Vec<Line<'static>> {
        self.settle_answer();
        let width = usize::from(self.setup.size.0);
        let mut rows = Vec::new();
        for entry in std::mem::take(&mut self.entries) {
            rows.extend(draw::rows(&entry, self.last.as_ref(), width));
            self.last = Some(entry);
        }
        rows
    }

    /// Takes up what was written in earlier runs.
    pub(super) fn recall(&mut self, earlier: Vec<Draft>) {
        self.editor.recall(earlier);
    }

    /// The first words, where there is no session yet.
    pub(super) fn greet(&mut self) {
        self.note(
            Tone::Plain,
            "agentd: a new session in this directory; /resume lists others, /help helps",
        );
        if self.setup.model.is_none() {
            let text = "no model is configured: /model demo/demo tries a built-in one, README.md \
                        tells how to connect others";
            self.note(Tone::Warning, text);
        }
    }

    /// The first words about a session that is shown from the event after `since` on.
    pub(super) fn introduce(&mut self, since: u64) {
        let Some(session) = self.view.session.as_ref().filter(|session| session.item_count > 0)
        else {
            return;
        };
        let mut parts = vec![session.session_id.to_string(), session.title.clone()];
        parts.retain(|part| !part.is_empty());
        let mut text = format!("— {} —", parts.join(" · "));
        if since > 0 {
            text.push_str("\n(`agentctl show` has what was before)");
        }
        self.note(Tone::Quiet, text);
    }

    /// Whether time changes what is shown.
    pub(super) fn is_moving(&self) -> bool {
        self.is_running()
            || self.command.is_some()
            || self.link == Link::Lost
            || self.panel.as_ref().is_some_and(|panel| !panel.is_armed(self.now))
    }

    /// Whether a turn runs.
    pub(super) fn is_running(&self) -> bool {
        let state = self.view.session.as_ref().map(|session| session.state);
        matches!(state, Some(SessionState::Running | SessionState::Waiting))
    }

    fn is_observer(&self) -> bool {
        self.setup.role == Role::Observer
    }

    fn push(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    fn note(&mut self, tone: Tone, text: impl Into<String>) {
        self.push(Entry::note(tone, text));
    }

    /// Shows something later, in full, when Ctrl-O is pressed.
    fn fold(&mut self, title: impl Into<String>, text: impl Into<String>) {
        self.folded = Some((title.into(), text.into()));
    }

    fn next_id(&mut self) -> SubmissionId {
        self.count += 1;
        let id = format!("{}-{}", self.setup.ids, self.count);
        let id = SubmissionId::try_from(id).expect("a short prefix and a number");
        self.own.insert(id.clone());
        id
    }

    /// An op without an input.
    fn submit(&mut self, op: Op) -> Vec<Effect> {
        if self.session_id.is_none() {
            self.note(Tone::Warning, "there is no session yet: your first input makes one");
            return Vec::new();
        }
        vec![Effect::Submit { id: self.next_id(), op, attachments: Vec::new() }]
    }

    fn opened(&mut self, session: Session) -> Vec<Effect> {
        if self.session_id.as_ref() != Some(&session.session_id) {
            let pending = std::mem::take(&mut self.pending);
            self.leave_session();
            self.pending = pending;
        }
        self.session_id = Some(session.session_id.clone());
        self.view.session = Some(session);
        self.link = Link::Opening;
        Vec::new()
    }

    /// Forgets what belongs to a session.
    fn leave_session(&mut self) {
        self.session_id = None;
        self.view = View::default();
        self.link = Link::NoSession;
        self.pending.clear();
        self.answer = Answer::default();
        self.started.clear();
        self.turn_since = None;
        self.panel = None;
        self.senders.clear();
        self.joined = false;
    }

    /// The text that streams and is not in the scrollback yet.
    pub(super) fn live_text(&self) -> &str {
        let item = self.view.in_flight.item.as_ref();
        let written = if item.map(|item| &item.item_id) == self.answer.item_id.as_ref() {
            self.answer.written
        } else {
            0
        };
        item.map_or("", |item| item.text.get(written..).unwrap_or(""))
    }

    /// The block of code that is open where that begins.
    pub(super) fn live_code(&self) -> Option<&OpenCode> {
        let item = self.view.in_flight.item.as_ref();
        let is_same = item.map(|item| &item.item_id) == self.answer.item_id.as_ref();
        self.answer.open.as_deref().filter(|_| is_same)
    }

    /// Moves the settled part of a long answer into the scrollback.
    fn settle_answer(&mut self) {
        let room = usize::from(self.setup.size.1) / LIVE_PART;
        let live = self.live_text();
        // A row has at least one byte, so a short text needs no closer look.
        if live.len() <= room || self.detached_answer() {
            return;
        }
        if draw::markdown(live, self.live_code(), usize::from(self.setup.size.0)).len() <= room {
            return;
        }
        let (settled, next) = draw::settled(live, self.live_code());
        if settled > 0 {
            let text = live[..settled].to_owned();
            let item_id = self.view.in_flight.item.as_ref().map(|item| item.item_id.clone());
            if self.answer.item_id != item_id {
                self.answer = Answer { item_id, ..Answer::default() };
            }
            self.answer.written += settled;
            let open = std::mem::replace(&mut self.answer.open, next.map(Box::new));
            self.push(Entry::Answer { text, open });
        }
    }

    fn detached_answer(&self) -> bool {
        self.view.in_flight.item.is_none()
    }

    fn command_output(&mut self, text: &str) {
        let Some(command) = &mut self.command else { return };
        command.output.push_str(text);
        let more = command.output.len().saturating_sub(COMMAND_BYTES);
        let cut = (more..=command.output.len()).find(|&at| command.output.is_char_boundary(at));
        let cut = cut.expect("the end is a boundary");
        command.output.drain(..cut);
    }

    fn command_ended(&mut self, outcome: &str, ok: bool) {
        let Some(LocalCommand { command, output, .. }) = self.command.take() else { return };
        let output = messages::uncoloured(&output);
        self.context.push(format!("{COMMAND_RAN}{command}\n{output}\n({outcome})"));
        let (last, folded) = tail(&output, messages::OUTPUT_LINES * 4);
        let shown = if folded > 0 {
            self.fold(command.clone(), output.clone());
            format!("… {folded} lines before (Ctrl-O)\n{}", last.join("\n"))
        } else {
            last.join("\n")
        };
        let outcome = format!("{outcome}; it goes along with your next input");
        self.push(Entry::Command { command, output: shown, outcome, ok });
    }
}
