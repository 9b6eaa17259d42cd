//! Any text as a config: it is read or refused, and its findings can be shown.
#![no_main]

use drover_config::{Style, effective, parse};
use drover_http::config::Http;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let (config, findings) = parse::<Http>("fuzz.toml", text);
    let _ = findings.render(Style::Plain);
    let Some(config) = config else { return };
    // The effective config reads back as itself.
    let written = effective(&config);
    let (again, _) = parse::<Http>("again.toml", &written);
    assert_eq!(again.map(|config| effective(&config)).as_deref(), Some(written.as_str()), "{text}");
});
