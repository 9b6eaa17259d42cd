//! The examples and rules of `proxy-protocol.txt`, and what must hold whatever the bytes.

use proptest::prelude::*;

use super::*;

fn complete(bytes: &[u8]) -> (Header, usize) {
    match decode(bytes) {
        Ok(Decoded::Complete { header, length }) => (header, length),
        other => panic!("{}: {other:?}", bytes.escape_ascii()),
    }
}

fn internet(source: &str, destination: &str) -> Addresses {
    let address = |text: &str| text.parse().expect("an address");
    Addresses::Internet { source: address(source), destination: address(destination) }
}

#[test]
fn lines_are_read() {
    for (line, addresses) in [
        (
            "PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n",
            internet("192.168.0.1:56324", "192.168.0.11:443"),
        ),
        (
            "PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n",
            internet("255.255.255.255:65535", "255.255.255.255:65535"),
        ),
        ("PROXY TCP4 0.0.0.0 1.2.3.4 0 1\r\n", internet("0.0.0.0:0", "1.2.3.4:1")),
        ("PROXY TCP6 ::1 2001:DB8::2 1 65535\r\n", internet("[::1]:1", "[2001:db8::2]:65535")),
        (
            "PROXY TCP6 ffff:f00f:ffff:ffff:ffff:ffff:ffff:ffff ffff:f00f:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n",
            internet(
                "[ffff:f00f:ffff:ffff:ffff:ffff:ffff:ffff]:65535",
                "[ffff:f00f:ffff:ffff:ffff:ffff:ffff:ffff]:65535",
            ),
        ),
        ("PROXY UNKNOWN\r\n", Addresses::Unknown),
        ("PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", Addresses::Unknown),
    ] {
        let (header, length) = complete(line.as_bytes());
        assert_eq!((header.transport, header.addresses, length), (Transport::Stream, addresses, line.len()));
    }
}

#[test]
fn lines_that_break_the_form_are_refused() {
    for (line, wrong) in [
        ("PROXY TCP4 1.2.3.4 1.2.3.4 1 2\n", Malformed::Line("end")),
        ("PROXY TCP4 1.2.3.4 1.2.3.4 1 2\rx", Malformed::Line("end")),
        ("PROXY UNKNOWN a\rb\r\n", Malformed::Line("end")),
        ("PROXY TCP4  1.2.3.4 1.2.3.4 1 2\r\n", Malformed::Line("address")),
        ("PROXY TCP4 1.2.3.4 1.2.3.4 1 2 \r\n", Malformed::Line("number of words")),
        ("PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n", Malformed::Line("number of words")),
        ("PROXY TCP4 1.2.3.04 1.2.3.4 1 2\r\n", Malformed::Line("address")),
        ("PROXY TCP4 1.2.3.256 1.2.3.4 1 2\r\n", Malformed::Line("address")),
        ("PROXY TCP4 ::1 ::1 1 2\r\n", Malformed::Line("address")),
        ("PROXY TCP6 1.2.3.4 ::1 1 2\r\n", Malformed::Line("address")),
        ("PROXY TCP6 fe80::1%1 ::1 1 2\r\n", Malformed::Line("address")),
        ("PROXY TCP4 1.2.3.4 1.2.3.4 01 2\r\n", Malformed::Line("port")),
        ("PROXY TCP4 1.2.3.4 1.2.3.4 +1 2\r\n", Malformed::Line("port")),
        ("PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n", Malformed::Line("port")),
        ("PROXY TCP4 1.2.3.4 1.2.3.4  2\r\n", Malformed::Line("port")),
        ("PROXY UDP4 1.2.3.4 1.2.3.4 1 2\r\n", Malformed::Line("family")),
        ("PROXY UNKNOWNX\r\n", Malformed::Line("family")),
        ("PROXY tcp4 1.2.3.4 1.2.3.4 1 2\r\n", Malformed::Line("family")),
        ("PROXY \r\n", Malformed::Line("family")),
        ("PROXX", Malformed::Signature),
        ("GET / HTTP/1.1\r\n", Malformed::Signature),
        ("\r\nPROXY", Malformed::Signature),
    ] {
        assert_eq!(decode(line.as_bytes()), Err(wrong), "{line:?}");
    }
    let fits = format!("PROXY UNKNOWN {}\r\n", "x".repeat(v1::LONGEST_LINE - 16));
    assert_eq!(complete(fits.as_bytes()).1, v1::LONGEST_LINE);
    let long = format!("PROXY UNKNOWN {}\r\n", "x".repeat(v1::LONGEST_LINE - 15));
    assert_eq!(decode(long.as_bytes()), Err(Malformed::TooLong));
    assert_eq!(decode(&long.as_bytes()[..v1::LONGEST_LINE]), Err(Malformed::TooLong));
    assert_eq!(decode(&long.as_bytes()[..v1::LONGEST_LINE - 1]), Ok(Decoded::Partial));
}

