//! Any bytes through the decoders of answers, with their assemblers of calls.
//!
//! Receives bytes of libFuzzer; hands them to `agentd::provider::fuzzing`.
#![no_main]

use agentd::provider::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, &[u8])| {
    fuzzing::chat(input.1, input.0);
    fuzzing::responses_and_messages(input.1, input.0);
});
