//! Passing requests on: upstreams, and `proxy_*`.

use super::{exactly, has_variable};
use crate::convert::{Pass, Scope};
use crate::document::{inline_table, list, string};
use crate::mapping::Level::{Http, Location, Server, Stream, StreamUpstream, Upstream};
use crate::mapping::{How, Level, Row, Verdict};
use crate::tree::Directive;
use crate::values;

const fn row(directive: &'static str, becomes: &'static str, levels: &'static [Level], how: How) -> Row {
    Row { directive, becomes, levels, how }
}

const PASSED_ON: &str = "responses are passed on as they come";
const CHANGED: &str = "`$uri` is the path that is passed on, also in the log";
const NO_CACHE: &str = "drover has no cache of responses";
const ALL: &[Level] = &[Http, Server, Location];
/// Of `[http.proxy]`, and of a location where that says it otherwise.
const SETTINGS: &[Level] = &[Http, Location];
const UPSTREAM: &[Level] = &[Upstream, StreamUpstream];

pub(super) const ROWS: &[Row] = &[
    row(
        "upstream",
        "a table `[http.upstreams.NAME]` or `[stream.upstreams.NAME]`",
        &[Http, Stream],
        How::Block,
    ),
    row("server", "servers", UPSTREAM, How::By(server)),
    row("least_conn", "balance", UPSTREAM, How::By(balance)),
    row("ip_hash", "balance, hash", UPSTREAM, How::By(balance)),
    row("hash", "balance, hash", UPSTREAM, How::By(balance)),
    row("random", "balance", UPSTREAM, How::By(balance)),
    row("keepalive", "keepalive", UPSTREAM, How::Integer),
    row("keepalive_timeout", "keepalive_timeout", UPSTREAM, How::Duration),
    row("keepalive_requests", "keepalive_requests", UPSTREAM, How::Integer),
    row("keepalive_time", "connections are kept for as many requests as are allowed", UPSTREAM, How::Nothing),
    row("zone", "workers share the state of servers anyway", UPSTREAM, How::Nothing),
    row("proxy_pass", "proxy_pass", &[Location], How::By(proxy_pass)),
    row("proxy_set_header", "proxy.request_headers", &[Location], How::By(proxy_set_header)),
    row("proxy_hide_header", "headers", &[Location], How::By(proxy_hide_header)),
    row("proxy_pass_header", "only what concerns the connection is held back", &[Location], How::Nothing),
    row("proxy_read_timeout", "proxy.read_timeout", SETTINGS, How::Duration),
    row("proxy_send_timeout", "proxy.send_timeout", SETTINGS, How::Duration),
    row("proxy_connect_timeout", "connect_timeout", &[Location], How::UpstreamDuration),
    row("proxy_bind", "source", &[Location], How::By(super::stream::bind)),
    row("proxy_next_upstream", "proxy.next_upstream", SETTINGS, How::By(next_upstream)),
    row("proxy_next_upstream_timeout", "proxy.next_upstream_timeout", SETTINGS, How::By(next_timeout)),
    row("proxy_next_upstream_tries", "tries", &[Location], How::By(tries)),
    row("proxy_ignore_client_abort", "proxy.ignore_client_abort", SETTINGS, How::Flag),
    row("proxy_buffer_size", "proxy.header_size", SETTINGS, How::Size),
    row("proxy_http_version", "servers are spoken to in HTTP/1.1", ALL, How::By(http_version)),
    row("proxy_buffering", PASSED_ON, &[Http], How::Nothing),
    row("proxy_buffers", PASSED_ON, &[Http], How::Nothing),
    row("proxy_busy_buffers_size", PASSED_ON, &[Http], How::Nothing),
    row("proxy_max_temp_file_size", PASSED_ON, &[Http], How::Nothing),
    row("proxy_temp_file_write_size", PASSED_ON, &[Http], How::Nothing),
    row("proxy_temp_path", PASSED_ON, &[Http], How::Nothing),
    row("proxy_request_buffering", "bodies are passed on as they come", &[Http], How::Nothing),
    row("proxy_headers_hash_max_size", "tables have the size they need", &[Http], How::Nothing),
    row("proxy_headers_hash_bucket_size", "tables have the size they need", &[Http], How::Nothing),
    row("proxy_socket_keepalive", "connections that are kept are short-lived", &[Http], How::Nothing),
    row("proxy_intercept_errors", "proxy.intercept_errors", SETTINGS, How::Flag),
    row("proxy_pass_request_headers", "fields are passed on", ALL, How::By(on_only)),
    row("proxy_pass_request_body", "bodies are passed on", ALL, How::By(on_only)),
    row("proxy_redirect", "proxy.redirects", &[Location], How::By(proxy_redirect)),
    row("proxy_cookie_domain", "cookies are passed on as they are", ALL, How::By(off_only)),
    row("proxy_cookie_path", "cookies are passed on as they are", ALL, How::By(off_only)),
    row("proxy_method", "requests keep their method", &[Http], How::Unsupported),
    row("proxy_set_body", "requests keep their body", &[Http], How::Unsupported),
    row("proxy_limit_rate", "drover has no limit on the speed of a response", &[Http], How::Unsupported),
    row("proxy_store", NO_CACHE, ALL, How::By(off_only)),
    row("proxy_cache", NO_CACHE, ALL, How::By(off_only)),
    row("proxy_cache_path", NO_CACHE, &[Http], How::Unsupported),
    row("proxy_cache_valid", NO_CACHE, &[Http], How::Nothing),
    row("proxy_cache_key", NO_CACHE, &[Http], How::Nothing),
    row("proxy_cache_bypass", NO_CACHE, &[Http], How::Nothing),
    row("proxy_cache_lock", NO_CACHE, &[Http], How::Nothing),
    row("proxy_cache_methods", NO_CACHE, &[Http], How::Nothing),
    row("proxy_cache_min_uses", NO_CACHE, &[Http], How::Nothing),
    row("proxy_cache_revalidate", NO_CACHE, &[Http], How::Nothing),
    row("proxy_cache_use_stale", NO_CACHE, &[Http], How::Nothing),
    row("proxy_cache_background_update", NO_CACHE, &[Http], How::Nothing),
    row("proxy_no_cache", NO_CACHE, &[Http], How::Nothing),
    row("proxy_ignore_headers", NO_CACHE, &[Http], How::Nothing),
    row("proxy_ssl_server_name", "drover does not speak TLS", &[Http], How::Unsupported),
    row("proxy_ssl_verify", "drover does not speak TLS", &[Http], How::Unsupported),
    row("proxy_ssl_certificate", "drover does not speak TLS", &[Http], How::Unsupported),
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
    let has_variables = has_variable(url);
    let url = scope.facts.with_constants(url);
    let Some(rest) = url.strip_prefix("http://") else {
        return Err("drover speaks plain HTTP to servers".to_owned());
    };
    let (server, mut path) = split(rest);
    if has_variable(server) {
        return pass_by_name(scope, server, path);
    }
    // With a variable in it, what is passed on stands there as a whole.
    if has_variables {
        scope.passed_path = passed_path(path);
        path = "";
    }
    let known = scope.facts.has_upstream(scope.level, server);
    let address = if known { server.to_owned() } else { with_port(server) };
    scope.set("proxy_pass", string(&format!("http://{address}{path}")));
    scope.proxy_host =
        if server.starts_with("unix:") { "localhost" } else { without_usual_port(server) }.to_owned();
    scope.pass = Some(Pass { server: address, around: ("http://", path.to_owned()) });
    Ok(scope.passed_path.is_some().then(|| CHANGED.to_owned()))
}

