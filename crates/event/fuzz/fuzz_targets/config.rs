//! Any text as a config: it is read or refused with findings, and never a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = drover_config::parse::<drover_http::config::Http>("fuzz", text);
});
