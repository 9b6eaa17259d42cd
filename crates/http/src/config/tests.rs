//! The checks across the keys of `[http]`: what is found, and what is not.

use drover_config::Findings;
use drover_service::Accept;

use super::*;

fn check(text: &str) -> (Http, Findings) {
    let (http, mut findings) = drover_config::parse::<Http>("http.toml", text);
    let http = http.expect("no key of [http] is required");
    http.check(&mut findings);
    (http, findings)
}

fn messages(text: &str) -> Vec<String> {
    check(text).1.iter().map(|finding| finding.message().to_owned()).collect()
}

/// A server with these locations' text.
fn with_locations(text: &str) -> String {
    format!("[[servers]]\nlisten = [\"127.0.0.1:80\"]\n{text}")
}

#[test]
fn addresses_and_names_are_claimed_once() {
    let servers = |first: &str, second: &str| {
        messages(&format!(
            "[[servers]]\nroot = \"/\"\nlisten = [\"127.0.0.1:80\"]\n{first}\n\
             [[servers]]\nroot = \"/\"\nlisten = [\"127.0.0.1:80\"]\n{second}"
        ))
    };
    assert_eq!(servers("", ""), ["two servers without a name on 127.0.0.1:80"]);
    assert_eq!(
        servers("server_names = [\"a\", \"b\"]", "server_names = [\"c\", \"B\"]"),
        ["two servers named \"b\" on 127.0.0.1:80"]
    );
    assert!(servers("server_names = [\"a\"]", "server_names = [\"b\"]").is_empty());
    assert!(servers("server_names = [\"a\"]", "").is_empty());
}

#[test]
fn names_have_a_form() {
    for name in
        ["example.org", "*.example.org", "www.example.*", "_", "a-b", "xn--bcher-kva", "[::1]", "~^a+$"]
    {
        let text = with_locations(&format!("root = \"/\"\nserver_names = [{name:?}]"));
        assert!(messages(&text).is_empty(), "{name}");
    }
    for name in ["", "*", "a.*.b", "*a.org", "a b", "a:80", "http://a", "~^(a", "a..b", "bücher.de", "*.*"] {
        let text = with_locations(&format!("root = \"/\"\nserver_names = [{name:?}]"));
        assert_eq!(messages(&text), ["`server_names` has a name that no request can have"], "{name}");
    }
}

#[test]
fn options_of_one_address_do_not_contradict() {
    let servers = |first: &str, second: &str| {
        messages(&format!(
            "[[servers]]\nroot = \"/\"\nserver_names = [\"a\"]\nlisten = [{{ address = \"127.0.0.1:80\" {first} }}]\n\
             [[servers]]\nroot = \"/\"\nserver_names = [\"b\"]\nlisten = [{{ address = \"127.0.0.1:80\" {second} }}]"
        ))
    };
    let contradiction = ["127.0.0.1:80 has contradicting options"];
    assert_eq!(servers(", backlog = 1", ", backlog = 2"), contradiction);
    assert_eq!(servers(", accept = \"mutex\"", ", accept = \"shared\""), contradiction);
    assert_eq!(servers(", deferred = true", ", deferred = false"), contradiction);
    assert!(servers(", backlog = 1", "").is_empty());
    assert_eq!(
        servers(", default_server = true", ", default_server = true"),
        ["127.0.0.1:80 has two default servers"]
    );
}

