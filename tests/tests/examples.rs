//! The examples in `config/examples/`: each is complete, is started as it is but for its port and its directory, and
//! does what it says.

use drover_tests::Example;
use drover_tests::http::Response;

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
    let statuses: Vec<u16> = (0..10).map(|_| limits.get("/search").status).collect();
    assert!(statuses.starts_with(&[200, 200, 200]), "{statuses:?}");
    assert!(statuses.contains(&429), "{statuses:?}");
    assert_eq!(limits.get("/admin/").text(), "welcome\n");
    assert_eq!(limits.get("/").status, 200);
}
