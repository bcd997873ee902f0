//! The upper part of the panel: what is going on.
//!
//! Receives the state and the room there is; hands back at most as many rows, the latest ones.

use agentd_client::protocol::view::conversation::OpenCall;
use ratatui::style::{Color, Style};
use ratatui::text::{Line, Span};

use super::entries::{BOLD, DIM, tone};
use super::markdown;
use super::wrap::{Indent, cut, wrap_text};
use crate::chat::entry::Tone;
use crate::chat::state::{LocalCommand, State, call_line, tail};
use crate::render;
use crate::terminal::one_line;

/// Lines of a running command's output.
const OUTPUT_LINES: usize = 4;
/// Lines of reasoning while it comes.
const REASONING_LINES: usize = 3;
/// Inputs on their way that are shown.
const WAITING: usize = 4;
/// Milliseconds of a picture of the spinner.
const SPINNER_MILLIS: u64 = 250;
const SPINNER: [&str; 4] = ["◐", "◓", "◑", "◒"];

pub(super) fn rows(state: &State, width: usize, room: usize) -> Vec<Line<'static>> {
    let mut below = Vec::new();
    for call in &state.view.calls {
        below.extend(call_rows(state, call, width));
    }
    if let Some(command) = &state.command {
        below.extend(command_rows(state, command, width));
    }
    below.extend(waiting(state, width));
    let mut rows = answer(state, width);
    let goes_on = !rows.is_empty() && state.live_code().is_some();
    if !goes_on && (!rows.is_empty() || !below.is_empty()) {
        rows.insert(0, Line::default());
    }
    rows.append(&mut below);
    let over = rows.len().saturating_sub(room);
    rows.split_off(over)
}

/// The picture of something that goes on.
pub(super) fn spinner(now: u64) -> &'static str {
    let turn = (now / SPINNER_MILLIS) % SPINNER.len() as u64;
    SPINNER[usize::try_from(turn).unwrap_or(0)]
}

fn answer(state: &State, width: usize) -> Vec<Line<'static>> {
    let Some(item) = &state.view.in_flight.item else { return Vec::new() };
    let mut rows = Vec::new();
    let text = state.live_text();
    if item.text.is_empty() && !item.reasoning.trim().is_empty() {
        rows.push(cut(&[Span::styled("∴ thinking", DIM)], width));
        let shown = wrap_text(item.reasoning.trim(), DIM, width, &Indent::all("  "));
        let from = shown.len().saturating_sub(REASONING_LINES);
        rows.extend(shown.into_iter().skip(from));
    }
    rows.extend(markdown::render(text, state.live_code(), width));
    rows
}

fn call_rows(state: &State, call: &OpenCall, width: usize) -> Vec<Line<'static>> {
    let since = state.started.get(&call.call_id).copied();
    let mut prompts = state.view.prompts().iter();
    let prompt = prompts.find(|prompt| prompt.call_id == call.call_id);
    let line = match (&call.started, prompt) {
        (Some((summary, _)), _) => one_line(summary, width.max(20)),
        (None, Some(prompt)) => one_line(&prompt.summary, width.max(20)),
        (None, None) => call_line(&call.name, &call.arguments),
    };
    let (mark, word) = match since {
        _ if prompt.is_some() => ("? ", " · waits for you".to_owned()),
        Some(since) => {
            (spinner(state.now), format!(" · {}", elapsed(state.now.saturating_sub(since))))
        }
        None => ("· ", String::new()),
    };
    let mark = Span::styled(format!("{} ", mark.trim_end()), Style::new().fg(Color::Cyan));
    let room = width.saturating_sub(Span::raw(word.as_str()).width());
    let mut row = cut(&[mark, Span::raw(line)], room);
    row.spans.push(Span::styled(word, DIM));
    let mut rows = vec![row];
    let output = state.view.in_flight.tools.iter().find(|tool| tool.call_id == call.call_id);
    rows.extend(output_rows(output.map_or("", |tool| tool.output.as_str()), width));
    rows
}

fn output_rows(output: &str, width: usize) -> Vec<Line<'static>> {
    let (lines, _) = tail(output, OUTPUT_LINES);
    let row = |line: &String| cut(&[Span::styled(format!("  │ {line}"), DIM)], width);
    lines.iter().map(row).collect()
}

fn command_rows(state: &State, command: &LocalCommand, width: usize) -> Vec<Line<'static>> {
    let elapsed = elapsed(state.now.saturating_sub(command.since));
    let spans = [
        Span::styled("! ", Style::new().fg(Color::Magenta)),
        Span::styled(command.command.clone(), BOLD),
        Span::styled(format!(" · {elapsed} · Esc ends it"), DIM),
    ];
    let mut rows = vec![cut(&spans, width)];
    rows.extend(output_rows(&command.output, width));
    rows
}

/// Inputs that are on their way or wait for their turn.
fn waiting(state: &State, width: usize) -> Vec<Line<'static>> {
    let mut rows = Vec::new();
    for pending in &state.pending {
        let word = if pending.steered { "into this turn" } else { "sending" };
        rows.push((word.to_owned(), one_line(&pending.draft.text, width.max(20))));
    }
    for (index, entry) in state.view.queue().iter().enumerate() {
        rows.push((format!("queued {}", index + 1), entry.preview.clone()));
    }
    let more = rows.len().saturating_sub(WAITING);
    rows.truncate(WAITING);
    let row = |(word, text): (String, String)| {
        cut(&[Span::styled(format!("↳ {word}: "), tone(Tone::Warning)), Span::raw(text)], width)
    };
    let mut rows: Vec<_> = rows.into_iter().map(row).collect();
    if more > 0 {
        rows.push(cut(&[Span::styled(format!("  and {more} more"), DIM)], width));
    }
    rows
}

/// Whole seconds, so that a row changes once in each.
pub(super) fn elapsed(millis: u64) -> String {
    let seconds = millis / 1000;
    if seconds < 60 { format!("{seconds} s") } else { render::duration(millis) }
}
