//! Encoded answers: files that lie beside a file, and what is encoded on the way. Decoded by others.

mod common;

use std::fs;
use std::io::Read;
use std::time::{Duration, SystemTime};

use common::{Answer, Client, Scratch, Server, bytes, location, returning, serve, wait_for};
use drover_http::config::{Coding, Http, Location, Return};

/// Text that is worth encoding.
fn text(length: usize) -> Vec<u8> {
    (0_u64..).flat_map(|n| format!("line {n}, {:x}\n", n * n % 9973).into_bytes()).take(length).collect()
}

fn serve_files(scratch: &Scratch, change: impl FnOnce(&mut Http)) -> Server {
    serve(|http| {
        http.servers[0].root = Some(scratch.path().to_path_buf().into());
        http.open_file_cache.valid = Duration::from_millis(20);
        change(http);
    })
}

fn encoding(http: &mut Http) {
    http.compression.encodings = [Coding::Zstd, Coding::Brotli, Coding::Gzip].map(Into::into).to_vec();
}

fn ask(client: &mut Client, method: &str, target: &str, fields: &str) -> Answer {
    client.send(format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"));
    client.answer_to(method != "HEAD")
}

fn decoded(answer: &Answer) -> Vec<u8> {
    let mut out = Vec::new();
    let bytes = &answer.body[..];
    match answer.field("Content-Encoding") {
        None => return bytes.to_vec(),
        Some("gzip") => flate2::read::GzDecoder::new(bytes).read_to_end(&mut out),
        Some("br") => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out),
        Some("zstd") => zstd::stream::read::Decoder::new(bytes).expect("memory").read_to_end(&mut out),
        Some(other) => panic!("{other} was not asked for"),
    }
    .expect("a whole body");
    out
}

