//! What drover passes on is read by another parser as the same single request.

#[path = "common/second_reader.rs"]
mod second_reader;

use proptest::prelude::*;

#[track_caller]
fn agrees(bytes: &[u8]) {
    let passed = drover_http::fuzz::pass_on(bytes);
    second_reader::agrees(&passed.unwrap_or_else(|| panic!("no request: {}", bytes.escape_ascii())));
}

#[test]
fn what_two_parsers_could_read_in_two_ways() {
    for bytes in [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /a/../b?c HTTP/1.1\r\nHost: a\r\nX: \t y \t\r\nX:\r\n\r\n",
        "GET /%0d%0aX:%20y%20HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET /next HTTP/1.1\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0005\r\n\r\nhello",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;a=\"b\"\r\nhello\r\n0\r\nT: x\r\n\r\nGET",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n000a\r\nGET / HTTP\r\n0\r\nContent-Length: 9\r\nHost: b\r\n\r\n",
        "POST http://b/c HTTP/1.1\r\nHost: b\r\nConnection: Content-Length, X-Hop\r\nX-Hop: 1\r\nContent-Length: 2\r\n\r\nab",
        "POST /old HTTP/1.0\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nab",
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ] {
        agrees(bytes.as_bytes());
    }
}

/// What is passed on of a request with a body, and changed then.
fn changed(change: impl FnOnce(&mut drover_http::fuzz::PassedOn)) -> bool {
    let bytes = b"POST / HTTP/1.1\r\nHost: a\r\nX: y\r\nContent-Length: 5\r\n\r\nhello";
    let mut passed = drover_http::fuzz::pass_on(bytes).expect("a request");
    change(&mut passed);
    std::panic::catch_unwind(|| second_reader::agrees(&passed)).is_err()
}

#[test]
fn differences_are_found() {
    assert!(!changed(|_| {}));
    assert!(changed(|passed| passed.body.push(b'!')));
    assert!(changed(|passed| passed.bytes.push(b'!')));
    assert!(changed(|passed| passed.bytes.extend_from_slice(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")));
    assert!(changed(|passed| passed.bytes.truncate(passed.bytes.len() - 1)));
    assert!(changed(|passed| passed.fields.push((b"x".to_vec(), b"z".to_vec()))));
    assert!(changed(|passed| passed.method = b"GET".to_vec()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn whatever_is_passed_on(pieces in proptest::collection::vec(prop_oneof![
        8 => prop::sample::select(&[
            "GET / HTTP/1.1\r\n", "POST /a?b HTTP/1.1\r\n", "PUT http://a/c HTTP/1.0\r\n", "Host: a\r\n",
            "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n", "Connection: close, x\r\n", "X: y\r\n",
            "\r\n", "hello", "5\r\nhello\r\n", "0\r\n\r\n", "0\r\nT: u\r\n\r\n", "Expect: 100-continue\r\n",
        ][..]).prop_map(|text| text.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..4),
    ], 0..14)) {
        let start = b"POST /a HTTP/1.1\r\nHost: a\r\n".to_vec();
        for bytes in [pieces.concat(), [start, pieces.concat()].concat()] {
            if let Some(passed) = drover_http::fuzz::pass_on(&bytes) {
                second_reader::agrees(&passed);
            }
        }
    }
}
