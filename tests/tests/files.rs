//! Files: types, index, HEAD, conditions, ranges, and nothing outside of the root.

use std::os::unix::fs::symlink;

use drover_tests::http::{exchange, get, request};
use drover_tests::{Client, Config, Directory, Drover, Port};

struct Site {
    drover: Drover,
    port: Port,
    _directory: Directory,
}

const PAGE: &str = "<!DOCTYPE html><title>A page</title>\n";

fn large() -> Vec<u8> {
    (0..1_000_000_u32).flat_map(|number| (number % 251).to_le_bytes()).collect()
}

fn site() -> Site {
    let (directory, port) = (Directory::new(), Port::new());
    directory.write("www/index.html", PAGE);
    directory.write("www/style.css", "p { color: red }\n");
    directory.write("www/data.unknown-extension", "data");
    directory.write("www/sub/index.html", "sub");
    directory.write("www/empty.txt", "");
    directory.write("www/with space.txt", "space");
    directory.write("www/large.bin", large());
    directory.write("secret.txt", "secret");
    std::fs::create_dir(directory.join("www/bare")).expect("made");
    symlink(directory.join("secret.txt"), directory.join("www/link.txt")).expect("linked");
    let config =
        Config::new(&directory, 1).server_with(&format!("listen = [\"{}\"]\nroot = \"www\"", port.address()));
    Site { drover: Drover::start(&directory, &config), port, _directory: directory }
}

impl Site {
    fn get(&self, target: &str) -> drover_tests::Response {
        get(self.port.address(), target)
    }

    fn with(&self, target: &str, headers: &str) -> drover_tests::Response {
        exchange(self.port.address(), request("GET", target, headers)).expect("an answer")
    }
}

#[test]
fn types_follow_the_extension() {
    let site = site();
    for (target, kind) in [
        ("/index.html", "text/html"),
        ("/style.css", "text/css"),
        ("/data.unknown-extension", "application/octet-stream"),
    ] {
        let response = site.get(target);
        assert_eq!(response.status, 200, "{target}");
        let found = response.header("content-type").unwrap_or_default().to_owned();
        assert!(found.starts_with(kind), "{target}: {found}");
    }
}

#[test]
fn a_folder_is_its_index() {
    let site = site();
    assert_eq!(site.get("/").text(), PAGE);
    assert_eq!(site.get("/sub/").text(), "sub");
    let redirect = site.get("/sub");
    assert_eq!(redirect.status, 301);
    assert!(redirect.header("location").is_some_and(|to| to.ends_with("/sub/")), "{redirect:?}");
    assert_eq!(site.get("/bare/").status, 403);
    assert_eq!(site.get("/nothing").status, 404);
    assert_eq!(site.get("/index.html/").status, 404);
    assert_eq!(site.get("/with%20space.txt").text(), "space");
}

#[test]
fn head_has_the_same_head_and_no_body() {
    let site = site();
    let mut client = Client::to(site.port.address());
    for target in ["/", "/large.bin", "/nothing", "/empty.txt"] {
        let by_get = client.get(target);
        client.send(request("HEAD", target, ""));
        let by_head = client.head_response();
        assert_eq!(by_head.status, by_get.status, "{target}");
        assert_eq!(by_head.header("content-length"), by_get.header("content-length"), "{target}");
        assert_eq!(by_head.header("etag"), by_get.header("etag"), "{target}");
        // Were there a body, it would be taken for the next answer.
        assert_eq!(client.get("/sub/").text(), "sub");
    }
}

#[test]
fn large_files_arrive_whole() {
    let site = site();
    let expected = large();
    let mut client = Client::to(site.port.address());
    for _ in 0..2 {
        let response = client.get("/large.bin");
        assert_eq!(response.body.len(), expected.len());
        assert!(response.body == expected, "the bytes are those of the file");
    }
}

#[test]
fn unchanged_files_are_not_sent_again() {
    let site = site();
    let first = site.get("/style.css");
    let (tag, date) =
        (first.header("etag").expect("an ETag"), first.header("last-modified").expect("a date"));
    assert_eq!(site.with("/style.css", &format!("If-None-Match: {tag}\r\n")).status, 304);
    assert_eq!(site.with("/style.css", &format!("If-Modified-Since: {date}\r\n")).status, 304);
    assert_eq!(site.with("/style.css", "If-None-Match: \"other\"\r\n").status, 200);
    assert_eq!(site.with("/style.css", "If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT\r\n").status, 200);
    assert_eq!(site.with("/style.css", "If-Match: \"other\"\r\n").status, 412);
    // The tag decides where both are given.
    let both = format!("If-None-Match: \"other\"\r\nIf-Modified-Since: {date}\r\n");
    assert_eq!(site.with("/style.css", &both).status, 200);
}

