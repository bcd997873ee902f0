//! Markdown as rows: what models write, while they write it.
//!
//! A row is final once it is in the scrollback, so a stream is cut at a place that more text
//! cannot change: before its last top-level block, or in a block of code behind any of its lines
//! ([`settled`]). What comes behind such a line begins with that block still open.
//!
//! Receives Markdown; hands back rows of a width.

use std::ops::Range;

use comfy_table::{ContentArrangement, Table, presets};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::highlight::Code;
use super::wrap::{Indent, wrap};
use crate::terminal::harmless;

/// Columns of a ruler.
const RULER: usize = 24;

fn parser(source: &str) -> Parser<'_> {
    let extensions =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    Parser::new_ext(source, extensions)
}

/// A block of code that goes on in the next piece of a stream.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::chat) struct OpenCode {
    /// The line that opened it.
    fence: String,
    code: Code,
}

/// How much of a growing text is final, and the block of code that is open there. `open` is the
/// one that is open where the text begins.
pub(in crate::chat) fn settled(source: &str, open: Option<&OpenCode>) -> (usize, Option<OpenCode>) {
    let source = &source[..source.rfind('\n').map_or(0, |at| at + 1)];
    let fence = open.map_or("", |open| open.fence.as_str());
    let text = format!("{fence}{source}");
    let block = last_block(&text);
    let last = block.start;
    if let Some((language, line)) = open_fence(&text[block]) {
        let code_from = last + line.len();
        let goes_on = open.filter(|_| last == 0);
        let mut next = goes_on
            .cloned()
            .unwrap_or_else(|| OpenCode { fence: line.to_owned(), code: Code::new(&language) });
        next.code.lines(&text[code_from..]);
        return if code_from < text.len() { (source.len(), Some(next)) } else { (0, None) };
    }
    // What stands before the first block belongs to it.
    match last.checked_sub(fence.len()) {
        Some(at) if !source[..at].trim().is_empty() => (at, None),
        _ => (0, open.cloned()),
    }
}

/// Where the last top-level block is.
fn last_block(source: &str) -> Range<usize> {
    let (mut depth, mut last) = (0_usize, 0..0);
    for (event, range) in parser(source).into_offset_iter() {
        match event {
            Event::Start(_) => {
                if depth == 0 {
                    last = range;
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Rule if depth == 0 => last = range,
            _ => {}
        }
    }
    last
}

/// The language of a block of code without an end, and the line that opens it.
fn open_fence(block: &str) -> Option<(String, &str)> {
    let mut events = parser(block);
    let Some(Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info)))) = events.next() else {
        return None;
    };
    let opening = block.split_inclusive('\n').next()?;
    let mark = opening.trim_start().chars().next()?;
    let count = opening.trim_start().chars().take_while(|c| *c == mark).count();
    let last = block[opening.len()..].lines().next_back().unwrap_or_default().trim();
    let closed = last.len() >= count && last.chars().all(|c| c == mark);
    (!closed).then(|| (language(&info), opening))
}

fn language(info: &str) -> String {
    info.split([' ', ',', '{']).next().unwrap_or_default().to_owned()
}

/// The rows of a text that begins where a block of code may be open.
pub(in crate::chat) fn render(
    source: &str,
    open: Option<&OpenCode>,
    width: usize,
) -> Vec<Line<'static>> {
    let fence = open.map_or("", |open| open.fence.as_str());
    let begun = open.map(|open| open.code.clone());
    let mut page = Page { width, begun, ..Page::default() };
    for event in parser(&format!("{fence}{source}")) {
        page.event(event);
    }
    page.flush();
    page.rows
}

/// A container that rows stand in: a list's item, a quotation.
struct Container {
    /// Before its first row, until that is written.
    mark: Option<Span<'static>>,
    rest: Span<'static>,
}

#[derive(Default)]
struct Page {
    width: usize,
    rows: Vec<Line<'static>>,
    spans: Vec<Span<'static>>,
    styles: Vec<Style>,
    containers: Vec<Container>,
    /// Numbers of the lists that are open; `None` for bullets.
    lists: Vec<Option<u64>>,
    /// A block ended: the next one begins after an empty row.
    apart: bool,
    /// Language and text of the code that is open.
    code: Option<(String, String)>,
    /// The code that the first block goes on with.
    begun: Option<Code>,
    table: Option<Vec<Vec<String>>>,
    links: Vec<String>,
}

