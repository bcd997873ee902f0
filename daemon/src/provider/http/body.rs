//! A request's body made of kept pieces, with an exact size.
//!
//! The pieces are shared with the conversation and with other attempts; sending them copies no
//! more than the socket does. The exact size makes it a body with a `content-length`, which some
//! servers insist on.
//!
//! Receives pieces from a wire format; hands them to the HTTP client one by one.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use serde_json::{Map, Value};

/// The pieces that are still to be sent.
#[derive(Debug)]
pub(in crate::provider) struct Rope {
    pieces: VecDeque<Bytes>,
    left: u64,
}

impl Rope {
    pub(in crate::provider) fn new(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        let pieces: VecDeque<_> = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { pieces, left }
    }

    /// A JSON object: fixed fields, the tools if there are any, and the rest, which `opening` begins:
    /// a list's name and its bracket, after whatever stands before it. The list is its last field.
    pub(in crate::provider) fn object(
        fixed: Map<String, Value>,
        tools: &Bytes,
        opening: &[u8],
        list: impl IntoIterator<Item = Bytes>,
    ) -> Self {
        let mut head = Value::Object(fixed).to_string().into_bytes();
        // The last brace makes room for what follows.
        head.pop();
        let mut pieces = Vec::new();
        if !tools.is_empty() {
            head.extend_from_slice(b",\"tools\":");
            pieces.extend([Bytes::from(std::mem::take(&mut head)), tools.clone()]);
        }
        head.extend_from_slice(opening);
        pieces.push(head.into());
        pieces.extend(list);
        pieces.push(Bytes::from_static(b"]}"));
        Self::new(pieces)
    }

    /// What is still to be sent, for others to read.
    pub(in crate::provider) fn pieces(&self) -> Vec<Bytes> {
        self.pieces.iter().cloned().collect()
    }
}

impl Body for Rope {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = self.get_mut();
        let piece = this.pieces.pop_front();
        this.left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
