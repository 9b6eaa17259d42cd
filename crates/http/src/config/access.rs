//! `access`: who is let in by address; and `[http.real_ip]`: which address a client has.

use drover_config::{Leaf, Located};

use super::map::Peers;

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

drover_config::table! {
    /// How the client's address is known behind proxies.
    pub struct RealIp {
        /// Peers whose word about the client's address is trusted: addresses, networks, or "unix:".
        pub from: Vec<Peers> = Vec::new(),
        /// The field that says it: a list of addresses as in X-Forwarded-For, one address, or Forwarded.
        pub header: Located<String> = "X-Forwarded-For".to_owned().into(),
        /// Whether trusted addresses in a list are passed over, back to the first that is not; else the last counts.
        pub recursive: bool = true,
    }
}
