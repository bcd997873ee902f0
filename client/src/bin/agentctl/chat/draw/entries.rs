//! Entries of the scrollback as rows.
//!
//! Receives entries and a width; hands back rows, with an empty one where another subject begins.

use agentd_client::protocol::event::{Change, PlanEntry, PlanStatus};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::markdown;
use super::wrap::{Indent, cut, wrap, wrap_text};
use crate::chat::entry::{EndedCall, Entry, Tone};
use crate::render;

/// Lines of a diff that are shown of each file.
const DIFF_LINES: usize = 60;

pub(super) const DIM: Style = Style::new().add_modifier(Modifier::DIM);
pub(super) const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);

/// The look of a tone.
pub(super) fn tone(tone: Tone) -> Style {
    match tone {
        Tone::Quiet => DIM,
        Tone::Good => Style::new().fg(Color::Green),
        Tone::Warning => Style::new().fg(Color::Yellow),
        Tone::Bad => Style::new().fg(Color::Red),
        Tone::Plain => Style::new(),
    }
}

/// The rows of an entry; `after` is the one before it.
pub(in crate::chat) fn rows(
    entry: &Entry,
    after: Option<&Entry>,
    width: usize,
) -> Vec<Line<'static>> {
    let mut rows = Vec::new();
    if after.is_some_and(|after| is_apart(after, entry)) {
        rows.push(Line::default());
    }
    rows.extend(match entry {
        Entry::Input { text, from } => input(text, from.as_deref(), width),
        Entry::Answer { text, open } => markdown::render(text, open.as_deref(), width),
        Entry::Reasoning { lines } => {
            let lines = render::counted(*lines, "line");
            vec![cut(&[Span::styled(format!("∴ thought, {lines} (Ctrl-O)"), DIM)], width)]
        }
        Entry::Call(call) => ended_call(call, width),
        Entry::Command { command, output, outcome, ok } => {
            let mark = Style::new().fg(Color::Magenta);
            let spans = [Span::styled("! ", mark), Span::styled(command.clone(), BOLD)];
            let mut rows = wrap(&spans, width, &Indent::default());
            rows.extend(wrap_text(output, Style::new(), width, &Indent::all("  ")));
            let tone = tone(if *ok { Tone::Quiet } else { Tone::Bad });
            rows.extend(wrap_text(outcome, tone, width, &Indent::all("  ")));
            rows
        }
        Entry::Plan(entries) => entries.iter().flat_map(|entry| plan(entry, width)).collect(),
        Entry::Verbatim { title, text } => {
            let mut rows = wrap_text(title, BOLD, width, &Indent::default());
            rows.extend(wrap_text(text, DIM, width, &Indent::all("  ")));
            rows
        }
        Entry::Note(kind, text) => wrap_text(text, tone(*kind), width, &Indent::default()),
    });
    rows
}

/// Whether an empty row belongs between the two.
fn is_apart(before: &Entry, entry: &Entry) -> bool {
    match (before, entry) {
        (Entry::Note(..), Entry::Note(..))
        | (Entry::Call(_), Entry::Call(_) | Entry::Note(..))
        | (_, Entry::Answer { open: Some(_), .. }) => false,
        (_, Entry::Note(..)) => matches!(before, Entry::Answer { .. } | Entry::Verbatim { .. }),
        _ => true,
    }
}

fn input(text: &str, from: Option<&str>, width: usize) -> Vec<Line<'static>> {
    let mark = Indent::mark("› ", Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD));
    let mut rows = wrap_text(text, BOLD, width, &mark);
    if let Some(from) = from {
        rows.push(cut(&[Span::styled(format!("  typed by {from}"), DIM)], width));
    }
    rows
}

fn ended_call(call: &EndedCall, width: usize) -> Vec<Line<'static>> {
    let (mark, tone_of) = if call.ok { ("✓ ", Tone::Good) } else { ("✗ ", Tone::Bad) };
    let mut spans = vec![Span::styled(mark, tone(tone_of)), Span::raw(call.summary.clone())];
    if let Some(status) = &call.status {
        spans.push(Span::styled(format!(" {status}"), tone(tone_of)));
    }
    spans.push(Span::styled(format!(" · {}", render::duration(call.millis)), DIM));
    let mut rows = wrap(&spans, width, &Indent { first: Vec::new(), rest: vec!["  ".into()] });
    if call.folded > 0 {
        let text = format!("  … {} before (Ctrl-O)", render::counted(call.folded, "line"));
        rows.push(cut(&[Span::styled(text, DIM)], width));
    }
    let style = if call.ok { DIM } else { tone(Tone::Bad) };
    for line in &call.output {
        rows.push(cut(&[Span::styled(format!("  {line}"), style)], width));
    }
    for change in &call.changes {
        rows.extend(self::change(change, width));
    }
    rows
}

fn change(change: &Change, width: usize) -> Vec<Line<'static>> {
    let kind = render::word(&change.kind);
    let title = [
        Span::raw("  "),
        Span::styled(change.path.clone(), BOLD),
        Span::raw(format!(" {kind} ")),
        Span::styled(format!("+{}", change.added), tone(Tone::Good)),
        Span::raw(" "),
        Span::styled(format!("-{}", change.removed), tone(Tone::Bad)),
    ];
    let mut rows = wrap(&title, width, &Indent::default());
    rows.extend(diff(change.diff.as_deref().unwrap_or(""), DIFF_LINES, width));
    rows
}

/// A unified diff in colours, its two lines with the file's name left out.
pub(super) fn diff(text: &str, max_lines: usize, width: usize) -> Vec<Line<'static>> {
    let is_name = |line: &&str| line.starts_with("--- ") || line.starts_with("+++ ");
    let mut rows = Vec::new();
    let mut lines = text.lines().skip_while(is_name);
    for line in lines.by_ref().take(max_lines) {
        let style = match line.as_bytes().first() {
            Some(b'+') => tone(Tone::Good),
            Some(b'-') => tone(Tone::Bad),
            Some(b'@') => Style::new().fg(Color::Cyan),
            _ => DIM,
        };
        let indent = Indent { first: vec!["  ".into()], rest: vec!["    ".into()] };
        rows.extend(wrap(&[Span::styled(line.to_owned(), style)], width, &indent));
    }
    let more = lines.count();
    if more > 0 {
        let text = format!("  … {} more", render::counted(more, "line"));
        rows.push(cut(&[Span::styled(text, DIM)], width));
    }
    rows
}

fn plan(entry: &PlanEntry, width: usize) -> Vec<Line<'static>> {
    let (mark, style) = match entry.status {
        PlanStatus::Done => ("  ✓ ", DIM),
        PlanStatus::Active => ("  ▸ ", BOLD),
        PlanStatus::Pending => ("  · ", Style::new()),
    };
    wrap_text(&entry.content, style, width, &Indent::mark(mark, style))
}