impl Page {
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.text(&text);
            }
            Event::Code(code) => self.inline(&code, Style::new().fg(Color::Cyan)),
            Event::Html(html) | Event::InlineHtml(html) => {
                self.inline(html.trim_end_matches('\n'), Style::new().add_modifier(Modifier::DIM));
            }
            Event::FootnoteReference(name) => self.text(&format!("[{name}]")),
            Event::SoftBreak => self.text(" "),
            Event::HardBreak => self.flush(),
            Event::Rule => {
                self.begin();
                let ruler = "─".repeat(RULER.min(self.width));
                self.inline(&ruler, Style::new().add_modifier(Modifier::DIM));
                self.flush();
                self.apart = true;
            }
            Event::TaskListMarker(done) => self.text(if done { "[x] " } else { "[ ] " }),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.begin(),
            Tag::Heading { level, .. } => {
                self.begin();
                let mut style = Style::new().add_modifier(Modifier::BOLD);
                if matches!(level, HeadingLevel::H1 | HeadingLevel::H2) {
                    style = style.add_modifier(Modifier::UNDERLINED);
                }
                self.styles.push(style);
            }
            Tag::BlockQuote(_) => {
                self.begin();
                let bar = Span::styled("│ ", Style::new().add_modifier(Modifier::DIM));
                self.containers.push(Container { mark: Some(bar.clone()), rest: bar });
            }
            Tag::CodeBlock(kind) => {
                self.begin();
                let language = match kind {
                    CodeBlockKind::Fenced(info) => language(&info),
                    CodeBlockKind::Indented => String::new(),
                };
                self.code = Some((language, String::new()));
            }
            Tag::List(number) => {
                if self.lists.is_empty() {
                    self.begin();
                } else {
                    self.flush();
                    self.apart = false;
                }
                self.lists.push(number);
            }
            Tag::Item => self.item(),
            Tag::Table(_) => {
                self.begin();
                self.table = Some(Vec::new());
            }
            Tag::TableHead | Tag::TableRow => {
                self.table.get_or_insert_default().push(Vec::new());
            }
            Tag::Emphasis => self.styles.push(Style::new().add_modifier(Modifier::ITALIC)),
            Tag::Strong => self.styles.push(Style::new().add_modifier(Modifier::BOLD)),
            Tag::Strikethrough => {
                self.styles.push(Style::new().add_modifier(Modifier::CROSSED_OUT));
            }
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.links.push(dest_url.into_string());
                self.styles.push(Style::new().add_modifier(Modifier::UNDERLINED));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.done(),
            TagEnd::Heading(_) => {
                self.styles.pop();
                self.done();
            }
            TagEnd::BlockQuote(_) => {
                self.flush();
                self.containers.pop();
                self.apart = true;
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.apart |= self.lists.is_empty();
            }
            TagEnd::Item => {
                self.flush();
                self.containers.pop();
            }
            TagEnd::Table => self.end_table(),
            TagEnd::TableCell => {
                let text: String = self.spans.drain(..).map(|span| span.content).collect();
                if let Some(row) = self.table.as_mut().and_then(|rows| rows.last_mut()) {
                    row.push(harmless(&text).into_owned());
                }
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    fn style(&self) -> Style {
        self.styles.iter().fold(Style::new(), |style, more| style.patch(*more))
    }

    fn text(&mut self, text: &str) {
        match &mut self.code {
            Some((_, code)) => code.push_str(text),
            None => self.inline(text, Style::new()),
        }
    }

    fn inline(&mut self, text: &str, style: Style) {
        self.spans.push(Span::styled(text.to_owned(), self.style().patch(style)));
    }

    /// Begins a block, apart from the one before.
    fn begin(&mut self) {
        self.flush();
        let marked = self.containers.iter().any(|container| container.mark.is_some());
        if std::mem::take(&mut self.apart) && !marked {
            let before = self.containers.iter().map(|container| container.rest.clone());
            let mut row: Vec<_> = before.collect();
            if let Some(last) = row.last_mut() {
                last.content = last.content.trim_end().to_owned().into();
            }
            self.rows.push(Line::from(row));
        }
    }

    /// Ends a block of text.
    fn done(&mut self) {
        self.flush();
        self.apart = true;
    }

    fn item(&mut self) {
        self.flush();
        if std::mem::take(&mut self.apart) {
            self.rows.push(Line::default());
        }
        let mark = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            _ => "• ".to_owned(),
        };
        let rest = " ".repeat(Span::raw(mark.as_str()).width()).into();
        self.containers.push(Container { mark: Some(mark.into()), rest });
    }

    fn indent(&mut self) -> Indent {
        let rest = self.containers.iter().map(|container| container.rest.clone()).collect();
        let first = self.containers.iter_mut();
        let first =
            first.map(|container| container.mark.take().unwrap_or_else(|| container.rest.clone()));
        Indent { first: first.collect(), rest }
    }

    /// Writes the rows of the text so far.
    fn flush(&mut self) {
        if self.spans.is_empty() {
            return;
        }
        let indent = self.indent();
        let spans = std::mem::take(&mut self.spans);
        self.rows.extend(wrap(&spans, self.width, &indent));
    }

    fn end_link(&mut self) {
        self.styles.pop();
        let Some(link) = self.links.pop() else { return };
        if self.spans.last().is_none_or(|span| span.content != link) {
            self.inline(&format!(" ({link})"), Style::new().add_modifier(Modifier::DIM));
        }
    }

    fn end_code(&mut self) {
        let Some((language, code)) = self.code.take() else { return };
        let mut coloured = self.begun.take().unwrap_or_else(|| Code::new(&language));
        for line in coloured.lines(&code) {
            let mut indent = self.indent();
            for before in [&mut indent.first, &mut indent.rest] {
                before.push("  ".into());
            }
            self.rows.extend(wrap(&line, self.width, &indent));
        }
        self.apart = true;
    }

    fn end_table(&mut self) {
        let mut rows = self.table.take().unwrap_or_default().into_iter();
        let indent = self.indent();
        let taken: usize = indent.rest.iter().map(Span::width).sum();
        let mut table = Table::new();
        table.load_preset(presets::UTF8_FULL_CONDENSED);
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(self.width.saturating_sub(taken)).unwrap_or(u16::MAX));
        table.set_header(rows.next().unwrap_or_default());
        table.add_rows(rows);
        for line in table.lines() {
            let indent = Indent { first: indent.rest.clone(), rest: indent.rest.clone() };
            self.rows.extend(wrap(&[Span::raw(line)], self.width, &indent));
        }
        self.apart = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str, width: usize) -> Vec<Line<'static>> {
        super::render(source, None, width)
    }

    const TEXT: &str = "\
# A title

