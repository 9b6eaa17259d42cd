//! What a server gets of a request: what was matched, what was sent, and who sent it.

use std::net::Ipv4Addr;

use drover_tests::http::request;
use drover_tests::http_backend::Received;
use drover_tests::{Client, Config, Directory, Drover, HttpBackend, Port};

/// Sends `bytes` to a drover that passes everything on with these keys; what the backend got.
fn passed_on(path: &str, to: &str, keys: &str, bytes: &str) -> Received {
    let (directory, port, backend) = (Directory::new(), Port::new(), HttpBackend::echoing());
    let to = format!("{}{to}", backend.address());
    let config = Config::new(&directory, 1).server(&port).passing(path, to, keys);
    let _drover = Drover::start(&directory, &config);
    let mut client = Client::to(port.address());
    client.send(bytes);
    assert_eq!(client.response().status, 200);
    backend.request()
}

#[test]
fn fields_go_on_as_they_came_without_those_of_the_connection() {
    let got = passed_on(
        "/",
        "",
        "",
        "PUT /a?b=c&d HTTP/1.1\r\nHost: Example.org:81\r\nX-One:1\r\nx-two:  2 \r\nX-One: again\r\n\
         Connection: keep-alive, X-Hop, close, Host, Content-Length\r\nX-Hop: h\r\nKeep-Alive: 5\r\nTE: gzip\r\n\
         Proxy-Connection: x\r\nUpgrade: h2c\r\nCookie: a=b\r\nContent-Length: 3\r\n\r\nabc",
    );
    assert_eq!(
        (got.method.as_str(), got.target.as_str(), got.version.as_str()),
        ("PUT", "/a?b=c&d", "HTTP/1.1")
    );
    assert_eq!(got.body, b"abc");
    let fields: Vec<(&str, &str)> =
        got.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        fields,
        [
            ("Host", "Example.org:81"),
            ("X-One", "1"),
            ("x-two", "2"),
            ("X-One", "again"),
            ("Cookie", "a=b"),
            ("Content-Length", "3"),
            ("Via", "1.1 drover"),
            ("X-Forwarded-For", "127.0.0.1"),
            ("X-Forwarded-Proto", "http"),
            ("X-Forwarded-Host", "Example.org:81"),
        ]
    );
}

