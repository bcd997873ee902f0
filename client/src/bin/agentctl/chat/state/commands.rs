//! Commands that begin with a slash.
//!
//! What a daemon does not have is asked for all the same: its refusal says so, in its words.
//!
//! Receives a line; hands back effects.

use agentd_client::protocol::permission::PermissionMode;
use agentd_client::protocol::submission::{Delivery, Op};
use clap::ValueEnum;

use super::picker::{Choice, Picker, Row};
use super::{Draft, Effect, State};
use crate::args::Mode;
use crate::chat::entry::{Entry, Tone};
use crate::render;

/// A command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Command {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
}

/// All of them.
pub(crate) const COMMANDS: [Command; 15] = [
    Command { name: "/help", what: "keys and commands" },
    Command { name: "/model", what: "choose the model, or /model NAME" },
    Command { name: "/mode", what: "choose what may run without asking, or /mode NAME" },
    Command { name: "/new", what: "a new session with the next input" },
    Command { name: "/resume", what: "go to another session of this directory" },
    Command { name: "/continue", what: "go on after an interruption or a failure" },
    Command { name: "/queue", what: "/queue TEXT: as a turn of its own after the running one" },
    Command { name: "/replace", what: "/replace TEXT: instead of the running turn" },
    Command { name: "/drop", what: "take the last queued input out again" },
    Command { name: "/retry", what: "end a wait and try again now" },
    Command { name: "/compact", what: "summarize the conversation to make room" },
    Command { name: "/undo", what: "take the last turn and its file changes back" },
    Command { name: "/rename", what: "/rename TITLE" },
    Command { name: "/usage", what: "tokens, cost and how full the context is" },
    Command { name: "/quit", what: "leave; what runs goes on" },
];

/// Keys, and what they do.
const KEYS: [(&str, &str); 15] = [
    ("Enter", "send; while a turn runs, into it"),
    ("Ctrl-Q", "send it after the turn"),
    ("Alt-Enter", "another line (also Ctrl-J, or \\)"),
    ("Up/Down", "what was sent before"),
    ("Esc", "interrupt the turn"),
    ("Ctrl-O", "show what was folded"),
    ("Ctrl-C", "throw the text away; twice: leave"),
    ("Ctrl-D", "leave, when nothing is written"),
    ("Tab", "complete; answer the prompt"),
    ("Ctrl-U", "delete to the start of the line"),
    ("@file", "names a file, an image goes along"),
    ("!cmd", "runs here, goes along"),
    ("Ctrl-Z", "set aside"),
    ("Ctrl-L", "draw again"),
    ("/…", "one of the commands below"),
];
/// Columns of a key, and of what it does.
const KEY_COLUMNS: (usize, usize) = (10, 36);

impl State {
    /// A draft that begins with a slash; `None` where it is no command but text.
    pub(super) fn slash(&mut self, draft: &Draft) -> Option<Vec<Effect>> {
        let line = draft.text.trim();
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        // A path is text.
        if name[1..].contains('/') {
            return None;
        }
        Some(match name {
            "/help" | "/?" => self.help(),
            "/model" if rest.is_empty() => vec![Effect::ListModels],
            "/model" => self.set_model(rest.to_owned()),
            "/mode" => self.mode(rest),
            "/new" => {
                self.leave_session();
                self.note(Tone::Quiet, "a new session: your next input makes it");
                vec![Effect::Close]
            }
            "/resume" | "/sessions" => vec![Effect::ListSessions],
            "/continue" => self.submit(Op::Resume {}),
            "/queue" => self.send(draft.part(rest), Delivery::Queue),
            "/replace" => self.send(draft.part(rest), Delivery::Replace),
            "/drop" => self.drop_queued(),
            "/retry" if self.view.retry.is_some() => self.submit(Op::RetryNow {}),
            "/compact" => self.submit(Op::Compact {}),
            "/undo" => self.submit(Op::Rollback {
                turns: Some(1),
                restore_files: true,
                dry_run: false,
                undo: None,
            }),
            "/rename" if !rest.is_empty() && self.session_id.is_some() => {
                vec![Effect::Rename(rest.to_owned())]
            }
            "/usage" => self.usage(),
            "/quit" | "/exit" | "/detach" => vec![Effect::Leave],
            _ => {
                let why = match name {
                    "/retry" => "nothing waits to be tried again".to_owned(),
                    "/rename" if rest.is_empty() => {
                        "the title is missing: /rename TITLE".to_owned()
                    }
                    "/rename" => "there is no session yet: your next input makes it".to_owned(),
                    _ => format!("there is no command {name}: /help lists all"),
                };
                self.note(Tone::Warning, why);
                Vec::new()
            }
        })
    }

