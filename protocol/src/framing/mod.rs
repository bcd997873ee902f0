//! Framing: bytes of a connection to messages and back, for both kinds, without I/O.
//!
//! A connection speaks *lines* (one JSON text a line) or *headers* (`Content-Length: N`, as in
//! LSP). The first byte tells which, for its whole life: no JSON text starts with a `C`. Written
//! as a codec without a runtime so that daemon, client and tests decode with the same code.
//!
//! Invariants: how the bytes were cut into reads changes nothing about the frames; the buffer
//! never holds more than one message of the greatest size; what was scanned is not scanned again;
//! a message that is too long is told once and skipped unread.
//!
//! Receives bytes from a socket; hands [`Frame`]s to the daemon's dispatcher and the client's
//! transport.

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

#[cfg(test)]
mod tests;

/// The greatest message unless the configuration says otherwise: 16 MiB.
pub const DEFAULT_MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;
/// How much of a message that is too long is kept, so that its id can be looked for: 4 KiB.
pub const HEAD_BYTES: usize = 4 * 1024;
/// A message that is too long is skipped up to this size (or four times the greatest message,
/// whichever is more), then the connection is given up: 64 MiB.
pub const MAX_SKIPPED_BYTES: usize = 64 * 1024 * 1024;
/// The longest header line and the longest block of headers: 8 KiB.
const MAX_HEADER_BYTES: usize = 8 * 1024;

/// How messages are told apart on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framing {
    /// One JSON text a line.
    Lines,
    /// `Content-Length: N`, a blank line, N bytes.
    Headers,
}

impl Framing {
    /// The framing of a connection whose first byte is `first`.
    pub fn of(first: u8) -> Self {
        if first.eq_ignore_ascii_case(&b'c') { Self::Headers } else { Self::Lines }
    }
}

/// What the bytes held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// One message, without its framing. Whether it is JSON is not looked at.
    Message(Bytes),
    /// A message over the limit. It is skipped; the connection goes on.
    Oversize {
        /// Its first [`HEAD_BYTES`], or as much as the limit where that is less.
        head: Bytes,
    },
    /// The connection cannot go on: nothing more is decoded.
    Fatal(Fault),
}

/// Why a connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A message that is too long does not end.
    #[error("a message went on for more than {limit} bytes")]
    Endless {
        /// How far it was followed, in bytes.
        limit: usize,
    },
    /// The headers do not end.
    #[error("the headers of a message are longer than {MAX_HEADER_BYTES} bytes")]
    LongHeaders,
    /// A header line that is none.
    #[error("`{line}` is no header: expected `Content-Length: N`")]
    BadHeader {
        /// The line, cut.
        line: String,
    },
    /// A blank line came before a length.
    #[error("the headers of a message have no Content-Length")]
    NoLength,
    /// A length that is no number, or a second one that differs.
    #[error("`{value}` is no Content-Length: expected one number of bytes")]
    BadLength {
        /// What was given, cut.
        value: String,
    },
    /// The connection ended within a message.
    #[error("the connection ended within a message")]
    Truncated,
}

/// What the decoder is in the middle of.
#[derive(Debug, Clone, Copy)]
enum State {
    /// A line, or the headers of a message. `scanned` bytes of the buffer hold no newline.
    Line { scanned: usize },
    /// The body of a message of `length` bytes.
    Body { length: u64 },
    /// A line that is too long; `seen` bytes of it are gone.
    SkipLine { seen: usize },
    /// A body that is too long; `seen` bytes of it are gone and `left` are to come.
    SkipBody { seen: usize, left: u64 },
    /// Nothing more.
    Dead,
}

/// Turns bytes into frames. One for each direction of a connection.
#[derive(Debug)]
pub struct Decoder {
    max: usize,
    framing: Option<Framing>,
    state: State,
    length: Option<u64>,
    header_bytes: usize,
}

impl Decoder {
    /// A decoder for messages of at most `max_message_bytes`, which finds out the framing.
    pub fn new(max_message_bytes: usize) -> Self {
        Self {
            max: max_message_bytes,
            framing: None,
            state: State::Line { scanned: 0 },
            length: None,
            header_bytes: 0,
        }
    }

    /// A decoder for one framing: what a client uses, which chose it.
    pub fn with_framing(max_message_bytes: usize, framing: Framing) -> Self {
        Self { framing: Some(framing), ..Self::new(max_message_bytes) }
    }