#[test]
fn what_goes_on_is_the_path_that_was_matched() {
    let (directory, port, backend) = (Directory::new(), Port::new(), HttpBackend::echoing());
    let at = backend.address();
    let config = Config::new(&directory, 1)
        .server(&port)
        .passing("/", at, "")
        .passing("/api/", format!("{at}/v2/"), "")
        .passing("/bare", format!("{at}/"), "")
        .location("/secret/", "return = { status = 403 }");
    let _drover = Drover::start(&directory, &config);
    let mut client = Client::to(port.address());
    for (sent, want) in [
        ("/", "/"),
        ("/a/b?c=/../d", "/a/b?c=/../d"),
        ("/a/../b//c/./d", "/b/c/d"),
        ("/%61%20b%3Fc%25", "/a%20b%3Fc%25"),
        ("/a%2Fb", "/a/b"),
        ("/x%0D%0AEvil:%20y", "/x%0D%0AEvil:%20y"),
        ("/api/x?y", "/v2/x?y"),
        ("/api/%2e%2e/api/a%20b", "/v2/a%20b"),
        ("/api", "/api"),
        ("/bare", "/"),
        ("/bare/x", "/x"),
        ("http://other/z?q", "/z?q"),
    ] {
        let host = if sent.starts_with("http") { "other" } else { "localhost" };
        client.send(format!("GET {sent} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(client.response().status, 200, "{sent}");
        assert_eq!(backend.requests().last().map(|got| got.target.clone()).as_deref(), Some(want), "{sent}");
    }
    // However it is written, the path of another location is not passed on.
    for sent in ["/secret/x", "//secret/x", "/a/../secret/x", "/%73ecret/x", "/./secret//x"] {
        assert_eq!(client.get(sent).status, 403, "{sent}");
    }
    assert_eq!(backend.requests().len(), 12);
}

#[test]
fn an_old_client_is_passed_on_in_the_new_version() {
    let got = passed_on("/", "", "", "POST /x HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!((got.version.as_str(), got.body.as_slice()), ("HTTP/1.1", b"hi".as_slice()));
    assert!(got.header("host").is_some_and(|host| host.starts_with("127.0.0.1:")), "{got:?}");
}

#[test]
fn fields_are_set_added_and_removed() {
    let keys = "request_headers = { set = { Host = \"$host\", X-Real-IP = \"$remote_addr\", Cookie = \"\", \
                X-Path = \"$uri\" }, add = { X-Tag = \"b\" }, remove = [\"authorization\", \"X-Debug\"] }";
    let bytes = "GET /a%0Ab HTTP/1.1\r\nHost: Example.ORG:9\r\nX-Real-IP: 6.6.6.6\r\nCookie: secret\r\n\
                 Authorization: Basic x\r\nX-Tag: a\r\nx-debug: 1\r\n\r\n";
    let got = passed_on("/", "", keys, bytes);
    assert_eq!(got.header("host"), Some("example.org"));
    assert_eq!(got.header("x-real-ip"), Some("127.0.0.1"));
    assert_eq!(got.all("x-tag"), ["a", "b"]);
    assert_eq!(got.header("x-path"), Some("/a b"), "a line end in a value is none");
    for gone in ["cookie", "authorization", "x-debug"] {
        assert_eq!(got.header(gone), None, "{gone}");
    }
}

#[test]
fn what_clients_say_of_themselves_is_replaced_unless_they_are_trusted() {
    let bytes = request(
        "GET",
        "/",
        "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-For: 7.7.7.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\n\
         Forwarded: for=6.6.6.6\r\n",
    );
    let got = passed_on("/", "", "", &bytes);
    assert_eq!(got.all("x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(
        (got.header("x-forwarded-proto"), got.header("x-forwarded-host")),
        (Some("http"), Some("localhost"))
    );
    assert_eq!(got.header("forwarded"), None);

    let got = passed_on("/", "", "forwarded = \"both\"\ntrust_forwarded = true", &bytes);
    assert_eq!(got.all("x-forwarded-for"), ["6.6.6.6, 7.7.7.7, 127.0.0.1"]);
    assert_eq!(
        (got.header("x-forwarded-proto"), got.header("x-forwarded-host")),
        (Some("https"), Some("evil"))
    );
    assert_eq!(got.header("forwarded"), Some("for=6.6.6.6, for=127.0.0.1;host=\"localhost\";proto=http"));

    let got = passed_on("/", "", "forwarded = \"off\"", &bytes);
    assert_eq!(got.all("x-forwarded-for"), ["6.6.6.6", "7.7.7.7"]);
    assert_eq!(got.header("forwarded"), Some("for=6.6.6.6"));

    let got = passed_on("/", "", "forwarded = \"forwarded\"", &bytes);
    assert_eq!(got.header("x-forwarded-for"), None);
    assert_eq!(got.header("forwarded"), Some("for=127.0.0.1;host=\"localhost\";proto=http"));
}

#[test]
fn the_client_s_address_is_told_not_drover_s() {
    let (directory, port, backend) = (Directory::new(), Port::new(), HttpBackend::echoing());
    let _drover = Drover::start(
        &directory,
        &Config::new(&directory, 1).server(&port).passing("/", backend.address(), ""),
    );
    let mut client =
        Client::connect_from(Ipv4Addr::new(127, 0, 0, 77), port.address()).expect("all of 127/8 is ours");
    assert_eq!(client.get("/").status, 200);
    assert_eq!(backend.request().header("x-forwarded-for"), Some("127.0.0.77"));
}

#[test]
fn via_tells_of_this_proxy_behind_those_before_it() {
    let bytes = request("GET", "/", "Via: 1.0 fred, HTTP/1.1 a:80 (comment)\r\nVia: 2 b\r\n");
    let before = ["1.0 fred, HTTP/1.1 a:80 (comment)", "2 b"];
    let all = |own: &'static str| [before.as_slice(), &[own]].concat();
    assert_eq!(passed_on("/", "", "", &bytes).all("via"), all("1.1 drover"));
    assert_eq!(passed_on("/", "", "via = \"edge-7:8080\"", &bytes).all("via"), all("1.1 edge-7:8080"));
    assert_eq!(passed_on("/", "", "via = \"off\"", &bytes).all("via"), before);
    let set = passed_on("/", "", "request_headers = { set = { via = \"1.1 own\" } }", &bytes);
    assert_eq!(set.all("via"), ["1.1 own"]);
    // The version is that in which it was received.
    assert_eq!(passed_on("/", "", "", "GET / HTTP/1.0\r\n\r\n").all("via"), ["1.0 drover"]);
}

#[test]
fn a_request_about_options_is_passed_on_so_many_times() {
    let (directory, port, backend) = (Directory::new(), Port::new(), HttpBackend::echoing());
    let _drover = Drover::start(
        &directory,
        &Config::new(&directory, 1).server(&port).passing("/", backend.address(), ""),
    );
    let mut client = Client::to(port.address());
    let mut ask = |method: &str, fields: &str| {
        client.send(request(method, "/", fields));
        let answer = client.response();
        (answer.status, answer.header("allow").is_some())
    };
    for (received, passed) in
        [("1", "0"), ("10", "9"), ("007", "6"), ("99999999999999999999999", "18446744073709551614")]
    {
        assert_eq!(ask("OPTIONS", &format!("max-forwards: {received}\r\n")), (200, false), "{received}");
        assert_eq!(backend.requests().last().expect("it was passed on").all("max-forwards"), [passed]);
    }
    assert_eq!(ask("OPTIONS", ""), (200, false));
    assert_eq!(ask("GET", "Max-Forwards: 0\r\n"), (200, false));
    assert_eq!(backend.requests().last().expect("it was passed on").all("max-forwards"), ["0"]);
    let before = backend.requests().len();
    assert_eq!(ask("OPTIONS", "Max-Forwards: 0\r\n"), (204, true));
    assert_eq!(ask("TRACE", "Max-Forwards: 5\r\n"), (405, true));
    for wrong in ["Max-Forwards: \r\n", "Max-Forwards: -1\r\n", "Max-Forwards: 1\r\nMax-Forwards: 2\r\n"] {
        assert_eq!(ask("OPTIONS", wrong), (400, false), "{wrong}");
    }
    assert_eq!(backend.requests().len(), before);
}

#[test]
fn methods_that_are_for_proxies_alone_go_no_further() {
    let (directory, port, backend) = (Directory::new(), Port::new(), HttpBackend::echoing());
    let _drover = Drover::start(
        &directory,
        &Config::new(&directory, 1).server(&port).passing("/", backend.address(), ""),
    );
    let mut client = Client::to(port.address());
    client.send(request("TRACE", "/", ""));
    assert_eq!(client.response().status, 405);
    client.send("CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n");
    assert_eq!(client.response().status, 405);
    assert_eq!(backend.requests(), []);
    let mut client = Client::to(port.address());
    client.send(request("PROPFIND", "/dav", ""));
    assert_eq!(client.response().status, 200);
    assert_eq!(backend.request().method, "PROPFIND");
}
