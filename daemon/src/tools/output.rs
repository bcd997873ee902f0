//! What a model gets to read of a tool's output: all of it, or its head and tail.
//!
//! At most [`MAX_BYTES`] and [`MAX_LINES`]; of more, the head and the tail are kept: the start says
//! what was done, the end how it went. What is dropped between them is counted, and the whole
//! output is kept in a file that the model can read. Memory is bounded however long the output is,
//! and every cut falls between two characters.
//!
//! Receives bytes from the tools; hands them the text for the model and the place of the rest.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use agentd_protocol::item::FullOutput;
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use super::file;

/// Bytes of UTF-8 for the model.
pub const MAX_BYTES: usize = 50 * 1024;

/// Lines for the model.
pub const MAX_LINES: usize = 2_000;

/// What is shown whole: the rest is for a tool's own words around it.
const WHOLE_BYTES: usize = MAX_BYTES - 512;
const WHOLE_LINES: u64 = MAX_LINES as u64 - 10;

/// What is kept of more. The tail is a little longer: that is where errors are; 1 KiB is for the
/// note between them, and for those words.
const HEAD_BYTES: usize = 23 * 1024;
const TAIL_BYTES: usize = 26 * 1024;
const HEAD_LINES: usize = 900;
const TAIL_LINES: usize = 1_090;

/// What is kept on disk of one output, so that an endless one does not fill it.
const MAX_KEPT_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes to text, piece by piece: a character that is cut by the end of a piece waits for the next.
#[derive(Debug, Default)]
pub struct Decoder {
    waiting: Vec<u8>,
}

impl Decoder {
    /// The text of these bytes; what is no UTF-8 is replaced.
    pub fn decode(&mut self, bytes: &[u8]) -> String {
        let joined;
        let bytes = if self.waiting.is_empty() {
            bytes
        } else {
            self.waiting.extend_from_slice(bytes);
            joined = std::mem::take(&mut self.waiting);
            &joined
        };
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            match chunk.invalid() {
                [] => {}
                invalid if chunks.peek().is_none() && is_cut_short(invalid) => {
                    self.waiting = invalid.to_vec();
                }
                _ => text.push(char::REPLACEMENT_CHARACTER),
            }
        }
        text
    }

    /// The rest, when no more bytes come.
    pub fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.waiting).is_empty() { "" } else { "\u{FFFD}" }
    }
}

/// The start of a character without its end.
fn is_cut_short(invalid: &[u8]) -> bool {
    std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none())
}

/// Collects an output.
#[derive(Debug)]
pub struct Output {
    directory: PathBuf,
    /// Everything, or the head once something was dropped.
    head: String,
    /// The end, at most twice what is kept of it; empty until something was dropped.
    tail: String,
    bytes: u64,
    lines: u64,
    keeper: Option<Keeper>,
}

/// An output as the model gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// At most [`MAX_BYTES`] and [`MAX_LINES`].
    pub text: String,
    /// Where all of it is, if it was cut.
    pub full: Option<FullOutput>,
}

impl Output {
    /// An empty output; if it has to be cut, all of it is kept in this directory.
    pub fn new(directory: &Path) -> Self {
        Self {
            directory: directory.to_owned(),
            head: String::new(),
            tail: String::new(),
            bytes: 0,
            lines: 0,
            keeper: None,
        }
    }

    /// A whole text at once.
    pub fn of(directory: &Path, text: &str) -> Shown {
        let mut output = Self::new(directory);
        output.push(text);
        output.finish()
    }

    /// The last character so far ends a line, or there is none.
    pub fn at_line_start(&self) -> bool {
        let last = if self.keeper.is_some() { &self.tail } else { &self.head };
        last.is_empty() || last.ends_with('\n')
    }

