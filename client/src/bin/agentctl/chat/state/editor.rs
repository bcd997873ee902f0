//! The line, or lines, that are being written: with history, folded pastes and completion.
//!
//! A long paste stands in the text as a word of its own, `[paste 1: 300 lines]`, and is put in its
//! place when the text is sent; taken out of the text, it does not go along.
//!
//! Receives keys and pastes; hands back the text that is to be sent.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Modifier, Style};
use ratatui_textarea::{CursorMove, DataCursor, TextArea, WrapMode};

/// A paste with more lines or bytes than this is folded.
const PASTE_LINES: usize = 8;
const PASTE_BYTES: usize = 1000;
/// Inputs that are remembered.
const HISTORY: usize = 200;
/// Completions that are shown.
pub(crate) const COMPLETIONS: usize = 8;

/// Names that fit what is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) names: Vec<String>,
    pub(crate) selected: usize,
    /// Characters before the cursor that a name replaces.
    replaces: usize,
}

/// What a key did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handled {
    /// The text is to be sent.
    Send,
    /// Taken.
    Yes,
}

/// What is being written.
#[derive(Debug)]
pub(crate) struct Editor {
    area: TextArea<'static>,
    history: Vec<String>,
    /// Where in the history; its end is what was being written.
    at: usize,
    draft: String,
    pastes: Vec<String>,
    pub(crate) completion: Option<Completion>,
}

impl Default for Editor {
    fn default() -> Self {
        Self {
            area: area(""),
            history: Vec::new(),
            at: 0,
            draft: String::new(),
            pastes: Vec::new(),
            completion: None,
        }
    }
}

fn area(text: &str) -> TextArea<'static> {
    let mut area = TextArea::new(text.split('\n').map(str::to_owned).collect());
    area.set_cursor_line_style(Style::new());
    area.set_placeholder_style(Style::new().add_modifier(Modifier::DIM));
    area.set_placeholder_text("Ask, or / for commands, ! to run one here, @ for files");
    area.set_wrap_mode(WrapMode::WordOrGlyph);
    area.move_cursor(CursorMove::Bottom);
    area.move_cursor(CursorMove::End);
    area
}

