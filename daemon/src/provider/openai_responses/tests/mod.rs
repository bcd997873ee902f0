//! The Responses format: streams byte by byte, history as input, requests on the wire.

use super::stream::Assembler;

mod encoding;
mod streams;
mod transport;

fn assembler() -> Assembler {
    Assembler::new("provider p")
}
