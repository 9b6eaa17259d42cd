//! Each rule a row, fed whole, byte by byte, and split at every point: always the same answer.

use proptest::prelude::*;

use super::framing::Framing;
use super::head::{Head, Limits, Status};
use super::method::Method;
use super::rule::{Refusal, Rule};
use super::target::Form;

const LIMITS: Limits = Limits { size: 256, max_headers: 6, keep_odd_names: false };

type Answer = Result<(Status, Head), Refusal>;

/// The general way alone, which the short way must agree with.
fn generally(bytes: &[u8]) -> Answer {
    let mut head = Head::default();
    let window = &bytes[..bytes.len().min(LIMITS.size)];
    match head.parse_generally(window, &LIMITS)? {
        Status::Partial => Ok((Status::Partial, Head::default())),
        complete => Ok((complete, head)),
    }
}

/// Shows the parser each of the ever longer beginnings that end at `ends`, until it is certain.
fn feed(bytes: &[u8], ends: impl Iterator<Item = usize>) -> Answer {
    let mut head = Head::default();
    for end in ends {
        match head.parse(&bytes[..end], &LIMITS)? {
            Status::Partial => {}
            complete => return Ok((complete, head)),
        }
    }
    Ok((Status::Partial, Head::default()))
}

fn whole(bytes: &[u8]) -> Answer {
    feed(bytes, std::iter::once(bytes.len()))
}

fn same_however_split(bytes: &[u8]) -> Answer {
    let answer = whole(bytes);
    let text = bytes.escape_ascii();
    assert_eq!(generally(bytes), answer, "the general way: {text}");
    assert_eq!(feed(bytes, 0..=bytes.len()), answer, "byte by byte: {text}");
    for at in 0..bytes.len() {
        assert_eq!(feed(bytes, [at, bytes.len()].into_iter()), answer, "split at {at}: {text}");
    }
    answer
}

fn field(line: &str) -> Vec<u8> {
    format!("GET / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n").into_bytes()
}

/// Offset of the first byte after `Host: a`.
const LINE: usize = "GET / HTTP/1.1\r\nHost: a\r\n".len();

#[track_caller]
fn refused(bytes: impl AsRef<[u8]>, rule: Rule, offset: usize) {
    let answer = same_however_split(bytes.as_ref()).map(|_| ());
    assert_eq!(answer, Err(Refusal { rule, offset }), "{}", bytes.as_ref().escape_ascii());
}

#[track_caller]
fn taken(bytes: impl AsRef<[u8]>) -> Head {
    match same_however_split(bytes.as_ref()) {
        Ok((Status::Complete(length), head)) => {
            assert_eq!(length, bytes.as_ref().len());
            head
        }
        other => panic!("{}: {other:?}", bytes.as_ref().escape_ascii()),
    }
}

#[test]
fn framing_that_could_be_read_in_two_ways() {
    refused(field("Content-Length: 3\r\nTransfer-Encoding: chunked"), Rule::LengthWithEncoding, LINE + 16);
    refused(field("Transfer-Encoding: chunked\r\nContent-Length: 3"), Rule::LengthWithEncoding, LINE + 44);
    refused(field("Content-Length: 3\r\nContent-Length: 3"), Rule::LengthRepeated, LINE + 35);
    refused(field("Content-Length: 3\r\nContent-Length: 4"), Rule::LengthRepeated, LINE + 35);
    for value in ["+3", "-3", "3, 3", "3 3", "0x3", "3.0", "9223372036854775808", "\u{b2}"] {
        refused(field(&format!("Content-Length: {value}")), Rule::LengthInvalid, LINE + 16);
    }
    refused(field("Content-Length:"), Rule::LengthInvalid, LINE + 15);
    for value in
        ["gzip", "gzip, chunked", "chunked, chunked", "identity", "\"chunked\"", "chunked;q=1", "xchunked"]
    {
        refused(field(&format!("Transfer-Encoding: {value}")), Rule::EncodingUnsupported, LINE + 19);
    }
    refused(
        field("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"),
        Rule::EncodingUnsupported,
        LINE + 47,
    );
    refused("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", Rule::EncodingUnsupported, 35);
}

