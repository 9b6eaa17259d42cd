//! Addresses: contradictions between those that several servers share, and options without effect.

use drover_config::{Findings, ListenAddress, Located};
use drover_service::Accept;

use crate::config::{Http, Listen, Server};

pub(super) fn check(http: &Http, accept: Accept, findings: &mut Findings) {
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
    check_overlaps(&firsts, accept, findings);
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

/// The kernel does not bind an address while another socket takes all connections to its port, unless both
/// have SO_REUSEPORT.
fn check_overlaps(listens: &[(usize, &Located<Listen>)], accept: Accept, findings: &mut Findings) {
    let reuseport = |listen: &Listen| listen.accept.unwrap_or(accept) == Accept::Reuseport;
    for (at, (_, second)) in listens.iter().enumerate() {
        for (_, first) in &listens[..at] {
            if !overlap(first, second) && !overlap(second, first) || reuseport(first) && reuseport(second) {
                continue;
            }
            findings
                .error(second.place(), format!("{} and {} overlap", first.address, second.address))
                .label("only one of the two can be bound")
                .related(first.place(), "the other")
                .help("listen on the wildcard address alone, or on each address of its own");
        }
    }
}

/// Whether the first takes what the second would.
fn overlap(wildcard: &Listen, listen: &Listen) -> bool {
    let (ListenAddress::Tcp(all), ListenAddress::Tcp(one)) = (&wildcard.address, &listen.address) else {
        return false;
    };
    let both_families = all.is_ipv6() && wildcard.ipv6_only == Some(false);
    all != one
        && all.port() == one.port()
        && all.ip().is_unspecified()
        && (all.is_ipv4() == one.is_ipv4() || both_families)
}
