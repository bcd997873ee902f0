//! What a provider wants back with an answer, as it stands in the record.
//!
//! Some providers sign or encrypt their reasoning and demand it back as it was; some have blocks
//! of their own. Each such thing is a reasoning part of the answer (often without text), and its
//! `signature` is the JSON of a [`Kept`]: opaque to all but the wire format that made it. Only the
//! model that gave it gets it back: others refuse what they did not sign.
//!
//! Invariant: what is made of an item depends on nothing else, so the same bytes come out after a
//! restart.
//!
//! Receives blocks from the assemblers; hands answers in the model's own order to the encoders.

use agentd_protocol::item::{AssistantItem, AssistantPart, Call};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Something that goes back as it came.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Kept {
    /// So many calls of the answer stand before it.
    #[serde(default, skip_serializing_if = "is_zero")]
    after_calls: usize,
    /// The block in the wire format's own form. The text of the part may be left out of it.
    block: Value,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Kept {
    /// The text that goes into the record for a block with `after_calls` calls before it.
    pub(super) fn signature(after_calls: usize, block: Value) -> String {
        let kept = Self { after_calls, block };
        serde_json::to_string(&kept).expect("maps with string keys become JSON")
    }
}

/// A piece of an answer.
#[derive(Debug)]
pub(super) enum Piece<'a> {
    /// Text that is more than white space.
    Text(&'a str),
    /// What goes back to the model that gave it, with the text of its part.
    Kept(Value, &'a str),
    /// A call.
    Call(&'a Call),
}

/// An answer's pieces in the order in which the model gave them. What is kept is left out where
/// the answer is not this model's `own`.
pub(super) fn in_order(answer: &AssistantItem, own: bool) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut calls = answer.calls.iter();
    let mut given = 0;
    for part in &answer.content {
        match part {
            AssistantPart::Text { text } if text.trim().is_empty() => {}
            AssistantPart::Text { text } => pieces.push(Piece::Text(text)),
            AssistantPart::Reasoning { text, signature: Some(signature) } if own => {
                let Ok(kept) = serde_json::from_str::<Kept>(signature) else { continue };
                let before = kept.after_calls.saturating_sub(given);
                given += before;
                pieces.extend(calls.by_ref().take(before).map(Piece::Call));
                pieces.push(Piece::Kept(kept.block, text));
            }
            AssistantPart::Reasoning { .. } => {}
        }
    }
    pieces.extend(calls.map(Piece::Call));
    pieces
}
