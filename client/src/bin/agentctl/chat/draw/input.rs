//! The middle of the panel: a list to choose from, a question for permission, or what is being
//! written.
//!
//! Receives the state; hands back rows.

use agentd_client::protocol::permission::{Prompt, Scope};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;
use unicode_width::UnicodeWidthStr;

use super::entries::{BOLD, DIM, diff, tone};
use super::wrap::{Indent, cut, wrap, wrap_text};
use crate::chat::entry::Tone;
use crate::chat::state::{
    COMMANDS, COMPLETIONS, Panel, Picker, Stage, State, is_question, options, rule, suggestion,
};
use crate::render;

/// Rows of a list.
const PICKED: usize = 8;
/// Lines of a prompt's preview.
const PREVIEW_LINES: usize = 12;
/// Rows of what is being written.
const EDITOR_ROWS: usize = 10;

pub(super) fn rows(state: &State, width: usize, room: usize) -> Vec<Line<'static>> {
    let mut rows = Vec::new();
    if let Some(picker) = &state.picker {
        return picker_rows(picker, width);
    }
    if let Some((panel, prompt)) = state.panel.as_ref().zip(state.prompt()) {
        rows.push(Line::default());
        rows.extend(prompt_rows(state, panel, prompt, width, room));
        if state.prompt_has_keys() {
            return rows;
        }
    }
    rows.push(Line::default());
    rows.extend(editor_rows(state, width, room));
    rows.extend(completion_rows(state, width));
    rows
}

/// Columns that names in a list take at most, where what is said of them is aligned.
const NAME_COLUMNS: usize = 24;

/// The columns of the names in a list; a longer one sticks out.
fn name_columns<'a>(names: impl Iterator<Item = &'a str>) -> usize {
    names.map(UnicodeWidthStr::width).filter(|&columns| columns <= NAME_COLUMNS).max().unwrap_or(0)
}

fn marked(
    selected: bool,
    (name, columns): (&str, usize),
    detail: &str,
    width: usize,
) -> Line<'static> {
    let style = if selected { BOLD.fg(Color::Cyan) } else { Style::new() };
    let mark = if selected { "▸ " } else { "  " };
    let blank = " ".repeat(columns.saturating_sub(name.width()));
    let spans = [
        Span::styled(mark, style),
        Span::styled(name.to_owned(), style),
        Span::styled(format!("{blank}  {detail}"), DIM),
    ];
    let spans = if detail.is_empty() { &spans[..2] } else { &spans };
    cut(spans, width)
}

fn picker_rows(picker: &Picker, width: usize) -> Vec<Line<'static>> {
    let shown = picker.shown();
    let title = format!("{}: {}", picker.title, picker.filter);
    let cursor = Style::new().add_modifier(Modifier::REVERSED);
    let mut rows =
        vec![Line::default(), cut(&[Span::styled(title, BOLD), Span::styled(" ", cursor)], width)];
    let from = (picker.selected + 1).saturating_sub(PICKED);
    let columns = name_columns(shown.iter().map(|row| row.name.as_str()));
    for (index, row) in shown.iter().enumerate().skip(from).take(PICKED) {
        rows.push(marked(index == picker.selected, (&row.name, columns), &row.detail, width));
    }
    let keys = match shown.len() {
        0 => "nothing fits · Esc".to_owned(),
        count => format!("{count} · type to narrow it · Enter takes · Esc"),
    };
    rows.push(cut(&[Span::styled(keys, DIM)], width));
    rows
}

fn prompt_rows(
    state: &State,
    panel: &Panel,
    prompt: &Prompt,
    width: usize,
    room: usize,
) -> Vec<Line<'static>> {
    let mark = Indent::mark("? ", Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD));
    if is_question(prompt) {
        return question_rows(prompt, &mark, width);
    }
    let risk = render::word(&prompt.risk);
    let more = match state.view.prompts().len() {
        1 => String::new(),
        count => format!(" · 1 of {count}"),
    };
    let title = [
        Span::styled(format!("{} wants to: ", prompt.tool), tone(Tone::Warning)),
        Span::styled(prompt.summary.clone(), BOLD),
        Span::styled(format!(" ({risk}){more}"), DIM),
    ];
    let mut rows = wrap(&title, width, &mark);
    let keys = key_rows(state, panel, prompt, width);
    let taken = rows.len() + keys.len();
    let lines = room.saturating_sub(taken + 4).min(PREVIEW_LINES);
    let arguments = prompt.arguments.to_string();
    let preview = prompt.preview.as_deref().unwrap_or(&arguments);
    let mut shown = diff(preview, lines, width);
    // A long line takes many rows.
    shown.truncate(lines + 1);
    rows.extend(shown);
    rows.extend(keys);
    rows
}

fn question_rows(prompt: &Prompt, mark: &Indent, width: usize) -> Vec<Line<'static>> {
    let mut rows = wrap_text(&prompt.summary, BOLD, width, mark);
    for (index, option) in options(prompt).into_iter().enumerate() {
        let text = format!("{}. {option}", index + 1);
        rows.extend(wrap_text(&text, Style::new(), width, &Indent::all("  ")));
    }
    rows.push(cut(&[Span::styled("  answer below, by number or in words", DIM)], width));
    rows
}