    /// The connection's framing; `None` before its first byte.
    pub fn framing(&self) -> Option<Framing> {
        self.framing
    }

    /// The next frame in `buffer`, whose bytes it takes out; `None` when more are needed.
    pub fn decode(&mut self, buffer: &mut BytesMut) -> Option<Frame> {
        loop {
            if buffer.is_empty() && !matches!(self.state, State::Body { length: 0 }) {
                return None;
            }
            let framing = *self.framing.get_or_insert_with(|| Framing::of(buffer[0]));
            let step = match (self.state, framing) {
                (State::Line { scanned }, Framing::Lines) => self.line(buffer, scanned),
                (State::Line { scanned }, Framing::Headers) => self.header(buffer, scanned),
                (State::Body { length }, _) => self.body(buffer, length),
                (State::SkipLine { seen }, _) => self.skip_line(buffer, seen),
                (State::SkipBody { seen, left }, _) => self.skip_body(buffer, seen, left),
                (State::Dead, _) => {
                    buffer.clear();
                    Step::More
                }
            };
            match step {
                Step::Again => {}
                Step::More => return None,
                Step::Yield(frame) => return Some(frame),
            }
        }
    }

    /// As [`Self::decode`], when no more bytes will come: a last line needs no newline.
    pub fn decode_eof(&mut self, buffer: &mut BytesMut) -> Option<Frame> {
        if let Some(frame) = self.decode(buffer) {
            return Some(frame);
        }
        let framing = self.framing?;
        let state = std::mem::replace(&mut self.state, State::Dead);
        let rest = buffer.split().freeze();
        match (state, framing) {
            (State::Dead | State::SkipLine { .. } | State::SkipBody { .. }, _) => None,
            (State::Line { .. }, Framing::Lines) => message(&rest),
            (State::Line { .. }, Framing::Headers) if rest.is_empty() && self.header_bytes == 0 => {
                None
            }
            (State::Line { .. } | State::Body { .. }, _) => Some(Frame::Fatal(Fault::Truncated)),
        }
    }

    fn line(&mut self, buffer: &mut BytesMut, scanned: usize) -> Step {
        match memchr(b'\n', &buffer[scanned..]) {
            Some(at) => {
                let end = scanned + at;
                if without_return(&buffer[..end]).len() > self.max {
                    return self.oversize_line(buffer);
                }
                let line = buffer.split_to(end + 1).freeze();
                self.state = State::Line { scanned: 0 };
                message(&line.slice(..end)).map_or(Step::Again, Step::Yield)
            }
            None if self.surely_oversize(buffer) => self.oversize_line(buffer),
            None => {
                self.state = State::Line { scanned: buffer.len() };
                Step::More
            }
        }
    }

    /// One byte more than the limit may be a `\r`; two more cannot.
    fn surely_oversize(&self, line: &[u8]) -> bool {
        line.len() > self.max + 1 || (line.len() > self.max && line[self.max] != b'\r')
    }

    fn oversize_line(&mut self, buffer: &BytesMut) -> Step {
        self.state = State::SkipLine { seen: 0 };
        Step::Yield(Frame::Oversize { head: self.head(buffer) })
    }

    fn skip_line(&mut self, buffer: &mut BytesMut, seen: usize) -> Step {
        let end = memchr(b'\n', buffer);
        let seen = seen + end.unwrap_or(buffer.len());
        if seen > self.skip_limit() {
            return self.fail(buffer, Fault::Endless { limit: self.skip_limit() });
        }
        if let Some(end) = end {
            buffer.advance(end + 1);
            self.state = State::Line { scanned: 0 };
            Step::Again
        } else {
            buffer.clear();
            self.state = State::SkipLine { seen };
            Step::More
        }
    }

