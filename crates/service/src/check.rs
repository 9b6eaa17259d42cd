//! Checks of a config that services share. Pure: nothing here asks the system.

use drover_config::{Findings, ListenAddress, Located, LogFile, nearest};

use crate::template::WrongVariable;
use crate::{Accept, Listener};

/// Adds a finding where a text has a variable that is wrong, as `variables` says.
pub fn variables(
    text: &Located<String>,
    variables: impl Fn(&str) -> Result<(), WrongVariable>,
    findings: &mut Findings,
) {
    let Err(wrong) = variables(text) else { return };
    let place = findings.part_of(text.place(), text, wrong.offset, wrong.length);
    let finding = findings.error(place, "the text has a variable that is wrong").label(wrong.message);
    if let Some(help) = wrong.help {
        finding.help(help);
    }
}

/// The formats that access logs of a service can name.
pub struct LogFormats<'a> {
    /// The table they are defined in, with its brackets.
    pub table: &'static str,
    /// Those of the config, by name.
    pub own: Vec<(&'a str, &'a Located<String>)>,
    /// Those that need not be defined: name and text. The first is the default.
    pub built_in: &'static [(&'static str, &'static str)],
    /// A text to show where one is missing.
    pub example: &'static str,
}

impl LogFormats<'_> {
    /// Adds findings about the formats themselves.
    pub fn check(&self, findings: &mut Findings) {
        for (name, text) in &self.own {
            if self.built_in.iter().any(|(built_in, _)| built_in == name) {
                findings
                    .error(text.place(), format!("the log format `{name}` is built in"))
                    .label("give this one another name");
            }
        }
    }

    /// Adds findings about a log that names one.
    pub fn check_log(&self, file: &LogFile, format: &Located<String>, findings: &mut Findings) {
        let Self { table, example, .. } = self;
        let name = format.as_str();
        let names = || {
            let built_in = self.built_in.iter().map(|(name, _)| *name);
            built_in.chain(self.own.iter().map(|(name, _)| *name))
        };
        if !names().any(|known| known == name) {
            let help = match nearest(name, names()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("define it: {table} {name} = \"{example}\""),
            };
            findings
                .error(format.place(), format!("the log format `{name}` is not defined"))
                .label(format!("no such format in {table}"))
                .help(help);
        } else if *file == LogFile::Off && self.built_in.first().is_none_or(|(default, _)| name != *default) {
            findings
                .warning(format.place(), "`format` has no effect here")
                .label("the log is off")
                .help("say where the lines go: file = \"stderr\" or the path of a file");
        }
    }
}

/// Adds findings about listeners, of one service or of several, that cannot all be opened. `accept` is the
/// strategy of those that have none of their own.
pub fn listeners(listeners: &[Listener], accept: Accept, findings: &mut Findings) {
    for (at, second) in listeners.iter().enumerate() {
        for first in &listeners[..at] {
            if first.udp != second.udp {
                continue;
            }
            if first.address == second.address {
                findings
                    .error(second.place, format!("two servers on {}", second.address))
                    .label("the second here")
                    .related(first.place, "the first here")
                    .help("nothing tells them apart; give the second another address");
            } else if (overlap(first, second) || overlap(second, first))
                && !(can_share(first, accept) && can_share(second, accept))
            {
                findings
                    .error(second.place, format!("{} and {} overlap", first.address, second.address))
                    .label("only one of the two can be bound")
                    .related(first.place, "the other")
                    .help("listen on the wildcard address alone, or on each address of its own");
            }
        }
    }
}

/// The kernel does not bind an address while another socket takes all that comes to its port, unless both
/// have SO_REUSEPORT. Sockets for datagrams always have it.
fn can_share(listener: &Listener, accept: Accept) -> bool {
    listener.udp || listener.accept.unwrap_or(accept) == Accept::Reuseport
}

/// Whether the first takes what the second would.
fn overlap(wildcard: &Listener, listener: &Listener) -> bool {
    let (ListenAddress::Tcp(all), ListenAddress::Tcp(one)) = (&wildcard.address, &listener.address) else {
        return false;
    };
    let both_families = all.is_ipv6() && !wildcard.ipv6_only;
    all != one
        && all.port() == one.port()
        && all.ip().is_unspecified()
        && (all.is_ipv4() == one.is_ipv4() || both_families)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listener(address: &str) -> Listener {
        Listener {
            address: ListenAddress::Tcp(address.parse().expect("an address")),
            udp: false,
            accept: None,
            backlog: None,
            deferred: false,
            ipv6_only: true,
            probes: None,
            client_first: false,
            place: None,
        }
    }

    fn messages(list: &[Listener]) -> Vec<String> {
        let mut findings = Findings::default();
        listeners(list, Accept::Exclusive, &mut findings);
        findings.iter().map(|finding| finding.message().to_owned()).collect()
    }

    #[test]
    fn overlapping_addresses_cannot_both_be_bound() {
        let none: [&str; 0] = [];
        let (all, one, other) = (listener("0.0.0.0:80"), listener("127.0.0.1:80"), listener("127.0.0.1:81"));
        assert_eq!(messages(&[all.clone(), one.clone()]), ["0.0.0.0:80 and 127.0.0.1:80 overlap"]);
        let both = Listener { ipv6_only: false, ..listener("[::]:80") };
        assert_eq!(messages(&[one.clone(), both]), ["127.0.0.1:80 and [::]:80 overlap"]);
        assert_eq!(messages(&[all.clone(), listener("[::]:80"), other]), none);
        let sharing =
            [&all, &one].map(|listener| Listener { accept: Some(Accept::Reuseport), ..listener.clone() });
        assert_eq!(messages(&sharing), none);
        let datagrams = [&all, &one].map(|listener| Listener { udp: true, ..listener.clone() });
        assert_eq!(messages(&datagrams), none);
    }

    #[test]
    fn an_address_has_one_server_for_connections_and_one_for_datagrams() {
        let one = listener("127.0.0.1:53");
        let datagrams = Listener { udp: true, ..one.clone() };
        assert_eq!(messages(&[one.clone(), datagrams.clone()]), [""; 0]);
        assert_eq!(messages(&[one.clone(), one]), ["two servers on 127.0.0.1:53"]);
        assert_eq!(messages(&[datagrams.clone(), datagrams]), ["two servers on 127.0.0.1:53"]);
    }
}