impl Editor {
    /// The widget to draw.
    pub(crate) fn area(&self) -> &TextArea<'static> {
        &self.area
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.area.is_empty()
    }

    /// The text as it stands there, pastes folded.
    pub(crate) fn text(&self) -> String {
        self.area.lines().join("\n")
    }

    /// Puts a text in place of what is there.
    pub(crate) fn set(&mut self, text: &str) {
        self.area = area(text);
        self.completion = None;
    }

    /// Remembers an input that was sent, by whomever.
    pub(crate) fn remember(&mut self, text: &str) {
        if !text.trim().is_empty() && self.history.last().is_none_or(|last| last != text) {
            self.history.push(text.to_owned());
            let more = self.history.len().saturating_sub(HISTORY);
            self.history.drain(..more);
        }
        self.at = self.history.len();
    }

    /// Takes the text out, pastes unfolded; and as it stood there.
    pub(crate) fn take(&mut self) -> (String, String) {
        let shown = self.text();
        let mut text = shown.clone();
        for (index, paste) in self.pastes.iter().enumerate() {
            text = text.replace(&mark(index, paste), paste);
        }
        self.clear();
        (text, shown)
    }

    /// Throws the text away; the history has it.
    pub(crate) fn clear(&mut self) {
        let shown = self.text();
        if !shown.contains("[paste ") {
            self.remember(&shown);
        }
        self.pastes.clear();
        self.set("");
        self.at = self.history.len();
    }

    /// A key for the text.
    pub(crate) fn key(&mut self, key: KeyEvent) -> Handled {
        let plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        if plain && let Some(completion) = &mut self.completion {
            let count = completion.names.len();
            match key.code {
                KeyCode::Down => completion.selected = (completion.selected + 1) % count,
                KeyCode::Up => completion.selected = (completion.selected + count - 1) % count,
                KeyCode::Tab => self.accept(),
                KeyCode::Enter if !self.is_complete() => self.accept(),
                KeyCode::Enter => return self.enter(),
                KeyCode::Esc => self.completion = None,
                _ => return self.edit(key),
            }
            return Handled::Yes;
        }
        match key.code {
            KeyCode::Enter if plain && !shift => self.enter(),
            KeyCode::Enter => self.newline(),
            KeyCode::Char('j') if key.modifiers == KeyModifiers::CONTROL => self.newline(),
            KeyCode::Up if plain && self.area.screen_cursor().row == 0 => self.older(),
            KeyCode::Down if plain && self.is_last_row() => self.newer(),
            _ => self.edit(key),
        }
    }

    fn edit(&mut self, key: KeyEvent) -> Handled {
        self.area.input(key);
        Handled::Yes
    }

    fn newline(&mut self) -> Handled {
        self.area.insert_newline();
        Handled::Yes
    }

    /// Enter sends, but a backslash before it asks for another line.
    fn enter(&mut self) -> Handled {
        let DataCursor(row, column) = self.area.cursor();
        let before = self.area.lines()[row].chars().nth(column.wrapping_sub(1));
        if before == Some('\\') {
            self.area.delete_char();
            return self.newline();
        }
        self.completion = None;
        Handled::Send
    }

    fn is_last_row(&self) -> bool {
        self.area.cursor().0 + 1 == self.area.lines().len()
    }

    fn older(&mut self) -> Handled {
        if self.at == self.history.len() {
            self.draft = self.text();
        }
        if let Some(at) = self.at.checked_sub(1) {
            self.at = at;
            let text = self.history[at].clone();
            self.set(&text);
        }
        Handled::Yes
    }

    fn newer(&mut self) -> Handled {
        if self.at < self.history.len() {
            self.at += 1;
            let text = self.history.get(self.at).unwrap_or(&self.draft).clone();
            self.set(&text);
        }
        Handled::Yes
    }

    /// A pasted text: as it is, folded, or as a file's name.
    pub(crate) fn paste(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        if let Some(name) = image_name(&text) {
            self.area.insert_str(mention(&name));
        } else if text.lines().count() > PASTE_LINES || text.len() > PASTE_BYTES {
            self.area.insert_str(mark(self.pastes.len(), &text));
            self.pastes.push(text);
        } else {
            self.area.insert_str(text);
        }
    }

    /// The word before the cursor, if it may be completed: `@…`, or `/…` at the very start.
    pub(crate) fn word(&self) -> Option<String> {
        let DataCursor(row, column) = self.area.cursor();
        let before: String = self.area.lines()[row].chars().take(column).collect();
        let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
        let is_command = row == 0 && word.starts_with('/') && word.len() == before.len();
        (is_command || word.starts_with('@')).then(|| word.to_owned())
    }

    /// Offers names for the word before the cursor.
    pub(crate) fn offer(&mut self, names: Vec<String>) {
        let replaces = self.word().map_or(0, |word| word.chars().count());
        let selected = self.completion.as_ref().map_or(0, |before| before.selected);
        let selected = selected.min(names.len().saturating_sub(1));
        let offered = (!names.is_empty()).then_some(Completion { names, selected, replaces });
        self.completion = offered;
    }

    /// Whether the word is one of the names already.
    fn is_complete(&self) -> bool {
        let word = self.word().unwrap_or_default();
        self.completion.as_ref().is_some_and(|completion| completion.names.contains(&word))
    }

    fn accept(&mut self) {
        let Some(completion) = self.completion.take() else { return };
        for _ in 0..completion.replaces {
            self.area.delete_char();
        }
        self.area.insert_str(format!("{} ", completion.names[completion.selected]));
    }
}

fn mark(index: usize, paste: &str) -> String {
    let lines = paste.lines().count();
    format!("[paste {}: {lines} line{}]", index + 1, if lines == 1 { "" } else { "s" })
}

/// Whether a name is that of an image, and of which kind.
pub(crate) fn image_type(name: &str) -> Option<&'static str> {
    let (_, ending) = name.rsplit_once('.')?;
    match ending.to_ascii_lowercase().as_str() {
        "png" => Some("image/png"),
        "jpg" | "jpeg" => Some("image/jpeg"),
        "gif" => Some("image/gif"),
        "webp" => Some("image/webp"),
        _ => None,
    }
}

