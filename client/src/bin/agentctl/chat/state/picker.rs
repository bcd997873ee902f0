//! Choosing from a list: type to narrow it, Enter to take one.
//!
//! Receives keys; hands back what taking a row means.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{Effect, State};

/// A row, and what it means to take it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) detail: String,
    pub(crate) choice: Choice,
}

/// What taking a row means.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Choice {
    /// Open this session.
    Session(agentd_client::protocol::id::SessionId),
    /// Use this model.
    Model(String),
    /// Use this mode.
    Mode(agentd_client::protocol::permission::PermissionMode),
}

/// A list to choose from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Picker {
    pub(crate) title: &'static str,
    rows: Vec<Row>,
    pub(crate) filter: String,
    pub(crate) selected: usize,
}

impl Picker {
    /// A list that begins at what is chosen at `present`, so that Enter alone changes nothing.
    pub(super) fn new(title: &'static str, mut rows: Vec<Row>, present: Option<&Choice>) -> Self {
        let at = rows.iter().position(|row| Some(&row.choice) == present);
        if let Some(at) = at {
            let detail = &mut rows[at].detail;
            *detail = if detail.is_empty() { "now".to_owned() } else { format!("now · {detail}") };
        }
        Self { title, rows, filter: String::new(), selected: at.unwrap_or(0) }
    }

    /// The rows that fit what was typed.
    pub(crate) fn shown(&self) -> Vec<&Row> {
        let filter = self.filter.to_lowercase();
        let fits =
            |row: &&Row| format!("{} {}", row.name, row.detail).to_lowercase().contains(&filter);
        self.rows.iter().filter(fits).collect()
    }
}

impl State {
    /// A key for the list, if one is open.
    pub(super) fn picker_key(&mut self, key: KeyEvent) -> Option<Vec<Effect>> {
        let picker = self.picker.as_mut()?;
        let last = picker.shown().len().saturating_sub(1);
        match key.code {
            KeyCode::Up => picker.selected = picker.selected.saturating_sub(1),
            KeyCode::Down => picker.selected = (picker.selected + 1).min(last),
            KeyCode::Char(c) if key.modifiers.difference(KeyModifiers::SHIFT).is_empty() => {
                picker.filter.push(c);
                picker.selected = 0;
            }
            KeyCode::Backspace => {
                picker.filter.pop();
                picker.selected = 0;
            }
            KeyCode::Enter => {
                let choice = picker.shown().get(picker.selected).map(|row| row.choice.clone());
                self.picker = None;
                return choice.map(|choice| self.choose(choice));
            }
            KeyCode::Esc => self.picker = None,
            KeyCode::Char('c') => {
                self.picker = None;
            }
            _ => {}
        }
        Some(Vec::new())
    }

    fn choose(&mut self, choice: Choice) -> Vec<Effect> {
        match choice {
            Choice::Session(session_id) => vec![Effect::Open(session_id)],
            Choice::Model(model) => self.set_model(model),
            Choice::Mode(mode) => self.set_mode(mode),
        }
    }
}
