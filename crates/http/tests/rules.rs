//! Locations of every form, rules, maps, error pages and changed fields, as a client sees them.

mod common;

use common::{Scratch, Server, configured};

/// A location that says what it was reached with.
fn saying(path: &str, body: &str) -> String {
    format!("[[servers.locations]]\npath = {path}\nreturn = {{ status = 200, body = '{body}' }}\n")
}

fn body(server: &Server, target: &str) -> String {
    let answer = server.get(target);
    format!("{} {}", answer.status, answer.text().trim_end())
}

#[test]
fn locations_are_found_in_the_order_of_nginx() {
    let text = [
        saying("'/'", "root $uri"),
        saying("{ expression = '^/user/(?<id>[0-9]+)(/.*)?$' }", "user $id [$1] [$2]"),
        saying("{ expression = '(?i)\\.png$' }", "image"),
        saying("{ prefix = '/static/', before_expressions = true }", "static"),
        saying("{ exact = '/x.png' }", "exact"),
        "[[servers.locations]]\npath = '/app/'\nreturn = { status = 200, body = 'app' }\n".to_owned(),
        "[[servers.locations.locations]]\npath = '/app/in/'\nreturn = { status = 200, body = 'inside' }\n"
            .to_owned(),
        saying("{ name = 'named' }", "named"),
    ]
    .concat();
    let server = configured(&text);
    for (target, want) in [
        ("/", "200 root /"),
        ("/user/42/a%20b", "200 user 42 [42] [/a b]"),
        ("/user/x", "200 root /user/x"),
        ("/a.PNG", "200 image"),
        ("/static/a.png", "200 static"),
        ("/x.png", "200 exact"),
        ("/app/x", "200 app"),
        ("/app/in/x", "200 inside"),
        ("/app/in/x.png", "200 image"),
        ("/@named", "200 root /@named"),
    ] {
        assert_eq!(body(&server, target), want, "{target}");
    }
}

#[test]
fn locations_inside_of_others_come_before_those_outside() {
    let inside = |depth: usize, path: &str, body: &str| {
        let table = ["servers", &vec![".locations"; depth + 1].concat()].concat();
        format!("[[{table}]]\npath = {path}\nreturn = {{ status = 200, body = '{body}' }}\n")
    };
    let images = "{ expression = '\\.png$' }";
    let moving = "{ expression = '\\.gif$' }";
    let text = [
        inside(0, "'/'", "root"),
        inside(0, images, "image"),
        inside(0, "'/app/'", "app"),
        inside(1, images, "image of app"),
        inside(1, "{ exact = '/app/x.png' }", "x"),
        inside(1, "'/app/deep/'", "deep"),
        inside(2, moving, "moving"),
        inside(0, "{ prefix = '/quiet/', before_expressions = true }", "quiet"),
        inside(1, moving, "moving and quiet"),
        inside(0, "{ expression = '^/any/' }", "any"),
        inside(1, moving, "moving of any"),
    ]
    .concat();
    let server = configured(&text);
    for (target, want) in [
        ("/a.png", "image"),
        ("/app/a.png", "image of app"),
        ("/app/x.png", "x"),
        ("/app/a.gif", "app"),
        ("/app/deep/a.gif", "moving"),
        ("/app/deep/a.png", "image of app"),
        ("/app/deep/a", "deep"),
        ("/quiet/a.png", "quiet"),
        ("/quiet/a.gif", "moving and quiet"),
        ("/any/a.gif", "moving of any"),
        ("/any/a", "any"),
        ("/any/a.png", "image"),
    ] {
        assert_eq!(body(&server, target), format!("200 {want}"), "{target}");
    }
}

#[test]
fn servers_are_found_by_expression_and_its_groups_are_variables() {
    let server = configured(&format!(
        "server_names = ['~^(?<user>[a-z]+)\\.example\\.org$']\n{}[[servers]]\nlisten = ['127.0.0.1:1']\nserver_names = ['other']\n{}",
        saying("'/'", "$user $1 $server_name"),
        saying("'/'", "other [$user]")
    ));
    let mut client = server.connect();
    for (host, want) in
        [("ann.example.org:80", "ann ann"), ("other", "other []"), ("bob.example.org", "bob bob")]
    {
        client.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(client.answer().text().starts_with(want), "{host}");
    }
}

