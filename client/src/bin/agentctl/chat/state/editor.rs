//! The line, or lines, that are being written: with history, folded pastes and completion.
//!
//! Receives keys and pastes; hands back the draft that is to be sent.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::{Modifier, Style};
use ratatui_textarea::{CursorMove, DataCursor, TextArea, WrapMode};

use super::Draft;
use super::draft::Pastes;
use super::history::History;
use super::mention::{dropped, mention, unfinished};

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
    /// What was written before stands there now: nothing is offered for it, or the next key would
    /// go to what is offered.
    Recalled,
}

/// What is being written.
#[derive(Debug)]
pub(crate) struct Editor {
    area: TextArea<'static>,
    pastes: Pastes,
    history: History,
    pub(crate) completion: Option<Completion>,
}

impl Default for Editor {
    fn default() -> Self {
        Self {
            area: area(""),
            pastes: Pastes::default(),
            history: History::default(),
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

    /// The text with its pastes.
    fn draft(&self) -> Draft {
        Draft::new(self.text(), self.pastes.clone())
    }

    /// Puts a draft in place of what is there.
    pub(crate) fn set(&mut self, draft: Draft) {
        self.area = area(&draft.text);
        self.pastes = draft.pastes;
        self.completion = None;
    }

    /// Takes up what was written in earlier runs.
    pub(crate) fn recall(&mut self, earlier: Vec<Draft>) {
        self.history.recall(earlier);
    }

    /// Remembers an input that was sent, by whomever.
    pub(crate) fn remember(&mut self, draft: Draft) {
        self.history.remember(draft);
    }

    /// Takes the text out; the history has it.
    pub(crate) fn take(&mut self) -> Draft {
        let draft = self.draft();
        self.history.remember(draft.clone());
        self.history.rest();
        self.set(Draft::default());
        draft
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
            // As in shells; the widget would undo.
            KeyCode::Char('u') if key.modifiers == KeyModifiers::CONTROL => {
                self.area.delete_line_by_head();
                Handled::Yes
            }
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
        let present = self.draft();
        if let Some(draft) = self.history.older(present) {
            self.set(draft);
        }
        Handled::Recalled
    }

    fn newer(&mut self) -> Handled {
        if let Some(draft) = self.history.newer() {
            self.set(draft);
        }
        Handled::Recalled
    }

    /// A pasted text: as it is, folded, or as the names of files.
    pub(crate) fn paste(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let names: Vec<String> = dropped(&text).iter().map(|name| mention(name)).collect();
        let text = if names.is_empty() {
            let around = self.text();
            self.pastes.fold(text, &around)
        } else {
            names.join(" ")
        };
        self.area.insert_str(text);
    }

    /// The word before the cursor, if it may be completed: `@…`, or `/…` at the very start.
    pub(crate) fn word(&self) -> Option<String> {
        let before = self.before();
        let is_command = self.area.cursor().0 == 0
            && before.starts_with('/')
            && !before.contains(char::is_whitespace);
        if is_command {
            return Some(before);
        }
        unfinished(&before).map(|(word, _)| word.to_owned())
    }

    /// The part of a file's name that stands before the cursor.
    pub(crate) fn sought(&self) -> Option<String> {
        unfinished(&self.before()).map(|(_, name)| name)
    }

    /// The line up to the cursor.
    fn before(&self) -> String {
        let DataCursor(row, column) = self.area.cursor();
        self.area.lines()[row].chars().take(column).collect()
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
        let name = &completion.names[completion.selected];
        // More is to come after a folder.
        let blank = if name.ends_with('/') { "" } else { " " };
        self.area.insert_str(format!("{name}{blank}"));
    }
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
        assert_eq!(editor.take().whole(), format!("see {long} short"));
        assert!(editor.is_empty());
        // From the history it is sent whole again, and a new paste is not taken for it.
        press(&mut editor, KeyCode::Up);
        assert_eq!(editor.text(), "see [paste 1: 300 lines] short");
        editor.paste(&"x\n".repeat(300));
        let draft = editor.take();
        assert_eq!(draft.text, "see [paste 1: 300 lines] short[paste 2: 300 lines]");
        assert_eq!(draft.whole(), format!("see {long} short{}", "x\n".repeat(300)));
    }

    #[test]
    fn history_comes_back_and_so_does_the_draft() {
        let mut editor = Editor::default();
        for text in ["one", "two"] {
            typed(&mut editor, text);
            assert_eq!(press(&mut editor, KeyCode::Enter), Handled::Send);
            assert_eq!(editor.take().whole(), text);
        }
        let long = "a line\n".repeat(9);
        typed(&mut editor, "draft ");
        editor.paste(&long);
        for (code, text) in [
            (KeyCode::Up, "two"),
            (KeyCode::Up, "one"),
            (KeyCode::Up, "one"),
            (KeyCode::Down, "two"),
            (KeyCode::Down, "draft [paste 1: 9 lines]"),
            (KeyCode::Down, "draft [paste 1: 9 lines]"),
        ] {
            press(&mut editor, code);
            assert_eq!(editor.text(), text);
        }
        assert_eq!(editor.take().whole(), format!("draft {long}"));
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
    fn a_line_is_taken_back_as_in_shells() {
        let mut editor = Editor::default();
        typed(&mut editor, "one");
        editor.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
        typed(&mut editor, "two");
        assert_eq!(editor.text(), "two");
    }

    #[test]
    fn folders_are_gone_into() {
        let mut editor = Editor::default();
        typed(&mut editor, "see @\"my d");
        assert_eq!(editor.sought().as_deref(), Some("my d"));
        editor.offer(vec!["@\"my dir/".to_owned()]);
        press(&mut editor, KeyCode::Tab);
        assert_eq!(editor.text(), "see @\"my dir/");
        editor.offer(vec!["@\"my dir/a\"".to_owned()]);
        press(&mut editor, KeyCode::Tab);
        assert_eq!(editor.text(), "see @\"my dir/a\" ");
        editor.paste("'/tmp/a picture.PNG' /tmp/b.png");
        assert_eq!(editor.text(), "see @\"my dir/a\" @\"/tmp/a picture.PNG\" @/tmp/b.png");
    }
}
