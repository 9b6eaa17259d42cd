//! Any bytes as a PROXY protocol header: nothing panics, the answer does not depend on how they are split,
//! and what is read can be sent and read again.
#![no_main]

use drover_upstream::proxy_protocol::{Addresses, Decoded, LONGEST, Version, decode, encode};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (usize, &[u8])| {
    let (split, bytes) = input;
    let whole = decode(bytes);
    let part = decode(&bytes[..split.min(bytes.len())]);
    assert!(part == Ok(Decoded::Partial) || part == whole, "{part:?}, then {whole:?}");
    if let Ok(Decoded::Complete { header, length }) = whole {
        assert!(length <= bytes.len() && length <= LONGEST);
        assert_eq!(decode(&bytes[..length - 1]), Ok(Decoded::Partial));
        let sent = encode(Version::V2, &header);
        let Ok(Decoded::Complete { header: again, length }) = decode(&sent) else { panic!("not read again") };
        assert_eq!(length, sent.len());
        assert!(again == header || header.addresses == Addresses::Unknown);
    }
});