    fn help(&mut self) -> Vec<Effect> {
        let (name, what) = KEY_COLUMNS;
        let keys = KEYS.iter().map(|(key, does)| format!("{key:name$} {does:what$}"));
        let keys: Vec<String> = keys.collect();
        // Two beside each other where there is room for it.
        let beside = if usize::from(self.setup.size.0) > 2 * (name + what + 3) { 2 } else { 1 };
        let keys = keys.chunks(beside).map(|keys| keys.concat().trim_end().to_owned());
        let list =
            COMMANDS.iter().map(|command| format!("{:name$} {}", command.name, command.what));
        let text = keys.chain(list).collect::<Vec<_>>().join("\n");
        self.push(Entry::Verbatim { title: "Keys and commands".to_owned(), text });
        Vec::new()
    }

    pub(super) fn set_model(&mut self, model: String) -> Vec<Effect> {
        if self.session_id.is_none() {
            self.setup.model = Some(model.clone());
            return vec![Effect::Prefer { model: Some(model), mode: None }];
        }
        self.configure(Some(model), None)
    }

    pub(super) fn set_mode(&mut self, mode: PermissionMode) -> Vec<Effect> {
        if mode == PermissionMode::Full {
            self.note(Tone::Warning, "mode full: every call runs, and nobody is asked");
        }
        if self.session_id.is_none() {
            self.setup.mode = Some(mode);
            return vec![Effect::Prefer { model: None, mode: Some(mode) }];
        }
        self.configure(None, Some(mode))
    }

    fn configure(
        &mut self,
        model: Option<String>,
        permission_mode: Option<PermissionMode>,
    ) -> Vec<Effect> {
        self.submit(Op::Configure { model, model_options: None, permission_mode, limits: None })
    }

    fn mode(&mut self, name: &str) -> Vec<Effect> {
        if let Ok(mode) = Mode::from_str(name, true) {
            return self.set_mode(mode.0);
        }
        let row = |mode: &Mode| {
            let value = mode.to_possible_value()?;
            let detail = value.get_help().map(ToString::to_string).unwrap_or_default();
            Some(Row { name: value.get_name().to_owned(), detail, choice: Choice::Mode(mode.0) })
        };
        let rows = Mode::value_variants().iter().filter_map(row).collect();
        let session = self.view.session.as_ref();
        let present = session.map_or(self.setup.mode, |session| Some(session.permission_mode));
        let present = present.map(Choice::Mode);
        self.picker = Some(Picker::new("What may run without asking", rows, present.as_ref()));
        Vec::new()
    }

    fn drop_queued(&mut self) -> Vec<Effect> {
        let last = self.view.queue().last().map(|entry| entry.submission_id.clone());
        if let Some(submission_id) = last {
            return self.submit(Op::Dequeue { submission_id });
        }
        self.note(Tone::Quiet, "nothing is queued");
        Vec::new()
    }

    fn usage(&mut self) -> Vec<Effect> {
        let mut lines = Vec::new();
        if let Some(session) = &self.view.session {
            lines.push(format!("session  {}", render::usage(&session.usage)));
        }
        if let Some(turn) = &self.view.turn {
            lines.push(format!("turn     {}", render::usage(&turn.usage)));
        }
        let context = self.view.context;
        if context.tokens > 0 {
            let of =
                if context.window > 0 { format!(" of {}", context.window) } else { String::new() };
            lines.push(format!("context  {}{of} tokens", context.tokens));
        }
        if lines.is_empty() {
            lines.push("nothing was used yet".to_owned());
        }
        self.push(Entry::Verbatim { title: "Usage".to_owned(), text: lines.join("\n") });
        Vec::new()
    }
}
