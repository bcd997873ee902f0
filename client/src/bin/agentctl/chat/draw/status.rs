//! The last row: what the session is, and what it is doing.
//!
//! Receives the state; hands back one row. What matters least goes first where it is too narrow.

use agentd_client::protocol::session::SessionState;
use ratatui::text::{Line, Span};

use super::entries::{DIM, tone};
use super::live::{elapsed, spinner};
use super::wrap::cut;
use crate::chat::entry::Tone;
use crate::chat::state::{Link, State};
use crate::context::CLIENT;
use crate::render;
use crate::terminal::one_line;

/// Characters of the names of those who watch.
const NAMES_CHARS: usize = 40;

pub(super) fn row(state: &State, width: usize) -> Line<'static> {
    let doing = doing(state);
    let mut parts = facts(state);
    // Of the facts the later ones matter less.
    loop {
        let facts = parts.join(" · ");
        let mut spans = vec![Span::styled(doing.1.clone(), tone(doing.0))];
        if !facts.is_empty() {
            let before = if doing.1.is_empty() { "" } else { " · " };
            spans.push(Span::styled(format!("{before}{facts}"), DIM));
        }
        let needed: usize = spans.iter().map(Span::width).sum();
        if needed <= width || parts.pop().is_none() {
            return cut(&spans, width);
        }
    }
}

/// What is going on, in the fewest words.
fn doing(state: &State) -> (Tone, String) {
    if state.leaving {
        let text = if state.is_running() {
            "Ctrl-C again leaves, the turn goes on; Esc interrupts it"
        } else {
            "Ctrl-C again leaves"
        };
        return (Tone::Warning, text.to_owned());
    }
    match state.link {
        Link::Lost => {
            return (
                Tone::Bad,
                format!("{} the daemon is gone: waiting for it", spinner(state.now)),
            );
        }
        Link::Opening => return (Tone::Quiet, "opening".to_owned()),
        Link::NoSession | Link::Live => {}
    }
    if let Some(retry) = &state.view.retry {
        let text = format!(
            "{} attempt {} of {}: {}",
            spinner(state.now),
            retry.attempt,
            retry.max_attempts,
            retry.cause.message
        );
        return (Tone::Warning, text);
    }
    let since = state.turn_since.map(|since| elapsed(state.now.saturating_sub(since)));
    let since = since.map(|since| format!(" {since}")).unwrap_or_default();
    match state.view.session.as_ref().map(|session| session.state) {
        Some(SessionState::Waiting) => (Tone::Warning, "waits for you".to_owned()),
        Some(SessionState::Running) => {
            (Tone::Good, format!("{} working{since} · Esc interrupts", spinner(state.now)))
        }
        Some(SessionState::Interrupted) => (Tone::Warning, "interrupted: /continue".to_owned()),
        Some(SessionState::Failed) => (Tone::Bad, "failed: /continue".to_owned()),
        Some(SessionState::Idle) | None => (Tone::Quiet, String::new()),
    }
}

/// What the session is, the most important first.
fn facts(state: &State) -> Vec<String> {
    let session = state.view.session.as_ref();
    let model = session.map_or(state.setup.model.clone(), |session| session.model.clone());
    let mode = session.map_or(state.setup.mode, |session| Some(session.permission_mode));
    let mut facts = vec![model.unwrap_or_else(|| "no model: /model".to_owned())];
    facts.extend(mode.map(|mode| render::word(&mode)));
    let context = state.view.context;
    if context.tokens > 0 && context.window > 0 {
        let share = context.tokens.saturating_mul(100) / context.window;
        facts.push(format!("{share} % of the context"));
    }
    let cost = session.and_then(|session| session.usage.cost_usd).filter(|cost| *cost > 0.0);
    facts.extend(cost.map(|cost| format!("${cost:.2}")));
    if session.is_some_and(|session| session.queue_held) && !state.view.queue().is_empty() {
        facts.push("queue held: /continue".to_owned());
    }
    match state.view.processes().len() {
        0 => {}
        1 => facts.push("1 command in the background".to_owned()),
        count => facts.push(format!("{count} commands in the background")),
    }
    facts.extend(others(state));
    facts.extend(session.map(|session| session.title.clone()).filter(|title| !title.is_empty()));
    facts
}

/// Who else watches the session.
fn others(state: &State) -> Option<String> {
    let (count, names) = state.view.other_watchers(CLIENT);
    let names = one_line(&names.join(", "), NAMES_CHARS);
    let names = if names.is_empty() { names } else { format!(": {names}") };
    match count {
        0 => None,
        1 => Some(format!("1 other watches{names}")),
        count => Some(format!("{count} others watch{names}")),
    }
}
