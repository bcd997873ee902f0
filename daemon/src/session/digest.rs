//! The digest of a request's parameters: the same parameters are the same request.
//!
//! Receives parameters; hands the store the word that it keeps beside an id or a key.

use std::fmt::Write;

use serde::Serialize;
use sha2::{Digest, Sha256};

/// SHA-256 in hex of the parameters in canonical form: object keys in order, nothing absent.
pub(super) fn of(params: &impl Serialize) -> String {
    let value = serde_json::to_value(params).expect("parameters are plain JSON");
    let digest = Sha256::digest(value.to_string());
    digest.iter().fold(String::with_capacity(digest.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a string takes everything");
        text
    })
}
