//! The question for permission: what it shows, and what keys mean there.
//!
//! Invariants: a key counts only when the question has been readable for a moment and nothing is
//! being written; nothing is remembered whose rule was not shown before.
//!
//! Receives keys and the view's open prompts; hands back answers.

use agentd_client::protocol::id::PromptId;
use agentd_client::protocol::permission::{
    Decision, PermissionReplyParams, Prompt, Risk, Scope, Suggestion,
};
use agentd_client::protocol::submission::Op;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Effect, State};
use crate::chat::entry::{Entry, Tone};
use crate::prompt::answer;
use crate::render;

/// How long a prompt must have been on the screen before a key answers it, in milliseconds.
const READABLE_AFTER: u64 = 300;
/// The tool whose prompts are questions.
const QUESTION_TOOL: &str = "ask_user";

/// Where answering stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Stage {
    /// One key answers.
    Keys,
    /// A rule is shown that would be remembered.
    Remember(Suggestion),
    /// A reason is being written.
    Reason(String),
}

/// The prompt that is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Panel {
    pub(crate) prompt_id: PromptId,
    since: u64,
    pub(crate) stage: Stage,
    /// Keys go to it although something is being written.
    chosen: bool,
}

impl Panel {
    /// Whether it has been readable for long enough.
    pub(crate) fn is_armed(&self, now: u64) -> bool {
        now.saturating_sub(self.since) >= READABLE_AFTER
    }
}

/// Whether a prompt wants words instead of a permission.
pub(crate) fn is_question(prompt: &Prompt) -> bool {
    prompt.tool == QUESTION_TOOL
}

/// The options of a question.
pub(crate) fn options(prompt: &Prompt) -> Vec<&str> {
    let options = prompt.arguments.get("options").and_then(|options| options.as_array());
    options.into_iter().flatten().filter_map(|option| option.as_str()).collect()
}

/// The rule that would be remembered that far.
pub(crate) fn suggestion(prompt: &Prompt, scope: Scope) -> Option<&Suggestion> {
    prompt.suggestions.iter().find(|suggestion| suggestion.scope == scope)
}

impl State {
    /// The prompt that is shown: the oldest one.
    pub(in crate::chat) fn prompt(&self) -> Option<&Prompt> {
        self.view.prompts().first()
    }

    /// Keeps the panel at the oldest open prompt.
    pub(super) fn follow_prompts(&mut self) {
        let open = self.prompt().filter(|_| self.joined).map(|prompt| prompt.prompt_id.clone());
        if open.as_ref() != self.panel.as_ref().map(|panel| &panel.prompt_id) {
            let panel =
                |prompt_id| Panel { prompt_id, since: self.now, stage: Stage::Keys, chosen: false };
            self.panel = open.map(panel);
        }
    }

    /// Whether keys answer the prompt.
    pub(in crate::chat) fn prompt_has_keys(&self) -> bool {
        let Some((panel, prompt)) = self.panel.as_ref().zip(self.prompt()) else { return false };
        let free = panel.chosen || self.editor.is_empty();
        free && panel.is_armed(self.now) && !self.is_observer() && !is_question(prompt)
    }

    /// Lets keys go to the prompt although something is being written.
    pub(super) fn choose_prompt(&mut self) -> bool {
        match &mut self.panel {
            Some(panel) if !panel.chosen => {
                panel.chosen = true;
                true
            }
            _ => false,
        }
    }

