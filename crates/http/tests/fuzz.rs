//! The entries for fuzzing, run on bytes that are odd in the ways that matter.

use proptest::prelude::*;

fn bytes(pieces: &'static [&'static [u8]]) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(pieces).prop_map(<[u8]>::to_vec),
        1 => proptest::collection::vec(any::<u8>(), 0..5),
    ];
    proptest::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn heads(
        bytes in bytes(&[
            b"GET / HTTP/1.1\r\n", b"GET /a//b/..?c HTTP/1.1\r\n", b"POST http://a/%2e HTTP/1.0\r\n", b"Host: a\r\n",
            b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"X: \t y \r\n", b"\r\n", b"\n", b" ", b":",
        ]),
        split in 0_usize..200,
    ) {
        drover_http::fuzz::head(&bytes, split);
    }

    #[test]
    fn bodies(
        bytes in bytes(&[b"5\r\n", b"hello", b"\r\n", b"0\r\n", b"a;b=c\r\n", b"T: x\r\n", b"\n", b"\r"]),
        split in 0_usize..200,
    ) {
        drover_http::fuzz::body(&bytes, split);
    }
}