fn binary(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let mut bytes = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
    bytes.extend([command, family]);
    bytes.extend((block.len() as u16).to_be_bytes());
    bytes.extend(block);
    bytes
}

#[test]
fn binary_headers_are_read() {
    let v4 = [192, 0, 2, 1, 198, 51, 100, 2, 0xdc, 0x04, 0x01, 0xbb];
    let wanted = internet("192.0.2.1:56324", "198.51.100.2:443");
    assert_eq!(
        complete(&binary(0x21, 0x11, &v4)),
        (Header { transport: Transport::Stream, addresses: wanted.clone() }, 28)
    );
    assert_eq!(
        complete(&binary(0x21, 0x12, &v4)).0,
        Header { transport: Transport::Datagram, addresses: wanted.clone() }
    );
    // Extensions behind the addresses are skipped: here a unique identifier, and one that runs over.
    let extended = [&v4[..], &[5, 0, 2, 7, 7, 9, 255, 255]].concat();
    let (header, length) = complete(&[&binary(0x21, 0x11, &extended)[..], b"GET"].concat());
    assert_eq!((header.addresses, length), (wanted, 36));
    let unix = [&[b'/'; 108][..], &[b'x'; 108]].concat();
    let Addresses::Unix(names) = complete(&binary(0x21, 0x31, &unix)).0.addresses else { panic!() };
    assert_eq!((names.source, names.destination), ([b'/'; 108], [b'x'; 108]));
}

#[test]
fn local_and_unspecified_headers_tell_no_addresses() {
    for bytes in [
        binary(0x20, 0x00, &[]),
        binary(0x20, 0x11, &[0; 12]),
        // The family of LOCAL means nothing, and what follows is discarded.
        binary(0x20, 0xff, b"whatever"),
        binary(0x21, 0x00, b"x"),
        binary(0x21, 0x10, &[0; 12]),
    ] {
        let (header, length) = complete(&bytes);
        assert_eq!((header.addresses, length), (Addresses::Unknown, bytes.len()));
    }
}

#[test]
fn binary_headers_that_break_the_form_are_refused() {
    for (bytes, wrong) in [
        (binary(0x11, 0x11, &[0; 12]), Malformed::Binary("version")),
        (binary(0x31, 0x11, &[0; 12]), Malformed::Binary("version")),
        (binary(0x22, 0x11, &[0; 12]), Malformed::Binary("command")),
        (binary(0x21, 0x41, &[0; 12]), Malformed::Binary("family")),
        (binary(0x21, 0x13, &[0; 12]), Malformed::Binary("family")),
        (binary(0x21, 0x03, &[]), Malformed::Binary("family")),
        (binary(0x21, 0x11, &[0; 11]), Malformed::Binary("length")),
        (binary(0x21, 0x21, &[0; 35]), Malformed::Binary("length")),
        (binary(0x21, 0x31, &[0; 215]), Malformed::Binary("length")),
        (binary(0x20, 0x00, &[0; LONGEST]), Malformed::TooLong),
        (b"\r\n\r\n\0\r\nQUIX".to_vec(), Malformed::Signature),
    ] {
        assert_eq!(decode(&bytes), Err(wrong), "{}", bytes.escape_ascii());
    }
}

