//! The HTTP service, its servers and locations: limits and what applies to connections.

use super::exactly;
use crate::convert::Scope;
use crate::document::{inline_table, string};
use crate::mapping::Level::{Http, Location, Server, Stream};
use crate::mapping::{How, Level, Row, Verdict};
use crate::tree::Directive;
use crate::values;

const fn row(directive: &'static str, becomes: &'static str, levels: &'static [Level], how: How) -> Row {
    Row { directive, becomes, levels, how }
}

const ALL: &[Level] = &[Http, Server, Location];

pub(super) const ROWS: &[Row] = &[
    row("server", "a table `[[http.servers]]` or `[[stream.servers]]`", &[Http, Stream], How::Block),
    row("location", "a table `[[http.servers.locations]]`", &[Server, Location], How::Block),
    row("client_header_timeout", "client_header_timeout", &[Http], How::Duration),
    row("client_body_timeout", "client_body_timeout", &[Http], How::Duration),
    row("send_timeout", "send_timeout", &[Http], How::Duration),
    row("keepalive_timeout", "keepalive_timeout", &[Http], How::By(keepalive_timeout)),
    row("keepalive_requests", "keepalive_requests", &[Http], How::Integer),
    row("lingering_timeout", "lingering_timeout", &[Http], How::Duration),
    row("lingering_time", "lingering_time", &[Http], How::Duration),
    row("underscores_in_headers", "underscores_in_headers", &[Http], How::Flag),
    row("server_tokens", "server_tokens", &[Http], How::By(server_tokens)),
    row("large_client_header_buffers", "client_header_size", &[Http], How::By(header_buffers)),
    row("client_max_body_size", "client_body_size", &[Http, Location], How::By(body_size)),
    row("server_name", "server_names", &[Server], How::By(server_names)),
    row("internal", "internal", &[Location], How::By(internal)),
    row("tcp_nodelay", "small writes are never held back", &[Http], How::Nothing),
    row("tcp_nopush", "heads and files are sent as fits them", &[Http], How::Nothing),
    row(
        "reset_timedout_connection",
        "a slot is free as soon as its connection closes",
        &[Http],
        How::Nothing,
    ),
    row("client_header_buffer_size", "buffers are the worker's and grow as needed", &[Http], How::Nothing),
    row("connection_pool_size", "connections have no pools", &[Http], How::Nothing),
    row("request_pool_size", "requests have no pools", &[Http], How::Nothing),
    row("client_body_buffer_size", "bodies are passed on as they come", &[Http], How::Nothing),
    row("client_body_temp_path", "bodies are passed on as they come", &[Http], How::Nothing),
    row("types_hash_max_size", "tables have the size they need", &[Http], How::Nothing),
    row("types_hash_bucket_size", "tables have the size they need", &[Http], How::Nothing),
    row("server_names_hash_max_size", "tables have the size they need", &[Http], How::Nothing),
    row("server_names_hash_bucket_size", "tables have the size they need", &[Http], How::Nothing),
    row("variables_hash_max_size", "tables have the size they need", &[Http], How::Nothing),
    row("variables_hash_bucket_size", "tables have the size they need", &[Http], How::Nothing),
    row("map_hash_max_size", "tables have the size they need", &[Http], How::Nothing),
    row("map_hash_bucket_size", "tables have the size they need", &[Http], How::Nothing),
    row("lingering_close", "drover lingers where the client may still be sending", &[Http], How::Nothing),
    row("absolute_redirect", "redirects to a path are that path", ALL, How::Nothing),
    row("port_in_redirect", "redirects to a path are that path", ALL, How::Nothing),
    row("server_name_in_redirect", "redirects to a path are that path", ALL, How::Nothing),
    row("resolver_timeout", "names are resolved as the system does", ALL, How::Nothing),
    row("if_modified_since", "dates are compared as RFC 9110 says", ALL, How::Nothing),
    row("msie_padding", "no client of today needs it", ALL, How::Nothing),
    row("msie_refresh", "no client of today needs it", ALL, How::Nothing),
    row("merge_slashes", "slashes that follow each other are one", ALL, How::By(merge_slashes)),
    row("http2", "HTTP/1.1 is spoken", ALL, How::By(http2)),
    row("postpone_output", "small responses are sent at once", ALL, How::Nothing),
    row("send_lowat", "the system's socket options are kept", ALL, How::Nothing),
    row("keepalive_disable", "no client of today needs it", ALL, How::Nothing),
    row("read_ahead", "files are sent by the kernel", ALL, How::Nothing),
    row("subrequest_output_buffer_size", "drover makes no requests within requests", ALL, How::Nothing),
    row("client_body_in_single_buffer", "bodies are passed on as they come", ALL, How::Nothing),
    row("client_body_in_file_only", "bodies are passed on as they come", ALL, How::Nothing),
    row("resolver", "names are resolved as the system does", &[Http], How::Nothing),
    row("ssl_certificate", "drover does not speak TLS", &[Http], How::Unsupported),
    row("ssl_certificate_key", "drover does not speak TLS", &[Http], How::Unsupported),
    row("ssl_protocols", "drover does not speak TLS", &[Http], How::Unsupported),
    row("ssl_ciphers", "drover does not speak TLS", &[Http], How::Unsupported),
    row("ssl_session_cache", "drover does not speak TLS", &[Http], How::Unsupported),
    row("ssl_session_timeout", "drover does not speak TLS", &[Http], How::Unsupported),
    row("ssl_prefer_server_ciphers", "drover does not speak TLS", &[Http], How::Unsupported),
    row("fastcgi_pass", "drover speaks HTTP to servers only", &[Http], How::Unsupported),
    row("uwsgi_pass", "drover speaks HTTP to servers only", &[Http], How::Unsupported),
];

