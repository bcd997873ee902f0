//! `read`: a file's lines with their numbers, or an image.
//!
//! The file is read as a stream, so its size costs time and no memory; its hash is taken on the
//! way, which is what lets `write` and `edit` notice that it changed. Carriage returns and a BOM
//! are not shown: an edit matches without them.
//!
//! Receives calls through `builtin`; hands back numbered lines.

use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use agentd_protocol::item::Part;
use agentd_protocol::permission::Risk;
use base64::Engine;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{approved_path, on_a_thread, parse, spec};
use crate::permission::{ApprovedCall, PathAccess};
use crate::tools::file::{self, BOM};
use crate::tools::{
    FileSeen, Prepared, Run, Tool, ToolContext, ToolOutput, ToolSpec, diff, output, path,
};

/// Bytes shown of one line.
const MAX_LINE_BYTES: usize = 2_000;

/// Bytes shown in all, with room for a note below [`output::MAX_BYTES`].
const MAX_SHOWN_BYTES: usize = output::MAX_BYTES - 1_024;

/// The largest file that is hashed, and counted to its end.
const MAX_HASHED_BYTES: u64 = 64 * 1024 * 1024;

/// The largest image that is handed to a model.
const MAX_IMAGE_BYTES: u64 = 5 * 1024 * 1024;

/// Enough to see what kind of file it is.
const BUFFER_BYTES: usize = 64 * 1024;

#[derive(Deserialize)]
struct Arguments {
    path: String,
    offset: Option<u64>,
    limit: Option<usize>,
}

pub(super) struct Read(ToolSpec);

impl Read {
    pub(super) fn new() -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "path": { "type": "string", "description": "The file: absolute, or relative to the working directory." },
                "offset": { "type": "integer", "minimum": 1, "description": "The first line to show, from 1." },
                "limit": { "type": "integer", "minimum": 1, "description": "The number of lines to show; 2000 if absent." }
            },
            "required": ["path"],
            "additionalProperties": false
        });
        let description = "Read a text file, or look at an image. Lines come with their numbers, \
            which are not part of the file. Use offset and limit for long files. For a directory \
            use list.";
        Self(spec("read", description, Risk::Read, schema))
    }
}

impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn prepare(&self, arguments: &Value, context: &ToolContext) -> Result<Prepared, String> {
        let Arguments { path, offset, limit } = parse(arguments)?;
        let resolved = path::resolve(&path, context).map_err(|error| error.to_string())?;
        let from = offset.map_or(String::new(), |offset| format!(" from line {offset}"));
        let many = limit.map_or(String::new(), |limit| format!(", {limit} lines"));
        let shown = resolved.shown();
        Ok(super::reading(&format!("read {shown}{from}{many}"), &resolved))
    }

    fn run<'a>(&'a self, call: &'a ApprovedCall, run: Run) -> BoxFuture<'a, ToolOutput> {
        on_a_thread(call, run, read)
    }
}

fn read(call: &ApprovedCall, run: &Run) -> Result<ToolOutput, String> {
    let arguments: Arguments = parse(call.arguments())?;
    let path = approved_path(call, PathAccess::Read)?;
    let opened = file::open(path).map_err(|error| advise(&error, &arguments.path))?;
    let bytes = opened.bytes;
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, opened.file);
    let head = reader.fill_buf().map_err(|error| failed(path, &error))?;
    if let Some(mime_type) = image_type(head) {
        return image(path, mime_type, bytes, reader);
    }
    let binary = diff::is_binary(head);
    let hashed = bytes <= MAX_HASHED_BYTES;
    let limit = arguments.limit.unwrap_or(output::MAX_LINES);
    let mut lines = Lines::new(arguments.offset.unwrap_or(1), if binary { 0 } else { limit });
    let mut hash = Sha256::new();
    loop {
        let chunk = reader.fill_buf().map_err(|error| failed(path, &error))?;
        if chunk.is_empty() || (!hashed && lines.is_full()) || run.cancel.is_cancelled() {
            break;
        }
        if hashed {
            hash.update(chunk);
        }
        lines.push(chunk);
        let read = chunk.len();
        reader.consume(read);
    }
    if run.cancel.is_cancelled() {
        return Ok(super::interrupted());
    }
    let text = if binary {
        format!("[a binary file of {bytes} bytes; it is not shown]")
    } else {
        lines.finish(hashed)?
    };
    let mut output = ToolOutput::ok(text);
    if hashed {
        output.seen = vec![FileSeen { path: path.to_owned(), sha256: file::hex(&hash.finalize()) }];
    }
    Ok(output)
}

/// The lines asked for, out of chunks of any size.
struct Lines {
    offset: u64,
    limit: usize,
    shown: String,
    count: usize,
    /// The line being read, from 1.
    number: u64,
    line: Vec<u8>,
    line_bytes: usize,
    lossy: bool,
    full: bool,
}

