//! What is checked across the keys of `[stream]`. Pure: nothing here asks the system.

use drover_config::{Findings, ListenAddress, Located, LogFile, ServerAddress, nearest};
use drover_service::LogFormatConfig;
use drover_service::check::{LogFormats, variables};

use drover_upstream::proxy_protocol::Version;

use crate::variables::{Template, Variable, check_variables};

use super::{AccessLog, BUILT_IN_LOG_FORMATS, Listen, Server, Stream, Target};

impl Stream {
    /// Adds findings about everything that goes across keys.
    pub fn check(&self, findings: &mut Findings) {
        let formats = LogFormats {
            table: "[stream.log_formats]",
            own: self
                .log_formats
                .iter()
                .filter_map(|(name, format)| Some((name.as_str(), format.texts().next()?)))
                .collect(),
            built_in: BUILT_IN_LOG_FORMATS,
            example: "$remote_addr $upstream_addr $close_reason",
        };
        formats.check(findings);
        self.log_formats.iter().for_each(|(name, format)| check_format(name, format, findings));
        check_log(&self.access_log, &formats, findings);
        self.check_upstreams(findings);
        self.check_limits(findings);
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
                check_known(text, "hash", Variable::is_of_the_end, findings);
            }
            if name.contains(':') {
                findings
                    .error(upstream.servers.place(), format!("nothing can name the upstream \"{name}\""))
                    .label("with a colon in it, a name is taken for an address");
            }
        }
    }

    fn check_limits(&self, findings: &mut Findings) {
        let keys = self.connection_limits.values().map(|limit| &limit.key);
        for key in keys.chain(self.accept_limits.values().map(|limit| &limit.key)) {
            variables(key, check_variables, findings);
            check_known(key, "key", Variable::is_unknown_at_first, findings);
        }
        for server in &self.servers {
            for limit in &server.limit_connections {
                let names = self.connection_limits.keys();
                check_limit(&limit.limit, names, "connection_limits", "", findings);
            }
            for limit in &server.limit_accepts {
                let names = self.accept_limits.keys();
                check_limit(&limit.limit, names, "accept_limits", ", rate = \"10/s\"", findings);
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
    // Lines that go to a syslog daemon go somewhere.
    let file = if log.syslog.is_some() { &LogFile::Stderr } else { &*log.file };
    formats.check_log(file, &log.format, findings);
}

fn check_format(name: &str, format: &LogFormatConfig, findings: &mut Findings) {
    format.texts().for_each(|text| variables(text, check_variables, findings));
    if format.text.is_some() == format.json.is_some() {
        let place = format.texts().next().and_then(|text| text.place());
        findings
            .error(place, format!("the log format `{name}` has to have either `text` or `json`"))
            .help(format!("{name} = \"$remote_addr $upstream_addr $close_reason\""));
    }
}

/// A text that is rendered when a connection begins.
fn check_known(text: &Located<String>, key: &str, unknown: fn(&Variable) -> bool, findings: &mut Findings) {
    if Template::parse(text).is_ok_and(|text| text.uses(unknown)) {
        findings
            .error(text.place(), format!("`{key}` has a variable that is not known yet"))
            .label("it is needed when the connection begins")
            .help(format!("write {key} = \"$remote_addr\""));
    }
}

fn check_limit<'a>(
    name: &Located<String>,
    names: impl Iterator<Item = &'a String> + Clone,
    table: &str,
    more: &str,
    findings: &mut Findings,
) {
    if names.clone().any(|known| *known == **name) {
        return;
    }
    let help = match nearest(name, names.map(String::as_str)) {
        Some(near) => format!("did you mean \"{near}\"?"),
        None => format!("define it: [stream.{table}.{}] key = \"$remote_addr\"{more}", name.as_str()),
    };
    findings
        .error(name.place(), format!("the limit `{}` is not defined", name.as_str()))
        .label(format!("no such limit in [stream.{table}]"))
        .help(help);
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
            ("proxy_protocol", listen.proxy_protocol && listen.udp, "it stands before a stream"),
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
    if let Some(version) =
        server.proxy_protocol.as_ref().filter(|version| some_udp && ***version == Version::V1)
    {
        findings
            .error(version.place(), "version 1 of the PROXY protocol cannot tell of datagrams")
            .label("is a line of text before a stream")
            .help("write proxy_protocol = \"v2\"");
    }
    let of_connections = [
        ("server_keepalive", server.server_keepalive.is_some()),
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
