//! Server-sent events: bytes of a stream → events.
//!
//! Our own, because it has to be more tolerant than the standard and than the crates for it: lines
//! end with `\n`, `\r\n` or `\r`, reads may cut anywhere (inside a character or between `\r` and
//! `\n`), the last event may lack its blank line, and an error may come as bare JSON without a
//! `data:` in front. It works on bytes, so no character is ever decoded in halves.
//!
//! Invariants: the events do not depend on how the bytes were cut; memory is bounded by
//! [`MAX_EVENT_BYTES`].
//!
//! Receives reads of a response's body; hands events to a wire format's own reader.

#[cfg(test)]
mod tests;

/// The longest line, and the most data of one event: a whole file may come as one argument.
pub(super) const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// One event. Fields other than these say nothing to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event<'a> {
    /// The `event` field; empty if there was none.
    pub(super) name: &'a [u8],
    /// The `data` lines, joined by `\n`; may be empty.
    pub(super) data: &'a [u8],
}

/// A line or an event is longer than [`MAX_EVENT_BYTES`]. Nothing sensible follows.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is longer than {MAX_EVENT_BYTES} bytes")]
pub(super) struct TooLong;

/// Cuts bytes into events.
#[derive(Debug)]
pub(super) struct Splitter {
    /// The start of a line whose end was not seen yet.
    line: Vec<u8>,
    name: Vec<u8>,
    data: Vec<u8>,
    /// Whether the event has a data line, be it an empty one.
    has_data: bool,
    /// The last read ended with `\r`: a `\n` that comes now belongs to it.
    after_cr: bool,
    /// No line was seen yet: it may start with a byte order mark.
    at_start: bool,
    limit: usize,
}

impl Splitter {
    pub(super) fn new() -> Self {
        Self::with_limit(MAX_EVENT_BYTES)
    }

    fn with_limit(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            name: Vec::new(),
            data: Vec::new(),
            has_data: false,
            after_cr: false,
            at_start: true,
            limit,
        }
    }

    /// Takes the next bytes and hands each event that they complete to `sink`, until it fails.
    pub(super) fn feed<E: From<TooLong>>(
        &mut self,
        bytes: &[u8],
        sink: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut rest = bytes;
        if !rest.is_empty() && std::mem::take(&mut self.after_cr) {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = memchr::memchr2(b'\n', b'\r', rest) {
            let (line, after) = rest.split_at(end);
            rest = &after[1..];
            if after[0] == b'\r' {
                self.after_cr = rest.is_empty();
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
            if self.line.is_empty() {
                self.take_line(line, sink)?;
            } else {
                self.keep(line)?;
                let whole = std::mem::take(&mut self.line);
                self.take_line(&whole, sink)?;
                // Back with its memory.
                self.line = whole;
                self.line.clear();
            }
        }
        self.keep(rest)?;
        Ok(())
    }

    /// The stream is over: hands out what came without an end, be it a whole event or a part.
    pub(super) fn finish<E: From<TooLong>>(
        &mut self,
        sink: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.take_line(&line, sink)?;
        }
        self.dispatch(sink)
    }

    fn keep(&mut self, piece: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + piece.len() > self.limit {
            return Err(TooLong);
        }
        self.line.extend_from_slice(piece);
        Ok(())
    }

    fn take_line<E: From<TooLong>>(
        &mut self,
        line: &[u8],
        sink: &mut impl FnMut(Event<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let marked = std::mem::take(&mut self.at_start);
        let line = line.strip_prefix(b"\xEF\xBB\xBF").filter(|_| marked).unwrap_or(line);
        match line.first() {
            None => return self.dispatch(sink),
            // A comment, sent to keep the connection alive.
            Some(b':') => return Ok(()),
            Some(b'{') if line.ends_with(b"}") => {
                self.dispatch(sink)?;
                self.take_data(line)?;
                return self.dispatch(sink);
            }
            Some(_) => {}
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => self.take_data(value)?,
            b"event" => {
                self.name.clear();
                self.name.extend_from_slice(value);
            }
            _ => {}
        }
        Ok(())
    }

    fn take_data(&mut self, value: &[u8]) -> Result<(), TooLong> {
        if self.data.len() + value.len() >= self.limit {
            return Err(TooLong);
        }
        if std::mem::replace(&mut self.has_data, true) {
            self.data.push(b'\n');
        }
        self.data.extend_from_slice(value);
        Ok(())
    }

    fn dispatch<E>(&mut self, sink: &mut impl FnMut(Event<'_>) -> Result<(), E>) -> Result<(), E> {
        let result = if std::mem::take(&mut self.has_data) {
            sink(Event { name: &self.name, data: &self.data })
        } else {
            Ok(())
        };
        self.name.clear();
        self.data.clear();
        result
    }
}
