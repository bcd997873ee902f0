//! The Messages format: streams byte by byte, history as messages, requests on the wire.

use super::stream::Assembler;

mod encoding;
mod streams;
mod transport;

fn assembler() -> Assembler {
    Assembler::new("provider p")
}