#[test]
fn line_ends() {
    refused("GET / HTTP/1.1\nHost: a\r\n\r\n", Rule::BareLf, 14);
    refused("GET / HTTP/1.1\r\nHost: a\n\r\n", Rule::BareLf, 23);
    refused("GET / HTTP/1.1\r\nHost: a \t\n\r\n", Rule::BareLf, 25);
    refused("GET / HTTP/1.1\r\nHost: a\r\nX:\n\r\n", Rule::BareLf, LINE + 2);
    refused("GET / HTTP/1.1\r\nHost: a\r\n\n", Rule::BareLf, 25);
    refused("GET / HTTP/1.1\rHost: a\r\n\r\n", Rule::BareCr, 14);
    refused("GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n", Rule::BareCr, 23);
    refused("GET / HTTP/1.1\r\nHost: a\r\r\n\r\n", Rule::BareCr, 23);
    refused("GET / HTTP/1.1\r\nHost: a\r\n\rX", Rule::BareCr, 25);
    refused("\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::BareLf, 0);
    refused("\r\n\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", Rule::BareCr, 2);
    taken("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
}

#[test]
fn field_lines() {
    for (line, rule, offset) in [
        ("X : b", Rule::SpaceBeforeColon, 1),
        ("X\t: b", Rule::SpaceBeforeColon, 1),
        (" X: b", Rule::FoldedLine, 0),
        ("X: a\r\n b", Rule::FoldedLine, 6),
        ("X: a\r\n\tb", Rule::FoldedLine, 6),
        ("X", Rule::NoColon, 1),
        (": b", Rule::EmptyName, 0),
        ("X(Y: b", Rule::NameByte, 1),
        ("X\0Y: b", Rule::NameByte, 1),
        ("X\u{e9}: b", Rule::NameByte, 1),
        ("X: a\0b", Rule::ValueByte, 4),
        ("X: a\u{1}b", Rule::ValueByte, 4),
        ("X: a\u{7f}", Rule::ValueByte, 4),
        ("X: \u{1b}[0m", Rule::ValueByte, 3),
    ] {
        refused(field(line), rule, LINE + offset);
    }
    let head = taken(field("X: \u{e9}\r\nY:\r\nZ: \t a b \t"));
    assert_eq!(head.fields.len(), 4);
    assert_eq!(head.fields[3].value.of(&field("X: \u{e9}\r\nY:\r\nZ: \t a b \t")), b"a b");
}

#[test]
fn hosts() {
    refused("GET / HTTP/1.1\r\n\r\n", Rule::HostMissing, 16);
    refused("GET / HTTP/1.1\r\nHost: a\r\nhost: a\r\n\r\n", Rule::HostRepeated, LINE + 6);
    for host in ["a b", "a/b", "a@b", "a:x", "a:1:2", "a:123456", "[::1", "[]", "[::g]", "::1", "a,b/"] {
        refused(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"), Rule::HostInvalid, 22);
    }
    for host in ["a", "A.example", "a:80", "a:", "[::1]", "[::1]:8080", "127.0.0.1:1", "", "a_b"] {
        taken(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    }
    refused("GET http://a/ HTTP/1.1\r\nHost: b\r\n\r\n", Rule::HostContradictsTarget, 30);
    refused("GET http://a:81/ HTTP/1.1\r\nHost: a\r\n\r\n", Rule::HostContradictsTarget, 33);
    taken("GET http://A:80/ HTTP/1.1\r\nHost: a\r\n\r\n");
    taken("GET http://[::1]/ HTTP/1.1\r\nHost: [::1]:80\r\n\r\n");
    taken("GET / HTTP/1.0\r\n\r\n");
}

#[test]
fn request_lines() {
    let with_host = |line: &str| format!("{line}\r\nHost: a\r\n\r\n");
    for (line, rule, offset) in [
        ("GET / HTTP/2.0", Rule::VersionUnsupported, 6),
        ("GET / HTTP/0.9", Rule::VersionUnsupported, 6),
        ("GET / HTTP/1.2", Rule::VersionUnsupported, 6),
        ("GET / HTTP/11", Rule::VersionSyntax, 12),
        ("GET / http/1.1", Rule::VersionSyntax, 6),
        ("GET / HTTP/1.1 ", Rule::VersionSyntax, 14),
        ("GET / HTTP/1.10", Rule::VersionSyntax, 14),
        ("GET /", Rule::VersionSyntax, 5),
        ("GET  / HTTP/1.1", Rule::TargetByte, 4),
        ("GET /  HTTP/1.1", Rule::VersionSyntax, 6),
        ("GET /\tHTTP/1.1", Rule::TargetByte, 5),
        ("GET", Rule::Method, 3),
        (" GET / HTTP/1.1", Rule::Method, 0),
        ("G(T / HTTP/1.1", Rule::Method, 1),
        ("GET /a\0 HTTP/1.1", Rule::TargetByte, 6),
        ("GET /a#b HTTP/1.1", Rule::TargetByte, 6),
        ("GET /a?b#c HTTP/1.1", Rule::TargetByte, 8),
        ("GET /\u{e9} HTTP/1.1", Rule::TargetByte, 5),
        ("GET /a\\b HTTP/1.1", Rule::TargetByte, 6),
        ("GET a HTTP/1.1", Rule::TargetForm, 4),
        ("GET * HTTP/1.1", Rule::TargetForm, 4),
        ("GET a:80 HTTP/1.1", Rule::TargetForm, 4),
        ("GET ftp://a/ HTTP/1.1", Rule::TargetForm, 4),
        ("GET http:///a HTTP/1.1", Rule::TargetForm, 4),
        ("GET http://u@a/ HTTP/1.1", Rule::TargetForm, 4),
        ("CONNECT a HTTP/1.1", Rule::TargetForm, 8),
        ("CONNECT a: HTTP/1.1", Rule::TargetForm, 8),
        ("GET /%zz HTTP/1.1", Rule::TargetEscape, 5),
        ("GET /%00 HTTP/1.1", Rule::TargetEscape, 5),
        ("GET /a/../../b HTTP/1.1", Rule::PathAboveRoot, 12),
    ] {
        refused(with_host(line), rule, offset);
    }
    // What a browser speaks that expects TLS, and HTTP/2 with prior knowledge.
    refused(b"\x16\x03\x01\x02\0", Rule::Method, 0);
    refused("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Rule::VersionUnsupported, 6);
}

#[test]
fn limits() {
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(300));
    refused(&long, Rule::TargetTooLong, 256);
    refused(field(&format!("X: {}", "x".repeat(300))), Rule::HeadTooLarge, 256);
    refused(field("A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: 5\r\nF: 6"), Rule::TooManyFields, LINE + 30);
    taken(field("A: 1\r\nB: 2\r\nC: 3\r\nD: 4\r\nE: 5"));
    let fits = field(&format!("X: {}", "x".repeat(256 - LINE - 7)));
    assert_eq!(fits.len(), 256);
    taken(fits);
}

#[test]
fn a_head_in_parts() {
    let bytes = b"POST /a%20b/../c?d=e HTTP/1.1\r\nHOST: x:1\r\nConnection: foo, Close\r\nContent-Length: 5\r\nExpect: 100-Continue\r\nX_Y: 1\r\n\r\n";
    let head = taken(bytes);
    assert_eq!(head.method, Method::Post);
    assert_eq!(head.target.form, Form::Origin);
    assert_eq!(head.target.whole.of(bytes), b"/a%20b/../c?d=e");
    assert_eq!(head.path(bytes), b"/c");
    assert_eq!(head.target.query.map(|query| query.of(bytes)), Some(b"d=e".as_slice()));
    assert_eq!(head.host.map(|host| host.of(bytes)), Some(b"x:1".as_slice()));
    assert_eq!(head.framing, Framing::Length(5));
    assert!(head.connection.close && head.expects_continue && head.is_http11 && !head.connection.keep_alive);
    assert_eq!(head.fields.len(), 4, "the name with an underscore is dropped");

    let absolute = b"GET HTTP://a?x HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n";
    let head = taken(absolute);
    assert_eq!((head.target.form, head.path(absolute)), (Form::Absolute, b"/".as_slice()));
    assert_eq!(head.host.map(|host| host.of(absolute)), Some(b"a".as_slice()));
    assert!(head.connection.keep_alive && !head.is_http11);

    assert_eq!(taken("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n").target.form, Form::Asterisk);
    assert_eq!(taken("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n").target.form, Form::Authority);
    assert_eq!(taken(field("Transfer-Encoding: Chunked")).framing, Framing::Chunked);
    refused(field("Expect: 200-ok"), Rule::ExpectUnknown, LINE + 8);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Broken and odd heads, made of the pieces that matter.
    #[test]
    fn any_bytes_in_any_pieces_give_one_answer(
        pieces in proptest::collection::vec(
            prop::sample::select(vec![
                "GET ", "HEAD ", "CONNECT ", "/", "/a%20b", "*", "http://a", " ", "HTTP/1.1", "HTTP/1.0", "HTTP/2",
                "\r\n", "\r", "\n", "Host: a", "Host:", "X: y", "Content-Length: 1", "Transfer-Encoding: chunked",
                ":", "\t", "\0", "\u{e9}", "x", "?", "#", "..", "%", "GET / HTTP/1.1\r\nHost: a\r\n", "\r\n\r\n",
            ]),
            0..14,
        ),
    ) {
        let bytes = pieces.concat().into_bytes();
        same_however_split(&bytes).ok();
    }

    #[test]
    fn a_byte_changed_anywhere_gives_one_answer(at in 0_usize..70, byte in any::<u8>()) {
        let mut bytes = b"GET /a/b?c HTTP/1.1\r\nHost: a.b\r\nContent-Length: 12\r\nX-Y: z w\r\n\r\n".to_vec();
        if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
        same_however_split(&bytes).ok();
    }
}
