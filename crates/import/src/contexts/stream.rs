//! TCP and UDP passed on.

use super::exactly;
use super::logs::further_error_log;
use crate::convert::{Pass, Scope, Setting};
use crate::document::{Table, inline_table, key, string};
use crate::mapping::Level::{Stream, StreamServer};
use crate::mapping::{How, Level, Row, Verdict};
use crate::tree::Directive;
use crate::values;

const fn row(directive: &'static str, becomes: &'static str, levels: &'static [Level], how: How) -> Row {
    Row { directive, becomes, levels, how }
}

const SERVER: &[Level] = &[StreamServer];
const EITHER: &[Level] = &[Stream];

pub(super) const ROWS: &[Row] = &[
    row("proxy_pass", "proxy_pass, server_names", SERVER, How::By(proxy_pass)),
    row("ssl_preread", "server_names", SERVER, How::By(preread)),
    row("map", "server_names", EITHER, How::By(map)),
    row("proxy_timeout", "idle_timeout", SERVER, How::Duration),
    row("preread_timeout", "preread_timeout", SERVER, How::Duration),
    row("proxy_requests", "requests", SERVER, How::Integer),
    row("proxy_responses", "responses", SERVER, How::Integer),
    row("proxy_upload_rate", "upload_rate", SERVER, How::Size),
    row("proxy_download_rate", "download_rate", SERVER, How::Size),
    row("proxy_protocol", "proxy_protocol", SERVER, How::By(proxy_protocol)),
    row("proxy_socket_keepalive", "server_keepalive", SERVER, How::By(socket_keepalive)),
    row("proxy_connect_timeout", "connect_timeout", SERVER, How::UpstreamDuration),
    row("proxy_next_upstream_tries", "tries", SERVER, How::UpstreamInteger),
    row("proxy_next_upstream", "tries", SERVER, How::By(next_upstream)),
    row("proxy_next_upstream_timeout", "each try has a time-out of its own", SERVER, How::By(no_limit)),
    row("proxy_bind", "source", SERVER, How::By(bind)),
    row("proxy_half_close", "each side may end its own direction", SERVER, How::By(half_close)),
    row("proxy_buffer_size", "buffers are the worker's", EITHER, How::Nothing),
    row("preread_buffer_size", "what is read ahead has the size of a TLS hello", EITHER, How::Nothing),
    row("tcp_nodelay", "small writes are never held back", EITHER, How::Nothing),
    row("resolver", "names are resolved as the system does", EITHER, How::Nothing),
    row("resolver_timeout", "names are resolved as the system does", EITHER, How::Nothing),
    row("variables_hash_max_size", "tables have the size they need", EITHER, How::Nothing),
    row("variables_hash_bucket_size", "tables have the size they need", EITHER, How::Nothing),
    row("map_hash_max_size", "tables have the size they need", EITHER, How::Nothing),
    row("map_hash_bucket_size", "tables have the size they need", EITHER, How::Nothing),
    row("limit_conn_log_level", "refusals are warnings", EITHER, How::Nothing),
    row(
        "error_log",
        "drover has one log for the whole daemon",
        &[Stream, StreamServer],
        How::By(further_error_log),
    ),
    row(
        "set_real_ip_from",
        "of a listener with `proxy_protocol`, all peers are trusted",
        SERVER,
        How::By(real_ip),
    ),
    row("return", "streams are passed on and not answered", EITHER, How::Unsupported),
    row("ssl_certificate", "drover does not speak TLS", EITHER, How::Unsupported),
    row("ssl_certificate_key", "drover does not speak TLS", EITHER, How::Unsupported),
    row("proxy_ssl", "drover does not speak TLS", EITHER, How::Unsupported),
    row("ssl_verify_client", "drover does not speak TLS", SERVER, How::Guard),
];

/// Something is passed on to an upstream or an address, or to what a map makes of the name that a client asks for.
fn proxy_pass(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [to] = exactly(&directive.arguments)?;
    if let Some(variable) = to.strip_prefix('$') {
        return by_name(scope, variable);
    }
    if to.contains('$') {
        return Err("drover chooses by the name that a TLS client asks for, and nothing else".to_owned());
    }
    let server = target(scope, to)?;
    scope.set("proxy_pass", string(&server));
    scope.pass = Some(Pass { server, around: ("", String::new()) });
    Ok(None)
}

/// The name of an upstream, or an address that has a port.
fn target(scope: &Scope, text: &str) -> Result<String, String> {
    let known = scope.facts.has_upstream(scope.level, text);
    match known || text.contains(':') {
        true => Ok(text.to_owned()),
        false => Err(format!("there is no upstream `{text}`, and an address has a port")),
    }
}

fn by_name(scope: &mut Scope, variable: &str) -> Verdict {
    let facts = std::rc::Rc::clone(&scope.facts);
    let name = format!("${variable}");
    let map = facts.stream_maps.iter().find(|map| map.arguments.get(1) == Some(&name));
    let map = map.ok_or_else(|| format!("no map has `{name}`"))?;
    let Names { default, names } = read_map(map)?;
    let mut table = Table::new("[stream.servers.server_names]");
    for (name, to) in &names {
        let to = target(scope, to)?;
        table.set(&key(name), string(&to));
        scope.passes.push(to);
    }
    if let Some(to) = default {
        let to = target(scope, &to)?;
        scope.set("proxy_pass", string(&to));
        scope.passes.push(to);
    }
    if !table.is_empty() {
        scope.push_table(table)?;
    }
    Ok(None)
}

