//! Servers, locations and `return`.

mod common;

use common::{bare_return, fixed, returning, serve};
use drover_http::config::{Location, PathMatch, Return};

#[test]
fn servers_are_found_by_name_and_locations_by_path() {
    let server = serve(|http| {
        let mut second = http.servers[0].clone();
        http.servers[0].locations =
            vec![fixed("/", 200, "first"), fixed("/deep/", 200, "deep"), exact("/exact", "exact")];
        second.server_names = vec!["second.example".to_owned().into(), "*.second.example".to_owned().into()];
        second.locations = vec![fixed("/only", 200, "$server_name $host $uri")];
        http.servers.push(second);
    });
    let mut client = server.connect();
    for (host, target, status, body) in [
        ("a", "/", 200, "first"),
        ("a", "/x", 200, "first"),
        ("a", "/deep/x", 200, "deep"),
        ("a", "/dee%70/%78", 200, "deep"),
        ("a", "/exact", 200, "exact"),
        ("a", "/exact/", 200, "first"),
        ("second.example", "/only", 200, "second.example second.example /only"),
        ("X.Second.Example:80", "/only/x", 200, "second.example x.second.example /only/x"),
        ("second.example", "/other", 404, "404 Not Found"),
    ] {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        let answer = client.answer();
        assert_eq!(answer.status, status, "{host} {target}");
        assert!(answer.text().contains(body), "{host} {target}: {}", answer.text());
    }
    client.send("GET http://second.example/only HTTP/1.1\r\nHost: second.example\r\n\r\n");
    assert_eq!(client.answer().text(), "second.example second.example /only");
}

fn exact(path: &str, body: &str) -> Location {
    Location { path: PathMatch::Exact(path.to_owned()).into(), ..fixed(path, 200, body) }
}

#[test]
fn redirects_say_where_to() {
    let server = serve(|http| {
        let target = Some("https://example.org$request_uri".to_owned().into());
        http.servers[0].locations.push(returning("/", Return { location: target, ..bare_return(301) }));
        http.servers[0].locations.push(returning("/gone", bare_return(410)));
        http.servers[0].locations.push(returning("/nothing", bare_return(204)));
        let kind = Some("application/json".to_owned().into());
        let body = Some("{}".to_owned().into());
        let json = Return { body, content_type: kind, ..bare_return(200) };
        http.servers[0].locations.push(returning("/json", json));
        http.server_tokens = false;
    });
    let answer = server.get("/a%20b?c=%22");
    assert_eq!((answer.status, answer.field("Location")), (301, Some("https://example.org/a%20b?c=%22")));
    assert_eq!(answer.field("Server"), Some("drover"));
    assert_eq!(server.get("/gone").status, 410);
    assert_eq!(server.get("/nothing").field("Content-Length"), None);
    let answer = server.get("/json");
    assert_eq!((answer.text(), answer.field("Content-Type")), ("{}", Some("application/json")));
}