/// The upstream of the name that a variable gives.
fn pass_by_name(scope: &mut Scope, server: &str, path: &str) -> Verdict {
    if !scope.facts.has_http_upstreams() || server.contains(':') {
        return Err("a variable gives the name of an upstream in drover, not an address".to_owned());
    }
    scope.passed_path = passed_path(path);
    scope.set("proxy_pass", string(&format!("http://{server}")));
    let changes = scope.passed_path.is_some();
    scope.proxy_host = server.to_owned();
    scope.passes = scope.facts.http_upstreams();
    scope.pass = Some(Pass { server: server.to_owned(), around: ("http://", String::new()) });
    let name = "the variable gives the name of an upstream, not an address";
    Ok(Some(if changes { format!("{name}; {CHANGED}") } else { name.to_owned() }))
}

/// What the path is changed to, with `?` at its end where the query is left out; none where it stays as it is.
fn passed_path(path: &str) -> Option<String> {
    let usual = ["", "$request_uri", "$uri$is_args$args", "$document_uri$is_args$args"];
    if usual.contains(&path) {
        return None;
    }
    match path.strip_suffix("$is_args$args").or(path.strip_suffix("?$args")) {
        Some(path) => Some(path.to_owned()),
        None => Some(format!("{path}?")),
    }
}

