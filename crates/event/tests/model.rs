//! Random scripts against what must be true of every worker; see `support/model.rs`.
//!
//! The same model runs without an end as the fuzz target `turn`.

#[path = "support/model.rs"]
mod model;

use drover_event::BackendKind;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.min(150), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_script_under_epoll(script in proptest::collection::vec(any::<u8>(), 1..250)) {
        model::play(&script, BackendKind::Epoll);
    }

    #[test]
    fn any_script_under_poll(script in proptest::collection::vec(any::<u8>(), 1..250)) {
        model::play(&script, BackendKind::Poll);
    }

    #[test]
    fn any_script_under_select(script in proptest::collection::vec(any::<u8>(), 1..250)) {
        model::play(&script, BackendKind::Select);
    }
}
