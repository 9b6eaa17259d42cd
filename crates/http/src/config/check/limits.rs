//! Limits: their keys, and the names by which they are applied.

use drover_config::{Findings, Located, nearest};

use super::texts::check_text;
use crate::config::{AtOnce, Http, LimitConnections, LimitRequests};
use crate::own::KnownNames;

pub(super) fn check(http: &Http, known: &KnownNames, findings: &mut Findings) {
    http.request_limits.values().for_each(|limit| check_text(&limit.key, known, findings));
    http.connection_limits.values().for_each(|limit| check_text(&limit.key, known, findings));
    for server in &http.servers {
        check_requests(server.limit_requests.as_deref(), http, findings);
        check_connections(server.limit_connections.as_deref(), http, findings);
        for location in server.all_locations() {
            check_requests(location.limit_requests.as_deref(), http, findings);
            check_connections(location.limit_connections.as_deref(), http, findings);
        }
    }
}

fn check_requests(limits: Option<&[LimitRequests]>, http: &Http, findings: &mut Findings) {
    for limit in limits.into_iter().flatten() {
        let names = || http.request_limits.keys().map(String::as_str);
        check_name(&limit.limit, names, "request_limits", "rate = \"10/s\"", findings);
        if let AtOnce::Count(count) = limit.at_once
            && count > limit.burst
        {
            findings
                .warning(limit.limit.place(), "`at_once` is more than the `burst`")
                .label(format!("{count} of {}", limit.burst))
                .help("write at_once = \"all\"");
        }
    }
}

fn check_connections(limits: Option<&[LimitConnections]>, http: &Http, findings: &mut Findings) {
    for limit in limits.into_iter().flatten() {
        let names = || http.connection_limits.keys().map(String::as_str);
        check_name(&limit.limit, names, "connection_limits", "entries = 16384", findings);
    }
}

fn check_name<'a, I: Iterator<Item = &'a str>>(
    name: &Located<String>,
    names: impl Fn() -> I,
    table: &str,
    more: &str,
    findings: &mut Findings,
) {
    if names().any(|known| known == name.as_str()) {
        return;
    }
    let help = match nearest(name, names()) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("define it: [http.{table}.{}] key = \"$remote_addr\", {more}", name.as_str()),
    };
    findings
        .error(name.place(), format!("the limit `{}` is not defined", name.as_str()))
        .label(format!("no such limit in [http.{table}]"))
        .help(help);
}
