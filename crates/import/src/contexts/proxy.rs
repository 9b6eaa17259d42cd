//! Passing requests on: upstreams, and `proxy_*`.

use super::{exactly, has_variable};
use crate::convert::Scope;
use crate::document::{inline_table, list, string};
use crate::mapping::Level::{Http, Location, Stream, StreamUpstream, Upstream};
use crate::mapping::{How, Level, Row, Verdict};
use crate::tree::Directive;
use crate::values;

const fn row(directive: &'static str, becomes: &'static str, levels: &'static [Level], how: How) -> Row {
    Row { directive, becomes, levels, how }
}

const UPSTREAM: &[Level] = &[Upstream, StreamUpstream];

pub(super) const ROWS: &[Row] = &[
    row("upstream", "a table `[http.upstreams.NAME]` or `[stream.upstreams.NAME]`", &[Http, Stream], How::Block),
    row("server", "servers", UPSTREAM, How::By(server)),
    row("least_conn", "balance", UPSTREAM, How::By(balance)),
    row("ip_hash", "balance, hash", UPSTREAM, How::By(balance)),
    row("hash", "balance, hash", UPSTREAM, How::By(balance)),
    row("random", "balance", UPSTREAM, How::By(balance)),
    row("keepalive", "keepalive", UPSTREAM, How::Integer),
    row("keepalive_timeout", "keepalive_timeout", UPSTREAM, How::Duration),
    row("keepalive_requests", "keepalive_requests", UPSTREAM, How::Integer),
    row(
        "keepalive_time",
        "connections are kept for as many requests as are allowed",
        UPSTREAM,
        How::Nothing,
    ),
    row("zone", "workers share the state of servers anyway", UPSTREAM, How::Nothing),
    row("proxy_pass", "proxy_pass", &[Location], How::By(proxy_pass)),
    row("proxy_set_header", "proxy.request_headers", &[Location], How::By(proxy_set_header)),
    row("proxy_hide_header", "proxy.hide_headers", &[Location], How::By(proxy_hide_header)),
    row("proxy_read_timeout", "proxy.read_timeout", &[Location], How::Duration),
    row("proxy_send_timeout", "proxy.send_timeout", &[Location], How::Duration),
    row("proxy_next_upstream", "proxy.next_upstream", &[Location], How::By(next_upstream)),
    row("proxy_next_upstream_timeout", "proxy.next_upstream_timeout", &[Location], How::Duration),
    row("proxy_ignore_client_abort", "proxy.ignore_client_abort", &[Location], How::Flag),
    row("proxy_buffer_size", "proxy.header_size", &[Location], How::Size),
    row("proxy_http_version", "servers are spoken to in HTTP/1.1", &[Http], How::Nothing),
    row("proxy_buffering", "responses are passed on as they come", &[Http], How::Nothing),
    row("proxy_buffers", "responses are passed on as they come", &[Http], How::Nothing),
    row("proxy_busy_buffers_size", "responses are passed on as they come", &[Http], How::Nothing),
    row("proxy_max_temp_file_size", "responses are passed on as they come", &[Http], How::Nothing),
    row("proxy_temp_path", "responses are passed on as they come", &[Http], How::Nothing),
    row("proxy_request_buffering", "bodies are passed on as they come", &[Http], How::Nothing),
    row("proxy_redirect", "drover passes Location on as it is", &[Http], How::By(proxy_redirect)),
    row("proxy_connect_timeout", "it is a key of each upstream: connect_timeout", &[Http], How::Unsupported),
    row("proxy_cache", "drover has no cache of responses", &[Http], How::Unsupported),
    row("proxy_cache_path", "drover has no cache of responses", &[Http], How::Unsupported),
    row("proxy_cache_valid", "drover has no cache of responses", &[Http], How::Unsupported),
];

/// A server's address; without a port it is 80.
fn with_port(address: &str) -> String {
    if address.starts_with("unix:") {
        return address.to_owned();
    }
    let behind = address.rsplit_once(']').map_or(address, |(_, behind)| behind);
    if behind.contains(':') { address.to_owned() } else { format!("{address}:80") }
}

