//! Any bytes as the body of an error.
//!
//! Receives bytes of libFuzzer; hands them to `agentd::provider::fuzzing`.
#![no_main]

use agentd::provider::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u16, &[u8])| fuzzing::complaint(input.1, input.0));
