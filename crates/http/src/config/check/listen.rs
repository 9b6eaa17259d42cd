//! Addresses: contradictions between those that several servers share, and options without effect.

use drover_config::{Findings, ListenAddress, Located};

use crate::config::{Http, Listen, Server};

pub(super) fn check(http: &Http, findings: &mut Findings) {
    let mut firsts: Vec<(usize, &Located<Listen>)> = Vec::new();
    for (number, server) in http.servers.iter().enumerate() {
        if server.listen.is_empty() {
            findings
                .error(server.listen.place(), "`listen` is empty")
                .label("needs an address")
                .help("write listen = [\"127.0.0.1:8080\"]");
        }
        check_repeated(server, findings);
        for listen in server.listen.iter() {
            check_effect(listen, findings);
            let same = firsts.iter().filter(|(_, first)| first.address == listen.address);
            for (_, first) in same.filter(|(other, _)| *other != number) {
                check_contradictions(first, listen, findings);
            }
            firsts.push((number, listen));
        }
    }
}

fn check_repeated(server: &Server, findings: &mut Findings) {
    for (at, listen) in server.listen.iter().enumerate() {
        if let Some(first) = server.listen[..at].iter().find(|first| first.address == listen.address) {
            findings
                .error(listen.place(), format!("{} is listed twice in one server", listen.address))
                .label("listed again here")
                .related(first.place(), "listed first here")
                .help("remove one of the two");
        }
    }
}

/// An option may be given in any of the servers that share an address, but not differently.
fn check_contradictions(first: &Located<Listen>, second: &Located<Listen>, findings: &mut Findings) {
    let text = |value: Option<String>| value.unwrap_or_default();
    let options = [
        ("accept", text(first.accept.map(|v| v.to_string())), text(second.accept.map(|v| v.to_string()))),
        ("backlog", text(first.backlog.map(|v| v.to_string())), text(second.backlog.map(|v| v.to_string()))),
        (
            "deferred",
            text(first.deferred.map(|v| v.to_string())),
            text(second.deferred.map(|v| v.to_string())),
        ),
        (
            "ipv6_only",
            text(first.ipv6_only.map(|v| v.to_string())),
            text(second.ipv6_only.map(|v| v.to_string())),
        ),
        (
            "proxy_protocol",
            text(first.proxy_protocol.map(|v| v.to_string())),
            text(second.proxy_protocol.map(|v| v.to_string())),
        ),
    ];
    for (option, first_value, second_value) in options {
        if first_value.is_empty() || second_value.is_empty() || first_value == second_value {
            continue;
        }
        findings
            .error(second.place(), format!("{} has contradicting options", second.address))
            .label(format!("{option} is {second_value} here"))
            .related(first.place(), format!("{option} is {first_value} here"))
            .help("servers on one address share its socket; give the option once");
    }
    if first.default_server && second.default_server {
        findings
            .error(second.place(), format!("{} has two default servers", second.address))
            .label("default again here")
            .related(first.place(), "default first here")
            .help("remove `default_server` from one of the two");
    }
}

fn check_effect(listen: &Located<Listen>, findings: &mut Findings) {
    let v6 = matches!(&listen.address, ListenAddress::Tcp(address) if address.is_ipv6());
    if listen.ipv6_only.is_some() && !v6 {
        findings
            .warning(listen.place(), "`ipv6_only` has no effect here")
            .label("this is not an IPv6 address");
    }
    if listen.deferred == Some(true) && matches!(listen.address, ListenAddress::Unix(_)) {
        findings.warning(listen.place(), "`deferred` has no effect here").label("this is a unix socket");
    }
}