/// The name of an image that was dropped on the terminal, which quotes it as a shell would.
fn image_name(text: &str) -> Option<String> {
    let text = text.trim();
    if text.contains('\n') || !text.contains('/') {
        return None;
    }
    let bare = text.trim_matches(['\'', '"']).replace("\\ ", " ");
    let bare = bare.strip_prefix("file://").unwrap_or(&bare);
    image_type(bare).map(|_| bare.to_owned())
}

/// A file's name as it is written in an input.
pub(crate) fn mention(name: &str) -> String {
    if name.contains(char::is_whitespace) { format!("@\"{name}\"") } else { format!("@{name}") }
}

/// The files that an input mentions.
pub(crate) fn mentioned(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find('@') {
        let apart = rest[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || c == '(');
        rest = &rest[at + 1..];
        if !apart {
            continue;
        }
        let name = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split('"').next(),
            None => rest.split(char::is_whitespace).next(),
        };
        names.extend(name.filter(|name| !name.is_empty()).map(str::to_owned));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(editor: &mut Editor, text: &str) {
        for c in text.chars() {
            editor.key(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
        }
    }

    fn press(editor: &mut Editor, code: KeyCode) -> Handled {
        editor.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn a_long_paste_is_folded_and_sent_whole() {
        let mut editor = Editor::default();
        let long = "a line\n".repeat(300);
        typed(&mut editor, "see ");
        editor.paste(&long.replace('\n', "\r"));
        editor.paste(" short");
        assert_eq!(editor.text(), "see [paste 1: 300 lines] short");
        assert_eq!(editor.take().0, format!("see {long} short"));
        assert!(editor.is_empty());
    }

    #[test]
    fn history_comes_back_and_so_does_the_draft() {
        let mut editor = Editor::default();
        for text in ["one", "two"] {
            typed(&mut editor, text);
            assert_eq!(press(&mut editor, KeyCode::Enter), Handled::Send);
            assert_eq!(editor.take().0, text);
        }
        typed(&mut editor, "draft");
        for (code, text) in [
            (KeyCode::Up, "two"),
            (KeyCode::Up, "one"),
            (KeyCode::Up, "one"),
            (KeyCode::Down, "two"),
            (KeyCode::Down, "draft"),
            (KeyCode::Down, "draft"),
        ] {
            press(&mut editor, code);
            assert_eq!(editor.text(), text);
        }
    }

    #[test]
    fn lines_are_broken_without_sending() {
        let mut editor = Editor::default();
        typed(&mut editor, "a\\");
        assert_eq!(press(&mut editor, KeyCode::Enter), Handled::Yes);
        typed(&mut editor, "b");
        editor.key(KeyEvent::new(KeyCode::Enter, KeyModifiers::ALT));
        editor.key(KeyEvent::new(KeyCode::Char('j'), KeyModifiers::CONTROL));
        typed(&mut editor, "c");
        assert_eq!(editor.text(), "a\nb\n\nc");
    }

    #[test]
    fn what_can_be_completed() {
        for (text, word) in [
            ("/mo", Some("/mo")),
            ("say /mo", None),
            ("look at @src/m", Some("@src/m")),
            ("a@b", None),
            ("", None),
        ] {
            let mut editor = Editor::default();
            typed(&mut editor, text);
            assert_eq!(editor.word().as_deref(), word, "{text}");
        }
        let mut editor = Editor::default();
        typed(&mut editor, "see @ma");
        editor.offer(vec!["@main.rs".to_owned(), "@map.rs".to_owned()]);
        press(&mut editor, KeyCode::Down);
        press(&mut editor, KeyCode::Tab);
        assert_eq!(editor.text(), "see @map.rs ");
        // What is complete already is sent.
        let mut editor = Editor::default();
        typed(&mut editor, "/drop");
        editor.offer(vec!["/drop".to_owned()]);
        assert_eq!(press(&mut editor, KeyCode::Enter), Handled::Send);
    }

    #[test]
    fn files_by_name() {
        let mut editor = Editor::default();
        editor.paste("'/tmp/a picture.PNG'");
        assert_eq!(editor.text(), "@\"/tmp/a picture.PNG\"");
        let text = "see @a.rs, (@b.rs and @\"c d.png\" but not e@f.g or @";
        assert_eq!(mentioned(text), ["a.rs,", "b.rs", "c d.png"]);
    }
}
