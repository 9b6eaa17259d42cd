//! ClientHellos as clients send them, as they must not, and in pieces of every size.

use proptest::prelude::*;

use super::*;

fn vector8(content: &[u8]) -> Vec<u8> {
    [&[content.len() as u8], content].concat()
}

fn vector16(content: &[u8]) -> Vec<u8> {
    [&(content.len() as u16).to_be_bytes(), content].concat()
}

fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
    [&kind.to_be_bytes()[..], &vector16(content)].concat()
}

/// The extension `server_name` with one host name.
fn named(name: &str) -> Vec<u8> {
    extension(SERVER_NAME, &vector16(&[&[HOST_NAME][..], &vector16(name.as_bytes())].concat()))
}

/// A handshake message with these extensions.
fn hello(extensions: &[Vec<u8>]) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend(vector8(&[1; 32]));
    body.extend(vector16(&[0x13, 0x01, 0x13, 0x02]));
    body.extend(vector8(&[0]));
    body.extend(vector16(&extensions.concat()));
    message(&body)
}

fn message(body: &[u8]) -> Vec<u8> {
    [&[CLIENT_HELLO], &(body.len() as u32).to_be_bytes()[1..], body].concat()
}

/// The message in records of at most `size` bytes.
fn records(message: &[u8], size: usize) -> Vec<u8> {
    message.chunks(size).flat_map(|part| [&[HANDSHAKE, 3, 1][..], &vector16(part)].concat()).collect()
}

/// What is made of `bytes` that come all at once: the name, or nothing where there is none.
fn sniffed(bytes: &[u8]) -> Result<Option<String>, Fault> {
    let mut hello = ClientHello::default();
    match hello.feed(bytes)? {
        Progress::Whole(name) => {
            Ok(name.map(|name| String::from_utf8_lossy(&hello.message()[name]).into_owned()))
        }
        other => panic!("{other:?}"),
    }
}

fn with_extensions(extensions: &[Vec<u8>]) -> Result<Option<String>, Fault> {
    sniffed(&records(&hello(extensions), RECORD_MOST))
}

#[test]
fn the_name_is_found_among_other_extensions() {
    let (groups, versions) = (extension(10, &[0, 2, 0, 29]), extension(43, &[2, 3, 4]));
    let name = Ok(Some("mail.example.org".to_owned()));
    assert_eq!(with_extensions(&[named("mail.example.org")]), name);
    assert_eq!(with_extensions(&[groups.clone(), named("mail.example.org"), versions.clone()]), name);
    assert_eq!(with_extensions(&[groups, versions]), Ok(None));
    assert_eq!(with_extensions(&[]), Ok(None));
}

#[test]
fn a_client_older_than_extensions_names_no_server() {
    let body = [&[3, 1][..], &[7; 32], &vector8(&[]), &vector16(&[0, 47]), &vector8(&[0])].concat();
    assert_eq!(sniffed(&records(&message(&body), RECORD_MOST)), Ok(None));
}

#[test]
fn names_are_host_names() {
    for name in ["a", "xn--bcher-kva.example", "_dmarc.example.org", "10.0.0.1", &"a.".repeat(120)[..239]] {
        assert_eq!(with_extensions(&[named(name)]), Ok(Some(name.to_owned())), "{name}");
    }
    let long = ["a"; 128].join(".");
    let label = "a".repeat(64);
    for name in
        ["", ".", "a.", ".a", "a..b", "a b", "b\u{fc}cher.example", "a\0b", "[::1]", "a:443", &long, &label]
    {
        assert_eq!(with_extensions(&[named(name)]), Err(Fault::Name), "{name}");
    }
}

