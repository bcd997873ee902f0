//! A byte string that only grows, kept in a few large pieces.
//!
//! A request's messages are sent again and again with a little more at the end. Kept in one
//! buffer, each request would copy all of it; kept in a piece per message, writing thousands of
//! small pieces costs as much as encoding again. So pieces are merged like the digits of a binary
//! counter: each is at least twice as long as the next, and those over [`MERGE_LIMIT`] are left
//! alone, which bounds the copying that a single append can cause.
//!
//! Invariant: the concatenation of the pieces never changes but by growing at its end, and pieces
//! end where an append ended.
//!
//! Receives encoded segments from the window; hands out cheap clones of its pieces.

use bytes::{Bytes, BytesMut};

/// A piece of this many bytes is not copied again: 10 MB of history are some ten pieces.
const MERGE_LIMIT: usize = 1024 * 1024;

/// The pieces, oldest first.
#[derive(Debug, Default)]
pub(super) struct Rope {
    pieces: Vec<Bytes>,
}

impl Rope {
    /// Whether nothing was appended yet.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Puts `bytes` at the end.
    pub(super) fn append(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        let mut merged = bytes.len();
        let mut first = self.pieces.len();
        while let Some(piece) = first.checked_sub(1).map(|before| &self.pieces[before]) {
            if piece.len() >= MERGE_LIMIT || piece.len() >= 2 * merged {
                break;
            }
            merged += piece.len();
            first -= 1;
        }
        if first == self.pieces.len() {
            self.pieces.push(bytes);
            return;
        }
        let mut joined = BytesMut::with_capacity(merged);
        for piece in self.pieces.drain(first..) {
            joined.extend_from_slice(&piece);
        }
        joined.extend_from_slice(&bytes);
        self.pieces.push(joined.freeze());
    }

    /// All of it.
    pub(super) fn pieces(&self) -> Vec<Bytes> {
        self.pieces.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_stay_few_and_keep_their_order() {
        let mut rope = Rope::default();
        let mut whole = Vec::new();
        for n in 0..10_000_u32 {
            let line = format!("message {n};");
            whole.extend_from_slice(line.as_bytes());
            rope.append(Bytes::from(line));
            assert!(rope.pieces.len() <= 20, "{} pieces after {n} appends", rope.pieces.len());
        }
        assert_eq!(rope.pieces().concat(), whole);
    }

    #[test]
    fn large_pieces_are_not_copied_again() {
        let mut rope = Rope::default();
        rope.append(Bytes::from(vec![b'a'; MERGE_LIMIT]));
        let address = rope.pieces[0].as_ptr();
        rope.append(Bytes::from(vec![b'b'; MERGE_LIMIT]));
        rope.append(Bytes::from_static(b"c"));
        assert_eq!(rope.pieces[0].as_ptr(), address);
        assert_eq!(rope.pieces.len(), 3);
    }

    #[test]
    fn nothing_appended_leaves_no_piece() {
        let mut rope = Rope::default();
        rope.append(Bytes::new());
        assert!(rope.is_empty());
    }
}