    fn header(&mut self, buffer: &mut BytesMut, scanned: usize) -> Step {
        let Some(at) = memchr(b'\n', &buffer[scanned..]) else {
            if self.header_bytes + buffer.len() > MAX_HEADER_BYTES {
                return self.fail(buffer, Fault::LongHeaders);
            }
            self.state = State::Line { scanned: buffer.len() };
            return Step::More;
        };
        let line = buffer.split_to(scanned + at + 1);
        self.state = State::Line { scanned: 0 };
        self.header_bytes += line.len();
        // The newline may be the byte after the limit, as in the branch without one.
        if self.header_bytes > MAX_HEADER_BYTES + 1 {
            return self.fail(buffer, Fault::LongHeaders);
        }
        let line = line.trim_ascii();
        if !line.is_empty() {
            return match content_length(line, self.length) {
                Ok(length) => {
                    self.length = length;
                    Step::Again
                }
                Err(fault) => self.fail(buffer, fault),
            };
        }
        self.header_bytes = 0;
        match self.length.take() {
            Some(length) => {
                self.state = State::Body { length };
                Step::Again
            }
            None => self.fail(buffer, Fault::NoLength),
        }
    }

    fn body(&mut self, buffer: &mut BytesMut, length: u64) -> Step {
        if length > self.max as u64 {
            if buffer.len() < self.max.min(HEAD_BYTES) {
                return Step::More;
            }
            self.state = State::SkipBody { seen: 0, left: length };
            return Step::Yield(Frame::Oversize { head: self.head(buffer) });
        }
        let length = usize::try_from(length).expect("it is at most a usize");
        if buffer.len() < length {
            buffer.reserve(length - buffer.len());
            return Step::More;
        }
        self.state = State::Line { scanned: 0 };
        Step::Yield(Frame::Message(buffer.split_to(length).freeze()))
    }

    fn skip_body(&mut self, buffer: &mut BytesMut, seen: usize, left: u64) -> Step {
        let gone = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let seen = seen + gone;
        if seen > self.skip_limit() {
            return self.fail(buffer, Fault::Endless { limit: self.skip_limit() });
        }
        buffer.advance(gone);
        let left = left - gone as u64;
        if left == 0 {
            self.state = State::Line { scanned: 0 };
            return Step::Again;
        }
        self.state = State::SkipBody { seen, left };
        Step::More
    }

    fn fail(&mut self, buffer: &mut BytesMut, fault: Fault) -> Step {
        self.state = State::Dead;
        buffer.clear();
        Step::Yield(Frame::Fatal(fault))
    }

    fn head(&self, bytes: &[u8]) -> Bytes {
        Bytes::copy_from_slice(&bytes[..self.max.min(HEAD_BYTES).min(bytes.len())])
    }

    fn skip_limit(&self) -> usize {
        self.max.saturating_mul(4).max(MAX_SKIPPED_BYTES)
    }
}

/// What to do after a look at the buffer.
enum Step {
    /// The state changed: look again.
    Again,
    /// More bytes are needed.
    More,
    /// A frame is ready.
    Yield(Frame),
}

/// A line's message: none where it is blank.
fn message(line: &Bytes) -> Option<Frame> {
    let line = line.slice_ref(without_return(line));
    (!line.trim_ascii().is_empty()).then_some(Frame::Message(line))
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The length after this header line; `known` is the one of an earlier line.
fn content_length(line: &[u8], known: Option<u64>) -> Result<Option<u64>, Fault> {
    let shown = |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
    let colon = memchr(b':', line).ok_or_else(|| Fault::BadHeader { line: shown(line) })?;
    if !line[..colon].trim_ascii().eq_ignore_ascii_case(b"content-length") {
        return Ok(known);
    }
    let value = line[colon + 1..].trim_ascii();
    let digits = value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value)
        .ok()
        .filter(|_| digits)
        .and_then(|value| value.parse().ok())
        .filter(|length| known.is_none_or(|known| known == *length))
        .map(Some)
        .ok_or_else(|| Fault::BadLength { value: shown(value) })
}

/// Puts `payload`, which is one JSON text, into `out` with its framing.
///
/// Between the tokens of a JSON text a line break is only white space (within a string it is
/// escaped), so in a line it becomes a space.
pub fn encode(framing: Framing, payload: &[u8], out: &mut BytesMut) {
    match framing {
        Framing::Lines => {
            out.reserve(payload.len() + 1);
            let start = out.len();
            out.extend_from_slice(payload);
            let mut from = start;
            while let Some(at) = memchr(b'\n', &out[from..]) {
                out[from + at] = b' ';
                from += at + 1;
            }
            out.extend_from_slice(b"\n");
        }
        Framing::Headers => {
            let header = format!("Content-Length: {}\r\n\r\n", payload.len());
            out.reserve(header.len() + payload.len());
            out.extend_from_slice(header.as_bytes());
            out.extend_from_slice(payload);
        }
    }
}
