//! Bytes of an answer → model events, whatever the wire format: the splitting of a stream and its
//! proper end are the same for all, what an event means is an [`Assemble`]'s.
//!
//! Receives reads of an answer from `exchange`; hands events of the stream to a wire format's
//! assembler, and its model events back.

use std::borrow::Cow;
use std::collections::VecDeque;

use agentd_protocol::event::TurnErrorCode;
use agentd_protocol::session::Usage;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

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

    /// Its events.
    fn ready(&self) -> &Ready;

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
pub(super) struct Ready {
    events: VecDeque<ModelEvent>,
    /// Bytes of text and reasoning so far.
    said: usize,
    /// Calls so far.
    calls: usize,
}

impl Ready {
    pub(super) fn text(&mut self, piece: &str) {
        self.said += piece.len();
        match self.events.back_mut() {
            _ if piece.is_empty() => {}
            Some(ModelEvent::Text(text)) => text.push_str(piece),
            _ => self.push(ModelEvent::Text(piece.to_owned())),
        }
    }

    pub(super) fn reasoning(&mut self, piece: &str) {
        self.said += piece.len();
        match self.events.back_mut() {
            _ if piece.is_empty() => {}
            Some(ModelEvent::Reasoning(text)) => text.push_str(piece),
            _ => self.push(ModelEvent::Reasoning(piece.to_owned())),
        }
    }

    pub(super) fn push(&mut self, event: ModelEvent) {
        self.calls += usize::from(matches!(event, ModelEvent::Call(_)));
        self.events.push_back(event);
    }

    /// A report of usage, if there is one.
    pub(super) fn usage(&mut self, usage: Option<Usage>) {
        let Some(Usage { input, output, cache_read, cache_write, reasoning, cost_usd }) = usage
        else {
            return;
        };
        let [input, output, cache_read, cache_write, reasoning] =
            [input, output, cache_read, cache_write, reasoning].map(|n| n.min(MAX_TOKENS));
        let believed = Usage { input, output, cache_read, cache_write, reasoning, cost_usd };
        self.push(ModelEvent::Usage(believed));
    }

    pub(super) fn extend(&mut self, events: impl IntoIterator<Item = ModelEvent>) {
        self.events.extend(events);
    }

    pub(super) fn pop(&mut self) -> Option<ModelEvent> {
        self.events.pop_front()
    }

    /// `Err` says what an answer has too much of.
    fn bounded(&self) -> Result<(), String> {
        if self.said > MAX_SAID_BYTES {
            return Err(format!("its text is longer than {MAX_SAID_BYTES} bytes"));
        }
        if self.calls > MAX_CALLS {
            return Err(format!("it has more than {MAX_CALLS} tool calls"));
        }
        Ok(())
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

/// A part of an answer that is not worth the loss of the rest: nothing where it cannot be read.
pub(super) fn dispensable<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned,
{
    let value = Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).ok())
}

/// JSON whose strings can be read: a `\u` escape of half a character, which comes of a text that
/// was cut in the middle of one, becomes the replacement character. It is as long as before.
fn with_whole_characters(data: &[u8]) -> Cow<'_, [u8]> {
    let mut whole = Cow::Borrowed(data);
    let mut at = 0;
    while let Some(found) = data.get(at..).and_then(|rest| memchr::memchr(b'\\', rest)) {
        at += found;
        at += match (surrogate(data, at), surrogate(data, at + ESCAPE)) {
            (Some(0xD800..0xDC00), Some(0xDC00..0xE000)) => 2 * ESCAPE,
            (Some(_), _) => {
                whole.to_mut()[at..at + ESCAPE].copy_from_slice(b"\\ufffd");
                ESCAPE
            }
            // With what it escapes, which may be a backslash.
            (None, _) => 2,
        };
    }
    whole
}

/// Bytes of an escape like `\ud83d`.
const ESCAPE: usize = 6;

