//! The checks across the keys of `[stream]`: what is found, and what is not.

use drover_config::Findings;

use super::*;

fn check(text: &str) -> (Stream, Findings) {
    let (stream, mut findings) = drover_config::parse::<Stream>("stream.toml", text);
    let stream = stream.expect("no key of [stream] is required");
    stream.check(&mut findings);
    (stream, findings)
}

fn messages(text: &str) -> Vec<String> {
    check(text).1.iter().map(|finding| finding.message().to_owned()).collect()
}

/// A server with an address, and these lines.
fn with_server(lines: &str) -> String {
    format!("[[servers]]\nlisten = [\"127.0.0.1:5432\"]\n{lines}")
}

const NONE: [&str; 0] = [];

#[test]
fn targets_are_upstreams_or_addresses() {
    for target in ["127.0.0.1:1", "[::1]:1", "db.internal:5432", "unix:/run/db.sock"] {
        assert_eq!(messages(&with_server(&format!("proxy_pass = \"{target}\""))), NONE, "{target}");
    }
    assert_eq!(messages(&with_server("proxy_pass = \"127.0.0.1:0\"")), ["`proxy_pass` is not an address"]);
    let undefined = with_server("proxy_pass = \"bd\"\n[upstreams.db]\nservers = [\"127.0.0.1:1\"]");
    let (_, findings) = check(&undefined);
    assert!(findings.to_string().contains("did you mean \"db\"?"), "{findings}");
    let defined = with_server("proxy_pass = \"db\"\n[upstreams.db]\nservers = [\"127.0.0.1:1\"]");
    assert_eq!(messages(&defined), NONE);
    assert_eq!(messages(&with_server("")), ["the server passes on to nowhere"]);
    assert_eq!(
        messages("[upstreams.\"a:1\"]\nservers = [\"127.0.0.1:1\"]"),
        ["nothing can name the upstream \"a:1\""]
    );
}

#[test]
fn names_lead_somewhere_and_can_be_asked_for() {
    let names = |text: &str| messages(&with_server(&format!("server_names = {{ {text} }}")));
    assert_eq!(names("\"a.example\" = \"127.0.0.1:1\", \"*.example\" = \"127.0.0.1:2\""), NONE);
    assert_eq!(names("\"a.example\" = \"db\""), ["the upstream \"db\" is not defined"]);
    assert_eq!(names("\"a..example\" = \"127.0.0.1:1\""), ["no client can ask for the name \"a..example\""]);
}

#[test]
fn what_datagrams_cannot_have_is_said() {
    let listen = |options: &str, lines: &str| {
        messages(&format!(
            "[[servers]]\nproxy_pass = \"127.0.0.1:1\"\nlisten = [{{ udp = true, {options} }}]\n{lines}"
        ))
    };
    assert_eq!(listen("address = \"127.0.0.1:53\"", ""), NONE);
    assert_eq!(listen("address = \"unix:/run/x\"", ""), ["unix:/run/x is for connections only"]);
    for option in [
        "deferred = true",
        "backlog = 5",
        "accept = \"mutex\"",
        "tcp_keepalive = \"5s\"",
        "proxy_protocol = true",
    ] {
        let key = option.split(' ').next().expect("a key");
        let found = listen(&format!("address = \"127.0.0.1:53\", {option}"), "");
        assert_eq!(found, [format!("`{key}` has no effect here")]);
    }
    assert_eq!(
        listen("address = \"127.0.0.1:53\"", "server_names = { a = \"127.0.0.1:1\" }"),
        ["datagrams ask for no name"]
    );
    for line in [
        "half_closed_timeout = \"1s\"",
        "upload_rate = \"1k\"",
        "download_rate = \"1k\"",
        "server_keepalive = \"60s\"",
    ] {
        let key = line.split(' ').next().expect("a key");
        assert_eq!(listen("address = \"127.0.0.1:53\"", line), [format!("`{key}` has no effect here")]);
    }
    for line in ["requests = 3", "responses = 1"] {
        let key = line.split(' ').next().expect("a key");
        assert_eq!(listen("address = \"127.0.0.1:53\"", line), NONE);
        let found = messages(&with_server(&format!("proxy_pass = \"127.0.0.1:1\"\n{line}")));
        assert_eq!(found, [format!("`{key}` has no effect here")]);
    }
    assert_eq!(
        listen("address = \"127.0.0.1:53\"", "proxy_protocol = \"v1\""),
        ["version 1 of the PROXY protocol cannot tell of datagrams"]
    );
    assert_eq!(listen("address = \"127.0.0.1:53\"", "proxy_protocol = \"v2\""), NONE);
    let unix = "[[servers]]\nlisten = [{ address = \"127.0.0.1:53\", udp = true }]\nproxy_pass = \"unix:/x\"";
    assert_eq!(messages(unix), ["datagrams cannot be passed on to a unix socket"]);
}

