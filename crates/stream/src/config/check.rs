//! What is checked across the keys of `[stream]`. Pure: nothing here asks the system.

use drover_config::{Findings, ListenAddress, Located, ServerAddress, nearest};
use drover_service::check::{LogFormats, variables};

use crate::variables::{Template, Variable, check_variables};

use super::{AccessLog, BUILT_IN_LOG_FORMATS, Listen, Server, Stream, Target};

impl Stream {
    /// Adds findings about everything that goes across keys.
    pub fn check(&self, findings: &mut Findings) {
        let formats = LogFormats {
            table: "[stream.log_formats]",
            own: self.log_formats.iter().map(|(name, text)| (name.as_str(), text)).collect(),
            built_in: BUILT_IN_LOG_FORMATS,
            example: "$remote_addr $upstream_addr $close_reason",
        };
        formats.check(findings);
        self.log_formats.values().for_each(|text| variables(text, check_variables, findings));
        check_log(&self.access_log, &formats, findings);
        self.check_upstreams(findings);
        for server in &self.servers {
            if let Some(log) = &server.access_log {
                check_log(log, &formats, findings);
            }
            check_listen(server, findings);
            self.check_targets(server, findings);
            self.check_reachable(server, findings);
            check_effect(server, findings);
        }
    }

    fn check_upstreams(&self, findings: &mut Findings) {
        for (name, upstream) in &self.upstreams {
            upstream.check(name, findings);
            if let Some(text) = &upstream.hash {
                variables(text, check_variables, findings);
                if Template::parse(text).is_ok_and(|text| text.uses(Variable::is_of_the_end)) {
                    findings
                        .error(text.place(), "`hash` has a variable that is not known yet")
                        .label("the server is chosen when the connection begins")
                        .help("write hash = \"$remote_addr\"");
                }
            }
            if name.contains(':') {
                findings
                    .error(upstream.servers.place(), format!("nothing can name the upstream \"{name}\""))
                    .label("with a colon in it, a name is taken for an address");
            }
        }
    }

    /// Unix sockets are for connections only.
    fn check_reachable(&self, server: &Server, findings: &mut Findings) {
        let Some(target) =
            server.proxy_pass.as_ref().filter(|_| server.listen.iter().any(|listen| listen.udp))
        else {
            return;
        };
        let is_unix = |address: &ServerAddress| matches!(address, ServerAddress::Unix(_));
        let wrong = match &**target {
            Target::Address(address) => is_unix(address),
            Target::Upstream(name) => self
                .upstreams
                .get(name)
                .is_some_and(|upstream| upstream.servers.iter().any(|server| is_unix(&server.address))),
        };
        if wrong {
            findings
                .error(target.place(), "datagrams cannot be passed on to a unix socket")
                .label("has a server that is one");
        }
    }

    fn check_targets(&self, server: &Server, findings: &mut Findings) {
        if server.proxy_pass.is_none() && server.server_names.is_empty() && !findings.has_errors() {
            findings
                .error(server.listen.place(), "the server passes on to nowhere")
                .label("has neither `proxy_pass` nor `server_names`")
                .help("write proxy_pass = \"127.0.0.1:5432\"");
        }
        for target in server.proxy_pass.iter().chain(server.server_names.values()) {
            let Target::Upstream(name) = &**target else { continue };
            if self.upstreams.contains_key(name) {
                continue;
            }
            let help = match nearest(name, self.upstreams.keys().map(String::as_str)) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!(
                    "define it: [stream.upstreams.{name}] servers = [...]; or write an address, with a port"
                ),
            };
            findings
                .error(target.place(), format!("the upstream \"{name}\" is not defined"))
                .label("no such upstream in [stream.upstreams]")
                .help(help);
        }
        for (name, target) in &server.server_names {
            if let Some(wrong) = drover_service::names::wrong_name(name) {
                findings
                    .error(target.place(), format!("no client can ask for the name {name:?}"))
                    .label(wrong)
                    .help("names are \"example.org\", \"*.example.org\" or \"www.example.*\"");
            }
        }
    }
}

fn check_log(log: &AccessLog, formats: &LogFormats<'_>, findings: &mut Findings) {
    formats.check_log(&log.file, &log.format, findings);
}

fn check_listen(server: &Server, findings: &mut Findings) {
    if server.listen.is_empty() {
        findings
            .error(server.listen.place(), "`listen` is empty")
            .label("needs an address")
            .help("write listen = [\"127.0.0.1:5432\"]");
    }
    for listen in server.listen.iter() {
        let unix = matches!(listen.address, ListenAddress::Unix(_));
        let internet = matches!(listen.address, ListenAddress::Tcp(_));
        let v6 = matches!(&listen.address, ListenAddress::Tcp(address) if address.is_ipv6());
        if listen.udp && !internet {
            findings
                .error(listen.place(), format!("{} is for connections only", listen.address))
                .label("`udp` needs an IP address and a port");
        }
        let without_effect = [
            ("ipv6_only", !listen.ipv6_only && !v6, "this is not an IPv6 address"),
            ("deferred", listen.deferred && (unix || listen.udp), "this is no TCP"),
            ("tcp_keepalive", listen.tcp_keepalive.is_some() && (unix || listen.udp), "this is no TCP"),
            ("backlog", listen.backlog.is_some() && listen.udp, "datagrams are not accepted"),
            (
                "accept",
                listen.accept.is_some() && listen.udp,
                "each worker has a socket for datagrams of its own",
            ),
        ];
        for (key, _, why) in without_effect.into_iter().filter(|(_, is_so, _)| *is_so) {
            findings.warning(listen.place(), format!("`{key}` has no effect here")).label(why);
        }
    }
}

/// Keys that only mean something for the other kind of listener.
fn check_effect(server: &Server, findings: &mut Findings) {
    let is_udp = |listen: &Located<Listen>| listen.udp;
    let (some_udp, all_udp) = (server.listen.iter().any(is_udp), server.listen.iter().all(is_udp));
    if let (true, Some(first)) = (some_udp, server.server_names.values().next()) {
        findings
            .error(first.place(), "datagrams ask for no name")
            .label("`server_names` needs clients that speak TLS over TCP")
            .help("give datagrams a server of their own, with `proxy_pass` alone");
    }
    let of_connections = [
        ("half_closed_timeout", server.half_closed_timeout.is_some()),
        ("upload_rate", server.upload_rate.bytes() > 0),
        ("download_rate", server.download_rate.bytes() > 0),
    ];
    let of_datagrams = [("requests", server.requests > 0), ("responses", server.responses.is_some())];
    let without_effect = [
        (all_udp, &of_connections[..], "all addresses are for datagrams"),
        (!some_udp, &of_datagrams, "all addresses are for connections"),
    ];
    for (_, keys, why) in
        without_effect.into_iter().filter(|(applies, ..)| *applies && !server.listen.is_empty())
    {
        for (key, _) in keys.iter().filter(|(_, set)| *set) {
            findings.warning(server.listen.place(), format!("`{key}` has no effect here")).label(why);
        }
    }
}
