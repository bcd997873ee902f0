//! Keys and pastes: to the list that is open, the prompt, or the editor.
//!
//! Receives keys; hands back effects.

use agentd_client::protocol::item::{Content, Part};
use agentd_client::protocol::submission::{Delivery, Op};
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::editor::Handled;
use super::mention::{matching, mentioned, offered};
use super::{COMMANDS, Draft, Effect, LocalCommand, Pending, State};
use crate::chat::entry::{Entry, Tone};

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
            Handled::Recalled => Vec::new(),
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
            self.editor.take();
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
        if let Some(part) = self.editor.sought() {
            return self.complete_file(part);
        }
        // Sought anew with the next word, since files come and go.
        self.found = None;
        let Some(word) = self.editor.word() else {
            self.editor.completion = None;
            return Vec::new();
        };
        let names = COMMANDS.iter().map(|command| command.name.to_owned());
        self.editor.offer(names.filter(|name| name.starts_with(&word)).collect());
        Vec::new()
    }

    fn complete_file(&mut self, part: String) -> Vec<Effect> {
        let found = self.found.as_ref();
        let names = found
            .map_or_else(Vec::new, |(_, names)| matching(names.iter().map(String::as_str), &part));
        let is_answered = found.is_some_and(|(sought, _)| *sought == part);
        self.editor.offer(names.iter().map(|name| offered(name)).collect());
        if is_answered { Vec::new() } else { vec![Effect::FindFiles(part)] }
    }

    /// Sends what was written, or does it.
    fn enter(&mut self, delivery: Delivery) -> Vec<Effect> {
        if self.editor.text().trim().is_empty() {
            return Vec::new();
        }
        let draft = self.editor.take();
        // An answer is nobody else's business, and what begins with a blank is not kept by
        // shells either.
        if let Some(effects) = self.question_reply(draft.whole().trim()) {
            return effects;
        }
        let kept = (!draft.text.starts_with(' ')).then(|| Effect::Keep(draft.clone()));
        kept.into_iter().chain(self.entered(draft, delivery)).collect()
    }

    fn entered(&mut self, draft: Draft, delivery: Delivery) -> Vec<Effect> {
        if draft.text.starts_with('!') {
            return self.run(draft);
        }
        if draft.text.starts_with('/')
            && let Some(effects) = self.slash(&draft)
        {
            return effects;
        }
        self.send(draft, delivery)
    }

    fn run(&mut self, draft: Draft) -> Vec<Effect> {
        let whole = draft.whole();
        let command = whole.strip_prefix('!').unwrap_or(&whole).trim().to_owned();
        if command.is_empty() {
            return Vec::new();
        }
        if self.command.is_some() {
            self.note(Tone::Warning, "a command is running here already: Esc ends it");
            self.editor.set(draft);
            return Vec::new();
        }
        self.command =
            Some(LocalCommand { command: command.clone(), output: String::new(), since: self.now });
        vec![Effect::Run(command)]
    }

    /// Sends an input.
    pub(super) fn send(&mut self, draft: Draft, delivery: Delivery) -> Vec<Effect> {
        let text = draft.whole();
        if text.trim().is_empty() {
            self.note(Tone::Warning, "there is no text to send");
            return Vec::new();
        }
        let context = std::mem::take(&mut self.context);
        let content = if context.is_empty() {
            Content::Text(text)
        } else {
            // The text first: a session is named after it.
            let context = context.into_iter().map(|ran| format!("\n\n{ran}"));
            let parts = [text].into_iter().chain(context);
            Content::Parts(parts.map(Part::text).collect())
        };
        let id = self.next_id();
        // Not those in a paste.
        let attachments = mentioned(&draft.text).into_iter().map(Into::into).collect();
        self.pending.push(Pending { id: id.clone(), draft, steered: false });
        vec![Effect::Submit { id, op: Effect::input(content, delivery), attachments }]
    }
}