fn socket() -> impl Strategy<Value = (SocketAddr, SocketAddr)> {
    prop_oneof![
        any::<([u8; 4], [u8; 4], u16, u16)>().prop_map(|(a, b, c, d)| ((a, c).into(), (b, d).into())),
        any::<([u8; 16], [u8; 16], u16, u16)>().prop_map(|(a, b, c, d)| ((a, c).into(), (b, d).into())),
    ]
}

fn header() -> impl Strategy<Value = Header> {
    let addresses = prop_oneof![
        Just(Addresses::Unknown),
        socket().prop_map(|(source, destination)| Addresses::Internet { source, destination }),
        any::<(u8, u8)>().prop_map(|(a, b)| {
            Addresses::Unix(Box::new(UnixAddresses { source: [a; UNIX_NAME], destination: [b; UNIX_NAME] }))
        }),
    ];
    let transport = prop_oneof![Just(Transport::Stream), Just(Transport::Datagram)];
    (transport, addresses).prop_map(|(transport, addresses)| Header { transport, addresses })
}

const PIECES: &[&[u8]] = &[b"PROXY ", b"TCP4 ", b"\r\n", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c", b" "];

/// Bytes near a header: pieces of both versions, cut, repeated and mixed.
fn near_header() -> impl Strategy<Value = Vec<u8>> {
    let encoded = (header(), any::<bool>())
        .prop_map(|(header, first)| encode(if first { Version::V1 } else { Version::V2 }, &header).to_vec());
    let piece = prop_oneof![
        4 => encoded,
        1 => proptest::collection::vec(any::<u8>(), 0..8),
        1 => prop::sample::select(PIECES).prop_map(<[u8]>::to_vec),
    ];
    let changed = (proptest::collection::vec(piece, 1..4), any::<prop::sample::Index>(), any::<Option<u8>>());
    changed.prop_map(|(pieces, at, byte)| {
        let mut bytes = pieces.concat();
        if let Some(byte) = byte
            && !bytes.is_empty()
        {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_sent_is_what_is_read(header in header(), rest in proptest::collection::vec(any::<u8>(), 0..20)) {
        let bytes = encode(Version::V2, &header);
        let (read, length) = complete(&[&bytes[..], &rest].concat());
        prop_assert_eq!(length, bytes.len());
        if header.addresses != Addresses::Unknown {
            prop_assert_eq!(&read, &header);
        }
        prop_assert_eq!(&read.addresses, &header.addresses);
        let bytes = encode(Version::V1, &header);
        let (read, length) = complete(&[&bytes[..], &rest].concat());
        prop_assert_eq!(length, bytes.len());
        let told = header.transport == Transport::Stream && matches!(header.addresses, Addresses::Internet { .. });
        prop_assert_eq!(read.addresses, if told { header.addresses } else { Addresses::Unknown });
    }

    #[test]
    fn the_answer_does_not_depend_on_how_bytes_are_split(bytes in near_header()) {
        let whole = decode(&bytes);
        for split in 0..=bytes.len() {
            let part = decode(&bytes[..split]);
            match (&part, &whole) {
                (Ok(Decoded::Partial), _) => {}
                (part, whole) => prop_assert_eq!(part, whole, "at {}", split),
            }
        }
        if let Ok(Decoded::Complete { length, .. }) = whole {
            prop_assert!(length <= bytes.len() && length <= LONGEST);
            prop_assert_eq!(decode(&bytes[..length - 1]), Ok(Decoded::Partial), "complete, and not earlier");
        }
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..300), binary in any::<bool>()) {
        let begun = if binary { &b"\r\n\r\n\0\r\nQUIT\n"[..] } else { b"PROXY " };
        let _ = decode(&bytes);
        let _ = decode(&[begun, &bytes].concat());
    }
}