#[test]
fn rules_rewrite_redirect_and_answer() {
    let rules = r#"
[[servers.rules]]
when = { text = "$http_x_block", equals = "yes" }
return = { status = 403, body = "blocked" }
[[servers.rules]]
when = { text = "$request_method", matches = "^(PUT|DELETE)$" }
return = { status = 405 }
[[servers.rules]]
rewrite = '^/old/(.*)$'
to = '/new/$1?from=old'
[[servers.rules]]
rewrite = '^/moved/(.*)$'
to = '/there/$1?a=$arg_a&q=$1?'
then = "permanent"
[[servers.rules]]
rewrite = '^/away$'
to = 'https://example.org/$host'
then = "redirect"
[[servers.locations]]
path = "/new/"
return = { status = 200, body = "$uri $args $request_uri" }
[[servers.locations]]
path = "/set/"
return = { status = 200, body = "$first-$second" }
[[servers.locations.rules]]
set = { first = "$arg_x", second = "$first!" }
[[servers.locations.rules]]
when = "$arg_y"
set = { second = "y" }
[[servers.locations]]
path = "/stay/"
return = { status = 200, body = "stay $uri" }
[[servers.locations.rules]]
rewrite = '^/stay/(.*)'
to = '/new/$1'
then = "break"
[[servers.locations]]
path = "/go/"
return = { status = 200, body = "never" }
[[servers.locations.rules]]
rewrite = '^/go(/.*)'
to = '/new$1'
then = "last"
[[servers.locations]]
path = "/circle/"
[[servers.locations.rules]]
rewrite = '^/circle/(.*)'
to = '/circle/x$1'
[[servers.locations]]
path = "/up/"
[[servers.locations.rules]]
rewrite = '^/up/'
to = '/new/$arg_p'
then = "last"
"#;
    let server = configured(rules);
    for (target, want) in [
        ("/old/a%20b?c=d", "200 /new/a b from=old&c=d /old/a%20b?c=d"),
        ("/old/", "200 /new/ from=old /old/"),
        ("/set/?x=1", "200 1-1!"),
        ("/set/?x=1&y=0", "200 1-1!"),
        ("/set/?x=1&y=2", "200 1-y"),
        ("/stay/a", "200 stay /new/a"),
        ("/go/a?b", "200 /new/a b /go/a?b"),
        ("/up/?p=../set/", "200 -!"),
    ] {
        assert_eq!(body(&server, target), want, "{target}");
    }
    assert_eq!(server.get("/circle/a").status, 500);
    assert_eq!(server.get("/up/?p=../../x").status, 400);
    let answer = server.get("/moved/a%26%20b?a=1");
    assert_eq!((answer.status, answer.field("Location")), (301, Some("/there/a%26%20b?a=1&q=a%26%20b")));
    let answer = server.get("/away?x");
    assert_eq!((answer.status, answer.field("Location")), (302, Some("https://example.org/a?x")));
    let blocked = server.ask("GET / HTTP/1.1\r\nHost: a\r\nX-Block: yes\r\nConnection: close\r\n\r\n");
    assert_eq!((blocked.status, blocked.text()), (403, "blocked"));
    let refused = "DELETE /new/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    assert_eq!(server.ask(refused).status, 405);
}

#[test]
fn what_one_request_set_the_next_does_not_see() {
    let server = configured(&format!(
        "{}[[servers.locations.rules]]\nwhen = \"$arg_x\"\nset = {{ seen = \"$arg_x\" }}\n",
        saying("'/'", "[$seen]")
    ));
    let mut client = server.connect();
    assert_eq!(client.get("/?x=1").text(), "[1]");
    assert_eq!(client.get("/").text(), "[]");
}

#[test]
fn maps_look_values_up() {
    let maps = r#"
[maps.kind]
of = "$arg_a"
values = { One = "first", two = "$label" }
patterns = [{ matches = '^n([0-9]+)$', value = "number $1" }, { matches = '^n', value = "n" }]
default = "none"
[maps.label]
of = "$remote_addr"
networks = { "127.0.0.0/8" = "inside", "127.0.0.1" = "self" }
"#;
    let server = configured(&format!("{}{maps}", saying("'/'", "$kind")));
    for (target, want) in [
        ("/?a=one", "200 first"),
        ("/?a=TWO", "200 self"),
        ("/?a=n12", "200 number 12"),
        ("/?a=nx", "200 n"),
        ("/", "200 none"),
    ] {
        assert_eq!(body(&server, target), want, "{target}");
    }
}

