//! Asking at the terminal: one key, and only one that was pressed after the question was shown.
//!
//! The question goes to standard error and the key comes from the terminal itself, so a pipe on
//! either side of a run does no harm. Whatever was typed before is thrown away: a word that was
//! being typed must not become a permission.
//!
//! Invariants: the terminal is put back as it was, whatever ends the question.
//!
//! Receives open prompts; hands back answers for `permission/reply`.

use std::io;

use agentd_client::protocol::permission::{
    Decision, PermissionReplyParams, Prompt, Scope, Suggestion,
};
use rustix::fs::{Mode, OFlags};
use rustix::termios::{self, LocalModes, OptionalActions, QueueSelector, Termios};
use tokio::net::unix::pipe;

/// The answer to `prompt` with nothing remembered.
pub(crate) fn answer(prompt: &Prompt, decision: Decision) -> PermissionReplyParams {
    PermissionReplyParams {
        id: None,
        prompt_id: prompt.prompt_id.clone(),
        decision,
        scope: Scope::Once,
        rule: None,
        message: None,
        interrupt: false,
    }
}

/// The answer that a key means; `None` for a key that means nothing here.
pub(crate) fn answer_of(key: char, prompt: &Prompt) -> Option<PermissionReplyParams> {
    let remembered = |scope| {
        let rule = suggestion(prompt, scope)?.rule.clone();
        Some(PermissionReplyParams { scope, rule: Some(rule), ..answer(prompt, Decision::Allow) })
    };
    match key.to_ascii_lowercase() {
        'y' => Some(answer(prompt, Decision::Allow)),
        'n' => Some(answer(prompt, Decision::Deny)),
        's' => remembered(Scope::Session),
        'a' => remembered(Scope::Always),
        _ => None,
    }
}

/// The keys that can be pressed, in words: a line for each that is remembered, as rules are long.
pub(crate) fn keys(prompt: &Prompt) -> String {
    let mut text = "y = yes, n = no".to_owned();
    for (key, scope, reach) in
        [('s', Scope::Session, "in this session"), ('a', Scope::Always, "always")]
    {
        if let Some(Suggestion { rule, .. }) = suggestion(prompt, scope) {
            let pattern = rule.pattern.as_deref().unwrap_or("every call");
            text = format!("{text}\n{key} = allow `{pattern}` {reach}");
        }
    }
    text
}

fn suggestion(prompt: &Prompt, scope: Scope) -> Option<&Suggestion> {
    prompt.suggestions.iter().find(|suggestion| suggestion.scope == scope)
}

/// The terminal, for keys.
#[derive(Debug)]
pub(crate) struct Keyboard {
    /// Opened anew, so that its mode of reading is not shared with the shell. A terminal is read
    /// like a pipe.
    terminal: pipe::Receiver,
}

impl Keyboard {
    /// The terminal that shows the questions, if somebody sits there and can answer: standard
    /// error goes to it, and this process is in its foreground.
    pub(crate) fn open() -> Option<Self> {
        let path = termios::ttyname(io::stderr(), Vec::new()).ok()?;
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let terminal = rustix::fs::open(path.as_c_str(), flags, Mode::empty()).ok()?;
        if termios::tcgetpgrp(&terminal).ok()? != rustix::process::getpgrp() {
            return None;
        }
        Some(Self { terminal: pipe::Receiver::from_file_unchecked(terminal.into()).ok()? })
    }

    /// Begins a question: throws away what was typed and takes keys one by one.
    pub(crate) fn ask(&self) -> io::Result<Question<'_>> {
        let before = termios::tcgetattr(&self.terminal)?;
        let mut keys = before.clone();
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        termios::tcsetattr(&self.terminal, OptionalActions::Flush, &keys)?;
        Ok(Question { terminal: &self.terminal, before })
    }
}

/// A terminal that waits for a key; dropped, it is as it was.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    terminal: &'a pipe::Receiver,
    before: Termios,
}

impl Question<'_> {
    /// The next key that was pressed alone: what comes in a burst was pasted or is an arrow key.
    /// Cancel-safe. An error when the terminal is gone.
    pub(crate) async fn key(&self) -> io::Result<char> {
        let mut burst = [0; 256];
        loop {
            self.terminal.readable().await?;
            match self.terminal.try_read(&mut burst) {
                Ok(1) => return Ok(char::from(burst[0])),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        // A terminal that is gone needs no care.
        let _ = termios::tcflush(self.terminal, QueueSelector::IFlush);
        let _ = termios::tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn prompt(suggestions: &serde_json::Value) -> Prompt {
        serde_json::from_value(json!({
            "prompt_id": "prm_1", "session_id": "ses_1", "turn_id": "turn_1", "call_id": "call_1",
            "tool": "shell", "summary": "", "risk": "execute", "arguments": {},
            "suggestions": suggestions, "requested_at": "2026-01-01T00:00:00.000Z"
        }))
        .unwrap()
    }

    #[test]
    fn keys_mean_what_is_offered() {
        let rule = json!({ "tool": "shell", "match": "git status *", "action": "allow" });
        let some = prompt(&json!([{ "scope": "session", "rule": rule }]));
        let none = prompt(&json!([]));
        assert_eq!(answer_of('y', &none).unwrap().decision, Decision::Allow);
        assert_eq!(answer_of('N', &none).unwrap().decision, Decision::Deny);
        for key in ['s', 'a', 'x', '\n', '\u{1b}'] {
            assert_eq!(answer_of(key, &none), None);
        }
        let session = answer_of('s', &some).unwrap();
        assert_eq!(session.scope, Scope::Session);
        assert_eq!(session.rule.unwrap().pattern.as_deref(), Some("git status *"));
        assert_eq!(answer_of('a', &some), None);
        assert_eq!(keys(&none), "y = yes, n = no");
        assert!(keys(&some).contains("s = allow `git status *` in this session"));
    }
}