fn server(scope: &mut Scope, directive: &Directive) -> Verdict {
    let Some((address, options)) = directive.arguments.split_first() else {
        return Err("an address is expected".to_owned());
    };
    let address = if scope.level == Upstream { with_port(address) } else { address.clone() };
    let mut fields = vec![("address", string(&address))];
    for option in options {
        let number = |value: &str| match value.parse::<u32>() {
            Ok(number) => Ok(number.to_string()),
            Err(_) => Err(format!("`{value}` is not a number")),
        };
        let time =
            |value: &str| values::duration_text(value).ok_or_else(|| format!("`{value}` is not a time"));
        match option.split_once('=').unwrap_or((option.as_str(), "")) {
            ("weight", value) => fields.push(("weight", number(value)?)),
            ("max_conns", value) => fields.push(("max_connections", number(value)?)),
            ("max_fails", value) => fields.push(("max_fails", number(value)?)),
            ("fail_timeout", value) => fields.push(("fail_timeout", time(value)?)),
            ("slow_start", value) => fields.push(("slow_start", time(value)?)),
            ("backup", _) => fields.push(("backup", "true".to_owned())),
            ("down", _) => fields.push(("down", "true".to_owned())),
            // Names are asked for again anyway.
            ("resolve", _) => {}
            _ => return Err(format!("drover has nothing for `{option}`")),
        }
    }
    scope.push(
        "servers",
        match fields.as_slice() {
            [(_, address)] => address.clone(),
            fields => inline_table(fields),
        },
    );
    Ok(None)
}

fn balance(scope: &mut Scope, directive: &Directive) -> Verdict {
    let arguments: Vec<&str> = directive.arguments.iter().map(String::as_str).collect();
    match (directive.name.as_str(), arguments.as_slice()) {
        ("least_conn", []) => scope.set("balance", string("least_connections")),
        ("random", [] | ["two"] | ["two", "least_conn"]) => scope.set("balance", string("random_two")),
        ("ip_hash", []) => {
            scope.set("balance", string("hash"));
            scope.set("hash", string("$remote_addr"));
            return Ok(Some("the whole address counts, not an IPv4 address's first three bytes".to_owned()));
        }
        ("hash", [text]) => {
            scope.set("balance", string("hash"));
            scope.set("hash", string(text));
            return Ok(Some("few keys move when servers change, as with `consistent`".to_owned()));
        }
        ("hash", [text, "consistent"]) => {
            scope.set("balance", string("hash"));
            scope.set("hash", string(text));
            return Ok(Some("keys go to other servers than with nginx's ring".to_owned()));
        }
        _ => return Err("drover has no such method".to_owned()),
    }
    Ok(None)
}

fn proxy_pass(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [url] = exactly(&directive.arguments)?;
    let Some(rest) = url.strip_prefix("http://") else {
        return Err("drover speaks plain HTTP to servers".to_owned());
    };
    if has_variable(rest) {
        return Err("drover's upstreams have fixed names".to_owned());
    }
    scope.set("proxy_pass", string(url));
    Ok(None)
}

/// What drover does by itself, or what is set as it is.
fn proxy_set_header(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [name, value] = exactly(&directive.arguments)?;
    let own = name.eq_ignore_ascii_case("Connection") || name.eq_ignore_ascii_case("Upgrade");
    if own {
        return Ok(Some(
            "drover says itself what concerns the connection, and passes WebSockets on".to_owned(),
        ));
    }
    scope.set_request_field(name, value);
    Ok(None)
}

fn proxy_hide_header(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [name] = exactly(&directive.arguments)?;
    scope.push("proxy.hide_headers", string(name));
    Ok(None)
}

fn next_upstream(scope: &mut Scope, directive: &Directive) -> Verdict {
    let known = [
        "error",
        "timeout",
        "invalid_header",
        "non_idempotent",
        "http_403",
        "http_404",
        "http_429",
        "http_500",
        "http_502",
        "http_503",
        "http_504",
    ];
    let mut kinds = Vec::new();
    for kind in &directive.arguments {
        match kind.as_str() {
            "off" => {}
            kind if known.contains(&kind) => kinds.push(string(kind)),
            kind => return Err(format!("drover has nothing for `{kind}`")),
        }
    }
    scope.set("proxy.next_upstream", list(&kinds));
    Ok(None)
}

fn proxy_redirect(_: &mut Scope, directive: &Directive) -> Verdict {
    match directive.arguments.as_slice() {
        [off] if off == "off" => Ok(None),
        [default] if default == "default" => Ok(Some("the field Location is passed on as it is".to_owned())),
        _ => Err("the field Location is passed on as it is".to_owned()),
    }
}
