//! Passing on: what `proxy_pass` names, what stands beside it, and the fields that are changed.

use std::collections::BTreeMap;

use drover_config::{Findings, Located, nearest};

use super::texts::{check_field, check_text};
use crate::config::{Http, Location, PathMatch, Proxy, ProxyPass, RequestHeaders};
use crate::h1::lines::HOP_BY_HOP;
use crate::h1::name::{Look, Name};
use crate::own::KnownNames;
use crate::upstreams;

pub(super) fn check(http: &Http, known: &KnownNames, findings: &mut Findings) {
    for (name, upstream) in &http.upstreams {
        check_name(name, upstream.place(), findings);
        upstream.check(name, findings);
        if let Some(key) = &upstream.hash {
            check_text(key, known, findings);
        }
    }
    check_proxy(&http.proxy, known, findings);
    for server in &http.servers {
        server.locations.iter().for_each(|location| check_location(location, http, known, findings));
    }
}

fn check_location(location: &Location, http: &Http, known: &KnownNames, findings: &mut Findings) {
    if let Some(pass) = &location.proxy_pass {
        check_pass(pass, location, http, known, findings);
    }
    if let Some(proxy) = &location.proxy {
        check_proxy(proxy, known, findings);
        if location.proxy_pass.is_none() && location.locations.0.is_empty() {
            findings
                .warning(proxy.place(), "`proxy` has no effect here")
                .label("nothing is passed on: `proxy_pass` is missing");
        }
    }
    location.locations.0.iter().for_each(|inner| check_location(inner, http, known, findings));
}

fn check_name(name: &str, place: Option<drover_config::Place>, findings: &mut Findings) {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(allowed) || upstreams::address(name).is_some() {
        findings
            .error(place, format!("`{name}` is no name for an upstream"))
            .label("letters, digits, `-`, `_` and `.`, and no address");
    }
}

fn check_pass(
    pass: &Located<String>,
    location: &Location,
    http: &Http,
    known: &KnownNames,
    findings: &mut Findings,
) {
    let parsed = match ProxyPass::parse(pass) {
        Ok(parsed) => parsed,
        Err(what) => {
            findings
                .error(pass.place(), "`proxy_pass` names no server")
                .label(what)
                .help("write \"http://NAME\" of an upstream, or \"http://127.0.0.1:9000\"");
            return;
        }
    };
    if parsed.server.contains('$') {
        check_text(pass, known, findings);
        if http.upstreams.is_empty() {
            findings
                .error(pass.place(), "`proxy_pass` can name no upstream")
                .label("there is none in [http.upstreams]");
        }
    } else if !http.upstreams.contains_key(parsed.server) && upstreams::address(parsed.server).is_none() {
        let help = match nearest(parsed.server, http.upstreams.keys().map(String::as_str)) {
            Some(near) => format!("did you mean \"http://{near}\"?"),
            None => format!(
                "define it: [http.upstreams.{}] servers = [\"127.0.0.1:9000\"]; an address has a port",
                parsed.server
            ),
        };
        findings
            .error(pass.place(), format!("the upstream `{}` is not defined", parsed.server))
            .label("no such upstream in [http.upstreams]")
            .help(help);
    }
    if let (Some(path), PathMatch::Expression(_) | PathMatch::Named(_)) = (parsed.path, &*location.path) {
        findings
            .error(pass.place(), format!("{path:?} stands in place of nothing"))
            .label("the location has no path of its own")
            .help("leave the path out; `rewrite` of a rule changes the one that is passed on");
    }
    if let (Some(path), PathMatch::Prefix(prefix) | PathMatch::BeforeExpressions(prefix)) =
        (parsed.path, &*location.path)
        && path.ends_with('/') != prefix.ends_with('/')
        && !path.ends_with('/')
    {
        findings
            .warning(pass.place(), format!("{path:?} stands in place of {prefix:?}"))
            .label(format!("{:?} becomes {:?}", format!("{prefix}x"), format!("{path}x")))
            .help("end both with \"/\", or neither");
    }
}

fn check_proxy(proxy: &Proxy, known: &KnownNames, findings: &mut Findings) {
    let RequestHeaders { set, add, remove } = &proxy.request_headers;
    for (key, fields) in [("set", set), ("add", add)] {
        check_fields(key, fields, known, findings);
    }
    for name in remove {
        check_field_name(name, name.place(), findings);
    }
    if let Some(via) = &proxy.via
        && (via.is_empty()
            || via.split(['[', ':', ']']).any(|part| Look::of_name(part.as_bytes()) == Look::Invalid))
    {
        findings
            .error(via.place(), format!("{:?} is nothing that stands in Via", via.as_str()))
            .label("a name such as \"drover\", a host with or without a port, or \"off\"");
    }
    for protocol in proxy.upgrade.iter().flatten() {
        if Look::of_name(protocol.split('/').next().unwrap_or_default().as_bytes()) == Look::Invalid {
            findings
                .error(protocol.place(), "`upgrade` has a protocol that no request can name")
                .label("a name such as \"websocket\"");
        }
    }
}

fn check_fields(
    key: &str,
    fields: &BTreeMap<String, Located<String>>,
    known: &KnownNames,
    findings: &mut Findings,
) {
    for (name, text) in fields {
        check_field_name(name, text.place(), findings);
        check_text(text, known, findings);
        check_field(key, text, findings);
    }
}

fn check_field_name(name: &str, place: Option<drover_config::Place>, findings: &mut Findings) {
    let id = Name::of(name.as_bytes());
    if name.is_empty() || Look::of_name(name.as_bytes()) == Look::Invalid {
        findings
            .error(place, format!("{name:?} is no name of a field"))
            .label("letters, digits and `-`, without the colon");
    } else if HOP_BY_HOP.has(id) || matches!(id, Name::ContentLength | Name::Expect) {
        findings
            .error(place, format!("the field {name} cannot be changed"))
            .label("it belongs to a connection, or to how a message is delimited");
    }
}
