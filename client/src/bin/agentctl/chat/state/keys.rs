//! Keys and pastes: to the list that is open, the prompt, or the editor.
//!
//! Receives keys; hands back effects.

use agentd_client::protocol::item::{Content, Part};
use agentd_client::protocol::submission::{Delivery, Op};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::editor::{Handled, mention, mentioned};
use super::{COMMANDS, Effect, LocalCommand, Pending, State};
use crate::chat::entry::{Entry, Tone};

/// Completions that are offered, shown or not.
const OFFERED: usize = 50;

impl State {
    pub(super) fn key(&mut self, key: KeyEvent) -> Vec<Effect> {
        if key.kind == KeyEventKind::Release {
            return Vec::new();
        }
        let is_leaving = std::mem::take(&mut self.leaving);
        if key.modifiers == KeyModifiers::CONTROL && self.picker.is_none() {
            match key.code {
                KeyCode::Char('c') => return self.give_up(is_leaving),
                KeyCode::Char('d') if self.editor.is_empty() => return vec![Effect::Leave],
                KeyCode::Char('l') => return vec![Effect::Redraw],
                KeyCode::Char('o') => return self.unfold(),
                KeyCode::Char('q') => return self.enter(Delivery::Queue),
                KeyCode::Char('z') => return vec![Effect::Suspend],
                _ => {}
            }
        }
        if let Some(effects) = self.picker_key(key).or_else(|| self.prompt_key(key)) {
            return effects;
        }
        match key.code {
            KeyCode::Esc if self.editor.completion.is_none() => return self.interrupt(),
            KeyCode::Tab if self.editor.completion.is_none() => {
                self.choose_prompt();
                return Vec::new();
            }
            _ => {}
        }
        if self.is_observer() {
            return Vec::new();
        }
        match self.editor.key(key) {
            Handled::Send => self.enter(Delivery::Auto),
            Handled::Yes => self.complete(),
        }
    }

    pub(super) fn paste(&mut self, text: &str) -> Vec<Effect> {
        if self.is_observer() {
            return Vec::new();
        }
        self.editor.paste(text);
        self.complete()
    }

    /// Ctrl-C: what is being written goes first; then one more leaves.
    fn give_up(&mut self, is_leaving: bool) -> Vec<Effect> {
        if is_leaving {
            return vec![Effect::Leave];
        }
        if self.editor.is_empty() {
            self.leaving = true;
        } else {
            self.editor.clear();
        }
        Vec::new()
    }

    fn interrupt(&mut self) -> Vec<Effect> {
        if self.command.is_some() {
            return vec![Effect::KillCommand];
        }
        if !self.is_running() || self.is_observer() {
            return Vec::new();
        }
        self.submit(Op::Interrupt { drop_queue: false, expected_turn_id: None })
    }

    fn unfold(&mut self) -> Vec<Effect> {
        match self.folded.take() {
            Some((title, text)) => self.push(Entry::Verbatim { title, text }),
            None => self.note(Tone::Quiet, "nothing is folded"),
        }
        Vec::new()
    }

    /// Offers names for the word that is being written.
    pub(super) fn complete(&mut self) -> Vec<Effect> {
        let Some(word) = self.editor.word() else {
            self.editor.completion = None;
            return Vec::new();
        };
        if let Some(part) = word.strip_prefix('@') {
            let names = matching(self.files.as_deref().unwrap_or_default(), part);
            self.editor.offer(names.iter().map(|name| mention(name)).collect());
            // Looked for anew with each word, since files come and go.
            return if part.is_empty() { vec![Effect::ListFiles] } else { Vec::new() };
        }
        let names = COMMANDS.iter().map(|command| command.name.to_owned());
        self.editor.offer(names.filter(|name| name.starts_with(&word)).collect());
        Vec::new()
    }

    /// Sends what was written, or does it.
    fn enter(&mut self, delivery: Delivery) -> Vec<Effect> {
        if self.editor.text().trim().is_empty() {
            return Vec::new();
        }
        let (text, shown) = self.editor.take();
        if let Some(effects) = self.question_reply(text.trim()) {
            return effects;
        }
        if let Some(command) = shown.strip_prefix('!') {
            return self.run(command.trim());
        }
        if shown.starts_with('/')
            && let Some(effects) = self.slash(shown.trim())
        {
            return effects;
        }
        self.send(&text, &shown, delivery)
    }

    fn run(&mut self, command: &str) -> Vec<Effect> {
        if command.is_empty() {
            return Vec::new();
        }
        if self.command.is_some() {
            self.note(Tone::Warning, "a command is running here already: Esc ends it");
            self.editor.set(&format!("!{command}"));
            return Vec::new();
        }
        let command = command.to_owned();
        self.command =
            Some(LocalCommand { command: command.clone(), output: String::new(), since: self.now });
        vec![Effect::Run(command)]
    }

    /// Sends an input; `shown` is how it stood in the editor.
    pub(super) fn send(&mut self, text: &str, shown: &str, delivery: Delivery) -> Vec<Effect> {
        if text.trim().is_empty() {
            self.note(Tone::Warning, "there is no text to send");
            return Vec::new();
        }
        let context = std::mem::take(&mut self.context);
        let content = if context.is_empty() {
            Content::Text(text.to_owned())
        } else {
            // The text first: a session is named after it.
            let context = context.into_iter().map(|ran| format!("\n\n{ran}"));
            let parts = [text.to_owned()].into_iter().chain(context);
            Content::Parts(parts.map(Part::text).collect())
        };
        let id = self.next_id();
        let pending = Pending { id: id.clone(), shown: shown.to_owned(), steered: false };
        self.pending.push(pending);
        let attachments = mentioned(shown).into_iter().map(Into::into).collect();
        vec![Effect::Submit { id, op: Effect::input(content, delivery), attachments }]
    }
}

/// Files whose path holds `part`, whatever the case: those whose name begins with it come first.
fn matching(files: &[String], part: &str) -> Vec<String> {
    let part = part.trim_start_matches('"').to_lowercase();
    let mut found: Vec<(u8, &String)> = Vec::new();
    for file in files {
        let path = file.to_lowercase();
        let name = path.rsplit('/').next().unwrap_or(&path);
        if path.starts_with(&part) || name.starts_with(&part) {
            found.push((0, file));
        } else if path.contains(&part) {
            found.push((1, file));
        }
    }
    found.sort_by_key(|(rank, file)| (*rank, file.len()));
    found.into_iter().take(OFFERED).map(|(_, file)| file.clone()).collect()
}
