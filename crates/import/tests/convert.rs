//! What is written for small configurations, to the letter.

use drover_import::report::Outcome;
use drover_import::{Converted, Directories, convert, tree};

fn converted(text: &str) -> Converted {
    convert(&tree::parse("nginx.conf", text).expect("it can be read"), &Directories::default())
}

#[track_caller]
fn becomes(nginx: &str, drover: &str) {
    let text = converted(nginx).text;
    assert_eq!(text.trim(), drover.trim(), "\n{text}");
}

/// What stands in the first location.
fn first_location(server: &str) -> String {
    let text = converted(&format!("http {{ server {{ {server} }} }}")).text;
    let (_, location) = text.split_once("[[http.servers.locations]]\n").expect("a location");
    location.split("\n[").next().unwrap_or_default().trim().to_owned()
}

fn outcomes(text: &str) -> Vec<(String, Outcome, String)> {
    let report = converted(text).report;
    report
        .entries()
        .iter()
        .map(|entry| (entry.directive.clone(), entry.outcome, entry.remark.clone()))
        .collect()
}

#[test]
fn process_and_events_are_tables_of_their_own() {
    becomes(
        "user www; worker_processes 4;\nevents { use epoll; accept_mutex on; accept_mutex_delay 100ms; }",
        r#"
[process]
user = "www"
workers = 4

[events]
use = "epoll"
accept = "mutex"
accept_mutex_delay = "100ms"
"#,
    );
}

#[test]
fn comments_stay_where_they_stood() {
    becomes(
        "# first\n\nworker_processes 2; # two\n# then\npid /run/a.pid;\n# last\n",
        r#"
[process]
# first
workers = 2  # two
# then
pid_file = "/run/a.pid"
# last
"#,
    );
}

#[test]
fn the_daemon_s_log_may_go_to_syslog() {
    becomes(
        "error_log syslog:server=unix:/dev/log,severity=debug,nohostname warn;",
        r#"
[log]
syslog = { to = "unix:/dev/log", tag = "nginx", facility = "local7" }
level = "warn"
"#,
    );
}

#[test]
fn a_server_without_a_location_for_everything_gets_one() {
    becomes(
        "http { server { listen 81; root /srv; } }",
        r#"
[[http.servers]]
listen = ["0.0.0.0:81"]
root = "/srv"

[[http.servers.locations]]
path = "/"
"#,
    );
}

#[test]
fn what_drover_has_only_further_inside_is_handed_down() {
    becomes(
        "http { root /srv; server { listen 81; location / { } } server { listen 82; root /own; location / { } } }",
        r#"
[[http.servers]]
root = "/srv"
listen = ["0.0.0.0:81"]

[[http.servers.locations]]
path = "/"

[[http.servers]]
listen = ["0.0.0.0:82"]
root = "/own"

[[http.servers.locations]]
path = "/"
"#,
    );
}

#[test]
fn lists_replace_those_outside_and_never_add_up() {
    let fields = |location: &str| {
        first_location(&format!(
            "proxy_set_header A 1; proxy_set_header B 2; location / {{ proxy_pass http://127.0.0.1:9/; {location} }}"
        ))
    };
    assert!(fields("").contains("A = \"1\", B = \"2\" } }"), "{}", fields(""));
    let own = fields("proxy_set_header C 3;");
    assert!(own.contains("{ set = { Host = \"127.0.0.1:9\", C = \"3\" } }"), "{own}");
}

#[test]
fn rules_keep_their_order() {
    assert_eq!(
        first_location(
            "location / { set $a 1; if ($a = 2) { return 403; } rewrite ^/x/(.*)$ /y/$1 last; return 301 /z; }"
        ),
        r#"
path = "/"
rules = [
    { set = { a = "1" } },
    { when = { text = "$a", equals = "2" }, return = { status = 403 } },
    { rewrite = '^/x/(.*)$', to = "/y/$1", then = "last" },
    { return = { status = 301, location = "/z" } },
]"#
        .trim()
    );
    assert_eq!(first_location("location / { return 204; }"), "path = \"/\"\nreturn = { status = 204 }");
}

