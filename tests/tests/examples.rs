//! The examples in `config/examples/`: each is complete, is started as it is but for its port and its directory, and
//! does what it says.

use drover_tests::http::{Response, request};
use drover_tests::{Client, Example};

fn of_host(example: &Example, host: &str, target: &str) -> Response {
    example.ask(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
}

#[test]
fn a_static_site() {
    let site = Example::start("static-site", 8091);
    let home = site.get("/");
    assert!(home.status == 200 && home.text().contains("A static site"));
    let none = site.get("/none");
    assert!(none.status == 404 && none.text().contains("There is no such page"));
    let listing = site.get("/downloads/");
    assert!(listing.text().contains("read-me.txt"), "{}", listing.text());
    assert_eq!(listing.header("cache-control"), Some("public, max-age=3600"));
    assert!(site.get("/app/any/where").text().contains("An application of one page"));
    // Encoded where it is long enough and no archive, as the client likes it most.
    let encoded = |target: &str, accept: &str| {
        let answer = site.ask(request("GET", target, &format!("Accept-Encoding: {accept}\r\n")));
        assert_eq!(answer.status, 200, "{target}");
        answer.header("content-encoding").map(str::to_owned)
    };
    assert_eq!(encoded("/about.html", "gzip, br, zstd").as_deref(), Some("zstd"));
    assert_eq!(encoded("/about.html", "gzip, br;q=0.5").as_deref(), Some("gzip"));
    assert_eq!(encoded("/about.html", "identity"), None);
    assert_eq!(encoded("/downloads/read-me.txt", "gzip, br, zstd"), None);
    let part = site.ask(request("GET", "/", "Range: bytes=0-4\r\n"));
    assert_eq!((part.status, part.body.as_slice()), (206, &home.body[..5]));
    let tag = home.header("etag").expect("a tag");
    assert_eq!(site.ask(request("GET", "/", &format!("If-None-Match: {tag}\r\n"))).status, 304);
}

#[test]
fn virtual_hosts() {
    let hosts = Example::start("virtual-hosts", 8092);
    for (host, status, text) in [
        ("www.example.org", 200, "A static site"),
        ("a.example.org", 200, "the site of a.example.org"),
        ("shop.example.com", 200, "the shop"),
        ("other.net", 421, "no such site"),
    ] {
        let response = of_host(&hosts, host, "/");
        assert!(response.status == status && response.text().contains(text), "{host}: {response:?}");
    }
}

#[test]
fn redirects() {
    let redirects = Example::start("redirects", 8093);
    for (host, target, status, to) in [
        ("example.org", "/a?b", 301, Some("https://www.example.org/a?b")),
        ("www.example.org", "/blog/2019/x", 301, Some("/articles/x?year=2019")),
        ("www.example.org", "/api", 308, Some("/api/v2/")),
        ("www.example.org", "/old-news/x", 410, None),
        ("www.example.org", "/", 200, None),
    ] {
        let response = of_host(&redirects, host, target);
        assert_eq!(response.status, status, "{host}{target}");
        let found = response.header("location");
        assert!(to.is_none_or(|to| found.is_some_and(|found| found.ends_with(to))), "{target}: {found:?}");
    }
}

#[test]
fn limits() {
    let limits = Example::start("limits", 8094);
    // All at once, so that it does not matter how long each takes.
    let mut client = Client::to(limits.port.address());
    client.send(request("GET", "/search", "").repeat(10));
    let statuses: Vec<u16> = (0..10).map(|_| client.response().status).collect();
    assert!(statuses.starts_with(&[200, 200, 200]), "{statuses:?}");
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(limits.get("/admin/").text(), "welcome\n");
    assert_eq!(limits.get("/").status, 200);
    assert_eq!(limits.ask(request("POST", "/", "Content-Length: 200000\r\n")).status, 413);
    assert_eq!(limits.ask(request("GET", "/", &format!("X: {}\r\n", "y".repeat(9000)))).status, 431);
}