impl Lines {
    fn new(offset: u64, limit: usize) -> Self {
        Self {
            offset,
            limit,
            shown: String::new(),
            count: 0,
            number: 1,
            line: Vec::new(),
            line_bytes: 0,
            lossy: false,
            full: limit == 0,
        }
    }

    fn is_full(&self) -> bool {
        self.full
    }

    fn push(&mut self, chunk: &[u8]) {
        let mut rest = chunk;
        while let Some(at) = memchr::memchr(b'\n', rest) {
            self.take(&rest[..at]);
            self.end_line();
            rest = &rest[at + 1..];
        }
        self.take(rest);
    }

    fn take(&mut self, bytes: &[u8]) {
        self.line_bytes += bytes.len();
        // A BOM and a carriage return are taken off again.
        let room = (MAX_LINE_BYTES + BOM.len() + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(&bytes[..room.min(bytes.len())]);
    }

    fn end_line(&mut self) {
        if self.number >= self.offset && !self.full {
            self.show();
        }
        self.number += 1;
        self.line.clear();
        self.line_bytes = 0;
    }

    fn show(&mut self) {
        let mut line = self.line.as_slice();
        if self.number == 1 {
            line = line.strip_prefix(BOM).unwrap_or(line);
        }
        let dropped = self.line_bytes.saturating_sub(self.line.len());
        if dropped == 0 {
            line = line.strip_suffix(b"\r").unwrap_or(line);
        }
        let text = String::from_utf8_lossy(line);
        let end = text.floor_char_boundary(MAX_LINE_BYTES.min(text.len()));
        let cut = match dropped + (text.len() - end) {
            0 => String::new(),
            bytes => format!(" [{bytes} bytes of this line left out]"),
        };
        let shown = format!("{:>6}\t{}{cut}\n", self.number, &text[..end]);
        if self.count == self.limit || self.shown.len() + shown.len() > MAX_SHOWN_BYTES {
            self.full = true;
            return;
        }
        // A character cut by the end of a long line is no mistake of the file's.
        self.lossy |= dropped == 0 && matches!(text, std::borrow::Cow::Owned(_));
        self.shown.push_str(&shown);
        self.count += 1;
        self.full = self.count == self.limit;
    }

    /// `to_end` says that all of the file was read.
    fn finish(mut self, to_end: bool) -> Result<String, String> {
        if self.line_bytes > 0 {
            self.end_line();
        }
        let total = self.number - 1;
        if total == 0 {
            return Ok("[an empty file]".to_owned());
        }
        if self.count == 0 {
            return Err(format!(
                "the file has {total} lines, line {} is past its end",
                self.offset
            ));
        }
        let last = self.offset + self.count as u64 - 1;
        let first = self.offset;
        let next = last + 1;
        let rest = match (last < total, to_end) {
            (false, _) => String::new(),
            (true, true) => {
                format!("[lines {first} to {last} of {total}; go on with offset {next}]\n")
            }
            (true, false) => format!("[more lines follow; go on with offset {next}]\n"),
        };
        if self.lossy {
            self.shown.push_str("[bytes that are no UTF-8 are shown as \u{FFFD}]\n");
        }
        self.shown.push_str(&rest);
        Ok(self.shown)
    }
}

fn image_type(head: &[u8]) -> Option<&'static str> {
    match head {
        [0x89, b'P', b'N', b'G', 0x0D, 0x0A, 0x1A, 0x0A, ..] => Some("image/png"),
        [0xFF, 0xD8, 0xFF, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("image/webp"),
        _ => None,
    }
}

fn image(
    path: &Path,
    mime_type: &str,
    bytes: u64,
    reader: impl std::io::Read,
) -> Result<ToolOutput, String> {
    if bytes > MAX_IMAGE_BYTES {
        return Err(format!(
            "{} is an image of {bytes} bytes; at most {MAX_IMAGE_BYTES} can be looked at",
            path.display()
        ));
    }
    let mut content = Vec::new();
    reader.take(MAX_IMAGE_BYTES).read_to_end(&mut content).map_err(|error| failed(path, &error))?;
    let mut output = ToolOutput::ok(format!("[{mime_type}, {} bytes]", content.len()));
    output.content.push(Part::Image {
        mime_type: mime_type.to_owned(),
        data: Some(base64::engine::general_purpose::STANDARD.encode(&content)),
        path: None,
    });
    output.seen = vec![FileSeen { path: path.to_owned(), sha256: file::sha256(&content) }];
    Ok(output)
}

fn advise(error: &file::Error, asked: &str) -> String {
    match error {
        file::Error::Directory(_) => format!("{error}; use list"),
        file::Error::NotFound(_) if asked.starts_with('~') => {
            format!("{error}: `~` is not expanded, write the whole path")
        }
        _ => error.to_string(),
    }
}

fn failed(path: &Path, error: &std::io::Error) -> String {
    format!("read {}: {error}", path.display())
}
