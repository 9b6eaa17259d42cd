//! Limits of requests and connections, and who is let in.

use super::{exactly, number};
use crate::convert::{Scope, service};
use crate::document::{Table, inline_table, key, string};
use crate::mapping::Level::{Http, Location, Server, Stream, StreamServer};
use crate::mapping::{How, Level, Row, Verdict};
use crate::tree::Directive;
use crate::values;

const fn row(directive: &'static str, becomes: &'static str, levels: &'static [Level], how: How) -> Row {
    Row { directive, becomes, levels, how }
}

const INSIDE: &[Level] = &[Server, Location];
const ACCESS: &[Level] = &[Server, Location, StreamServer];

pub(super) const ROWS: &[Row] = &[
    row("limit_req_zone", "request_limits", &[Http], How::By(request_limit)),
    row("limit_conn_zone", "connection_limits", &[Http, Stream], How::By(connection_limit)),
    row("limit_req", "limit_requests", INSIDE, How::By(limit_requests)),
    row("limit_conn", "limit_connections", &[Server, Location, StreamServer], How::By(limit_connections)),
    row("limit_req_status", "limit_requests.status", INSIDE, How::By(refusal_status)),
    row("limit_conn_status", "limit_connections.status", INSIDE, How::By(refusal_status)),
    row("limit_req_log_level", "refusals are warnings", &[Http], How::Nothing),
    row("limit_conn_log_level", "refusals are warnings", &[Http], How::Nothing),
    row("limit_rate", "drover has no limit on the speed of a response", &[Http], How::Unsupported),
    row("allow", "access", ACCESS, How::By(access)),
    row("deny", "access", ACCESS, How::By(access)),
    row("auth_basic", "basic_auth", INSIDE, How::By(realm)),
    row("auth_basic_user_file", "basic_auth_users", INSIDE, How::By(users)),
    row("auth_request", "drover asks nobody else about a request", INSIDE, How::Guard),
    row("auth_jwt", "drover reads no tokens", INSIDE, How::Guard),
    row("secure_link", "drover reads no signatures", INSIDE, How::Guard),
    row("secure_link_md5", "drover reads no signatures", INSIDE, How::Guard),
    row("satisfy", "drover asks for all of them", INSIDE, How::By(satisfy)),
    row("ssl_verify_client", "drover does not speak TLS", INSIDE, How::Guard),
    row("set_real_ip_from", "real_ip.from, or proxy_protocol_from", &[Http], How::By(real_ip_from)),
    row("real_ip_header", "real_ip.header", &[Http], How::By(real_ip_header)),
    row("real_ip_recursive", "real_ip.recursive", &[Http], How::By(real_ip_recursive)),
];

/// nginx keeps 16 thousand addresses in a megabyte (its documentation of `limit_req_zone`).
const ENTRIES_PER_MEGABYTE: u64 = 16_000;

/// `zone=NAME:SIZE`
fn zone(text: Option<&String>) -> Result<(&str, u64), String> {
    let zone = text.and_then(|text| text.strip_prefix("zone=")).and_then(|zone| zone.split_once(':'));
    let (name, size) = zone.ok_or_else(|| "`zone=NAME:SIZE` is expected".to_owned())?;
    let bytes = values::size(size).ok_or_else(|| format!("`{size}` is not a size"))?;
    Ok((name, (bytes * ENTRIES_PER_MEGABYTE / (1 << 20)).clamp(64, 16_777_216)))
}

fn request_limit(scope: &mut Scope, directive: &Directive) -> Verdict {
    let (name, entries) = zone(directive.arguments.get(1))?;
    let rate = directive.arguments.get(2).and_then(|text| text.strip_prefix("rate="));
    let rate = rate.and_then(|rate| {
        rate.strip_suffix("r/s").map(|n| (n, "s")).or(rate.strip_suffix("r/m").map(|n| (n, "m")))
    });
    let (number, unit) = rate.ok_or_else(|| "`rate=NUMBERr/s` is expected".to_owned())?;
    let mut table = limit_table(scope, directive, "request_limits", name);
    table.set("rate", string(&format!("{number}/{unit}")));
    table.set("entries", entries.to_string());
    scope.push_table(table)?;
    Ok(None)
}

fn connection_limit(scope: &mut Scope, directive: &Directive) -> Verdict {
    let (name, entries) = zone(directive.arguments.get(1))?;
    let mut table = limit_table(scope, directive, "connection_limits", name);
    table.set("entries", entries.to_string());
    scope.push_table(table)?;
    Ok(None)
}

fn limit_table(scope: &mut Scope, directive: &Directive, kind: &str, name: &str) -> Table {
    let mut table = Table::new(&format!("[{}.{kind}.{}]", service(scope.level), key(name)));
    scope.take_comments().iter().for_each(|text| table.comment(text));
    let by = directive.arguments.first().map_or("", String::as_str);
    table.set("key", string(by));
    table
}

