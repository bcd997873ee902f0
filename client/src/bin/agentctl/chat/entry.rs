//! What goes into the scrollback: said once, final, without a width.
//!
//! The state makes entries of what happens; they become rows when they are written, with the
//! width that the terminal has then.
//!
//! Receives facts from the state; hands them to `draw`.

use agentd_client::protocol::event::{Change, PlanEntry};

use super::draw::OpenCode;

/// How a line is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// Beside the matter.
    Quiet,
    /// Went well.
    Good,
    /// Worth a look.
    Warning,
    /// Went wrong.
    Bad,
    /// To be read.
    Plain,
}

/// A piece of the scrollback.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    /// What somebody typed.
    Input {
        text: String,
        /// Who, if it was not typed here.
        from: Option<String>,
    },
    /// An answer of the model, or a part of one.
    Answer {
        text: String,
        /// The block of code that is open where it begins.
        open: Option<Box<OpenCode>>,
    },
    /// Reasoning, folded to one line.
    Reasoning { lines: usize },
    /// A call that ended.
    Call(EndedCall),
    /// A command that was run here.
    Command { command: String, output: String, outcome: String, ok: bool },
    /// The model's plan.
    Plan(Vec<PlanEntry>),
    /// Lines as they are, folded ones that are shown in full for example.
    Verbatim { title: String, text: String },
    /// A line of the interface's own.
    Note(Tone, String),
}

/// A call that ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EndedCall {
    /// What it did, in a line.
    pub(crate) summary: String,
    /// Went well.
    pub(crate) ok: bool,
    /// How it ended where that is not plain.
    pub(crate) status: Option<String>,
    /// How long it took, in milliseconds.
    pub(crate) millis: u64,
    /// The end of what it said, as far as that is shown.
    pub(crate) output: Vec<String>,
    /// Lines of its output that are not shown.
    pub(crate) folded: usize,
    /// The files it changed.
    pub(crate) changes: Vec<Change>,
}

impl Entry {
    pub(crate) fn note(tone: Tone, text: impl Into<String>) -> Self {
        Self::Note(tone, text.into())
    }
}
