//! Files that shrink, grow, vanish or are replaced while they are sent. What arrives is whole, or plainly not.

mod common;

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use common::{Client, Scratch, Server, serve};
use drover_http::config::{Coding, Http};

/// More than the sockets take at once.
const SIZE: usize = 16 << 20;

/// Bytes that gzip makes no smaller, so that an encoded file does not fit into the sockets either.
fn content() -> Vec<u8> {
    let mut state = 1_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 40) as u8
    };
    let block: Vec<u8> = (0..1 << 20).map(|_| next()).collect();
    block.repeat(SIZE / block.len())
}

fn serve_files(scratch: &Scratch, change: impl FnOnce(&mut Http)) -> Server {
    serve(|http| {
        http.servers[0].root = Some(scratch.path().to_path_buf().into());
        http.open_file_cache.valid = Duration::from_millis(20);
        http.compression.encodings = vec![Coding::Gzip.into()];
        change(http);
    })
}

/// Asks, and reads no more than the first bytes of the answer, so that the worker is in the midst of the file.
fn begun(server: &Server, version: &str, fields: &str) -> (Client, Vec<u8>) {
    let mut client = server.connect();
    client.send(format!("GET /large.txt HTTP/{version}\r\nHost: a\r\n{fields}\r\n"));
    let mut first = vec![0; 1000];
    client.stream.read_exact(&mut first).expect("an answer begins");
    assert!(first.starts_with(b"HTTP/1.1 20"), "{}", first[..50].escape_ascii());
    (client, first)
}

/// All that comes; true where it ended by a reset.
fn rest(mut client: Client, mut bytes: Vec<u8>) -> (Vec<u8>, bool) {
    match client.stream.read_to_end(&mut bytes) {
        Ok(_) => (bytes, false),
        Err(fault) if fault.kind() == ErrorKind::ConnectionReset => (bytes, true),
        Err(fault) => panic!("{fault}"),
    }
}

/// Bytes of the file as it is served now. Until it is looked at again it may be taken for longer than it is.
fn whole(server: &Server) -> usize {
    let mut client = server.connect();
    client.send("GET /large.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    body(&rest(client, Vec::new()).0).len()
}

fn body(bytes: &[u8]) -> &[u8] {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    &bytes[end..]
}

fn truncate(path: &Path) {
    File::options().write(true).open(path).and_then(|file| file.set_len(100)).expect("a file can be cut");
}

#[test]
fn a_file_that_shrinks_ends_the_connection() {
    for sendfile in [true, false] {
        let scratch = Scratch::new();
        let content = content();
        let path = scratch.file("large.txt", &content);
        let server = serve_files(&scratch, |http| http.sendfile = sendfile);
        for fields in ["", "Range: bytes=1000-15999999\r\n", "Range: bytes=0-1,10-14000000,15000000-\r\n"] {
            scratch.file("large.txt", &content);
            common::wait_for("the file as it is", || (whole(&server) == SIZE).then_some(()));
            let (client, first) = begun(&server, "1.1", fields);
            let head = String::from_utf8_lossy(&first).into_owned();
            let length: usize = head
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: "))
                .expect("a length")
                .parse()
                .expect("a number");
            truncate(&path);
            let (bytes, _) = rest(client, first);
            assert!(body(&bytes).len() < length, "nothing is made up for what is missing");
            // By sendfile(2) what is on its way is the file itself, and a change of it shows.
            if fields.is_empty() && !sendfile {
                assert!(content.starts_with(body(&bytes)), "what came is the file's");
            }
            // The worker serves on, the file as it is now.
            common::wait_for("the file as it is", || (whole(&server) == 100).then_some(()));
        }
    }
}

#[test]
fn an_encoded_file_that_shrinks_has_no_end() {
    let scratch = Scratch::new();
    let content = content();
    let path = scratch.file("large.txt", &content);
    let server = serve_files(&scratch, |_| {});
    let (client, first) = begun(&server, "1.1", "Accept-Encoding: gzip\r\n");
    truncate(&path);
    let (bytes, _) = rest(client, first);
    assert!(!bytes.ends_with(b"0\r\n\r\n"), "the last chunk is missing");

    scratch.file("large.txt", &content);
    common::wait_for("the file as it is", || (whole(&server) == SIZE).then_some(()));
    let (client, first) = begun(&server, "1.0", "Accept-Encoding: gzip\r\n");
    truncate(&path);
    let (bytes, reset) = rest(client, first);
    assert!(reset, "an end of the connection would be that of the body");
    assert!(flate2::read::GzDecoder::new(body(&bytes)).read_to_end(&mut Vec::new()).is_err());
}

#[test]
fn a_file_that_grows_vanishes_or_is_replaced_arrives_as_it_was() {
    let scratch = Scratch::new();
    let content = content();
    let path = scratch.file("large.txt", &content);
    for (what, change) in [
        ("grows", (|path| append(path)) as fn(&Path)),
        ("vanishes", |path| fs::remove_file(path).expect("a file can be removed")),
        ("is replaced", |path| {
            let other = path.with_extension("other");
            fs::write(&other, "other").expect("a file can be written");
            fs::rename(&other, path).expect("a file can be renamed");
        }),
    ] {
        for fields in ["", "Accept-Encoding: gzip\r\n"] {
            scratch.file("large.txt", &content);
            let server = serve_files(&scratch, |_| {});
            let mut client = server.connect();
            client.send(format!("GET /large.txt HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
            // Something has come, not all of it.
            client.stream.peek(&mut [0; 100]).expect("an answer begins");
            change(&path);
            let answer = client.answer();
            let got = match answer.field("Content-Encoding") {
                None => answer.body,
                Some(_) => {
                    let mut out = Vec::new();
                    flate2::read::GzDecoder::new(&answer.body[..])
                        .read_to_end(&mut out)
                        .expect("a whole body");
                    out
                }
            };
            assert!(got == content, "a file that {what} {fields}");
            client.get("/none");
        }
    }
}

fn append(path: &Path) {
    let file = File::options().append(true).open(path).expect("a file can be opened");
    (&file).write_all(b"more").expect("a file can be written");
}

#[test]
fn a_file_that_is_written_to_keeps_its_length() {
    let scratch = Scratch::new();
    let path = scratch.file("large.txt", content());
    let server = serve_files(&scratch, |_| {});
    let mut client = server.connect();
    client.send("GET /large.txt HTTP/1.1\r\nHost: a\r\n\r\n");
    client.stream.peek(&mut [0; 100]).expect("an answer begins");
    let file = File::options().write(true).open(&path).expect("a file can be opened");
    file.write_all_at(&vec![b'x'; 1000], SIZE as u64 - 1000).expect("a file can be written");
    assert_eq!(client.answer().body.len(), SIZE);
}
