//! What is checked across the keys of an upstream. Pure: nothing here asks the system.

use drover_config::{Findings, Located, ServerAddress};

use crate::words::ADDRESSES_MOST;

use super::{Balance, HealthCheck, Server, Upstream};

/// Peers are numbered in 16 bits.
const PEERS_MOST: usize = 65_536;

impl Upstream {
    /// Adds findings about everything that goes across keys; `name` is the upstream's.
    pub fn check(&self, name: &str, findings: &mut Findings) {
        self.check_servers(name, findings);
        self.check_hash(findings);
        self.check_source(findings);
        if let Some(check) = &self.health_check {
            check_health_check(check, findings);
        }
    }

    fn check_servers(&self, name: &str, findings: &mut Findings) {
        let addresses: usize = self.servers.iter().map(|server| server.addresses_most()).sum();
        if addresses > PEERS_MOST {
            findings
                .error(self.servers.place(), format!("upstream \"{name}\" has too many servers"))
                .label(format!("{addresses} with {ADDRESSES_MOST} for each name; at most {PEERS_MOST}"))
                .help("part them into several upstreams");
        }
        if self.servers.is_empty() {
            findings
                .error(self.servers.place(), format!("upstream \"{name}\" has no servers"))
                .label("needs an address")
                .help("write servers = [\"127.0.0.1:9000\"]");
            return;
        }
        if self.servers.iter().all(|server| server.down) {
            findings
                .warning(self.servers.place(), format!("all servers of upstream \"{name}\" are down"))
                .label("every request fails");
        } else if self.servers.iter().all(|server| server.backup) {
            findings
                .warning(self.servers.place(), format!("all servers of upstream \"{name}\" are backups"))
                .label("`backup` has no effect here");
        }
        for (at, server) in self.servers.iter().enumerate() {
            if let Some(first) = self.servers[..at].iter().find(|first| first.address == server.address) {
                findings
                    .warning(server.place(), format!("{} is listed twice", server.address))
                    .label("listed again here")
                    .related(first.place(), "listed first here")
                    .help("give one of them the sum of both weights");
            }
            if matches!(self.servers.len(), 1) && !server.has_name() {
                check_lonely(server, findings);
            }
        }
    }

    fn check_hash(&self, findings: &mut Findings) {
        let hashing = *self.balance == Balance::Hash;
        match &self.hash {
            None if hashing => {
                findings
                    .error(self.balance.place(), "balance = \"hash\" needs a key")
                    .label("`hash` is missing")
                    .help("write hash = \"$remote_addr\", or another text with variables");
            }
            Some(text) if !hashing => {
                findings
                    .warning(text.place(), "`hash` has no effect here")
                    .label(format!("balance is \"{}\"", *self.balance))
                    .help("write balance = \"hash\"");
            }
            _ => {}
        }
        let factor = &self.hash_balance_factor;
        if !hashing && **factor != 0 {
            findings
                .warning(factor.place(), "`hash_balance_factor` has no effect here")
                .label(format!("balance is \"{}\"", *self.balance));
        } else if (1..=100).contains(&**factor) {
            findings
                .error(factor.place(), "`hash_balance_factor` is out of range")
                .label("no server may have more than its share")
                .help("write a percentage above 100, such as 150, or 0 for no limit");
        }
    }

    fn check_source(&self, findings: &mut Findings) {
        let Some(source) = self.source else { return };
        for server in self.servers.iter() {
            let misfit = match &server.address {
                ServerAddress::Internet(address) => address.is_ipv4() != source.0.is_ipv4(),
                ServerAddress::Name { .. } | ServerAddress::Unix(_) => false,
            };
            if misfit {
                findings
                    .error(server.place(), format!("{} cannot be reached from {}", server.address, source.0))
                    .label("this address is of the other family")
                    .help("use one upstream for IPv4 and another for IPv6");
            }
        }
    }
}

/// A server that is the only one is never given up.
fn check_lonely(server: &Located<Server>, findings: &mut Findings) {
    if !server.slow_start.is_zero() {
        findings
            .warning(server.place(), "`slow_start` has no effect here")
            .label("there is no other server for its share meanwhile");
    }
}

fn check_health_check(check: &Located<HealthCheck>, findings: &mut Findings) {
    if let Some(path) = &check.path {
        if !path.starts_with('/') || path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            findings
                .error(path.place(), "`path` is no path of a request")
                .label("begins with / and has no spaces in it");
        }
        for (key, text) in [("send", &check.send), ("expect", &check.expect)] {
            if let Some(text) = text {
                findings
                    .error(text.place(), format!("`{key}` and `path` exclude each other"))
                    .label("a check is either an HTTP request or bytes")
                    .related(path.place(), "HTTP here");
            }
        }
    } else {
        let places = [
            ("host", check.host.as_ref().map(Located::place)),
            ("status", check.status.as_ref().map(Located::place)),
        ];
        for (key, place) in places {
            if let Some(place) = place {
                findings
                    .warning(place, format!("`{key}` has no effect here"))
                    .label("only with `path`, an HTTP request");
            }
        }
    }
    if let Some(host) = &check.host
        && host.bytes().any(|byte| byte <= b' ' || byte == 0x7f)
    {
        findings.error(host.place(), "`host` is no value of the field Host").label("has no spaces in it");
    }
    if let Some(status) = &check.status
        && (status.is_empty() || status.iter().any(|status| !(100..=599).contains(status)))
    {
        findings.error(status.place(), "`status` is out of range").label("lists codes from 100 to 599");
    }
    if check.expect.as_ref().is_some_and(|text| text.is_empty()) {
        let place = check.expect.as_ref().and_then(Located::place);
        findings.error(place, "`expect` is empty").label("nothing is always there");
    }
    if check.time() > check.interval {
        findings
            .warning(check.place(), "checks take longer than the time between them")
            .label("`timeout` is above `interval`")
            .help("a check that is still under way keeps the next one waiting");
    }
}