/// The half of a character whose escape stands at `at`.
fn surrogate(data: &[u8], at: usize) -> Option<u16> {
    let digits = data.get(at..at + ESCAPE)?.strip_prefix(b"\\u")?;
    let unit = u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (0xD800..0xE000).contains(&unit).then_some(unit)
}

/// The most tokens that a server is believed to have counted. Far above any window, and far below
/// where sums of them would end.
const MAX_TOKENS: u64 = 1 << 40;

/// The first bytes of an answer that are kept until it means something.
const START_BYTES: usize = 512;

/// The most bytes of one answer, so that a server which never ends does not fill the memory. The
/// longest answers of today, a chunk for each token, are a fifth of it.
const MAX_ANSWER_BYTES: usize = 256 * 1024 * 1024;

/// The most text and reasoning of one answer: far more than any model's limit, and all of it is held
/// in memory more than once until it is complete.
const MAX_SAID_BYTES: usize = 16 * 1024 * 1024;

/// Calls of one answer. Nobody asks for so many; a broken server may.
pub(super) const MAX_CALLS: usize = 1_024;

/// Reads one answer.
#[derive(Debug)]
pub(super) struct Decoder<A> {
    /// Bytes that it may still have.
    left: usize,
    /// The provider in messages.
    who: String,
    /// How it begins, until its first event.
    start: Option<Vec<u8>>,
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
        let (who, splitter) = (who.to_owned(), Splitter::new());
        Self { left: MAX_ANSWER_BYTES, who, start: Some(Vec::new()), splitter, assembler }
    }

    /// Takes the next bytes of a stream.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<(), ModelError> {
        let Self { splitter, assembler, who, left, start } = self;
        *left = left.checked_sub(bytes.len()).ok_or_else(|| {
            bad(who, format_args!("its answer is longer than {MAX_ANSWER_BYTES} bytes"))
        })?;
        if let Some(start) = start {
            let room = START_BYTES.saturating_sub(start.len());
            start.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
        let sink = &mut |event: Event<'_>| {
            *start = None;
            let data = with_whole_characters(event.data);
            assembler.take(Event { data: &data, ..event }, false).map_err(Fault::Model)?;
            assembler.ready().bounded().map_err(|what| Fault::Model(bad(who, what)))
        };
        splitter.feed(bytes, sink).map_err(|fault| fault.of(who))
    }

    /// The connection was closed. Fails if the answer was not complete.
    pub(super) fn close(&mut self) -> Result<(), ModelError> {
        let Self { splitter, assembler, who, start, .. } = self;
        let sink = &mut |event: Event<'_>| {
            let data = with_whole_characters(event.data);
            assembler.take(Event { data: &data, ..event }, true).map_err(Fault::Model)
        };
        splitter.finish(sink).map_err(|fault| fault.of(who))?;
        if assembler.is_done() {
            return Ok(());
        }
        if !assembler.is_finished() {
            if let Some(start) = start.take().filter(|start| !begins_a_stream(start)) {
                let start = excerpt(&String::from_utf8_lossy(&start));
                return Err(bad(
                    who,
                    format_args!(
                        "it answered with status 200 and something that is no stream; check \
                         `base_url`; it starts: {start}"
                    ),
                ));
            }
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
        self.assembler.whole(&with_whole_characters(body))
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

/// Whether an answer without any event may be the start of one that broke off: its first line, if
/// it has one, begins with a field, a comment or JSON.
fn begins_a_stream(start: &[u8]) -> bool {
    let start = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start).trim_ascii_start();
    let end = start.iter().position(|byte| b":\r\n".contains(byte)).unwrap_or(start.len());
    let field = &start[..end];
    field.starts_with(b"{")
        || ["data", "event", "id", "retry"].iter().any(|known| known.as_bytes().starts_with(field))
}

/// An error in our own words about what `who` sent.
pub(super) fn bad(who: &str, what: impl std::fmt::Display) -> ModelError {
    ModelError::new(TurnErrorCode::BadResponse, format!("{who}: {what}"))
}