#[test]
fn ranges() {
    let site = site();
    let expected = large();
    let size = expected.len();
    let part = |range: &str| site.with("/large.bin", &format!("Range: {range}\r\n"));
    let first = part("bytes=0-9");
    assert_eq!((first.status, first.body.as_slice()), (206, &expected[..10]));
    assert_eq!(first.header("content-range"), Some(format!("bytes 0-9/{size}").as_str()));
    assert!(part("bytes=1000000-2999999").body == expected[1_000_000..3_000_000]);
    assert_eq!(part("bytes=-5").body, &expected[size - 5..]);
    assert_eq!(part(&format!("bytes={}-", size - 3)).body, &expected[size - 3..]);
    let outside = part(&format!("bytes={size}-"));
    assert_eq!(outside.status, 416);
    assert_eq!(outside.header("content-range"), Some(format!("bytes */{size}").as_str()));
    // What is no range is ignored.
    for nonsense in ["bytes=", "bytes=a-b", "lines=1-2", "bytes=9-0"] {
        assert_eq!(part(nonsense).status, 200, "{nonsense}");
    }
}

#[test]
fn nothing_outside_of_the_root_is_served() {
    let site = site();
    for target in [
        "/../secret.txt",
        "/sub/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e%2fsecret.txt",
        "/sub/%2e%2e/%2e%2e/secret.txt",
        "/./../secret.txt",
        "/..",
        "/%00",
        "/index.html%00.txt",
        "//../secret.txt",
        "/..\\secret.txt",
        "/link.txt",
        "/%252e%252e/secret.txt",
    ] {
        let response = exchange(site.port.address(), request("GET", target, "")).expect("an answer");
        assert!((400..500).contains(&response.status), "{target}: {}", response.status);
        assert!(!response.text().contains("secret\n"), "{target}");
        assert_ne!(response.text(), "secret", "{target}");
    }
    // Within the root the way up is an ordinary one.
    assert_eq!(site.get("/sub/../style.css").status, 200);
    assert_eq!(site.get("/sub/./index.html").text(), "sub");
}

#[test]
fn the_log_says_why_something_is_not_served() {
    let site = site();
    for (target, reason) in [
        ("/link.txt", "a symbolic link leads out of the root"),
        ("/bare/", "a directory without an index file"),
    ] {
        assert_eq!(site.get(target).status, 403, "{target}");
        site.drover.log_line(&[target, reason]);
    }
}

#[test]
fn other_methods_are_not_for_files() {
    let site = site();
    for method in ["POST", "PUT", "DELETE"] {
        let response =
            exchange(site.port.address(), request(method, "/", "Content-Length: 0\r\n")).expect("an answer");
        assert_eq!(response.status, 405, "{method}");
        let allowed = response.header("allow").unwrap_or_default();
        assert!(allowed.contains("GET") && allowed.contains("HEAD"), "{method}: {allowed}");
    }
}

#[test]
fn a_file_that_is_replaced_is_served_anew() {
    let site = site();
    assert_eq!(site.get("/style.css").text(), "p { color: red }\n");
    site._directory.write("www/new.css", "p { color: blue }\n");
    std::fs::rename(site._directory.join("www/new.css"), site._directory.join("www/style.css"))
        .expect("renamed");
    drover_tests::eventually("the cache looks again", || {
        (site.get("/style.css").text() == "p { color: blue }\n").then_some(())
    });
    std::fs::remove_file(site._directory.join("www/style.css")).expect("removed");
    drover_tests::eventually("the cache looks again", || {
        (site.get("/style.css").status == 404).then_some(())
    });
}

#[test]
fn a_directory_stands_in_place_of_a_path() {
    let (directory, port) = (Directory::new(), Port::new());
    directory.write("up/a.txt", "a");
    directory.write("up/index.html", "index");
    directory.write("up/sub/b.txt", "b");
    let config = Config::new(&directory, 1)
        .server(&port)
        .location("/files/", "alias = \"up\"\ntry_files = [\"$uri\", \"$uri/\", \"=410\"]")
        .location("/bare", "alias = \"up\"");
    let config = Config::written(format!(
        "{}\n[[http.servers.locations]]\npath = {{ exact = \"/one\" }}\nalias = \"up/sub/b.txt\"\n",
        config.text()
    ));
    let _drover = Drover::start(&directory, &config);
    let told = |target: &str| {
        let response = get(port.address(), target);
        (response.status, response.text())
    };
    for (target, body) in [
        ("/files/a.txt", "a"),
        ("/files/sub/b.txt", "b"),
        ("/files/", "index"),
        ("/bare/a.txt", "a"),
        ("/one", "b"),
    ] {
        assert_eq!(told(target), (200, body.to_owned()), "{target}");
    }
    for (target, status) in [
        ("/files/files/a.txt", 410),
        ("/barea.txt", 404),
        ("/bare/../up/a.txt", 404),
        ("/files/%2e%2e/up/a.txt", 404),
    ] {
        assert_eq!(told(target).0, status, "{target}");
    }
}
