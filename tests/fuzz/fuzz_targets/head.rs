//! Any bytes as the head of a request, whole and split anywhere.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (usize, &[u8])| drover_http::fuzz::head(input.1, input.0));
