//! `try_files`: what is there first, and what happens where nothing is.

mod common;

use std::fs;
use std::os::unix::fs::symlink;

use common::{Scratch, Server, fixed, location, serve};
use drover_http::config::{Location, PathMatch};

fn trying(path: &str, texts: &[&str]) -> Location {
    let texts = texts.iter().map(|text| (*text).to_owned().into()).collect();
    Location { try_files: Some(texts), ..location(path) }
}

fn serve_files(scratch: &Scratch, locations: Vec<Location>) -> Server {
    serve(|http| {
        http.servers[0].root = Some(scratch.path().join("root").into());
        http.servers[0].locations = locations;
    })
}

/// Status, body and place of a redirect.
fn got(server: &Server, target: &str) -> (u16, String, Option<String>) {
    let answer = server.get(target);
    let text = if answer.status < 300 { answer.text().to_owned() } else { String::new() };
    (answer.status, text, answer.field("Location").map(str::to_owned))
}

fn ok(body: &str) -> (u16, String, Option<String>) {
    (200, body.to_owned(), None)
}

fn error(status: u16) -> (u16, String, Option<String>) {
    (status, String::new(), None)
}

#[test]
fn the_first_that_is_there_is_served() {
    let scratch = Scratch::new();
    scratch.file("root/a.txt", "a");
    scratch.file("root/b.html", "b");
    scratch.file("root/both", "plain");
    scratch.file("root/both.html", "html");
    scratch.file("root/dir/index.html", "index of dir");
    fs::create_dir(scratch.path().join("root/bare")).expect("made");
    let tried = ["$uri", "$uri.html", "$uri/", "=404"];
    let server = serve_files(&scratch, vec![trying("/", &tried)]);
    for (target, want) in [
        ("/a.txt", ok("a")),
        ("/b", ok("b")),
        ("/b.html", ok("b")),
        ("/both", ok("plain")),
        ("/dir/", ok("index of dir")),
        ("/dir", (301, String::new(), Some("/dir/".to_owned()))),
        ("/dir?x=y", (301, String::new(), Some("/dir/?x=y".to_owned()))),
        // A directory is there, but nothing in it that could be shown.
        ("/bare/", error(403)),
        ("/none", error(404)),
        ("/a.txt/", error(404)),
    ] {
        assert_eq!(got(&server, target), want, "{target}");
    }
    let answer = server.get("/b");
    assert_eq!(answer.field("Content-Type"), Some("text/html"), "the type is that of what was found");
}

#[test]
fn without_files_the_request_goes_on_elsewhere() {
    let scratch = Scratch::new();
    scratch.file("root/app.html", "app");
    scratch.file("root/there.txt", "there");
    scratch.file("root/dir/x", "x");
    let named = Location {
        path: PathMatch::Named("fallback".to_owned()).into(),
        ..fixed("", 200, "named: $uri?$args")
    };
    let server = serve_files(
        &scratch,
        vec![
            trying("/spa/", &["$uri", "/app.html"]),
            trying("/", &["$uri", "/app.html"]),
            trying("/front/", &["$uri", "/front.php?path=$uri&$args"]),
            fixed("/front.php", 200, "front: $uri?$args"),
            trying("/named/", &["$uri", "@fallback"]),
            trying("/gone/", &["$uri", "=410"]),
            named,
        ],
    );
    for (target, want) in [
        ("/there.txt", ok("there")),
        ("/", ok("app")),
        ("/any/way", ok("app")),
        // A directory is no file.
        ("/dir", ok("app")),
        ("/dir/", ok("app")),
        ("/spa/x/y?z", ok("app")),
        ("/front/a%20b?x=1", ok("front: /front.php?path=/front/a b&x=1")),
        ("/named/x?y=z", ok("named: /named/x?y=z")),
        ("/gone/x", error(410)),
    ] {
        let (status, text, to) = got(&server, target);
        assert_eq!((status, text.replace("%20", " "), to), want, "{target}");
    }
}

#[test]
fn servers_try_where_no_location_is() {
    let scratch = Scratch::new();
    scratch.file("root/app.html", "app");
    let server = serve(|http| {
        http.servers[0].root = Some(scratch.path().join("root").into());
        http.servers[0].try_files = Some(["$uri", "/app.html"].map(|text| text.to_owned().into()).to_vec());
        http.servers[0].locations = vec![location("/assets/")];
    });
    assert_eq!(got(&server, "/any"), ok("app"));
    assert_eq!(got(&server, "/assets/any"), error(404));
}

#[test]
fn a_circle_ends() {
    let scratch = Scratch::new();
    scratch.file("root/a", "a");
    let server = serve_files(&scratch, vec![trying("/", &["$uri", "/none"])]);
    assert_eq!(got(&server, "/x"), error(500));
    assert_eq!(got(&server, "/a"), ok("a"), "and the connection's worker serves on");
}

#[test]
fn no_value_leads_out_of_the_root() {
    let scratch = Scratch::new();
    scratch.file("secret.txt", "secret");
    scratch.file("root/in/a.txt", "a");
    symlink("../../secret.txt", scratch.path().join("root/in/link.txt")).expect("linked");
    let tried = ["/in/$arg_f", "/in$http_x_file", "=404"];
    let server = serve_files(&scratch, vec![trying("/", &tried)]);
    assert_eq!(got(&server, "/?f=a.txt"), ok("a"));
    for value in [
        "../../secret.txt",
        "../../../etc/passwd",
        "/etc/passwd",
        "link.txt",
        "..%2f..%2fsecret.txt",
        "a.txt/../../../secret.txt",
    ] {
        let answer = server.get(&format!("/?f={value}"));
        assert_eq!(answer.status, 404, "{value}");
        let ask = format!("GET / HTTP/1.1\r\nHost: a\r\nX-File: {value}\r\nConnection: close\r\n\r\n");
        assert_eq!(server.ask(&ask).status, 404, "{value}");
    }
    // Up and down again, but not out.
    assert_eq!(got(&server, "/?f=../in/a.txt"), ok("a"));
}

#[test]
fn conditions_methods_and_encodings_are_those_of_what_is_found() {
    let scratch = Scratch::new();
    scratch.file("root/a.html", "<p>0123456789");
    scratch.file("root/a.html.gz", "encoded");
    let server = serve(|http| {
        http.servers[0].root = Some(scratch.path().join("root").into());
        http.servers[0].precompressed = vec![drover_http::config::Coding::Gzip.into()];
        http.servers[0].locations = vec![trying("/", &["$uri.html", "=404"])];
    });
    let tag = server.get("/a").field("ETag").expect("a tag").to_owned();
    for (ask, status, body) in [
        (format!("GET /a HTTP/1.1\r\nIf-None-Match: {tag}"), 304, ""),
        ("GET /a HTTP/1.1\r\nRange: bytes=3-4".to_owned(), 206, "01"),
        ("GET /a HTTP/1.1\r\nAccept-Encoding: gzip".to_owned(), 200, "encoded"),
        ("HEAD /a HTTP/1.1".to_owned(), 200, ""),
    ] {
        let mut client = server.connect();
        client.send(format!("{ask}\r\nHost: a\r\n\r\n"));
        let answer = client.answer_to(!ask.starts_with("HEAD"));
        assert_eq!((answer.status, answer.text()), (status, body), "{ask}");
    }
    assert_eq!(
        server.ask("POST /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n").status,
        405
    );
}
