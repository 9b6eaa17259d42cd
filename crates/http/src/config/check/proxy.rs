//! Passing on: what `proxy_pass` names, what stands beside it, and the fields that are changed.

use std::collections::BTreeMap;

use drover_config::{Findings, Located, nearest};

use super::CheckContext;
use super::texts::{check_field, check_variables};
use crate::config::{Http, Location, PathMatch, Proxy, ProxyPass, RequestHeaders};
use crate::h1::lines::HOP_BY_HOP;
use crate::h1::name::{Look, Name};
use crate::upstreams;

pub(super) fn check(http: &Http, context: &CheckContext<'_>, findings: &mut Findings) {
    for (name, upstream) in &http.upstreams {
        check_name(name, upstream.place(), findings);
        upstream.check(name, findings);
        if let Some(key) = &upstream.hash {
            check_variables(key, context, findings);
        }
    }
    check_proxy(&http.proxy, context, findings);
    for location in http.servers.iter().flat_map(|server| &server.locations) {
        if let Some(pass) = &location.proxy_pass {
            check_pass(pass, location, http, findings);
        }
        let Some(proxy) = &location.proxy else { continue };
        check_proxy(proxy, context, findings);
        if location.proxy_pass.is_none() {
            findings
                .warning(proxy.place(), "`proxy` has no effect here")
                .label("nothing is passed on: `proxy_pass` is missing");
        }
    }
}

fn check_name(name: &str, place: Option<drover_config::Place>, findings: &mut Findings) {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(allowed) || upstreams::address(name).is_some() {
        findings
            .error(place, format!("`{name}` is no name for an upstream"))
            .label("letters, digits, `-`, `_` and `.`, and no address");
    }
}

fn check_pass(pass: &Located<String>, location: &Location, http: &Http, findings: &mut Findings) {
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
    if !http.upstreams.contains_key(parsed.server) && upstreams::address(parsed.server).is_none() {
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
    if let (Some(path), PathMatch::Prefix(prefix)) = (parsed.path, &*location.path)
        && path.ends_with('/') != prefix.ends_with('/')
        && !path.ends_with('/')
    {
        findings
            .warning(pass.place(), format!("{path:?} stands in place of {prefix:?}"))
            .label(format!("{:?} becomes {:?}", format!("{prefix}x"), format!("{path}x")))
            .help("end both with \"/\", or neither");
    }
}

fn check_proxy(proxy: &Proxy, context: &CheckContext<'_>, findings: &mut Findings) {
    let RequestHeaders { set, add, remove } = &proxy.request_headers;
    for (key, fields) in [("set", set), ("add", add)] {
        check_fields(key, fields, context, findings);
    }
    for name in remove.iter().chain(proxy.hide_headers.iter().flatten()) {
        check_field_name(name, name.place(), findings);
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
    context: &CheckContext<'_>,
    findings: &mut Findings,
) {
    for (name, text) in fields {
        check_field_name(name, text.place(), findings);
        check_variables(text, context, findings);
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