fn key_rows(state: &State, panel: &Panel, prompt: &Prompt, width: usize) -> Vec<Line<'static>> {
    let line = match &panel.stage {
        Stage::Remember(suggestion) => {
            let reach = match suggestion.scope {
                Scope::Once => "once",
                Scope::Session => "in this session",
                Scope::Project => "in every session of this directory",
                Scope::Always => "always and everywhere",
            };
            format!("Allow `{}` {reach}?  y yes · any other key: back", rule(suggestion))
        }
        Stage::Reason(reason) => {
            let cursor = Style::new().add_modifier(Modifier::REVERSED);
            let spans = [
                Span::styled("  Deny, because: ", BOLD),
                Span::raw(reason.clone()),
                Span::styled(" ", cursor),
            ];
            let mut rows = wrap(&spans, width, &Indent::default());
            rows.push(cut(
                &[Span::styled("  Enter denies, with or without a reason · Esc back", DIM)],
                width,
            ));
            return rows;
        }
        Stage::Keys if state.setup.role == agentd_client::protocol::daemon::Role::Observer => {
            "only watching: answer it elsewhere".to_owned()
        }
        Stage::Keys if !state.prompt_has_keys() && !state.editor.is_empty() => {
            "Tab answers it".to_owned()
        }
        Stage::Keys if !panel.is_armed(state.now) => "…".to_owned(),
        Stage::Keys => return packed(&keys(prompt), width),
    };
    wrap(&[Span::styled(line, BOLD)], width, &Indent::all("  "))
}

fn keys(prompt: &Prompt) -> Vec<&'static str> {
    let mut keys = vec!["y once"];
    for (scope, key) in
        [(Scope::Session, "s session"), (Scope::Project, "p project"), (Scope::Always, "a always")]
    {
        if suggestion(prompt, scope).is_some() {
            keys.push(key);
        }
    }
    keys.extend(["n no", "e explain", "Esc interrupt"]);
    keys
}

/// As many of them in a row as fit, none of them broken.
fn packed(keys: &[&str], width: usize) -> Vec<Line<'static>> {
    let mut rows: Vec<String> = Vec::new();
    for key in keys {
        match rows.last_mut() {
            Some(row) if Span::raw(format!("{row} · {key}")).width() + 2 <= width => {
                row.push_str(" · ");
                row.push_str(key);
            }
            _ => rows.push((*key).to_owned()),
        }
    }
    rows.into_iter().map(|row| cut(&[Span::styled(format!("  {row}"), BOLD)], width)).collect()
}

fn editor_rows(state: &State, width: usize, room: usize) -> Vec<Line<'static>> {
    if state.setup.role == agentd_client::protocol::daemon::Role::Observer {
        return vec![cut(&[Span::styled("only watching · Ctrl-C twice leaves", DIM)], width)];
    }
    let area = state.editor.area();
    let columns = width.saturating_sub(2).max(1);
    let needed: usize = area
        .lines()
        .iter()
        // The cursor may stand behind the last character.
        .map(|line| wrap(&[Span::raw(format!("{line}|"))], columns, &Indent::default()).len())
        .sum();
    let height = needed.clamp(1, EDITOR_ROWS.min(room.saturating_sub(2)).max(1));
    let size = |count| u16::try_from(count).unwrap_or(u16::MAX);
    let mut buffer = Buffer::empty(Rect::new(0, 0, size(columns), size(height)));
    area.render(buffer.area, &mut buffer);
    let shell = state.editor.text().starts_with('!');
    let colour = if shell { Color::Magenta } else { Color::Cyan };
    let mark = Span::styled("› ", Style::new().fg(colour).add_modifier(Modifier::BOLD));
    let mut rows = lines(&buffer);
    for (index, row) in rows.iter_mut().enumerate() {
        row.spans.insert(0, if index == 0 { mark.clone() } else { "  ".into() });
    }
    rows
}

/// The rows of a buffer.
fn lines(buffer: &Buffer) -> Vec<Line<'static>> {
    let area = buffer.area;
    let row = |y| {
        let mut spans: Vec<Span<'static>> = Vec::new();
        let mut x = 0;
        while x < area.width {
            let cell = &buffer[(x, y)];
            let style = Style { fg: None, bg: None, ..cell.style() };
            let style = Style {
                underline_color: None,
                ..if cell.fg == Color::Reset { style } else { style.fg(cell.fg) }
            };
            match spans.last_mut().filter(|last| last.style == style) {
                Some(last) => last.content.to_mut().push_str(cell.symbol()),
                None => spans.push(Span::styled(cell.symbol().to_owned(), style)),
            }
            x += size(Span::raw(cell.symbol()).width().max(1));
        }
        if let Some(last) = spans.last_mut()
            && last.style.add_modifier.is_empty()
        {
            last.content = last.content.trim_end().to_owned().into();
        }
        Line::from(spans)
    };
    (0..area.height).map(row).collect()
}

fn size(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

fn completion_rows(state: &State, width: usize) -> Vec<Line<'static>> {
    let Some(completion) = &state.editor.completion else { return Vec::new() };
    let from = (completion.selected + 1).saturating_sub(COMPLETIONS);
    let names = completion.names.iter().enumerate().skip(from).take(COMPLETIONS);
    let columns = name_columns(completion.names.iter().map(String::as_str));
    let row = |(index, name): (usize, &String)| {
        let command = COMMANDS.iter().find(|command| command.name == name);
        let what = command.map_or("", |command| command.what);
        marked(index == completion.selected, (name, columns), what, width)
    };
    let mut rows: Vec<_> = names.map(row).collect();
    let more = completion.names.len().saturating_sub(from + COMPLETIONS);
    if more > 0 {
        rows.push(cut(&[Span::styled(format!("  … {more} more"), DIM)], width));
    }
    rows
}