#[test]
fn large_files_are_encoded_on_the_way() {
    let scratch = Scratch::new();
    let content = text(1_000_000);
    scratch.file("large.txt", &content);
    let server = serve_files(&scratch, encoding);
    let mut client = server.connect();
    for (accept, want) in [
        ("gzip", Some("gzip")),
        ("br", Some("br")),
        ("zstd", Some("zstd")),
        ("gzip, br, zstd", Some("zstd")),
        ("gzip;q=1, br;q=0.5", Some("gzip")),
        ("identity;q=0, *", Some("zstd")),
        ("identity", None),
        ("gzip;q=0", None),
        ("", None),
    ] {
        let answer = ask(&mut client, "GET", "/large.txt", &format!("Accept-Encoding: {accept}\r\n"));
        assert_eq!((answer.status, answer.field("Content-Encoding")), (200, want), "{accept}");
        assert_eq!(answer.field("Vary"), Some("Accept-Encoding"), "{accept}");
        assert_eq!(answer.field("Content-Type"), Some("text/plain"));
        assert!(decoded(&answer) == content, "{accept}");
        assert_eq!(answer.field("Transfer-Encoding").is_some(), want.is_some());
        if want.is_some() {
            assert!(answer.body.len() < content.len() / 2, "{accept}");
            assert_eq!((answer.field("Content-Length"), answer.field("Accept-Ranges")), (None, None));
        }
        let tag = answer.field("ETag").expect("a tag").to_owned();
        assert_eq!(tag.starts_with("W/"), want.is_some(), "{accept}: {tag}");
        let head = ask(&mut client, "HEAD", "/large.txt", &format!("Accept-Encoding: {accept}\r\n"));
        let undated = |answer: &Answer| {
            let lines = answer.head.lines().filter(|line| !line.starts_with("Date: "));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(undated(&head), undated(&answer), "HEAD as GET");
        let condition = format!("Accept-Encoding: {accept}\r\nIf-None-Match: {tag}\r\n");
        let unchanged = ask(&mut client, "GET", "/large.txt", &condition);
        assert_eq!((unchanged.status, unchanged.field("ETag")), (304, Some(&*tag)));
        assert_eq!(unchanged.field("Vary"), Some("Accept-Encoding"));
    }
}

#[test]
fn http_1_0_gets_a_body_up_to_the_end_of_the_connection() {
    let scratch = Scratch::new();
    let content = text(300_000);
    scratch.file("large.txt", &content);
    let server = serve_files(&scratch, encoding);
    let answer =
        server.ask("GET /large.txt HTTP/1.0\r\nAccept-Encoding: gzip\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(answer.field("Content-Encoding"), Some("gzip"));
    assert_eq!((answer.field("Transfer-Encoding"), answer.field("Content-Length")), (None, None));
    assert_eq!(answer.field("Connection"), Some("close"));
    assert!(decoded(&answer) == content);
}

#[test]
fn small_files_are_encoded_once_and_kept() {
    let scratch = Scratch::new();
    let content = text(10_000);
    scratch.file("small.txt", &content);
    scratch.file("tiny.txt", "tiny");
    scratch.file("small.png", &content);
    scratch.file(
        "noise.txt",
        (0..5000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 23) as u8).collect::<Vec<_>>(),
    );
    let server = serve_files(&scratch, encoding);
    let mut client = server.connect();
    for accept in ["gzip", "br", "zstd"] {
        for _ in 0..2 {
            let answer = ask(&mut client, "GET", "/small.txt", &format!("Accept-Encoding: {accept}\r\n"));
            assert_eq!(answer.field("Content-Encoding"), Some(accept));
            let length =
                answer.field("Content-Length").expect("a length").parse::<usize>().expect("a number");
            assert!(length < content.len() / 2 && decoded(&answer) == content);
            assert!(answer.field("ETag").is_some_and(|tag| tag.starts_with("W/")));
        }
        for (target, varies) in [("/tiny.txt", None), ("/small.png", None)] {
            let answer = ask(&mut client, "GET", target, &format!("Accept-Encoding: {accept}\r\n"));
            assert_eq!((answer.field("Content-Encoding"), answer.field("Vary")), (None, varies), "{target}");
        }
    }
    scratch.file("small.txt", "changed, and too small");
    let request = "GET /small.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: br\r\nConnection: close\r\n\r\n";
    wait_for("the change", || (server.ask(request).body == b"changed, and too small").then_some(()));
}

#[test]
fn ranges_and_strong_conditions_are_about_the_file_itself() {
    let scratch = Scratch::new();
    let content = text(50_000);
    scratch.file("large.txt", &content);
    let server = serve_files(&scratch, encoding);
    let mut client = server.connect();
    let accept = "Accept-Encoding: gzip\r\n";
    let tag = ask(&mut client, "GET", "/large.txt", "").field("ETag").expect("a tag").to_owned();
    let weak = ask(&mut client, "GET", "/large.txt", accept).field("ETag").expect("a tag").to_owned();
    assert_eq!(weak, format!("W/{tag}"));
    for (fields, status, range) in [
        ("Range: bytes=1-3\r\n".to_owned(), 206, 1..4),
        (format!("Range: bytes=1-3\r\nIf-Range: {tag}\r\n"), 206, 1..4),
        (format!("Range: bytes=1-3\r\nIf-Range: {weak}\r\n"), 200, 0..content.len()),
        (format!("If-Match: {tag}\r\n"), 200, 0..content.len()),
    ] {
        let answer = ask(&mut client, "GET", "/large.txt", &format!("{accept}{fields}"));
        assert_eq!((answer.status, answer.field("Content-Encoding")), (status, None), "{fields}");
        assert!(answer.body == content[range], "{fields}");
    }
    let fields = format!("{accept}If-Match: {weak}\r\n");
    assert_eq!(ask(&mut client, "GET", "/large.txt", &fields).status, 412);
}

#[test]
fn files_beside_a_file_are_sent_in_its_place() {
    let scratch = Scratch::new();
    // Told apart by what they say, not by how they are encoded.
    for (name, content) in
        [("a.css", "plain"), ("a.css.gz", "by gzip"), ("a.css.br", "by br"), ("a.css.zst", "by zstd")]
    {
        scratch.file(name, content);
    }
    let coded = [Coding::Zstd, Coding::Brotli, Coding::Gzip].map(Into::into).to_vec();
    let server = serve_files(&scratch, |http| http.servers[0].precompressed = coded);
    let mut client = server.connect();
    let mut tags = Vec::new();
    for (accept, coding, body) in [
        ("gzip", Some("gzip"), "by gzip"),
        ("br", Some("br"), "by br"),
        ("gzip, br", Some("br"), "by br"),
        ("gzip, br;q=0.9, zstd;q=0.1", Some("gzip"), "by gzip"),
        ("*", Some("zstd"), "by zstd"),
        ("gzip;q=0", None, "plain"),
        ("", None, "plain"),
    ] {
        let accept = format!("Accept-Encoding: {accept}\r\n");
        let answer = ask(&mut client, "GET", "/a.css", &accept);
        assert_eq!((answer.field("Content-Encoding"), answer.text()), (coding, body), "{accept}");
        assert_eq!(answer.field("Content-Type"), Some("text/css"));
        assert_eq!(
            (answer.field("Vary"), answer.field("Accept-Ranges")),
            (Some("Accept-Encoding"), Some("bytes"))
        );
        let tag = answer.field("ETag").expect("a tag").to_owned();
        // Each is a representation of its own: parts of it go together by its tag.
        let part =
            ask(&mut client, "GET", "/a.css", &format!("{accept}Range: bytes=1-2\r\nIf-Range: {tag}\r\n"));
        assert_eq!((part.status, part.field("Content-Encoding"), part.text()), (206, coding, &body[1..3]));
        let parts = ask(&mut client, "GET", "/a.css", &format!("{accept}Range: bytes=0-0,2-2\r\n"));
        assert_eq!(parts.status, if coding.is_some() { 200 } else { 206 });
        let unchanged = ask(&mut client, "GET", "/a.css", &format!("{accept}If-None-Match: {tag}\r\n"));
        assert_eq!((unchanged.status, unchanged.field("Vary")), (304, Some("Accept-Encoding")));
        if !tags.contains(&(coding, tag.clone())) {
            assert!(tags.iter().all(|(_, other)| *other != tag), "{tag} stands for two codings");
            tags.push((coding, tag));
        }
    }
    // Asked for by its own name it is just a file.
    let answer = ask(&mut client, "GET", "/a.css.gz", "Accept-Encoding: gzip\r\n");
    assert_eq!(
        (answer.field("Content-Encoding"), answer.field("Vary"), answer.text()),
        (None, None, "by gzip")
    );
}

#[test]
fn files_beside_a_file_come_and_go() {
    let scratch = Scratch::new();
    let plain = scratch.file("a.css", "plain");
    let server = serve_files(&scratch, |http| http.servers[0].precompressed = vec![Coding::Gzip.into()]);
    let request = "GET /a.css HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n";
    let is = |want: &str| wait_for(want, || (server.ask(request).text() == want).then_some(()));
    is("plain");
    scratch.file("a.css.gz", "by gzip");
    is("by gzip");
    scratch.file("a.css.gz", "by another gzip");
    is("by another gzip");
    // What is older than the file was made of another state of it.
    let later = SystemTime::now() + Duration::from_secs(5);
    let touch = |time| fs::File::options().write(true).open(&plain).and_then(|file| file.set_modified(time));
    touch(later).expect("a file's date can be set");
    is("plain");
    touch(SystemTime::now() - Duration::from_secs(60)).expect("a file's date can be set");
    is("by another gzip");
    fs::remove_file(scratch.path().join("a.css.gz")).expect("a file can be removed");
    is("plain");
    fs::create_dir(scratch.path().join("a.css.gz")).expect("a directory can be made");
    is("plain");
    fs::remove_file(&plain).expect("a file can be removed");
    is(&not_found());
}

fn not_found() -> String {
    let scratch = Scratch::new();
    serve_files(&scratch, |_| {}).get("/none").text().to_owned()
}

#[test]
fn fixed_answers_are_encoded_too() {
    let body = String::from_utf8(text(5000)).expect("text");
    let answer =
        |status, body: &str| Return { body: Some(body.to_owned().into()), ..common::bare_return(status) };
    let server = serve(|http| {
        encoding(http);
        let off = Location { compression: Some(Vec::new()), ..returning("/off", answer(200, &body)) };
        let own = Location {
            compression: Some(vec![Coding::Gzip.into()]),
            ..returning("/own", answer(200, &body))
        };
        http.servers[0].locations = vec![
            returning("/", answer(200, &body)),
            off,
            own,
            returning("/tiny", answer(200, "tiny")),
            returning("/with", answer(200, &format!("$request_uri {body}"))),
            returning("/with-tiny", answer(200, "$request_uri")),
            location("/none"),
        ];
    });
    let mut client = server.connect();
    for (target, accept, want) in [
        ("/", "gzip, br", Some("br")),
        ("/", "gzip", Some("gzip")),
        ("/", "identity", None),
        ("/off", "gzip", None),
        ("/own", "gzip, br", Some("gzip")),
        ("/tiny", "gzip", None),
        ("/with", "gzip, br", Some("br")),
        ("/with", "identity", None),
        ("/with-tiny", "gzip", None),
    ] {
        let accept = format!("Accept-Encoding: {accept}\r\n");
        let answer = ask(&mut client, "GET", target, &accept);
        assert_eq!(answer.field("Content-Encoding"), want, "{target} {accept}");
        let varies = matches!(target, "/" | "/own" | "/with").then_some("Accept-Encoding");
        assert_eq!(answer.field("Vary"), varies, "{target}");
        let body = match target {
            "/tiny" => "tiny".to_owned(),
            "/with" => format!("{target} {body}"),
            "/with-tiny" => target.to_owned(),
            _ => body.clone(),
        };
        assert!(decoded(&answer) == body.as_bytes(), "{target} {accept}");
        let head = ask(&mut client, "HEAD", target, &accept);
        assert_eq!(head.field("Content-Length"), answer.field("Content-Length"));
        assert_eq!(head.field("Content-Encoding"), want);
    }
}

#[test]
fn a_client_that_reads_slowly_gets_it_all() {
    let scratch = Scratch::new();
    let content = text(8_000_000);
    scratch.file("large.txt", &content);
    let server = serve_files(&scratch, |http| {
        encoding(http);
        // No more than one encoder takes.
        http.compression.max_memory = bytes(500_000);
    });
    let mut slow = server.connect();
    slow.send("GET /large.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n");
    // While that one is encoded nobody else's is, and others are served.
    let mut client = server.connect();
    wait_for("the only encoder to be lent", || {
        let head = ask(&mut client, "HEAD", "/large.txt", "Accept-Encoding: gzip\r\n");
        assert_eq!(head.status, 200);
        head.field("Content-Encoding").is_none().then_some(())
    });
    assert!(decoded(&slow.answer()) == content);
    let again = ask(&mut client, "GET", "/large.txt", "Accept-Encoding: gzip\r\n");
    assert_eq!(again.field("Content-Encoding"), Some("gzip"));
    assert!(decoded(&again) == content);
}

#[test]
fn types_and_lengths_are_configured() {
    let scratch = Scratch::new();
    let content = text(20_000);
    for name in ["a.txt", "a.html", "a.json"] {
        scratch.file(name, &content);
    }
    let server = serve_files(&scratch, |http| {
        encoding(http);
        http.compression.types = vec!["text/html".to_owned().into(), "application/*".to_owned().into()];
        http.compression.min_length = bytes(20_000);
        let long = Location { compression: Some(Vec::new()), ..location("/a.json") };
        http.servers[0].locations = vec![long];
    });
    let mut client = server.connect();
    for (target, want) in [("/a.txt", None), ("/a.html", Some("zstd")), ("/a.json", None)] {
        let answer = ask(&mut client, "GET", target, "Accept-Encoding: zstd\r\n");
        assert_eq!(answer.field("Content-Encoding"), want, "{target}");
    }
}
