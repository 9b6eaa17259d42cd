//! Variables: those that drover calls otherwise, and those that it does not have.

use crate::mapping::Level;
use crate::tree::{Directive, Node};

/// nginx's name and drover's, where they differ.
const RENAMED: &[(&str, &str)] = &[("binary_remote_addr", "remote_addr")];

/// Those of streams beside them.
const RENAMED_OF_STREAMS: &[(&str, &str)] = &[
    ("proxy_protocol_addr", "remote_addr"),
    ("proxy_protocol_port", "remote_port"),
    ("ssl_preread_server_name", "tls_server_name"),
];

/// Variables of HTTP that drover does not have.
const MISSING: &[&str] = &[
    "connection_time",
    "connections_active",
    "connections_reading",
    "connections_waiting",
    "connections_writing",
    "date_gmt",
    "date_local",
    "gzip_ratio",
    "invalid_referer",
    "limit_conn_status",
    "limit_rate",
    "limit_req_status",
    "nginx_version",
    "pipe",
    "proxy_port",
    "realpath_root",
    "request_body",
    "request_body_file",
    "request_completion",
    "secure_link",
    "secure_link_expires",
    "slice_range",
    "uid_got",
    "uid_reset",
    "uid_set",
    "upstream_cache_status",
    "upstream_queue_time",
];

/// Beginnings of such names.
const MISSING_BEGINNINGS: &[&str] = &[
    "geoip_",
    "jwt_",
    "sent_trailer_",
    "ssl_",
    "tcpinfo_",
    "upstream_cookie_",
    "upstream_http_",
    "upstream_trailer_",
];

/// What streams have in drover.
const OF_STREAMS: &[&str] = &[
    "bytes_received",
    "bytes_sent",
    "connection",
    "msec",
    "pid",
    "protocol",
    "remote_addr",
    "remote_port",
    "server_addr",
    "server_port",
    "session_time",
    "status",
    "time_iso8601",
    "time_local",
    "tls_server_name",
    "upstream_addr",
    "upstream_bytes_received",
    "upstream_bytes_sent",
    "upstream_connect_time",
];

/// What nginx writes to a log for a variable that has no value, and for `$pipe` of a request that was not pipelined.
fn in_log(name: &str) -> &'static str {
    if name == "pipe" { "." } else { "-" }
}

/// The directive with drover's names, and what is to be said about it.
pub(crate) fn translated(level: Level, directive: &Directive) -> Result<(Directive, Option<String>), String> {
    let (mut translated, mut missing) = (directive.clone(), Vec::new());
    let is_log = directive.name == "log_format";
    // Names that maps are found by, and texts that are none.
    let untouched = level == Level::Stream && directive.name == "map" || directive.name == "proxy_pass";
    if untouched {
        return Ok((translated, None));
    }
    translate(level, &mut translated, &mut missing, is_log);
    match missing.as_slice() {
        [] => Ok((translated, None)),
        [first, ..] if !is_log => Err(format!("drover has no variable `${first}`")),
        names => {
            Ok((translated, Some(format!("drover has no ${}: an empty value is logged", names.join(", $")))))
        }
    }
}

fn translate(level: Level, directive: &mut Directive, missing: &mut Vec<String>, is_log: bool) {
    for argument in &mut directive.arguments {
        *argument = text(level, argument, missing, is_log);
    }
    for node in directive.block.iter_mut().flatten() {
        if let Node::Directive(inner) = node {
            translate(level, inner, missing, is_log);
        }
    }
}

fn text(level: Level, from: &str, missing: &mut Vec<String>, is_log: bool) -> String {
    let mut to = String::with_capacity(from.len());
    let mut rest = from;
    while let Some(at) = rest.find('$') {
        let (before, variable) = rest.split_at(at);
        to.push_str(before);
        let (name, length) = name_of(variable);
        let renamed = renamed(level, name);
        if !name.is_empty() && is_missing(level, renamed) {
            missing.push(name.to_owned());
            to.push_str(if is_log { in_log(name) } else { &variable[..length] });
        } else if renamed == name {
            to.push_str(&variable[..length]);
        } else {
            to.push_str(&variable[..length].replace(name, renamed));
        }
        rest = &variable[length..];
    }
    to + rest
}

/// The name of the variable that a text begins with, and how long it is with its sign and braces.
fn name_of(variable: &str) -> (&str, usize) {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match variable.strip_prefix("${") {
        Some(rest) => match rest.find('}') {
            Some(end) if rest[..end].chars().all(is_name) => (&rest[..end], end + 3),
            _ => ("", 1),
        },
        None => {
            let rest = &variable[1..];
            let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
            (&rest[..end], end + 1)
        }
    }
}

fn renamed(level: Level, name: &str) -> &str {
    let own = if level.is_of_streams() { RENAMED_OF_STREAMS } else { &[] };
    let known = RENAMED.iter().chain(own).find(|(nginx, _)| *nginx == name);
    known.map_or(name, |(_, drover)| drover)
}

fn is_missing(level: Level, name: &str) -> bool {
    match level.is_of_streams() {
        true => !OF_STREAMS.contains(&name),
        false => {
            MISSING.contains(&name) || MISSING_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(level: Level, from: &str) -> (String, Vec<String>) {
        let mut missing = Vec::new();
        (text(level, from, &mut missing, true), missing)
    }

    #[test]
    fn names_are_drovers() {
        let (text, missing) = text_of(Level::Http, "${binary_remote_addr}x $uri $1 a$ $gzip_ratio$pipe");
        assert_eq!(text, "${remote_addr}x $uri $1 a$ -.");
        assert_eq!(missing, ["gzip_ratio", "pipe"]);
        let (text, missing) = text_of(Level::Stream, "$ssl_preread_server_name $hostname");
        assert_eq!((text.as_str(), missing), ("$tls_server_name -", vec!["hostname".to_owned()]));
    }
}