/// The server, and what stands behind it. The path of a unix socket ends at a colon.
fn split(rest: &str) -> (&str, &str) {
    let end = match rest.strip_prefix("unix:") {
        Some(socket) => socket.find(':').map(|at| at + "unix:".len()),
        None => rest.find('/'),
    };
    rest.split_at(end.unwrap_or(rest.len()))
}

/// `$proxy_host` leaves the port out where it is that of HTTP.
fn without_usual_port(server: &str) -> &str {
    server.strip_suffix(":80").unwrap_or(server)
}

/// What drover does by itself, or what is set as it is.
fn proxy_set_header(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [name, value] = exactly(&directive.arguments)?;
    match name.to_ascii_lowercase().as_str() {
        // drover says itself what concerns the connection.
        "connection" | "te" | "keep-alive" | "transfer-encoding" | "content-length" | "expect" => {}
        "upgrade" if value.is_empty() => {}
        "upgrade" => scope.set("proxy.upgrade", list(&[string("websocket")])),
        _ => scope.set_request_field(name, value),
    }
    Ok(None)
}

fn proxy_hide_header(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [name] = exactly(&directive.arguments)?;
    scope.hide_field(name);
    Ok(None)
}

fn http_version(_: &mut Scope, directive: &Directive) -> Verdict {
    let [version] = exactly(&directive.arguments)?;
    Ok((version != "1.1").then(|| "servers are spoken to in HTTP/1.1".to_owned()))
}

fn off_only(_: &mut Scope, directive: &Directive) -> Verdict {
    match directive.arguments.as_slice() {
        [value] if value == "off" => Ok(None),
        _ => Err("drover passes on what the server says".to_owned()),
    }
}

fn on_only(_: &mut Scope, directive: &Directive) -> Verdict {
    match directive.arguments.as_slice() {
        [value] if value == "on" => Ok(None),
        _ => Err("drover passes requests on whole".to_owned()),
    }
}

fn next_timeout(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [time] = exactly(&directive.arguments)?;
    // No time is no limit, as without the directive.
    match values::duration(time) {
        Some(limit) if limit.is_zero() => {}
        Some(limit) => scope.set("proxy.next_upstream_timeout", crate::document::toml(&limit)),
        None => return Err(format!("`{time}` is not a time")),
    }
    Ok(None)
}

fn tries(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [number] = exactly(&directive.arguments)?;
    match number.parse::<u32>() {
        Ok(0) => Ok(None),
        Ok(number) => Ok(scope.ask_upstream("tries", number.to_string())),
        Err(_) => Err(format!("`{number}` is not a number")),
    }
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

fn proxy_redirect(scope: &mut Scope, directive: &Directive) -> Verdict {
    match directive.arguments.as_slice() {
        [off] if off == "off" => {
            scope.redirects.clear();
            scope.redirects_by_default = false;
        }
        [default] if default == "default" => scope.redirects_by_default = true,
        [from, to] if !from.starts_with('~') && !has_variable(from) && !has_variable(to) => {
            scope.redirects.push((from.clone(), to.clone()));
            scope.redirects_by_default = false;
        }
        _ => return Err("drover puts fixed texts in place of fixed texts".to_owned()),
    }
    Ok(None)
}