#[test]
fn what_the_standard_forbids_is_refused() {
    let twice = hello(&[named("a"), named("a")]);
    let two = vector16(&[&[HOST_NAME, 0, 1, b'a'][..], &[HOST_NAME, 0, 1, b'b']].concat());
    let other_type = vector16(&[1, 0, 1, b'a']);
    for (bytes, fault) in [
        (records(&twice, 100), Fault::Names),
        (records(&hello(&[extension(SERVER_NAME, &two)]), 100), Fault::Names),
        (records(&hello(&[extension(SERVER_NAME, &other_type)]), 100), Fault::Names),
        (records(&hello(&[extension(SERVER_NAME, &[0, 0])]), 100), Fault::Names),
        (records(&hello(&[extension(SERVER_NAME, &[])]), 100), Fault::Lengths),
        (records(&hello(&[vec![0, 10, 0, 9, 1]]), 100), Fault::Lengths),
        (vec![HANDSHAKE, 2, 0], Fault::Record),
        (vec![HANDSHAKE, 3, 1, 0, 0], Fault::RecordLength),
        (vec![HANDSHAKE, 3, 1, 0x40, 1], Fault::RecordLength),
        (vec![HANDSHAKE, 3, 1, 0, 1, 2], Fault::Type),
        (vec![HANDSHAKE, 3, 1, 0, 4, 1, 0, 0x40, 1], Fault::TooLong),
        // An alert between the two halves of a hello.
        ([&[HANDSHAKE, 3, 1, 0, 1, 1][..], &[21, 3, 1, 0, 2, 1, 0]].concat(), Fault::Record),
    ] {
        assert_eq!(ClientHello::default().feed(&bytes), Err(fault), "{bytes:02x?}");
    }
    let body = &hello(&[named("a")])[MESSAGE_HEADER..];
    for end in 0..body.len() - 1 {
        // Only where the extensions would begin may a message end.
        let without_extensions = 2 + 32 + 33 + 6 + 2;
        let expected = if end == without_extensions { Ok(None) } else { Err(Fault::Lengths) };
        assert_eq!(sniffed(&records(&message(&body[..end]), 1000)), expected, "{end} bytes");
    }
    let longer = [body, &[0]].concat();
    assert_eq!(sniffed(&records(&message(&longer), 1000)), Err(Fault::Lengths));
}

#[test]
fn other_protocols_are_told_by_their_first_byte() {
    for bytes in [&b"SSH-2.0-x\r\n"[..], b"GET / HTTP/1.1\r\n", &[0], &[0x80, 0x2e, 1]] {
        assert_eq!(ClientHello::default().feed(bytes), Ok(Progress::NotTls), "{bytes:02x?}");
    }
    assert_eq!(ClientHello::default().feed(b""), Ok(Progress::Partial));
}

/// Feeds the pieces between `cuts`; the first answer that is not "partial", and how many bytes it took.
fn in_pieces(bytes: &[u8], cuts: &[prop::sample::Index]) -> Result<(Progress, Vec<u8>), Fault> {
    let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    let mut hello = ClientHello::default();
    for piece in places.windows(2) {
        let progress = hello.feed(&bytes[piece[0]..piece[1]])?;
        if progress != Progress::Partial {
            return Ok((progress, hello.message));
        }
    }
    Ok((Progress::Partial, hello.message))
}

fn any_hello() -> impl Strategy<Value = (String, Vec<u8>)> {
    let other = (1u16..50, prop::collection::vec(any::<u8>(), 0..200))
        .prop_map(|(kind, content)| extension(kind, &content));
    let others = prop::collection::vec(other, 0..6);
    ("[a-z0-9]{1,20}(\\.[a-z0-9-]{1,20}){0,4}", others, any::<prop::sample::Index>(), 1usize..400).prop_map(
        |(name, mut extensions, place, record)| {
            extensions.insert(place.index(extensions.len() + 1), named(&name));
            (name, records(&hello(&extensions), record))
        },
    )
}

proptest! {
    #[test]
    fn pieces_and_records_of_any_size_give_the_same_name(
        (name, bytes) in any_hello(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        after in prop::collection::vec(any::<u8>(), 0..20),
    ) {
        prop_assert_eq!(sniffed(&[&bytes[..], &after].concat()), Ok(Some(name.clone())));
        let (progress, message) = in_pieces(&bytes, &cuts).expect("a hello");
        let Progress::Whole(Some(place)) = progress else { panic!("{progress:?}") };
        prop_assert_eq!(&message[place], name.as_bytes());
    }

    #[test]
    fn less_than_a_hello_is_partial((_, bytes) in any_hello(), end in any::<prop::sample::Index>()) {
        prop_assert_eq!(ClientHello::default().feed(&bytes[..end.index(bytes.len())]), Ok(Progress::Partial));
    }

    #[test]
    fn damage_is_harmless_and_seen_alike_in_pieces(
        (_, mut bytes) in any_hello(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
    ) {
        for (place, byte) in damage {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let whole = ClientHello::default().feed(&bytes);
        prop_assert_eq!(in_pieces(&bytes, &cuts).map(|(progress, _)| progress), whole);
    }
}
