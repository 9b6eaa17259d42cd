//! `listen`: addresses and the options of their sockets.

use crate::convert::Scope;
use crate::document::{inline_table, string};
use crate::mapping::Level::{Server, StreamServer};
use crate::mapping::{How, Row, Verdict};
use crate::tree::Directive;
use crate::values;

pub(super) const ROWS: &[Row] =
    &[Row { directive: "listen", becomes: "listen", levels: &[Server, StreamServer], how: How::By(listen) }];

fn listen(scope: &mut Scope, directive: &Directive) -> Verdict {
    let Some((place, options)) = directive.arguments.split_first() else {
        return Err("an address is expected".to_owned());
    };
    let mut fields = vec![("address", string(&address(place)?))];
    let mut differences: Vec<&str> = Vec::new();
    let of_streams = scope.level == StreamServer;
    let udp = options.iter().any(|option| option == "udp");
    for option in options {
        match option.split_once('=').unwrap_or((option.as_str(), "")) {
            ("default_server" | "default", _) => fields.push(("default_server", "true".to_owned())),
            ("udp", _) if of_streams => fields.push(("udp", "true".to_owned())),
            // Each worker has a socket for datagrams of its own anyway.
            ("reuseport" | "backlog", _) if udp => {}
            ("so_keepalive", value) if of_streams => {
                fields.extend(super::stream::probes(value)?.map(|probes| ("tcp_keepalive", probes)));
            }
            ("reuseport", _) => fields.push(("accept", string("reuseport"))),
            ("deferred", _) => fields.push(("deferred", "true".to_owned())),
            ("backlog", text) if super::number(text).is_some() => {
                fields.extend(super::number(text).map(|number| ("backlog", number)));
            }
            ("ipv6only", value) if values::flag(value).is_some() => {
                fields.push(("ipv6_only", (value == "on").to_string()));
            }
            ("proxy_protocol", _) => fields.push(("proxy_protocol", "true".to_owned())),
            ("bind", _) => {}
            ("ssl" | "quic", _) => return Err("drover does not speak TLS".to_owned()),
            ("http2", _) => differences.push("HTTP/1.1 is spoken, not HTTP/2"),
            ("so_keepalive" | "rcvbuf" | "sndbuf" | "fastopen", _) => {
                differences.push("the system's socket options are kept");
            }
            _ => return Err(format!("drover has nothing for `{option}`")),
        }
    }
    scope.push(
        "listen",
        match fields.as_slice() {
            [(_, address)] => address.clone(),
            fields => inline_table(fields),
        },
    );
    Ok((!differences.is_empty()).then(|| differences.join("; ")))
}

/// The address that a text means: a port alone is on all IPv4 addresses, an address alone on port 80.
fn address(text: &str) -> Result<String, String> {
    let text = text.strip_prefix("*:").unwrap_or(text);
    if text.starts_with("unix:") {
        return Ok(text.to_owned());
    }
    if text.parse::<u16>().is_ok() {
        return Ok(format!("0.0.0.0:{text}"));
    }
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((_, "")) => (text, "80"),
            Some((host, port)) => (&text[..host.len() + 2], port.trim_start_matches(':')),
            None => return Err(format!("`{text}` is no address")),
        },
        None => text.split_once(':').unwrap_or((text, "80")),
    };
    let host = match host {
        "*" => "0.0.0.0",
        "localhost" => "127.0.0.1",
        host => host,
    };
    let number = port.parse::<u16>().map_err(|_| format!("`{port}` is no port"))?;
    let is_address = host.starts_with('[') || host.parse::<std::net::Ipv4Addr>().is_ok();
    if !is_address {
        return Err(format!("drover listens on addresses, and `{host}` is a name"));
    }
    Ok(format!("{host}:{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_out() {
        for (nginx, drover) in [
            ("80", "0.0.0.0:80"),
            ("*:8080", "0.0.0.0:8080"),
            ("127.0.0.1", "127.0.0.1:80"),
            ("localhost:81", "127.0.0.1:81"),
            ("[::]:80", "[::]:80"),
            ("[::1]", "[::1]:80"),
            ("unix:/run/a.sock", "unix:/run/a.sock"),
        ] {
            assert_eq!(address(nginx).as_deref(), Ok(drover), "{nginx}");
        }
        for wrong in ["example.org:80", "80a", "127.0.0.1:x", "[::1"] {
            assert!(address(wrong).is_err(), "{wrong}");
        }
    }
}