const PAGES: &str = r#"
error_pages = [
    { statuses = [404], to = "/404.html" },
    { statuses = [410], to = "@gone", status = "page" },
    { statuses = [402], to = "https://example.org/pay?for=$uri" },
    { statuses = [409], to = "/404.html", status = 200 },
    { statuses = [418], to = "/nothing.html" },
    { statuses = [405], to = "/says" },
]
[[servers.locations]]
path = { name = "gone" }
return = { status = 203, body = "gone: $uri $request_method" }
[[servers.locations]]
path = "/gone"
return = { status = 410 }
[[servers.locations]]
path = "/pay"
return = { status = 402 }
[[servers.locations]]
path = "/fine"
return = { status = 409 }
[[servers.locations]]
path = "/teapot"
return = { status = 418 }
[[servers.locations]]
path = "/body"
return = { status = 404, body = "its own" }
[[servers.locations]]
path = "/says"
internal = true
return = { status = 200, body = "method $request_method" }
[[servers.locations]]
path = "/own"
error_pages = [{ statuses = [404], to = "/own/404" }]
[[servers.locations]]
path = "/round"
error_pages = [{ statuses = [404], to = "/round/x" }]
"#;

#[test]
fn error_pages_are_shown_instead_of_bare_errors() {
    let scratch = Scratch::new();
    scratch.file("404.html", "my own page");
    let text = format!("root = {:?}\n{PAGES}", scratch.path());
    let server = configured(&text);
    for (target, want) in [
        ("/none", "404 my own page"),
        ("/gone/a", "203 gone: /gone/a GET"),
        ("/fine", "200 my own page"),
        ("/body", "404 its own"),
        ("/404.html", "200 my own page"),
    ] {
        assert_eq!(body(&server, target), want, "{target}");
    }
    // The page is missing: its own error is shown, and bare.
    assert!(body(&server, "/teapot").contains("404 Not Found"));
    assert!(body(&server, "/own/x").starts_with("404 <!DOCTYPE"));
    assert!(body(&server, "/round").starts_with("404 <!DOCTYPE"));
    // Nobody asks for an internal location from outside.
    assert_eq!(body(&server, "/says"), "404 my own page");
    let answer = server.get("/pay");
    assert_eq!((answer.status, answer.field("Location")), (302, Some("https://example.org/pay?for=/pay")));
    // The fields that belong to an error come with its page.
    let answer =
        server.ask("POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    assert_eq!(
        (answer.status, answer.text(), answer.field("Allow")),
        (405, "method POST", Some("GET, HEAD"))
    );
    // A condition was meant for what was asked for.
    let asks =
        "GET /none HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\nRange: bytes=0-1\r\nConnection: close\r\n\r\n";
    assert_eq!(server.ask(asks).text(), "my own page");
    let head = server.ask("HEAD /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_eq!((head.status, head.field("Content-Length")), (404, Some("11")));
}

#[test]
fn fields_of_answers_are_changed() {
    let text = r#"
headers = { set = { X-Frame-Options = "DENY", Server = "other" }, add = { X-Path = "$uri" } }
[[servers.locations]]
path = "/"
return = { status = 200, body = "ok" }
[[servers.locations]]
path = "/own"
return = { status = 404, body = "no" }
headers = [
    { remove = ["server"], statuses = [404] },
    { add = { X-Status = "$status $sent_http_content_length" } },
    { add = { X-Not = "here" }, statuses = [200] },
]
"#;
    let server = configured(text);
    let answer = server.get("/a%0d%0ab");
    assert_eq!(answer.field("X-Frame-Options"), Some("DENY"));
    assert_eq!((answer.field("Server"), answer.field("X-Path")), (Some("other"), Some("/a  b")));
    assert_eq!(answer.head.matches("Server:").count(), 1, "{}", answer.head);
    let answer = server.get("/own");
    assert_eq!((answer.field("Server"), answer.field("X-Frame-Options")), (None, None));
    assert_eq!((answer.field("X-Status"), answer.field("X-Not")), (Some("404 2"), None));
    assert_eq!(answer.text(), "no");
    let mut client = server.connect();
    assert_eq!(client.get("/x").text(), "ok");
    assert_eq!(client.get("/own").text(), "no");
}

#[test]
fn request_ids_are_the_same_within_a_request_and_never_again() {
    let text = r#"
headers = { set = { X-Request-Id = "$request_id" } }
[[servers.locations]]
path = "/"
return = { status = 200, body = "$request_id" }
"#;
    let server = configured(text);
    let mut client = server.connect();
    let (first, second) = (client.get("/"), client.get("/"));
    assert_eq!(first.field("X-Request-Id"), Some(first.text()));
    assert_eq!(first.text().len(), 32);
    assert_ne!(first.text(), second.text());
}
