//! Directories that are listed, where that is asked for.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use common::{Scratch, Server, location, serve, wait_for};
use drover_http::config::{Http, Location};

fn serve_files(scratch: &Scratch, change: impl FnOnce(&mut Http)) -> Server {
    serve(|http| {
        http.servers[0].root = Some(scratch.path().join("root").into());
        http.servers[0].autoindex = true;
        http.open_file_cache.valid = Duration::from_millis(20);
        change(http);
    })
}

#[test]
fn what_is_served_is_listed_in_order() {
    let scratch = Scratch::new();
    scratch.file("secret.txt", "secret");
    scratch.file("root/b.txt", "12345");
    scratch.file("root/a&b<c>.txt", "");
    scratch.file("root/with space", "");
    scratch.file("root/.hidden", "");
    scratch.file("root/zoo/index.html", "the index");
    scratch.file("root/yard/x", "");
    let link = |to: &str, name: &str| symlink(to, scratch.path().join("root").join(name)).expect("linked");
    link("b.txt", "link.txt");
    link("yard", "link-to-yard");
    link("../secret.txt", "out.txt");
    link("/etc", "etc");
    link("nowhere", "dangling");
    nix::unistd::mkfifo(&scratch.path().join("root/pipe"), nix::sys::stat::Mode::S_IRUSR).expect("a pipe");
    let server = serve_files(&scratch, |_| {});
    let answer = server.get("/");
    assert_eq!((answer.status, answer.field("Content-Type")), (200, Some("text/html; charset=utf-8")));
    let links: Vec<&str> =
        answer.text().split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    assert_eq!(
        links,
        [
            "./link-to-yard/",
            "./yard/",
            "./zoo/",
            "./a&amp;b%3Cc%3E.txt",
            "./b.txt",
            "./link.txt",
            "./with%20space"
        ]
    );
    assert!(answer.text().contains(">a&amp;b&lt;c&gt;.txt<") && answer.text().contains(">5 B<"));
    // Each link leads somewhere.
    for link in links {
        let status = server.get(&link.replace("&amp;", "&")[1..]).status;
        assert_eq!(status, 200, "{link}");
    }
    assert_eq!(server.get("/zoo/").text(), "the index");
    assert_eq!(server.get("/yard").status, 301);
    let yard = server.get("/yard/");
    assert!(yard.text().contains("<title>Index of /yard/</title>") && yard.text().contains("href=\"../\""));
    for (target, status) in [("/none/", 404), ("/b.txt/", 404), ("/out.txt", 403), ("/etc/", 403)] {
        assert_eq!(server.get(target).status, status, "{target}");
    }
}

#[test]
fn a_listing_follows_its_directory_and_is_known_by_a_tag() {
    let scratch = Scratch::new();
    scratch.file("root/a.txt", "1");
    let server = serve_files(&scratch, |_| {});
    let mut client = server.connect();
    let first = client.get("/");
    let tag = first.field("ETag").expect("a tag").to_owned();
    let condition = format!("GET / HTTP/1.1\r\nHost: a\r\nIf-None-Match: {tag}\r\nConnection: close\r\n\r\n");
    let unchanged = || server.ask(&condition).status == 304;
    assert!(unchanged());
    scratch.file("root/b.txt", "1");
    wait_for("the change", || (!unchanged()).then_some(()));
    fs::remove_file(scratch.path().join("root/b.txt")).expect("removed");
    wait_for("the way back", || unchanged().then_some(()));
    let head = server.ask("HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!(head.field("Content-Length"), first.field("Content-Length"));
    client.send("GET / HTTP/1.1\r\nHost: a\r\nRange: bytes=0-14\r\n\r\n");
    assert_eq!(client.answer().text(), "<!DOCTYPE html>");
}

#[test]
fn nothing_is_listed_unasked() {
    let scratch = Scratch::new();
    scratch.file("root/open/a.txt", "1");
    scratch.file("root/closed/a.txt", "1");
    let server = serve_files(&scratch, |http| {
        http.servers[0].autoindex = false;
        http.servers[0].locations = vec![Location { autoindex: Some(true), ..location("/open/") }];
    });
    assert_eq!(server.get("/closed/").status, 403);
    assert_eq!(server.get("/open/").status, 200);
}

#[test]
fn a_large_directory_is_listed_in_part() {
    let scratch = Scratch::new();
    for number in 0..2100 {
        scratch.file(&format!("root/{number:04}.txt"), "");
    }
    let server = serve_files(&scratch, |_| {});
    let answer = server.get("/");
    assert_eq!(answer.text().matches("<tr><td>").count(), 2000);
    assert!(answer.text().contains("more entries"));
}
