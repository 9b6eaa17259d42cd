//! Reading TOML: spans, sizes, durations, addresses and diagnostics.
