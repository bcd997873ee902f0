//! Markdown as rows: what models write, while they write it.
//!
//! A row is final once it is in the scrollback, so a stream is cut at a place that more text
//! cannot change: before its last top-level block ([`settled`]).
//!
//! Receives Markdown; hands back rows of a width.

use comfy_table::{ContentArrangement, Table, presets};
use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::highlight;
use super::wrap::{Indent, wrap};
use crate::terminal::harmless;

/// Columns of a ruler.
const RULER: usize = 24;

fn parser(source: &str) -> Parser<'_> {
    let extensions =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    Parser::new_ext(source, extensions)
}

/// How much of a growing text is final: up to the last top-level block of its whole lines.
pub(in crate::chat) fn settled(source: &str) -> usize {
    let source = &source[..source.rfind('\n').map_or(0, |at| at + 1)];
    let (mut depth, mut last) = (0_usize, 0);
    for (event, range) in parser(source).into_offset_iter() {
        match event {
            Event::Start(_) => {
                if depth == 0 {
                    last = range.start;
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Rule if depth == 0 => last = range.start,
            _ => {}
        }
    }
    // What stands before the first block belongs to it.
    if source[..last].trim().is_empty() { 0 } else { last }
}

/// The rows of a text.
pub(in crate::chat) fn render(source: &str, width: usize) -> Vec<Line<'static>> {
    let mut page = Page { width, ..Page::default() };
    for event in parser(source) {
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
                    CodeBlockKind::Fenced(info) => {
                        info.split([' ', ',', '{']).next().unwrap_or_default().to_owned()
                    }
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
        for line in highlight::lines(&language, &code) {
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
            let settled = settled(&TEXT[..at]);
            let rows = text(&render(&TEXT[..settled], 40));
            assert!(whole.starts_with(rows.trim_end()), "cut at {at}: {rows}");
        }
        assert!(settled(TEXT) > TEXT.len() / 2);
        assert_eq!(settled("one paragraph"), 0);
    }
}