#[test]
fn log_formats_are_defined_and_their_variables_known() {
    assert_eq!(
        messages("access_log = { file = \"/x\", format = \"odd\" }"),
        ["the log format `odd` is not defined"]
    );
    assert_eq!(messages("log_formats.basic = \"\""), ["the log format `basic` is built in"]);
    assert_eq!(messages("log_formats.odd = \"$close_raeson\""), ["the text has a variable that is wrong"]);
    for (_, text) in BUILT_IN_LOG_FORMATS {
        assert_eq!(crate::variables::check_variables(text), Ok(()));
    }
}

#[test]
fn keys_of_upstreams_are_known_when_a_server_is_chosen() {
    let upstream = |hash: &str| {
        messages(&format!(
            "[upstreams.db]\nservers = [\"127.0.0.1:1\"]\nbalance = \"hash\"\nhash = \"{hash}\""
        ))
    };
    assert_eq!(upstream("$remote_addr $tls_server_name"), NONE);
    assert_eq!(upstream("$remote_adr"), ["the text has a variable that is wrong"]);
    assert_eq!(upstream("$bytes_sent"), ["`hash` has a variable that is not known yet"]);
}

#[test]
fn limits_are_defined_and_their_keys_known_at_first() {
    let limited = |key: &str, applied: &str| {
        let applied = format!("proxy_pass = \"127.0.0.1:1\"\n{applied}");
        messages(&format!("connection_limits.each.key = \"{key}\"\n{}", with_server(&applied)))
    };
    assert_eq!(limited("$remote_addr", "limit_connections = [{ limit = \"each\", most = 2 }]"), NONE);
    let (_, findings) = check(&format!(
        "accept_limits.each = {{ key = \"x\", rate = \"1/s\" }}\n{}",
        with_server("proxy_pass = \"127.0.0.1:1\"\nlimit_accepts = [{ limit = \"eahc\" }]")
    ));
    assert!(findings.to_string().contains("did you mean \"each\"?"), "{findings}");
    assert_eq!(limited("x", "limit_accepts = [{ limit = \"each\" }]"), ["the limit `each` is not defined"]);
    for unknown in ["$bytes_sent", "$tls_server_name"] {
        assert_eq!(limited(unknown, ""), ["`key` has a variable that is not known yet"], "{unknown}");
    }
}

#[test]
fn a_log_format_is_a_text_or_an_object() {
    assert_eq!(messages("log_formats.a = \"$pid\"\nlog_formats.b.json = { pid = \"$pid\" }"), NONE);
    assert_eq!(
        messages("log_formats.a = { text = \"x\", json = { y = \"z\" } }"),
        ["the log format `a` has to have either `text` or `json`"]
    );
    assert_eq!(messages("log_formats.a.json = { y = \"$zz\" }"), ["the text has a variable that is wrong"]);
}

#[test]
fn probes_are_a_time_or_a_table() {
    let listen = |text: &str| {
        let text = format!(
            "[[servers]]\nproxy_pass = \"127.0.0.1:1\"\nlisten = [{{ address = \"127.0.0.1:1\", tcp_keepalive = {text} }}]"
        );
        let (stream, findings) = check(&text);
        assert!(findings.is_empty(), "{findings}");
        stream.listeners()[0].probes.expect("probes")
    };
    let probes = listen("\"75s\"");
    assert_eq!((probes.idle, probes.interval, probes.count), (75, 10, 6));
    let probes = listen("{ idle = \"2m\", interval = \"5s\", count = 3 }");
    assert_eq!((probes.idle, probes.interval, probes.count), (120, 5, 3));
}