/// The path of a location, as TOML.
pub(crate) fn path(arguments: &[String]) -> Result<String, String> {
    let expression = |text: &str| -> Result<String, String> {
        Ok(inline_table(&[("expression", super::rules::expression(text)?)]))
    };
    match arguments {
        [path] if path.starts_with('@') => Ok(inline_table(&[("name", string(&path[1..]))])),
        [path] => match path.strip_prefix('=') {
            Some(exact) => Ok(inline_table(&[("exact", string(exact))])),
            None => Ok(string(path)),
        },
        [sign, path] => match sign.as_str() {
            "=" => Ok(inline_table(&[("exact", string(path))])),
            "^~" => Ok(inline_table(&[("prefix", string(path)), ("before_expressions", "true".to_owned())])),
            "~" => expression(path),
            "~*" => expression(&format!("(?i){path}")),
            _ => Err(format!("`{sign}` is no kind of location")),
        },
        _ => Err("a path is expected".to_owned()),
    }
}

/// A path for a location that lets nobody in and whose expression looks ahead for what not to match: without looking, it
/// is closed for more.
pub(crate) fn wider_path(block: &Directive) -> Option<String> {
    let closes = block.inner().any(|inner| match inner.name.as_str() {
        "deny" => inner.arguments == ["all"],
        "return" => {
            inner.arguments.first().is_some_and(|status| ["403", "404", "444"].contains(&status.as_str()))
        }
        "internal" => true,
        _ => false,
    });
    let [sign, text] = block.arguments.as_slice() else { return None };
    let (before, behind) = text.split_once("(?!")?;
    let (looked_for, behind) = behind.split_once(')')?;
    let plain = !looked_for.contains(['(', '[', '\\']);
    (closes && plain).then(|| path(&[sign.clone(), format!("{before}{behind}")]).ok()).flatten()
}

/// The expression of a location, as TOML, if it has one.
pub(crate) fn expression_of(arguments: &[String]) -> Option<String> {
    match arguments {
        [sign, text] if sign == "~" => super::rules::expression(text).ok(),
        [sign, text] if sign == "~*" => super::rules::expression(&format!("(?i){text}")).ok(),
        _ => None,
    }
}

fn keepalive_timeout(scope: &mut Scope, directive: &Directive) -> Verdict {
    let (time, told) = match directive.arguments.as_slice() {
        [time] => (time, false),
        [time, _] => (time, true),
        _ => return Err("a time is expected".to_owned()),
    };
    let value = values::duration_text(time).ok_or_else(|| format!("`{time}` is not a time"))?;
    scope.set("keepalive_timeout", value);
    Ok(told.then(|| "responses have no field Keep-Alive".to_owned()))
}

fn server_tokens(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [value] = exactly(&directive.arguments)?;
    let flag = values::flag(value).ok_or_else(|| format!("drover has no `{value}` here"))?;
    scope.set("server_tokens", flag.to_string());
    Ok(None)
}

/// The number and the size of buffers: a whole head may take all of them, one line one of them.
fn header_buffers(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [number, size] = exactly(&directive.arguments)?;
    let total = number
        .parse::<u64>()
        .ok()
        .zip(values::size(size))
        .and_then(|(number, size)| number.checked_mul(size));
    let total = total.ok_or_else(|| "a number and a size are expected".to_owned())?;
    scope.set("client_header_size", crate::document::toml(&drover_config::Size::from_bytes(total)));
    Ok(Some("the limit is on the whole head, not on each of its lines".to_owned()))
}

fn body_size(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [size] = exactly(&directive.arguments)?;
    let bytes = values::size(size).ok_or_else(|| format!("`{size}` is not a size"))?;
    if bytes == 0 {
        return Err("a body always has a limit in drover".to_owned());
    }
    scope.set("client_body_size", crate::document::toml(&drover_config::Size::from_bytes(bytes)));
    Ok(None)
}

fn server_names(scope: &mut Scope, directive: &Directive) -> Verdict {
    for name in &directive.arguments {
        match name.as_str() {
            // By habit a name that nobody asks for.
            "_" | "" => {}
            name if name.starts_with('~') => {
                super::rules::expression(&name[1..])?;
                scope.push("server_names", string(name));
            }
            name => match name.strip_prefix('.') {
                Some(name) => {
                    scope.push("server_names", string(name));
                    scope.push("server_names", string(&format!("*.{name}")));
                }
                None => scope.push("server_names", string(name)),
            },
        }
    }
    Ok(None)
}

fn merge_slashes(_: &mut Scope, directive: &Directive) -> Verdict {
    let [value] = exactly(&directive.arguments)?;
    match values::flag(value) {
        Some(true) => Ok(None),
        _ => Err("slashes that follow each other are one".to_owned()),
    }
}

fn http2(_: &mut Scope, directive: &Directive) -> Verdict {
    let [value] = exactly(&directive.arguments)?;
    Ok((values::flag(value) == Some(true)).then(|| "HTTP/1.1 is spoken, not HTTP/2".to_owned()))
}

fn internal(scope: &mut Scope, _: &Directive) -> Verdict {
    scope.set("internal", "true".to_owned());
    Ok(None)
}