Some *words* with `code`, **strong** ones and a [link](https://example.org/a), long enough to wrap.

- first
- second with more words than fit into a row of forty
  1. nested
  2. items
- [x] done

> quoted
> text

```rust
let x = 1;
```

| name | what it is |
|---|---|
| a | one |
| b | the other one, which is longer |

---
end";

    fn text(rows: &[Line<'_>]) -> String {
        rows.iter().map(|row| row.to_string().trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn all_of_it_at_two_widths() {
        insta::assert_snapshot!("markdown_40", text(&render(TEXT, 40)));
        insta::assert_snapshot!("markdown_100", text(&render(TEXT, 100)));
        for width in [1, 7, 20, 40, 200] {
            let rows = render(TEXT, width);
            let widest = rows.iter().map(Line::width).max().unwrap_or(0);
            // A table needs a column for each of its own.
            assert!(widest <= width.max(20), "{widest} in {width}");
        }
    }

    #[test]
    fn what_is_settled_never_changes() {
        let cuts = TEXT.char_indices().map(|(at, _)| at);
        let whole = text(&render(TEXT, 40));
        for at in cuts {
            let (settled, _) = settled(&TEXT[..at], None);
            let rows = text(&render(&TEXT[..settled], 40));
            assert!(whole.starts_with(rows.trim_end()), "cut at {at}: {rows}");
        }
        assert!(settled(TEXT, None).0 > TEXT.len() / 2);
        assert_eq!(settled("one paragraph", None), (0, None));
    }

    /// However a text comes, cut wherever it is settled, its rows are those of the whole.
    #[test]
    fn pieces_of_code_are_the_whole() {
        let code = "/* a\nlet b = 1;\n\n```not an end\n*/ let c = \"d\";\n";
        for (start, end) in [
            ("```rust\n", "```\n"),
            ("Before.\n\n~~~~ rust\n", "~~~~\n\nAfter.\n"),
            ("- a list\n\n```rust\n", "```\n```rust\nlet e = 1;\n```\nend\n"),
            ("```\n", ""),
        ] {
            let source = format!("{start}{code}{end}");
            let whole = render(&source, 40);
            for step in [1, 7, 1000] {
                let (mut from, mut open, mut rows) = (0, None, Vec::new());
                for at in (0..=source.len()).step_by(step).chain([source.len()]) {
                    let (settled, next) = settled(&source[from..at], open.as_ref());
                    if settled > 0 {
                        let piece = &source[from..from + settled];
                        // A block of text begins apart from the one before.
                        if open.is_none() && !rows.is_empty() {
                            rows.push(Line::default());
                        }
                        rows.extend(super::render(piece, open.as_ref(), 40));
                        (from, open) = (from + settled, next);
                    }
                }
                if open.is_none() && !rows.is_empty() {
                    rows.push(Line::default());
                }
                rows.extend(super::render(&source[from..], open.as_ref(), 40));
                assert_eq!(text(&rows).trim_end(), text(&whole).trim_end(), "{step} of {source}");
                let coloured = |rows: &[Line<'static>]| -> Vec<_> {
                    let rows = rows.iter().filter(|row| row.width() > 0);
                    rows.map(|row| row.spans.clone()).collect()
                };
                assert_eq!(coloured(&rows), coloured(&whole), "{step} of {source}");
            }
        }
    }
}