    /// Adds text. Writes to disk once something has to be dropped.
    pub fn push(&mut self, text: &str) {
        self.bytes += text.len() as u64;
        self.lines += newlines(text) as u64;
        if let Some(keeper) = &mut self.keeper {
            keeper.write(text);
            self.tail.push_str(text);
        } else {
            self.head.push_str(text);
            if self.head.len() <= WHOLE_BYTES && self.lines <= WHOLE_LINES {
                return;
            }
            let mut keeper = Keeper::new(&self.directory);
            keeper.write(&self.head);
            self.keeper = Some(keeper);
            let cut = end_of_head(&self.head);
            self.tail = self.head.split_off(cut);
        }
        if self.tail.len() > 2 * TAIL_BYTES {
            let drop = self.tail.floor_char_boundary(self.tail.len() - TAIL_BYTES);
            self.tail.drain(..drop);
        }
    }

    /// The text for the model.
    pub fn finish(self) -> Shown {
        let Some(keeper) = self.keeper else {
            return Shown { text: self.head, full: None };
        };
        let tail = &self.tail[start_of_tail(&self.tail)..];
        let dropped = self.bytes - (self.head.len() + tail.len()) as u64;
        let lines = self.lines.saturating_sub((newlines(&self.head) + newlines(tail)) as u64);
        let (place, full) = match keeper.finish() {
            Ok(full) if full.bytes == self.bytes => {
                (format!("all of it is in {}", full.path), Some(full))
            }
            Ok(full) => {
                (format!("the first {} bytes are in {}", full.bytes, full.path), Some(full))
            }
            Err(cause) => (format!("it could not be kept: {cause}"), None),
        };
        let line_end = if self.head.ends_with('\n') { "" } else { "\n" };
        let head = self.head;
        let text =
            format!("{head}{line_end}[{dropped} bytes ({lines} lines) left out; {place}]\n{tail}");
        Shown { text, full }
    }
}

/// Where the head ends: within its limits, after a line if there is one in its second half.
fn end_of_head(text: &str) -> usize {
    let by_bytes = text.floor_char_boundary(HEAD_BYTES.min(text.len()));
    let by_lines = memchr::memchr_iter(b'\n', text.as_bytes()).nth(HEAD_LINES - 1);
    let end = by_lines.map_or(by_bytes, |at| by_bytes.min(at + 1));
    match text[..end].rfind('\n') {
        Some(at) if at >= end / 2 => at + 1,
        _ => end,
    }
}

/// Where the tail starts, likewise.
fn start_of_tail(text: &str) -> usize {
    let by_bytes = text.ceil_char_boundary(text.len().saturating_sub(TAIL_BYTES));
    let by_lines = memchr::memrchr_iter(b'\n', text.as_bytes()).nth(TAIL_LINES);
    let start = by_lines.map_or(by_bytes, |at| by_bytes.max(at + 1));
    match text[start..].find('\n') {
        Some(at) if start > 0 && at < (text.len() - start) / 2 => start + at + 1,
        _ => start,
    }
}

fn newlines(text: &str) -> usize {
    memchr::memchr_iter(b'\n', text.as_bytes()).count()
}

/// The whole output on its way to a file named by its hash.
#[derive(Debug)]
struct Keeper {
    directory: PathBuf,
    file: io::Result<NamedTempFile>,
    hash: Sha256,
    bytes: u64,
}

impl Keeper {
    fn new(directory: &Path) -> Self {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
        let file = made.and_then(|()| NamedTempFile::new_in(directory));
        Self { directory: directory.to_owned(), file, hash: Sha256::new(), bytes: 0 }
    }

    /// Keeps what fits; a failure ends the keeping and is told at the end.
    fn write(&mut self, text: &str) {
        let Ok(file) = &mut self.file else { return };
        let room = usize::try_from(MAX_KEPT_BYTES - self.bytes).unwrap_or(usize::MAX);
        let text = &text[..text.floor_char_boundary(room.min(text.len()))];
        match file.write_all(text.as_bytes()) {
            Ok(()) => {
                self.hash.update(text);
                self.bytes += text.len() as u64;
            }
            Err(error) => self.file = Err(error),
        }
    }

    fn finish(self) -> io::Result<FullOutput> {
        let name = format!("{}.txt", file::hex(&self.hash.finalize()));
        let path = self.directory.join(name);
        self.file?.persist(&path).map_err(|failed| failed.error)?;
        Ok(FullOutput { path: path.display().to_string(), bytes: self.bytes })
    }
}
