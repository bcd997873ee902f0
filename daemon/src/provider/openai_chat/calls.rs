//! Puts tool calls together from their deltas.
//!
//! A delta says which call it belongs to by `index`, by `id`, by both or by neither, and servers
//! get each of these wrong: no index (so that everything would fall into call 0), the same index
//! for all calls, an empty id, a new id in each delta, the name in pieces or again in full, the
//! arguments as an object. So a delta goes to the call it fits, and starts another where it cannot
//! be a part of that one.
//!
//! Invariants: a call is given out once, in the order in which the calls began, and before the
//! stream's end only if its arguments are whole and another call has begun after it.
//!
//! Receives deltas from `stream`; hands back complete calls.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::RawValue;

use super::wire::{CallDelta, nonempty, number, text};
use crate::provider::ModelCall;
use crate::provider::decoder::MAX_CALLS;

/// Bytes of arguments of one answer, all calls together.
const MAX_ARGUMENT_BYTES: usize = 16 * 1024 * 1024;
/// More calls, or longer ones, than an answer may have.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("its tool calls are more than {MAX_CALLS} or longer than {MAX_ARGUMENT_BYTES} bytes")]
pub(super) struct TooMuch;

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    begun: Vec<Open>,
    /// So many were given out.
    given: usize,
    argument_bytes: usize,
}

/// A call that is being put together.
#[derive(Debug, Default)]
struct Open {
    index: Option<u64>,
    id: Option<String>,
    name: String,
    arguments: String,
}

/// A delta, decoded; empty strings are absent.
#[derive(Debug)]
struct Piece {
    index: Option<u64>,
    id: Option<String>,
    name: Option<String>,
    arguments: Option<String>,
}

impl Calls {
    /// Takes the calls of one chunk.
    pub(super) fn take(&mut self, deltas: &[CallDelta<'_>]) -> Result<(), TooMuch> {
        // Two entries of one chunk are two calls, unless their indices or ids say otherwise.
        let mut touched = Vec::new();
        for delta in deltas {
            let piece = Piece::of(delta);
            let at = match self.place(&piece, &touched) {
                Some(at) => at,
                None if self.begun.len() == MAX_CALLS => return Err(TooMuch),
                None => {
                    self.begun.push(Open::default());
                    self.begun.len() - 1
                }
            };
            touched.push(at);
            self.argument_bytes += piece.arguments.as_ref().map_or(0, String::len);
            if self.argument_bytes > MAX_ARGUMENT_BYTES {
                return Err(TooMuch);
            }
            self.begun[at].add(piece);
        }
        Ok(())
    }

    /// The next call that is complete although the stream goes on.
    pub(super) fn next_complete(&mut self) -> Option<ModelCall> {
        let call = self.begun.get(self.given)?;
        if self.given + 1 == self.begun.len() || call.name.is_empty() || !call.is_whole() {
            return None;
        }
        self.given += 1;
        Some(call.complete())
    }

    /// The calls that were not given out; the stream came to its end.
    pub(super) fn rest(&mut self) -> impl Iterator<Item = ModelCall> {
        let given = std::mem::replace(&mut self.given, self.begun.len());
        let real = |call: &&Open| !call.name.is_empty() || !call.arguments.is_empty();
        self.begun[given..].iter().filter(real).map(Open::complete)
    }

    /// Which call a delta belongs to; `None` for one that has not begun.
    fn place(&self, piece: &Piece, touched: &[usize]) -> Option<usize> {
        let latest = |fits: &dyn Fn(&Open) -> bool| self.begun.iter().rposition(fits);
        let by_id = piece.id.as_ref().and_then(|id| {
            latest(&|call| {
                call.id.as_ref() == Some(id)
                    && (piece.index.is_none() || call.index.is_none() || call.index == piece.index)
            })
        });
        if by_id.is_some() {
            return by_id;
        }
        let at = match piece.index {
            Some(index) => latest(&|call| call.index == Some(index))?,
            None => self.begun.len().checked_sub(1)?,
        };
        let call = &self.begun[at];
        let another = piece.name.is_some()
            && (touched.contains(&at)
                || call.has_other_id(piece)
                || (piece.says_something() && !call.is_sent_again(piece) && call.is_whole()));
        (!another).then_some(at)
    }
}

impl Piece {
    fn of(delta: &CallDelta<'_>) -> Self {
        let function = delta.function.as_ref();
        let string = |raw: Option<&RawValue>| nonempty(raw).map(Cow::into_owned);
        Self {
            index: number(delta.index),
            id: string(delta.id),
            name: string(function.and_then(|function| function.name)),
            arguments: function
                .and_then(|function| function.arguments)
                // An object where a string belongs is taken as its text.
                .map(|raw| text(raw).map_or_else(|| raw.get().to_owned(), Cow::into_owned))
                .filter(|arguments| !arguments.is_empty()),
        }
    }

    fn says_something(&self) -> bool {
        self.arguments.as_ref().is_some_and(|arguments| !arguments.trim().is_empty())
    }
}

impl Open {
    fn add(&mut self, piece: Piece) {
        self.index = self.index.or(piece.index);
        self.id = self.id.take().or(piece.id);
        if let Some(name) = piece.name {
            // Some send it in pieces, some send all of it each time.
            if name.starts_with(&self.name) {
                self.name = name;
            } else {
                self.name.push_str(&name);
            }
        }
        if let Some(arguments) = piece.arguments {
            self.add_arguments(&arguments);
        }
    }

    fn add_arguments(&mut self, more: &str) {
        if self.arguments.trim() == "{}" && more.trim_start().starts_with('{') {
            // It stood in for what comes now.
            self.arguments.clear();
        }
        if (more.trim().is_empty() || more == self.arguments) && self.is_whole() {
            // Nothing can follow an object; all of it again at the end is a habit of some.
            return;
        }
        self.arguments.push_str(more);
    }

    /// Whether its arguments are an object, from the first brace to the last.
    fn is_whole(&self) -> bool {
        self.arguments.trim_end().ends_with('}')
            && serde_json::from_str::<&RawValue>(&self.arguments)
                .is_ok_and(|raw| raw.get().starts_with('{'))
    }

    fn is_sent_again(&self, piece: &Piece) -> bool {
        piece.name.as_ref() == Some(&self.name) && piece.arguments.as_ref() == Some(&self.arguments)
    }

    fn has_other_id(&self, piece: &Piece) -> bool {
        matches!((&self.id, &piece.id), (Some(ours), Some(theirs)) if ours != theirs)
    }

    fn complete(&self) -> ModelCall {
        ModelCall {
            provider_call_id: self.id.clone(),
            name: self.name.clone(),
            arguments: arguments(&self.arguments),
        }
    }
}

/// The arguments as an object; no text and `null` are an empty one, and what is none stays text.
fn arguments(text: &str) -> Value {
    match text.trim() {
        "" | "null" => Value::Object(serde_json::Map::new()),
        trimmed => match serde_json::from_str(trimmed) {
            Ok(Value::Object(object)) => Value::Object(object),
            _ => Value::String(text.to_owned()),
        },
    }
}
