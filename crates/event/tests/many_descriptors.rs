//! Thousands of descriptors, in a process of its own so that no other test's descriptors count.

mod support;

use std::io::Write;
use std::os::fd::AsRawFd;

use drover_event::Direction;
use drover_event::backend::Mode;
use support::backends::{each_backend, pair, target, wait};

#[test]
fn two_thousand_descriptors_or_the_word_that_it_is_too_many() {
    each_backend(|backend| {
        let mut pairs: Vec<_> = (0..1000).map(|_| pair()).collect();
        let mut refused = 0;
        for (index, (left, _)) in pairs.iter().enumerate() {
            match backend.add(target(left, index as u32), Direction::Read, Mode::Connection) {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(backend.name(), "select");
                    assert!(error.to_string().contains("limit is 1024"), "{error}");
                    assert!(left.as_raw_fd() >= 1024);
                    refused += 1;
                }
            }
        }
        assert_eq!(refused > 0, backend.name() == "select");
        pairs[7].1.write_all(b"x").expect("writing");
        pairs[400].1.write_all(b"x").expect("writing");
        let mut tokens: Vec<u32> =
            wait(backend, Some(1000)).iter().map(|report| report.token.index()).collect();
        tokens.sort_unstable();
        assert_eq!(tokens, [7, 400]);
    });
}
