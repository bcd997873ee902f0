//! Bytes of an answer → model events, whatever the wire format: the splitting of a stream and its
//! proper end are the same for all, what an event means is an [`Assemble`]'s.
//!
//! Receives reads of an answer from `exchange`; hands events of the stream to a wire format's
//! assembler, and its model events back.

use std::collections::VecDeque;

use agentd_protocol::event::TurnErrorCode;
use serde::Deserialize;

use super::failure::excerpt;
use super::sse::{Event, Splitter, TooLong};
use super::{ModelError, ModelEvent};

/// Puts one answer together from the events of its stream.
pub(super) trait Assemble {
    /// Takes an event. `at_end` says that the connection is closed: it may be a part of one.
    fn take(&mut self, event: Event<'_>, at_end: bool) -> Result<(), ModelError>;

    /// Takes a whole answer: a JSON object of a server that does not stream.
    fn whole(&mut self, body: &[u8]) -> Result<(), ModelError>;

    /// The next event that is ready.
    fn pop(&mut self) -> Option<ModelEvent>;

    /// The answer is complete; at most usage and a last word follow.
    fn is_finished(&self) -> bool;

    /// Makes the calls, the usage and the end of a complete answer ready, once.
    fn done(&mut self);

    /// The answer is over, all its events are ready.
    fn is_done(&self) -> bool;

    /// Makes the usage so far ready: a request that fails is paid for too.
    fn flush_usage(&mut self);
}

/// Events that are ready, in order. Pieces that come together are one event.
#[derive(Debug, Default)]
pub(super) struct Ready(VecDeque<ModelEvent>);

impl Ready {
    pub(super) fn text(&mut self, piece: &str) {
        match self.0.back_mut() {
            _ if piece.is_empty() => {}
            Some(ModelEvent::Text(text)) => text.push_str(piece),
            _ => self.push(ModelEvent::Text(piece.to_owned())),
        }
    }

    pub(super) fn reasoning(&mut self, piece: &str) {
        match self.0.back_mut() {
            _ if piece.is_empty() => {}
            Some(ModelEvent::Reasoning(text)) => text.push_str(piece),
            _ => self.push(ModelEvent::Reasoning(piece.to_owned())),
        }
    }

    pub(super) fn push(&mut self, event: ModelEvent) {
        self.0.push_back(event);
    }

    pub(super) fn extend(&mut self, events: impl IntoIterator<Item = ModelEvent>) {
        self.0.extend(events);
    }

    pub(super) fn pop(&mut self) -> Option<ModelEvent> {
        self.0.pop_front()
    }
}

/// The JSON of an event; `kind` is what it is called in messages. Nothing where the stream ended in
/// the middle of it: the answer may be complete without it.
pub(super) fn json<'a, T: Deserialize<'a>>(
    who: &str,
    kind: &str,
    text: &'a str,
    at_end: bool,
) -> Result<Option<T>, ModelError> {
    match serde_json::from_str(text) {
        Ok(read) => Ok(Some(read)),
        Err(_) if at_end => Ok(None),
        Err(error) => {
            Err(bad(who, format_args!("{kind} cannot be read ({error}): {}", excerpt(text))))
        }
    }
}

/// The most bytes of one answer, so that a server which never ends does not fill the memory. The
/// longest answers of today, a chunk for each token, are a fifth of it.
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// Reads one answer.
#[derive(Debug)]
pub(super) struct Decoder<A> {
    /// Bytes that it may still have.
    left: usize,
    /// The provider in messages.
    who: String,
    splitter: Splitter,
    assembler: A,
}

/// What splitting an answer fails with.
#[derive(Debug)]
enum Fault {
    Size(TooLong),
    Model(ModelError),
}

impl From<TooLong> for Fault {
    fn from(size: TooLong) -> Self {
        Self::Size(size)
    }
}

impl Fault {
    fn of(self, who: &str) -> ModelError {
        match self {
            Self::Model(error) => error,
            Self::Size(too_long) => bad(who, too_long),
        }
    }
}

impl<A: Assemble> Decoder<A> {
    /// A decoder of an answer of `who`.
    pub(super) fn new(who: &str, assembler: A) -> Self {
        Self { left: MAX_ANSWER_BYTES, who: who.to_owned(), splitter: Splitter::new(), assembler }
    }

    /// Takes the next bytes of a stream.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(), ModelError> {
        let Self { splitter, assembler, who, left } = self;
        *left = left.checked_sub(bytes.len()).ok_or_else(|| {
            bad(who, format_args!("its answer is longer than {MAX_ANSWER_BYTES} bytes"))
        })?;
        let sink = &mut |event: Event<'_>| assembler.take(event, false).map_err(Fault::Model);
        splitter.feed(bytes, sink).map_err(|fault| fault.of(who))
    }

    /// The connection was closed. Fails if the answer was not complete.
    pub(super) fn close(&mut self) -> Result<(), ModelError> {
        let Self { splitter, assembler, who, .. } = self;
        let sink = &mut |event: Event<'_>| assembler.take(event, true).map_err(Fault::Model);
        splitter.finish(sink).map_err(|fault| fault.of(who))?;
        if assembler.is_done() {
            return Ok(());
        }
        if !assembler.is_finished() {
            let message = format!("{who}: the stream ended before the answer did");
            let error = ModelError::retryable(TurnErrorCode::ProviderUnreachable, message);
            return Err(ModelError { broken: true, ..error });
        }
        assembler.done();
        Ok(())
    }

    /// Takes a whole answer: JSON of a server that does not stream.
    pub(super) fn whole(&mut self, body: &[u8]) -> Result<(), ModelError> {
        if !body.trim_ascii_start().starts_with(b"{") {
            // A stream under a wrong name.
            self.feed(body)?;
            return self.close();
        }
        self.assembler.whole(body)
    }

    /// The next event that is ready.
    pub(super) fn pop(&mut self) -> Option<ModelEvent> {
        self.assembler.pop()
    }

    /// The answer is over, all its events are ready.
    pub(super) fn is_done(&self) -> bool {
        self.assembler.is_done()
    }

    /// The answer is complete; at most usage and a last word follow.
    pub(super) fn is_finished(&self) -> bool {
        self.assembler.is_finished()
    }

    /// Makes the usage so far ready: a request that fails is paid for too.
    pub(super) fn flush_usage(&mut self) {
        self.assembler.flush_usage();
    }
}

/// An error in our own words about what `who` sent.
pub(super) fn bad(who: &str, what: impl std::fmt::Display) -> ModelError {
    ModelError::new(TurnErrorCode::BadResponse, format!("{who}: {what}"))
}
