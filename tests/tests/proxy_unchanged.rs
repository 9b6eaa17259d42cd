//! Responses of servers that say that nothing has changed, where what they are about is encoded on its way.

use drover_tests::http::request;
use drover_tests::http_backend::response;
use drover_tests::{HttpBackend, Proxying};

#[test]
fn what_has_not_changed_is_told_with_the_tag_that_the_client_knows() {
    let backend = HttpBackend::new(|connection| {
        while let Some(request) = connection.request() {
            // A server compares weakly, and tells the tag that it knows.
            let known =
                request.header("if-none-match").is_some_and(|tags| tags == "*" || tags.contains("\"x\""));
            let fields = match request.target.as_str() {
                "/typed" => "ETag: \"x\"\r\nContent-Type: text/plain\r\n",
                "/image" => "ETag: \"x\"\r\nContent-Type: image/png\r\n",
                "/plain" => "ETag: \"x\"\r\nCache-Control: no-transform\r\n",
                _ => "ETag: \"x\"\r\nContent-Length: 2000\r\n",
            };
            match known {
                true => connection.send(format!("HTTP/1.1 304 Not Modified\r\n{fields}\r\n")),
                false => connection.send(response(
                    "200 OK",
                    "ETag: \"x\"\r\nContent-Type: text/plain\r\n",
                    "text ".repeat(400),
                )),
            }
        }
    });
    let proxying = Proxying::with(
        |config| config.http("compression = { encodings = [\"gzip\"] }"),
        &[backend.address()],
        "",
        "",
    );
    let mut client = proxying.client();
    let mut ask = |target: &str, accept: &str, condition: &str| {
        client.send(request("GET", target, &format!("Accept-Encoding: {accept}\r\n{condition}")));
        client.response()
    };
    let first = ask("/", "gzip", "");
    assert_eq!((first.status, first.header("etag")), (200, Some("W/\"x\"")));
    let (weak, strong, varies) = (Some("W/\"x\""), Some("\"x\""), Some("Accept-Encoding"));
    for (target, accept, tags, etag, vary) in [
        ("/", "gzip", "W/\"x\"", weak, varies),
        ("/", "gzip", "\"a\", W/\"x\"", weak, varies),
        ("/", "gzip", "*", weak, varies),
        ("/", "gzip", "\"x\", W/\"x\"", weak, varies),
        ("/", "identity", "\"x\", W/\"x\"", strong, varies),
        // Whoever has it as it is gets told of that.
        ("/", "gzip", "\"x\"", strong, varies),
        ("/", "identity", "\"x\"", strong, varies),
        ("/typed", "gzip", "W/\"x\"", weak, varies),
        ("/image", "gzip", "W/\"x\"", strong, None),
        ("/plain", "gzip", "W/\"x\"", strong, None),
    ] {
        let answer = ask(target, accept, &format!("If-None-Match: {tags}\r\n"));
        assert_eq!(answer.status, 304, "{target} {accept} {tags}");
        let told = (answer.header("etag"), answer.header("vary"), answer.header("content-encoding"));
        assert_eq!(told, (etag, vary, None), "{target} {accept} {tags}");
        // RFC 9110, 8.6: a length there is that of what a 200 would have.
        let length = (target == "/" && etag == strong).then_some("2000");
        assert_eq!(answer.header("content-length"), length, "{target} {accept} {tags}");
    }
}
