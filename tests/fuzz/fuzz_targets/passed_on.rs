//! Whatever is passed on of any bytes, another parser reads as the same single request.
#![no_main]

#[path = "../../../crates/http/tests/common/second_reader.rs"]
mod second_reader;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some(passed) = drover_http::fuzz::pass_on(bytes) {
        second_reader::agrees(&passed);
    }
});
