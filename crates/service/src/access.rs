//! Who is let in by address.

use std::net::IpAddr;

use drover_config::Leaf;
use ipnet::IpNet;

/// A line of `access`: `"allow 10.0.0.0/8"`, `"deny all"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessRule {
    /// Whether clients are let in.
    pub allow: bool,
    /// Which; `None` for all.
    pub peers: Option<Peers>,
}

impl Leaf for AccessRule {
    const TYPE: &'static str = "access rule";
    const HELP: &'static str =
        "such as \"allow 10.0.0.0/8\", \"deny 192.0.2.7\", \"allow unix:\" or \"deny all\"";

    fn parse(text: &str) -> Result<AccessRule, String> {
        let (verb, whom) = text.split_once(' ').unwrap_or((text, ""));
        let allow = match verb {
            "allow" => true,
            "deny" => false,
            _ => return Err("must begin with `allow` or `deny`".to_owned()),
        };
        let peers = match whom.trim() {
            "all" => None,
            whom => Some(Peers::parse(whom)?),
        };
        Ok(AccessRule { allow, peers })
    }

    fn text(&self) -> String {
        let verb = if self.allow { "allow" } else { "deny" };
        let whom = self.peers.map_or_else(|| "all".to_owned(), |peers| peers.text());
        format!("{verb} {whom}")
    }
}

/// A network, or a single address as the network of it alone.
///
/// # Errors
/// What is wrong with the text, in a few words.
pub fn network(text: &str) -> Result<IpNet, String> {
    let network = text.parse().or_else(|_| text.parse::<std::net::IpAddr>().map(IpNet::from));
    network.map_err(|_| "neither an address nor a network".to_owned())
}

/// Peers: those of a network, or everybody on a unix socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peers {
    /// Those of a network.
    Network(IpNet),
    /// Those on a unix socket.
    Unix,
}

impl Leaf for Peers {
    const TYPE: &'static str = "network";
    const HELP: &'static str = "an address \"192.0.2.7\", a network \"10.0.0.0/8\", or \"unix:\"";

    fn parse(text: &str) -> Result<Peers, String> {
        match text {
            "unix:" => Ok(Peers::Unix),
            text => network(text).map(Peers::Network),
        }
    }

    fn text(&self) -> String {
        match self {
            Peers::Network(network) => network.to_string(),
            Peers::Unix => "unix:".to_owned(),
        }
    }
}

/// What `access` says about a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// It is let in.
    Allowed,
    /// It is not.
    Denied,
    /// No rule is about it.
    Unsaid,
}

/// The first rule that is about the client decides. Who has no address came over a unix socket.
pub fn decide(rules: &[AccessRule], client: Option<IpAddr>) -> Access {
    let client = client.map(|address| address.to_canonical());
    let fits = |rule: &&AccessRule| match (rule.peers, client) {
        (None, _) | (Some(Peers::Unix), None) => true,
        (Some(Peers::Network(network)), Some(client)) => network.contains(&client),
        _ => false,
    };
    match rules.iter().find(fits) {
        Some(AccessRule { allow: true, .. }) => Access::Allowed,
        Some(_) => Access::Denied,
        None => Access::Unsaid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules: Vec<AccessRule> = ["deny 10.0.0.13", "allow 10.0.0.0/8", "allow unix:", "deny all"]
            .map(|text| AccessRule::parse(text).expect("a rule"))
            .to_vec();
        let decide = |rules: &[AccessRule], text: &str| decide(rules, text.parse().ok());
        assert_eq!(decide(&rules, "10.0.0.13"), Access::Denied);
        assert_eq!(decide(&rules, "::ffff:10.0.0.14"), Access::Allowed);
        assert_eq!(decide(&rules, ""), Access::Allowed);
        assert_eq!(decide(&rules, "2001:db8::1"), Access::Denied);
        assert_eq!(decide(&rules[..1], "10.0.0.14"), Access::Unsaid);
        for wrong in ["", "allow", "permit all", "allow 10.0.0.0/40", "deny x"] {
            assert!(AccessRule::parse(wrong).is_err(), "{wrong}");
        }
    }
}
