//! Several ranges of a file in one answer, as a client puts them together again.

mod common;

use std::ops::Range;

use common::{Answer, Scratch, Server, serve};
use drover_http::config::Http;

const SIZE: usize = 100_000;

fn content() -> Vec<u8> {
    (0..SIZE as u32).map(|n| (n % 251) as u8).collect()
}

fn serve_files(scratch: &Scratch, change: impl FnOnce(&mut Http)) -> Server {
    scratch.file("large.txt", content());
    scratch.file("small.txt", "0123456789");
    serve(|http| {
        http.servers[0].root = Some(scratch.path().to_path_buf().into());
        change(http);
    })
}

/// The parts of a `multipart/byteranges` body: type, range and bytes of each.
fn parts(answer: &Answer) -> Vec<(String, String, Vec<u8>)> {
    let boundary =
        answer.field("Content-Type").and_then(|kind| kind.strip_prefix("multipart/byteranges; boundary="));
    let delimiter = format!("--{}", boundary.expect("several parts"));
    let mut rest = answer.body.strip_prefix(delimiter.as_bytes()).expect("begins with the delimiter");
    let delimiter = format!("\r\n{delimiter}");
    let mut parts = Vec::new();
    loop {
        if rest == b"--\r\n" {
            return parts;
        }
        let part = rest.strip_prefix(b"\r\n").expect("the delimiter's line ends");
        let end = part.windows(delimiter.len()).position(|window| window == delimiter.as_bytes());
        let (part, after) = part.split_at(end.expect("each part ends with the delimiter"));
        let head = part.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
        let fields = std::str::from_utf8(&part[..head]).expect("text");
        let field = |name: &str| {
            let value = fields.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            value.expect("a field").to_owned()
        };
        parts.push((field("Content-Type"), field("Content-Range"), part[head..].to_vec()));
        rest = &after[delimiter.len()..];
    }
}

#[test]
fn several_ranges_come_in_parts() {
    let scratch = Scratch::new();
    let content = content();
    for (sendfile, small) in [(true, 0), (false, 0), (true, 1 << 20)] {
        let server = serve_files(&scratch, |http| {
            http.sendfile = sendfile;
            http.open_file_cache.small_file = common::bytes(small);
        });
        let mut client = server.connect();
        client.send("GET /large.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-0, 50000-89999,-7\r\n\r\n");
        let answer = client.answer();
        assert_eq!(answer.status, 206);
        assert_eq!(answer.field("Content-Range"), None, "it stands with the parts");
        assert!(answer.field("ETag").is_some() && answer.field("Last-Modified").is_some());
        let want: [Range<usize>; 3] = [0..1, 50_000..90_000, SIZE - 7..SIZE];
        let found = parts(&answer);
        assert_eq!(found.len(), want.len());
        for ((kind, range, bytes), want) in found.into_iter().zip(want) {
            assert_eq!(kind, "text/plain");
            assert_eq!(range, format!("bytes {}-{}/{SIZE}", want.start, want.end - 1));
            assert!(bytes == content[want]);
        }
        // The length was right, or the next answer would not begin here.
        client.send("GET /small.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=3-4,1-1\r\n\r\n");
        let small: Vec<_> = parts(&client.answer()).into_iter().map(|(_, _, bytes)| bytes).collect();
        assert_eq!(small, [b"34".to_vec(), b"1".to_vec()]);
    }
}

#[test]
fn ranges_are_bounded() {
    let scratch = Scratch::new();
    let server = serve_files(&scratch, |http| http.max_ranges = 3);
    let mut client = server.connect();
    let mut status = |range: &str| {
        client.send(format!("GET /small.txt HTTP/1.1\r\nHost: a\r\nRange: bytes={range}\r\n\r\n"));
        let answer = client.answer();
        (answer.status, answer.field("Content-Range").map(str::to_owned))
    };
    assert_eq!(status("0-0,2-2,4-4"), (206, None));
    assert_eq!(status("0-0,2-2,4-4,6-6"), (200, None), "too many");
    assert_eq!(status("0-,0-,0-"), (200, None), "longer than the whole");
    assert_eq!(status("20-,5-6"), (206, Some("bytes 5-6/10".to_owned())), "what is left is one");
    assert_eq!(status("20-,30-"), (416, Some("bytes */10".to_owned())));
}

#[test]
fn without_ranges_all_get_the_whole() {
    let scratch = Scratch::new();
    let server = serve_files(&scratch, |http| http.max_ranges = 0);
    let ask = "GET /small.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\nConnection: close\r\n\r\n";
    let answer = server.ask(ask);
    assert_eq!((answer.status, answer.text(), answer.field("Accept-Ranges")), (200, "0123456789", None));
}

#[test]
fn head_has_no_parts() {
    let scratch = Scratch::new();
    let server = serve_files(&scratch, |_| {});
    let ask = "HEAD /small.txt HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1,3-4\r\nConnection: close\r\n\r\n";
    let answer = server.ask(ask);
    assert_eq!((answer.status, answer.field("Content-Length")), (200, Some("10")));
    assert_eq!(answer.field("Accept-Ranges"), Some("bytes"));
}