/// What a map makes of names.
struct Names {
    default: Option<String>,
    names: Vec<(String, String)>,
}

fn read_map(map: &Directive) -> Result<Names, String> {
    if map.arguments.first().map(String::as_str) != Some("$ssl_preread_server_name") {
        return Err(
            "drover's streams look at the name that a TLS client asks for, and nothing else".to_owned()
        );
    }
    let hostnames = map.inner().any(|entry| entry.name == "hostnames");
    let mut read = Names { default: None, names: Vec::new() };
    for entry in map.inner() {
        let value = entry.arguments.first().cloned().unwrap_or_default();
        match entry.name.as_str() {
            "hostnames" | "volatile" => {}
            _ if value.contains('$') => return Err(format!("`{value}` is not known beforehand")),
            "default" => read.default = (!value.is_empty()).then_some(value),
            name if name.starts_with('~') => {
                return Err("drover's streams know names and patterns of names, not expressions".to_owned());
            }
            // Nobody asks for a name with an asterisk.
            name if name.contains('*') && !hostnames => {}
            name => match name.strip_prefix('.').filter(|_| hostnames) {
                Some(name) => {
                    read.names.push((name.to_owned(), value.clone()));
                    read.names.push((format!("*.{name}"), value));
                }
                None => read.names.push((name.trim_start_matches('\\').to_owned(), value)),
            },
        }
    }
    Ok(read)
}

/// The servers that pass on to what it makes have noted it.
fn map(_: &mut Scope, directive: &Directive) -> Verdict {
    read_map(directive).map(|_| None)
}

fn preread(_: &mut Scope, directive: &Directive) -> Verdict {
    let [value] = exactly(&directive.arguments)?;
    match values::flag(value) {
        Some(true) => Ok(Some("what is read ahead counts as received, too".to_owned())),
        Some(false) => Ok(None),
        None => Err(format!("`{value}` is not on or off")),
    }
}

fn proxy_protocol(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [value] = exactly(&directive.arguments)?;
    if values::flag(value) == Some(true) {
        scope.set("proxy_protocol", string("v1"));
    }
    Ok(None)
}

/// As the system probes unless told otherwise (tcp(7)).
pub(super) fn usual_probes() -> String {
    inline_table(&[("idle", string("2h")), ("interval", string("75s")), ("count", "9".to_owned())])
}

fn socket_keepalive(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [value] = exactly(&directive.arguments)?;
    if values::flag(value) == Some(true) {
        scope.set("server_keepalive", usual_probes());
    }
    Ok(None)
}

fn next_upstream(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [value] = exactly(&directive.arguments)?;
    match values::flag(value) {
        Some(false) => Ok(scope.ask_upstream("tries", "1".to_owned())),
        Some(true) => Ok(None),
        None => Err(format!("`{value}` is not on or off")),
    }
}

fn no_limit(_: &mut Scope, directive: &Directive) -> Verdict {
    let [time] = exactly(&directive.arguments)?;
    match values::duration(time) {
        Some(time) if time.is_zero() => Ok(None),
        _ => Ok(Some("each try has its time-out, all together have none".to_owned())),
    }
}

pub(super) fn bind(scope: &mut Scope, directive: &Directive) -> Verdict {
    match directive.arguments.as_slice() {
        [off] if off == "off" => Ok(None),
        [address] if address.parse::<std::net::IpAddr>().is_ok() => {
            scope.of_upstream.push(Setting { key: "source", value: string(address) });
            Ok(None)
        }
        _ => Err("drover connects from a fixed address of this machine".to_owned()),
    }
}

fn half_close(_: &mut Scope, directive: &Directive) -> Verdict {
    let [value] = exactly(&directive.arguments)?;
    match values::flag(value) {
        Some(true) => Ok(None),
        Some(false) => Ok(Some("a side that ends its stream still receives".to_owned())),
        None => Err(format!("`{value}` is not on or off")),
    }
}

fn real_ip(_: &mut Scope, directive: &Directive) -> Verdict {
    exactly::<1>(&directive.arguments)?;
    Ok(Some("every peer of a listener with `proxy_protocol` is trusted".to_owned()))
}

/// `so_keepalive=on`, or `so_keepalive=IDLE:INTERVAL:COUNT` of which parts may be empty.
pub(super) fn probes(text: &str) -> Result<Option<String>, String> {
    match values::flag(text) {
        Some(true) => return Ok(Some(usual_probes())),
        Some(false) => return Ok(None),
        None => {}
    }
    let parts: Vec<&str> = text.split(':').collect();
    let [idle, interval, count] = parts.as_slice() else {
        return Err(format!("`so_keepalive={text}` is no three values"));
    };
    let time = |text: &str, usual: &str| match text {
        "" => Ok(string(usual)),
        text => values::duration_text(text).ok_or_else(|| format!("`{text}` is not a time")),
    };
    let count = if count.is_empty() { "9" } else { count };
    let count = super::number(count).ok_or_else(|| format!("`{count}` is not a number"))?;
    Ok(Some(inline_table(&[
        ("idle", time(idle, "2h")?),
        ("interval", time(interval, "75s")?),
        ("count", count),
    ])))
}