fn limit_requests(scope: &mut Scope, directive: &Directive) -> Verdict {
    let name = directive.arguments.first().and_then(|text| text.strip_prefix("zone="));
    let mut fields = vec![("limit", string(name.ok_or_else(|| "`zone=NAME` is expected".to_owned())?))];
    for option in &directive.arguments[1..] {
        match option.split_once('=').unwrap_or((option, "")) {
            ("nodelay", "") => fields.push(("at_once", string("all"))),
            (key @ ("burst" | "delay"), text) => {
                let number = number(text).ok_or_else(|| format!("`{text}` is not a number"))?;
                fields.push((if key == "burst" { "burst" } else { "at_once" }, number));
            }
            _ => return Err(format!("drover has nothing for `{option}`")),
        }
    }
    fields.push(("status", scope.refusals.requests.to_string()));
    scope.push("limit_requests", inline_table(&fields));
    Ok(None)
}

fn limit_connections(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [name, most] = exactly(&directive.arguments)?;
    let most: u32 = most.parse().map_err(|_| format!("`{most}` is not a number"))?;
    let mut fields = vec![("limit", string(name)), ("most", most.to_string())];
    if scope.level != StreamServer {
        fields.push(("status", scope.refusals.connections.to_string()));
    }
    scope.push("limit_connections", inline_table(&fields));
    Ok(None)
}

/// The block has noted it for its limits.
fn refusal_status(_: &mut Scope, directive: &Directive) -> Verdict {
    let [status] = exactly(&directive.arguments)?;
    status.parse::<u16>().map(|_| None).map_err(|_| format!("`{status}` is no status"))
}

/// The statuses of refusals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusals {
    pub(crate) requests: u16,
    pub(crate) connections: u16,
}

impl Default for Refusals {
    fn default() -> Refusals {
        Refusals { requests: 503, connections: 503 }
    }
}

impl Refusals {
    /// Takes note of what a block says, wherever it stands there.
    pub(crate) fn note(&mut self, directive: &Directive) {
        let Some(status) = directive.arguments.first().and_then(|status| status.parse().ok()) else { return };
        match directive.name.as_str() {
            "limit_req_status" => self.requests = status,
            "limit_conn_status" => self.connections = status,
            _ => {}
        }
    }
}

fn access(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [whom] = exactly(&directive.arguments)?;
    scope.push("access", string(&format!("{} {whom}", directive.name)));
    Ok(None)
}

/// Without it somebody would be let in, so that what cannot be carried over closes the block.
fn realm(scope: &mut Scope, directive: &Directive) -> Verdict {
    guarding(scope, directive, "basic_auth", "the realm is a fixed text")
}

fn satisfy(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [how] = exactly(&directive.arguments)?;
    if how == "all" {
        return Ok(None);
    }
    scope.close();
    Err("drover asks for all of them; what it guards is closed".to_owned())
}

fn users(scope: &mut Scope, directive: &Directive) -> Verdict {
    guarding(scope, directive, "basic_auth_users", "the file is always the same")?;
    if let [path] = directive.arguments.as_slice() {
        let (path, _) = scope.facts.directories.at_own(path);
        scope.set("basic_auth_users", string(&path));
    }
    Ok(Some("passwords with hashes of bcrypt ($2y$) or SHA crypt ($6$, $5$) alone are taken".to_owned()))
}

fn guarding(scope: &mut Scope, directive: &Directive, key: &str, fixed: &str) -> Verdict {
    match exactly(&directive.arguments) {
        Ok([text]) if !text.contains('$') => {
            scope.set(key, string(text));
            Ok(None)
        }
        wrong => {
            scope.close();
            wrong.and(Err(format!("{fixed}; what it guards is closed")))
        }
    }
}

/// The field that has the client's address where nothing is said.
const USUAL_HEADER: &str = "X-Real-IP";
/// In place of a field: what a proxy says before its requests.
const BEFORE_REQUESTS: &str = "proxy_protocol";

fn real_ip_header(_: &mut Scope, directive: &Directive) -> Verdict {
    // It is written with whom to trust: without them it is without effect.
    let [name] = exactly(&directive.arguments)?;
    Ok((name == BEFORE_REQUESTS)
        .then(|| "all that a listener with `proxy_protocol` is told is believed".to_owned()))
}

/// Whom to trust, and by the first of these, where the address stands and how it is found there.
fn real_ip_from(scope: &mut Scope, directive: &Directive) -> Verdict {
    let [whom] = exactly(&directive.arguments)?;
    if whom != "unix:" && !whom.starts_with(|c: char| c.is_ascii_hexdigit() || c == ':') {
        return Err("drover trusts addresses and networks, not names".to_owned());
    }
    let header = scope.real_ip_header.clone().unwrap_or_else(|| USUAL_HEADER.to_owned());
    if header == BEFORE_REQUESTS {
        scope.push("proxy_protocol_from", string(whom));
        return Ok(Some("who else connects to a listener with `proxy_protocol` is turned away".to_owned()));
    }
    scope.push("real_ip.from", string(whom));
    if !scope.has("real_ip.header") {
        scope.set("real_ip.header", string(&header));
        scope.set("real_ip.recursive", scope.real_ip_recursive.to_string());
    }
    Ok(None)
}

/// It is written with whom to trust.
fn real_ip_recursive(_: &mut Scope, directive: &Directive) -> Verdict {
    let [value] = exactly(&directive.arguments)?;
    values::flag(value).map(|_| None).ok_or_else(|| format!("`{value}` is not on or off"))
}
