//! Any bytes through the splitter of server-sent events.
//!
//! Receives bytes of libFuzzer; hands them to `agentd::provider::fuzzing`.
#![no_main]

use agentd::provider::fuzzing;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, &[u8])| fuzzing::split(input.1, input.0));