    /// A key for the prompt; `None` where it is not one.
    pub(super) fn prompt_key(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        if !self.prompt_has_keys() {
            return None;
        }
        let prompt = self.prompt()?.clone();
        let panel = self.panel.as_mut()?;
        match (&mut panel.stage, key.code) {
            (Stage::Reason(reason), KeyCode::Char(c)) if is_plain(key) => reason.push(c),
            (Stage::Reason(reason), KeyCode::Backspace) => {
                reason.pop();
            }
            (Stage::Reason(reason), KeyCode::Enter) => {
                let message = Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty());
                let denial = answer(&prompt, Decision::Deny);
                return Some(self.reply(PermissionReplyParams { message, ..denial }));
            }
            (Stage::Remember(suggestion), KeyCode::Enter | KeyCode::Char('y')) => {
                let Suggestion { scope, rule } = suggestion.clone();
                let allowed = answer(&prompt, Decision::Allow);
                let params = PermissionReplyParams { scope, rule: Some(rule), ..allowed };
                return Some(self.reply(params));
            }
            (Stage::Remember(_), _) | (Stage::Reason(_), KeyCode::Esc) => {
                panel.stage = Stage::Keys;
            }
            (Stage::Keys, KeyCode::Char(letter)) if is_plain(key) => {
                return self.letter(letter, &prompt);
            }
            (Stage::Keys, KeyCode::Tab) => panel.chosen = !panel.chosen,
            (Stage::Keys | Stage::Reason(_), _) => return None,
        }
        Some(Vec::new())
    }

    fn letter(&mut self, letter: char, prompt: &Prompt) -> Option<Vec<Effect>> {
        let remember = |scope| suggestion(prompt, scope).cloned().map(Stage::Remember);
        let stage = match letter {
            'y' => return Some(self.reply(answer(prompt, Decision::Allow))),
            'n' => Some(Stage::Reason(String::new())),
            's' => remember(Scope::Session),
            'p' => remember(Scope::Project),
            'a' => remember(Scope::Always),
            'e' => {
                self.explain(prompt);
                return Some(Vec::new());
            }
            // The start of something else that is being written.
            _ => return None,
        };
        match stage {
            Some(stage) => self.panel.as_mut()?.stage = stage,
            None => self.note(Tone::Warning, "this call can only be allowed once"),
        }
        Some(Vec::new())
    }

    fn reply(&mut self, params: PermissionReplyParams) -> Vec<Effect> {
        self.answered.insert(params.prompt_id.clone());
        vec![Effect::Reply(params)]
    }

    /// An answer to a question, if one is open.
    pub(super) fn question_reply(&mut self, text: &str) -> Option<Vec<Effect>> {
        let prompt = self.prompt().filter(|prompt| is_question(prompt))?.clone();
        let number = text.trim().parse::<usize>().ok().and_then(|number| number.checked_sub(1));
        let chosen = number.and_then(|index| options(&prompt).get(index).copied());
        let answer = chosen.unwrap_or(text).to_owned();
        self.answered.insert(prompt.prompt_id.clone());
        let op = Op::QuestionReply { prompt_id: prompt.prompt_id, answer };
        Some(self.submit(op))
    }

    /// All there is to know of a call, for the scrollback.
    fn explain(&mut self, prompt: &Prompt) {
        let risk = match prompt.risk {
            Risk::Read => "It only reads, but something that asks first.",
            Risk::Write => "It changes files.",
            Risk::Execute => "It runs a program, which may do whatever you may.",
            Risk::Network => "It talks to another machine.",
        };
        let mut lines = vec![risk.to_owned()];
        for suggestion in &prompt.suggestions {
            let reach = render::word(&suggestion.scope);
            lines.push(format!("It can be allowed for {reach}: {}", rule(suggestion)));
        }
        if let Some(at) = prompt.expires_at {
            lines.push(format!("It is denied by itself in {}.", render::until(at)));
        }
        let arguments = serde_json::to_string_pretty(&prompt.arguments);
        lines.push(format!("Its arguments: {}", arguments.unwrap_or_default()));
        if let Some(preview) = &prompt.preview {
            lines.push(format!("What would happen:\n{preview}"));
        }
        let title = format!("{} · {}", prompt.tool, prompt.summary);
        self.push(Entry::Verbatim { title, text: lines.join("\n") });
    }
}

/// A rule in words.
pub(crate) fn rule(suggestion: &Suggestion) -> String {
    let pattern = suggestion.rule.pattern.as_deref().unwrap_or("every call");
    format!("{}: {pattern}", suggestion.rule.tool)
}

fn is_plain(key: KeyEvent) -> bool {
    key.modifiers.difference(KeyModifiers::SHIFT).is_empty()
}
