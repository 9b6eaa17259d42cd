//! Files: found beneath the root and nowhere else, whole, in part, conditionally, from the cache and anew.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use common::{Scratch, Server, bytes, serve, wait_for};
use drover_http::config::{Coding, Http};

fn serve_files(scratch: &Scratch, change: impl FnOnce(&mut Http)) -> Server {
    serve(|http| {
        http.servers[0].root = Some(scratch.path().to_path_buf().into());
        http.open_file_cache.valid = Duration::from_millis(20);
        change(http);
    })
}

fn large() -> Vec<u8> {
    (0..3_000_000_u32).map(|n| (n % 251) as u8).collect()
}

#[test]
fn files_are_found_with_their_types() {
    let scratch = Scratch::new();
    scratch.file("index.html", "<p>home");
    scratch.file("sub/index.html", "<p>sub");
    scratch.file("sub/data.unknown", "data");
    scratch.file("a b.txt", "space");
    scratch.file("empty.txt", "");
    fs::create_dir(scratch.path().join("bare")).expect("a directory can be made");
    let server = serve_files(&scratch, |_| {});
    for (target, status, kind, body) in [
        ("/", 200, "text/html", "<p>home"),
        ("/index.html", 200, "text/html", "<p>home"),
        ("/index.html?x=y", 200, "text/html", "<p>home"),
        ("/sub/", 200, "text/html", "<p>sub"),
        ("/sub/../sub//./data.unknown", 200, "application/octet-stream", "data"),
        ("/a%20b.txt", 200, "text/plain", "space"),
        ("/empty.txt", 200, "text/plain", ""),
    ] {
        let answer = server.get(target);
        assert_eq!((answer.status, answer.text()), (status, body), "{target}");
        assert_eq!(answer.field("Content-Type"), Some(kind), "{target}");
        assert!(answer.field("ETag").is_some() && answer.field("Last-Modified").is_some());
        let head = server.ask(&format!("HEAD {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"));
        assert_eq!(
            head.head.replace(head.field("Date").expect("a date"), ""),
            answer.head.replace(answer.field("Date").expect("a date"), "")
        );
    }
    for (target, status) in
        [("/none", 404), ("/none/", 404), ("/bare/", 403), ("/index.html/", 404), ("/index.html/x", 404)]
    {
        assert_eq!(server.get(target).status, status, "{target}");
    }
    let answer = server.get("/sub?x=y");
    assert_eq!((answer.status, answer.field("Location")), (301, Some("/sub/?x=y")));
    let answer = server.ask("DELETE /index.html HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!((answer.status, answer.field("Allow")), (405, Some("GET, HEAD")));
    let answer = server.ask("BREW /index.html HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(answer.status, 501);
    let answer = server.ask("OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!((answer.status, answer.field("Allow")), (204, Some("GET, HEAD")));
}

/// What is asked for, and the status that answers it.
const WAYS_OUT: &[(&str, u16)] = &[
    ("/in.txt", 200),
    ("/link.txt", 200),
    ("/up/root/in.txt", 403),
    ("/out.txt", 403),
    ("/link-to-out.txt", 403),
    ("/etc/passwd", 403),
    ("/etc", 403),
    ("/dir/", 403),
    ("/dir/index.html", 403),
    ("/up/secret.txt", 403),
    // The index is a link that leads out: it is there, so nothing else is shown.
    ("/sub/", 403),
    ("/pipe", 403),
    // As in any path, `..` counts in what is decoded once.
    ("/../secret.txt", 400),
    ("/%2e%2e/secret.txt", 400),
    ("/.%2e/secret.txt", 400),
    ("/x/..%2f..%2fsecret.txt", 400),
    ("/x/%2e%2e%2f%2e%2e%2fsecret.txt", 400),
    ("http://a/../secret.txt", 400),
    ("/%252e%252e/secret.txt", 404),
    ("/..%5csecret.txt", 404),
    ("/..\\secret.txt", 400),
    // UTF-8 that is longer than it may be, and full-width dots: bytes like any others.
    ("/%c0%ae%c0%ae/secret.txt", 404),
    ("/%c0%ae%c0%ae%c0%afsecret.txt", 404),
    ("/%e0%80%ae%e0%80%ae/secret.txt", 404),
    ("/%ef%bc%8e%ef%bc%8e/secret.txt", 404),
    ("//etc/passwd", 403),
    ("/%2fetc/passwd", 403),
    ("//secret.txt", 404),
    ("/in.txt%00.html", 400),
    ("/%00/../secret.txt", 400),
    ("/proc/self/root/etc/passwd", 404),
];

#[test]
fn nothing_leads_out_of_the_root() {
    let scratch = Scratch::new();
    scratch.file("secret.txt", "secret");
    scratch.file("outside/index.html", "secret");
    scratch.file("outside/a.txt.gz", "secret");
    scratch.file("root/in.txt", "in");
    scratch.file("root/a.txt", "plain");
    let link = |to: &str, name: &str| symlink(to, scratch.path().join("root").join(name)).expect("a link");
    link("../secret.txt", "out.txt");
    link("out.txt", "link-to-out.txt");
    link("/etc", "etc");
    link("../outside", "dir");
    link("..", "up");
    link("in.txt", "link.txt");
    link("../outside/a.txt.gz", "a.txt.gz");
    scratch.file("root/sub/x", "");
    link("../../outside/index.html", "sub/index.html");
    nix::unistd::mkfifo(&scratch.path().join("root/pipe"), nix::sys::stat::Mode::S_IRUSR)
        .expect("a pipe can be made");
    let server = serve(|http| {
        http.servers[0].root = Some(scratch.path().join("root").into());
        http.servers[0].autoindex = true;
        http.servers[0].precompressed = vec![Coding::Gzip.into()];
    });
    for (target, status) in WAYS_OUT {
        let mut client = server.connect();
        client.send(format!(
            "GET {target} HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
        ));
        let answer = client.answer();
        assert_eq!(answer.status, *status, "{target}");
        assert!(!answer.text().contains("secret") && !answer.text().contains("root:"), "{target}");
    }
    // An encoded file beside one is done without if it leads out.
    let answer =
        server.ask("GET /a.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n");
    assert_eq!(answer.text(), "plain");
}

#[test]
fn nothing_leads_out_while_the_tree_is_changed() {
    let scratch = Scratch::new();
    scratch.file("outside/a.txt", "secret");
    scratch.file("root/real/a.txt", "in");
    let root = scratch.path().join("root");
    symlink("../outside", root.join("link")).expect("a link can be made");
    let server = serve_files(&scratch, |http| {
        http.servers[0].root = Some(root.clone().into());
        http.open_file_cache.entries = 0;
    });
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let changed = root.clone();
    let changer = std::thread::spawn(move || {
        let rename =
            |from: &str, to: &str| fs::rename(changed.join(from), changed.join(to)).expect("renamed");
        while stopped.try_recv().is_err() {
            for name in ["real", "link"] {
                rename(name, "now");
                rename("now", name);
            }
        }
    });
    let mut seen = [0; 2];
    let begun = std::time::Instant::now();
    while begun.elapsed() < Duration::from_millis(500) || seen.contains(&0) {
        let answer = server.get("/now/a.txt");
        match answer.status {
            200 => assert_eq!(answer.text(), "in"),
            status => assert!(matches!(status, 403 | 404), "{status}"),
        }
        seen[usize::from(answer.status == 403)] += u32::from(answer.status != 404);
        assert!(begun.elapsed() < Duration::from_secs(20), "each was seen: {seen:?}");
    }
    stop.send(()).expect("the changer runs");
    changer.join().expect("renames succeed");
}

#[test]
fn large_files_arrive_whole_and_in_parts() {
    let scratch = Scratch::new();
    let large = large();
    scratch.file("large.bin", &large);
    for sendfile in [true, false] {
        let server = serve_files(&scratch, |http| http.sendfile = sendfile);
        let mut client = server.connect();
        for _ in 0..2 {
            assert!(client.get("/large.bin").body == large);
        }
        client.send("GET /large.bin HTTP/1.1\r\nHost: a\r\nRange: bytes=100000-2099999\r\n\r\n");
        let answer = client.answer();
        assert_eq!(answer.field("Content-Range"), Some("bytes 100000-2099999/3000000"));
        assert!(answer.status == 206 && answer.body == large[100_000..2_100_000]);
    }
}

#[test]
fn cached_files_of_every_size_arrive_whole() {
    let scratch = Scratch::new();
    let large = large();
    let server = serve_files(&scratch, |http| {
        http.open_file_cache.small_file = bytes(1_000_000);
        http.open_file_cache.valid = Duration::from_secs(60);
    });
    let mut client = server.connect();
    for size in [1, 4096, 4097, 16_384, 1_000_000, 1_000_001] {
        scratch.file(&format!("{size}.bin"), &large[..size]);
        for _ in 0..2 {
            assert!(client.get(&format!("/{size}.bin")).body == large[..size], "{size}");
        }
    }
    // More than the sockets take at once, with a client that reads only afterwards.
    client.send("GET /1000000.bin HTTP/1.1\r\nHost: a\r\n\r\n".repeat(12));
    for _ in 0..12 {
        assert!(client.answer().body == large[..1_000_000]);
    }
}

#[test]
fn conditions_and_ranges_of_small_files() {
    let scratch = Scratch::new();
    scratch.file("a.txt", "0123456789");
    let server = serve_files(&scratch, |_| {});
    let mut client = server.connect();
    let whole = client.get("/a.txt");
    let (tag, date) = (whole.field("ETag").expect("a tag"), whole.field("Last-Modified").expect("a date"));
    for (field, status, body) in [
        (format!("If-None-Match: {tag}"), 304, ""),
        (format!("If-Modified-Since: {date}"), 304, ""),
        (format!("If-None-Match: \"x\", {tag}"), 304, ""),
        ("If-None-Match: \"x\"".to_owned(), 200, "0123456789"),
        ("If-Match: \"x\"".to_owned(), 412, "412 Precondition Failed"),
        ("Range: bytes=2-4".to_owned(), 206, "234"),
        ("Range: bytes=-3".to_owned(), 206, "789"),
        ("Range: bytes=10-".to_owned(), 416, "416 Range Not Satisfiable"),
        (format!("Range: bytes=0-0\r\nIf-Range: {tag}"), 206, "0"),
        ("Range: bytes=0-0\r\nIf-Range: \"x\"".to_owned(), 200, "0123456789"),
    ] {
        client.send(format!("GET /a.txt HTTP/1.1\r\nHost: a\r\n{field}\r\n\r\n"));
        let answer = client.answer();
        assert_eq!(answer.status, status, "{field}");
        assert!(answer.text().contains(body), "{field}: {}", answer.text());
        if status == 304 {
            assert_eq!(answer.field("ETag"), Some(tag));
            assert_eq!(answer.field("Content-Length"), None);
        }
        if status == 416 {
            assert_eq!(answer.field("Content-Range"), Some("bytes */10"));
        }
    }
}

#[test]
fn a_changed_file_is_seen_once_its_entry_is_stale() {
    let scratch = Scratch::new();
    let path = scratch.file("a.txt", "one");
    let server = serve_files(&scratch, |_| {});
    let mut client = server.connect();
    assert_eq!(client.get("/a.txt").text(), "one");
    scratch.file("a.txt", "other");
    fs::File::options()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_modified(SystemTime::now() + Duration::from_secs(5)))
        .expect("a file's date can be set");
    wait_for("the change", || (server.get("/a.txt").text() == "other").then_some(()));
    fs::remove_file(&path).expect("a file can be removed");
    wait_for("the end", || (server.get("/a.txt").status == 404).then_some(()));
    scratch.file("a.txt", "again");
    assert_eq!(client.get("/a.txt").text(), "again", "what is missing is not remembered");
}

#[test]
fn without_a_cache_files_are_served_too() {
    let scratch = Scratch::new();
    scratch.file("a.txt", "one");
    let server = serve_files(&scratch, |http| http.open_file_cache.entries = 0);
    let mut client = server.connect();
    for _ in 0..3 {
        assert_eq!(client.get("/a.txt").text(), "one");
    }
}

#[test]
fn a_root_that_is_missing_is_a_404_until_it_is_there() {
    let scratch = Scratch::new();
    let server = serve(|http| {
        http.servers[0].root = Some(scratch.path().join("later").into());
        http.open_file_cache.valid = Duration::ZERO;
    });
    assert_eq!(server.get("/a.txt").status, 404);
    scratch.file("later/a.txt", "here");
    assert_eq!(server.get("/a.txt").text(), "here");
}