#[test]
fn locations_of_all_kinds() {
    for (nginx, drover) in [
        ("= /a", r#"{ exact = "/a" }"#),
        ("/a", r#""/a""#),
        ("^~ /a", r#"{ prefix = "/a", before_expressions = true }"#),
        (r"~ \.php$", r"{ expression = '\.php$' }"),
        (r"~* \.php$", r"{ expression = '(?i)\.php$' }"),
        ("@a", r#"{ name = "a" }"#),
    ] {
        assert_eq!(first_location(&format!("location {nginx} {{ }}")), format!("path = {drover}"), "{nginx}");
    }
    let nested = converted("http { server { location /a { location /a/b { } } } }").text;
    assert!(nested.contains("[[http.servers.locations.locations]]\npath = \"/a/b\""), "{nested}");
}

#[test]
fn what_is_not_supported_is_a_comment_and_in_the_report() {
    let text = "http { server { listen 81; fancy on; location / { expires 1h; } location ~ (?=a) { } } tcp_nopush on; }";
    assert!(converted(text).text.contains("# not carried over (drover knows no such directive): fancy on;"));
    let outcomes = outcomes(text);
    let outcome = |name: &str| {
        outcomes.iter().find(|(line, ..)| line.starts_with(name)).map(|(_, outcome, _)| *outcome)
    };
    assert_eq!(outcome("fancy"), Some(Outcome::NotSupported));
    assert_eq!(outcome("expires"), Some(Outcome::Differs));
    assert_eq!(outcome("tcp_nopush"), Some(Outcome::NoEffect));
    assert_eq!(outcome("listen"), Some(Outcome::CarriedOver));
    assert_eq!(outcome("location ~"), Some(Outcome::NotSupported), "an expression that looks around");
    assert!(!converted(text).report.is_complete());
}

#[test]
fn what_guarded_a_place_is_never_just_left_out() {
    let location = first_location("location / { root /srv; allow all; auth_request /check; }");
    assert!(location.contains("access = [\"deny all\"]"), "{location}");
    let realm = first_location("location / { auth_basic $realm; auth_basic_user_file /u; }");
    assert!(realm.contains("access = [\"deny all\"]"), "{realm}");
    let denied = first_location("location / { deny nonsense.example; }");
    assert!(denied.contains("nonsense.example"), "{denied}");
}

#[test]
fn who_is_let_into_a_stream_is_said_there() {
    let streams = |text: &str| converted(&format!("stream {{ {text} }}"));
    let pass = "listen 127.0.0.1:1; proxy_pass 10.0.0.1:1;";
    let inner = streams(&format!("server {{ {pass} deny 10.0.0.13; allow 10.0.0.0/8; deny all; }}"));
    let want = "access = [\"deny 10.0.0.13\", \"allow 10.0.0.0/8\", \"deny all\"]";
    assert!(inner.text.contains(want), "{}", inner.text);
    assert!(inner.report.is_complete(), "{}", inner.text);
    let both = streams(&format!("deny all; server {{ {pass} }} server {{ {pass} allow all; }}"));
    let (first, second) = both
        .text
        .split_once("[[stream.servers]]")
        .expect("a server")
        .1
        .split_once("[[stream.servers]]")
        .expect("two");
    assert!(first.contains("access = [\"deny all\"]"), "{first}");
    assert!(second.contains("access = [\"allow all\"]"), "what is inside stands for all: {second}");
}

#[test]
fn whom_to_trust_goes_where_they_say_whom_they_connect_for() {
    let http = |text: &str| {
        let text = converted(&format!("http {{ {text} }}")).text;
        text.strip_prefix("[http]\n").unwrap_or_default().trim().to_owned()
    };
    assert_eq!(
        http("set_real_ip_from 10.0.0.0/8; set_real_ip_from ::1;"),
        "real_ip.from = [\"10.0.0.0/8\", \"::1\"]\nreal_ip.header = \"X-Real-IP\"\nreal_ip.recursive = false"
    );
    assert_eq!(
        http("set_real_ip_from 10.0.0.0/8; real_ip_header X-Forwarded-For; real_ip_recursive on;"),
        "real_ip.from = [\"10.0.0.0/8\"]\nreal_ip.header = \"X-Forwarded-For\"\nreal_ip.recursive = true"
    );
    // No field of a request is believed where it was not.
    for text in [
        "set_real_ip_from 10.0.0.0/8; real_ip_header proxy_protocol;",
        "real_ip_header proxy_protocol; real_ip_recursive on; set_real_ip_from 10.0.0.0/8;",
    ] {
        assert_eq!(http(text), "proxy_protocol_from = [\"10.0.0.0/8\"]", "{text}");
        let outcomes = outcomes(&format!("http {{ {text} }}"));
        let differing = outcomes.iter().filter(|(_, outcome, _)| *outcome == Outcome::Differs);
        let names: Vec<&str> =
            differing.map(|(line, ..)| line.split(' ').next().unwrap_or_default()).collect();
        assert!(names.contains(&"set_real_ip_from") && names.contains(&"real_ip_header"), "{outcomes:?}");
    }
    assert_eq!(http("real_ip_header X-Real-IP;"), "");
}

#[test]
fn passwords_stay() {
    let location = first_location("location / { auth_basic \"Staff only\"; auth_basic_user_file /u; }");
    assert!(location.contains("basic_auth = \"Staff only\"\nbasic_auth_users = \"/u\""), "{location}");
    let off = first_location("auth_basic a; auth_basic_user_file /u; location / { auth_basic off; }");
    assert!(off.contains("basic_auth = \"off\""), "{off}");
}

#[test]
fn every_directive_is_in_the_report_once() {
    let outcomes =
        outcomes("http { gzip on; server { location /a { } location /b { } } server { location / { } } }");
    let count = |name: &str| outcomes.iter().filter(|(line, ..)| line.starts_with(name)).count();
    assert_eq!(count("gzip"), 1);
    assert_eq!(count("server"), 2);
    assert_eq!(count("location"), 3);
}

#[test]
fn the_reference_tells_what_becomes_of_each_directive() {
    let reference = drover_import::reference();
    assert!(reference.contains("| `client_max_body_size` | `client_body_size` |"), "{reference}");
    assert!(reference.contains("| `tcp_nopush` | no effect: "));
    assert!(reference.contains("| `ssl_certificate` | not supported: "));
}

#[test]
fn what_is_said_alike_in_all_servers_is_said_once() {
    becomes(
        "http { server { listen 81; keepalive_timeout 5s; # short\n location / { return 204; } } \
         server { listen 82; keepalive_timeout 5s; location / { return 204; } } }",
        r#"
[http]
keepalive_timeout = "5s"  # short

[[http.servers]]
listen = ["0.0.0.0:81"]

[[http.servers.locations]]
path = "/"
return = { status = 204 }

[[http.servers]]
listen = ["0.0.0.0:82"]

[[http.servers.locations]]
path = "/"
return = { status = 204 }
"#,
    );
    let differs = outcomes("http { server { keepalive_timeout 5s; } server { keepalive_timeout 6s; } }");
    assert!(
        differs.iter().any(|(line, outcome, _)| {
            line == "keepalive_timeout 6s;" && *outcome == Outcome::NotSupported
        })
    );
}

#[test]
fn an_address_that_is_passed_on_to_with_settings_is_an_upstream() {
    becomes(
        "http { server { listen 81; location / { proxy_pass http://127.0.0.1:9; proxy_connect_timeout 3s; \
         proxy_set_header Host $http_host; } } }",
        r#"
[http]
proxy.forwarded = "off"
proxy.upgrade = []
proxy.via = "off"

[http.upstreams."127.0.0.1-9"]
servers = ["127.0.0.1:9"]
connect_timeout = "3s"

[[http.servers]]
listen = ["0.0.0.0:81"]

[[http.servers.locations]]
path = "/"
proxy_pass = "http://127.0.0.1-9"
"#,
    );
}

#[test]
fn servers_are_told_what_nginx_tells_them() {
    let location = |inner: &str| {
        first_location(&format!("location /a/ {{ proxy_pass http://127.0.0.1:9/b/; {inner} }}"))
    };
    assert_eq!(
        location(""),
        r#"
path = "/a/"
proxy_pass = "http://127.0.0.1:9/b/"
proxy.request_headers = { set = { Host = "127.0.0.1:9" } }
proxy.redirects = { "http://127.0.0.1:9/b/" = "/a/" }
"#
        .trim()
    );
    assert!(location("proxy_set_header Host $host;").ends_with("{ set = { Host = \"$host\" } }"));
    assert!(!location("proxy_redirect off;").contains("redirects"));
    assert!(location("proxy_set_header Upgrade $http_upgrade;").contains("proxy.upgrade = [\"websocket\"]"));
}

#[test]
fn what_an_expression_would_look_ahead_for_is_closed_without_it() {
    let text = converted("http { server { location ~ /\\.(?!well-known) { deny all; } } }").text;
    assert!(text.contains("path = { expression = '/\\.' }"), "{text}");
    assert!(text.contains("access = [\"deny all\"]"), "{text}");
    let text = converted("http { server { location ~ /\\.(?!well-known) { root /srv; } } }").text;
    assert!(!text.contains("path = { expression"), "{text}");
}

#[test]
fn names_that_tls_clients_ask_for_lead_to_servers() {
    becomes(
        "stream { map $ssl_preread_server_name $to { hostnames; .a.example one; default two; } \
         upstream one { server 10.0.0.1:443; } upstream two { server 10.0.0.2:443; } \
         server { listen 443; ssl_preread on; proxy_pass $to; proxy_timeout 5m; proxy_connect_timeout 1s; } }",
        r#"
[stream.upstreams.one]
servers = ["10.0.0.1:443"]
connect_timeout = "1s"

[stream.upstreams.two]
servers = ["10.0.0.2:443"]
connect_timeout = "1s"

[[stream.servers]]
listen = ["0.0.0.0:443"]
proxy_pass = "two"
idle_timeout = "5m"

[stream.servers.server_names]
"a.example" = "one"
"*.a.example" = "one"
"#,
    );
}

#[test]
fn a_server_for_tls_alone_listens_nowhere() {
    let text = converted("http { server { listen 443 ssl; location / { return 204; } } }").text;
    assert!(text.contains("listen = []\n"), "{text}");
}

#[test]
fn what_no_literal_string_holds_is_written_with_escapes() {
    let text = converted("http { server { rewrite '^/a\u{b}b' /c; } }").text;
    assert!(text.contains("rewrite = \"^/a\\u000Bb\""), "{text}");
}
