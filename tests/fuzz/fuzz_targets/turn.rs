//! Random scripts of readiness, timers, wakes, closes, posts, panics and drains against what must be
//! true of every worker. The model is that of `tests/model.rs`, which runs a bounded number of them.
#![no_main]

#[path = "../../../crates/event/tests/support/model.rs"]
mod model;

use std::sync::Once;

use drover_event::BackendKind;
use libfuzzer_sys::fuzz_target;

/// The fuzzer ends at any panic, also one that the engine catches: those that a script asks for are
/// kept from it.
fn expect_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref::<&str>() != Some(&model::EXPECTED) {
            report(panic);
        }
    }));
}

fuzz_target!(|script: &[u8]| {
    static ONCE: Once = Once::new();
    ONCE.call_once(expect_panics);
    let Some((&kind, script)) = script.split_first() else { return };
    if script.len() <= 400 {
        model::play(script, BackendKind::ALL[usize::from(kind) % BackendKind::ALL.len()]);
    }
});