#[test]
fn a_server_has_each_address_once() {
    let listen = |list: &str| messages(&format!("[[servers]]\nroot = \"/\"\nlisten = [{list}]"));
    assert_eq!(listen(r#""127.0.0.1:80", "127.0.0.1:80""#), ["127.0.0.1:80 is listed twice in one server"]);
    assert_eq!(listen(""), ["`listen` is empty"]);
}

#[test]
fn listen_options_without_effect_are_warnings() {
    let (_, findings) = check(
        "[[servers]]\nroot = \"/\"\nlisten = [{ address = \"unix:/run/x\", deferred = true, ipv6_only = true }]",
    );
    assert_eq!((findings.errors(), findings.warnings()), (0, 2), "{findings}");
}

#[test]
fn locations_match_something_and_serve_something() {
    let location = |text: &str| messages(&with_locations(&format!("[[servers.locations]]\n{text}")));
    assert_eq!(location("path = \"api\"\nroot = \"/\""), ["the path \"api\" can match no request"]);
    assert_eq!(
        location("path = { exact = \"/a/../b\" }\nroot = \"/\""),
        ["the path \"/a/../b\" can match no request"]
    );
    assert_eq!(location("path = \"/\""), ["the location has nothing to serve"]);
    assert_eq!(
        location("path = \"/\"\nroot = \"/srv\"\nreturn = { status = 200 }"),
        ["`root` and `return` contradict each other"]
    );
    assert_eq!(
        location("path = \"/\"\nindex = [\"a\"]\nreturn = { status = 200 }"),
        ["`index` has no effect here"]
    );
    assert_eq!(
        location("path = \"/\"\nroot = \"/\"\nindex = [\"a/b\"]"),
        ["`index` has a name that no file can have"]
    );
    let twice = "path = \"/a\"\nroot = \"/\"\n[[servers.locations]]\npath = \"/a\"\nroot = \"/\"";
    assert_eq!(location(twice), ["two locations for /a"]);
    let exact = "path = \"/a\"\nroot = \"/\"\n[[servers.locations]]\npath = { exact = \"/a\" }\nroot = \"/\"";
    assert!(location(exact).is_empty());
}

#[test]
fn encodings_and_their_types_make_sense() {
    assert!(messages("[compression]\nencodings = [\"zstd\", \"br\", \"gzip\"]").is_empty());
    assert_eq!(messages("[compression]\nencodings = [\"br\", \"br\"]"), ["`encodings` has \"br\" twice"]);
    assert_eq!(
        messages("[compression]\nencodings = [\"br\", \"gzip\"]\nmax_memory = \"1m\""),
        ["nothing is ever encoded with \"br\""]
    );
    for kind in ["html", "text/", "/html", "text/h*", "*/*", "text/html; charset=utf-8", ""] {
        let text = format!("[compression]\ntypes = [{kind:?}]");
        assert_eq!(messages(&text), [format!("{kind:?} is no media type")]);
    }
    let location =
        |text: &str| messages(&with_locations(&format!("[[servers.locations]]\npath = \"/\"\n{text}")));
    assert_eq!(
        location("root = \"/\"\nprecompressed = [\"gzip\", \"gzip\"]"),
        ["`precompressed` has \"gzip\" twice"]
    );
    assert_eq!(location("root = \"/\"\ncompression = [\"br\", \"br\"]"), ["`compression` has \"br\" twice"]);
    assert_eq!(
        location("precompressed = [\"gzip\"]\nreturn = { status = 200 }"),
        ["`precompressed` has no effect here"]
    );
}

#[test]
fn what_is_tried_makes_sense() {
    let tried = |texts: &str| {
        messages(&with_locations(&format!(
            "root = \"/\"\n[[servers.locations]]\npath = {{ name = \"a\" }}\n\
             [[servers.locations]]\npath = \"/\"\ntry_files = {texts}"
        )))
    };
    assert!(tried("[\"$uri\", \"$uri/\", \"/x/$uri.html\", \"=404\"]").is_empty());
    assert!(tried("[\"$uri\", \"@a\"]").is_empty());
    assert!(tried("[\"$uri\", \"/index.html?$args\"]").is_empty());
    assert_eq!(tried("[\"$uri\", \"@b\"]"), ["the server has no location named `b`"]);
    assert_eq!(tried("[\"=404\"]"), ["`try_files` tries no file"]);
    assert_eq!(tried("[\"$uri\", \"=x\"]"), ["\"=x\" is no status"]);
    assert_eq!(tried("[\"$uri\", \"=99\"]"), ["\"=99\" is no status"]);
    assert_eq!(tried("[\"=404\", \"$uri\"]"), ["`try_files` cannot try \"=404\""]);
    assert_eq!(tried("[\"index.html\", \"=404\"]"), ["`try_files` cannot try \"index.html\""]);
    assert_eq!(tried("[\"$uri\", \"index.html\"]"), ["`try_files` cannot end with \"index.html\""]);
    assert_eq!(tried("[\"$url\", \"=404\"]"), ["the text has a variable that is wrong"]);
    assert_eq!(
        messages(&with_locations(
            "try_files = [\"$uri\", \"=404\"]\n[[servers.locations]]\npath = \"/\"\nroot = \"/\""
        )),
        ["`try_files` has no effect here"]
    );
}

#[test]
fn answers_make_sense() {
    let answer = |text: &str| {
        messages(&with_locations(&format!("[[servers.locations]]\npath = \"/\"\nreturn = {{ {text} }}")))
    };
    assert!(answer("status = 301, location = \"/b\"").is_empty());
    assert_eq!(answer("status = 301"), ["the redirect 301 leads nowhere"]);
    assert_eq!(answer("status = 200, location = \"/b\""), ["`location` has no effect with the status 200"]);
    assert_eq!(answer("status = 204, body = \"x\""), ["`body` has no effect with the status 204"]);
    assert_eq!(
        answer("status = 200, content_type = \"a/b\""),
        ["`content_type` has no effect without `body`"]
    );
    assert_eq!(answer("status = 302, location = \"/a\\r\\nSet-Cookie: b\""), ["`location` cannot be sent"]);
}

#[test]
fn log_formats_are_defined_and_their_variables_known() {
    assert_eq!(
        messages("access_log = { file = \"/x\", format = \"odd\" }"),
        ["the log format `odd` is not defined"]
    );
    assert_eq!(
        messages("access_log = { format = \"odd\" }\nlog_formats.odd = \"\""),
        ["`format` has no effect here"]
    );
    assert_eq!(messages("log_formats.combined = \"\""), ["the log format `combined` is built in"]);
    assert!(
        messages("access_log = { file = \"/x\", format = \"odd\" }\nlog_formats.odd = \"$pid\"").is_empty()
    );
    let (_, findings) = check("log_formats.odd = \"a $wrong b\"");
    let drawn = findings.to_string();
    assert!(drawn.contains("http.toml:1:22\n"), "the variable itself is marked: {drawn}");
    assert!(drawn.contains("^^^^^^ unknown variable `$wrong`\n"), "{drawn}");
}

#[test]
fn extensions_and_types_can_be_used() {
    assert_eq!(messages("types = { \".wasm\" = \"application/wasm\" }"), ["`.wasm` is no file extension"]);
    assert_eq!(messages("default_type = \"a\\nb\""), ["`default_type` cannot be sent"]);
}

#[test]
fn servers_on_one_address_share_a_listener() {
    let (http, findings) = check(
        r#"
        [[servers]]
        server_names = ["a"]
        root = "/"
        listen = ["127.0.0.1:80", "[::1]:80"]
        [[servers]]
        server_names = ["b"]
        root = "/"
        listen = [{ address = "127.0.0.1:80", backlog = 7, accept = "mutex", default_server = true }]
        "#,
    );
    assert!(findings.is_empty(), "{findings}");
    let listeners = http.listeners();
    assert_eq!(listeners.len(), 2);
    assert_eq!((listeners[0].servers.as_slice(), listeners[0].default_server), ([0, 1].as_slice(), 1));
    let socket = &listeners[0].socket;
    assert_eq!((socket.backlog, socket.accept), (Some(7), Some(Accept::Mutex)));
    assert_eq!((listeners[1].servers.as_slice(), listeners[1].socket.backlog), ([0].as_slice(), None));
}

#[test]
fn locations_have_forms_and_places() {
    let location = |text: &str| messages(&with_locations(&format!("root = \"/\"\n{text}")));
    let at = |path: &str| location(&format!("[[servers.locations]]\npath = {path}"));
    for path in
        ["'/a'", "{ exact = '/a' }", "{ expression = '^/a' }", "{ prefix = '/a', before_expressions = true }"]
    {
        assert!(at(path).is_empty(), "{path}");
    }
    assert!(at("{ name = 'x' }").is_empty());
    assert_eq!(at("{ expression = '(' }"), ["`expression` is not a regular expression"]);
    assert_eq!(at("{ prefix = '/a', exact = '/a' }"), ["`path` is not a path"]);
    assert_eq!(at("{ exact = '/a', before_expressions = true }"), ["`path` is not a path"]);
    assert_eq!(at("{ name = '@x' }"), ["a location's name that cannot be used"]);
    let two = |first: &str, second: &str| {
        location(&format!("[[servers.locations]]\npath = {first}\n[[servers.locations]]\npath = {second}"))
    };
    assert_eq!(two("'/a'", "{ prefix = '/a', before_expressions = true }"), ["two locations for /a"]);
    assert_eq!(two("{ name = 'x' }", "{ name = 'x' }"), ["two locations named `x`"]);
    let inside = |outer: &str, inner: &str| {
        location(&format!(
            "[[servers.locations]]\npath = {outer}\n[[servers.locations.locations]]\npath = {inner}"
        ))
    };
    assert!(inside("'/a/'", "'/a/b'").is_empty());
    assert_eq!(inside("'/a/'", "'/b'"), ["a location that no request can reach"]);
    assert_eq!(inside("{ exact = '/a' }", "'/a/b'"), ["a location that no request can reach"]);
    assert_eq!(inside("'/a/'", "{ name = 'x' }"), ["a named location inside of another"]);
}

#[test]
fn rules_say_one_thing() {
    let rule = |text: &str| messages(&with_locations(&format!("root = \"/\"\nrules = [{{ {text} }}]")));
    for text in [
        "rewrite = '^/a', to = '/b'",
        "set = { a = '$args' }, return = { status = 403 }",
        "rewrite = '^/a', to = 'https://$host/', then = 'permanent'",
        "when = { text = '$arg_x', matches = 'y' }, return = { status = 403 }",
        "when = '$http_x', return = { status = 403, body = '$x' }, set = { x = '1' }",
    ] {
        assert!(rule(text).is_empty(), "{text}");
    }
    for (text, want) in [
        ("rewrite = '^/a'", "`rewrite` leads nowhere"),
        ("to = '/b'", "`to` without `rewrite`"),
        ("rewrite = '^/a', to = 'https://$host/'", "`to` is no path"),
        ("rewrite = '^/a', to = 'b'", "`to` is no path"),
        (
            "rewrite = '^/a', to = '/b', return = { status = 403 }",
            "`return` and `rewrite` contradict each other",
        ),
        ("then = 'last'", "`then` has no effect without `rewrite`"),
        ("set = { args = 'x' }", "the variable `$args` is built in"),
        ("set = { a-b = 'x' }", "`a-b` is no name of a variable"),
        ("set = { a = '$wrong' }", "the text has a variable that is wrong"),
        (
            "when = { text = '$uri', equals = 'a', matches = 'b' }",
            "`equals` and `matches` contradict each other",
        ),
    ] {
        assert_eq!(rule(text), [want], "{text}");
    }
}

#[test]
fn error_pages_fields_and_maps_can_be_used() {
    let server = |text: &str| messages(&with_locations(&format!("root = \"/\"\n{text}")));
    for (text, want) in [
        ("error_pages = [{ statuses = [404], to = '@none' }]", "the location `@none` is not defined"),
        ("error_pages = [{ statuses = [200], to = '/x' }]", "`statuses` has one that is no error"),
        ("error_pages = [{ statuses = [404], to = 'x' }]", "`to` is neither a path nor a URL"),
        (
            "error_pages = [{ statuses = [404], to = '/x', status = 204 }]",
            "`status` is one of responses without a body",
        ),
        ("headers = { set = { Content-Length = '1' } }", "the field Content-Length cannot be changed"),
        ("headers = { add = { 'a b' = '1' } }", "\"a b\" is no field name"),
        ("headers = { add = { a = '$wrong' } }", "the text has a variable that is wrong"),
        ("[maps.a]\nof = '$b'\n[maps.b]\nof = '$a'", "the map `a` cannot be used"),
        ("[maps.host]\nof = '$uri'", "the variable `$host` is built in"),
        ("limit_requests = [{ limit = 'x' }]", "the limit `x` is not defined"),
        ("limit_connections = [{ limit = 'x', most = 1 }]", "the limit `x` is not defined"),
        ("access = ['permit all']", "`access` is not an access rule"),
        ("[request_limits.a]\nkey = '$wrong'\nrate = '1/s'", "the text has a variable that is wrong"),
        ("[request_limits.a]\nkey = '$uri'\nrate = '1'", "`rate` is not a rate"),
        ("[maps.a]\nof = '$uri'\nnetworks = { x = '1' }", "\"x\" is no network"),
    ] {
        assert_eq!(server(text), [want], "{text}");
    }
}
