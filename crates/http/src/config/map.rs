//! `[http.maps]`: variables whose values are looked up.

use std::collections::BTreeMap;

use drover_config::{Leaf, Located};
use ipnet::IpNet;

use super::Expression;

drover_config::table! {
    /// A variable whose value is looked up: by an exact value, else a pattern, else a network, else the default.
    pub struct Map {
        /// The text that is looked up, with variables.
        pub of: Located<String>,
        /// Values by the text they stand for, in upper or lower case; with variables.
        #[example = "\"example.org\" = \"a\""]
        pub values: BTreeMap<String, Located<String>> = BTreeMap::new(),
        /// Values by expressions, of which the first that matches counts.
        #[example = "[{ matches = '^www\\.(.+)$', value = \"$1\" }]"]
        pub patterns: Vec<MapPattern> = Vec::new(),
        /// Values by networks, where the text is an address; the smallest network counts.
        #[example = "\"10.0.0.0/8\" = \"inside\""]
        pub networks: BTreeMap<String, Located<String>> = BTreeMap::new(),
        /// The value of what is not listed.
        pub default: Located<String> = String::new().into(),
    }
}

drover_config::table! {
    /// A value by an expression.
    #[table(inline)]
    pub struct MapPattern {
        /// The expression.
        pub matches: Expression,
        /// The value, with variables; `$1` is the expression's first group.
        pub value: Located<String>,
    }
}

/// A network, or a single address as the network of it alone.
///
/// # Errors
/// What is wrong with the text, in a few words.
pub(crate) fn network(text: &str) -> Result<IpNet, String> {
    let network = text.parse().or_else(|_| text.parse::<std::net::IpAddr>().map(IpNet::from));
    network.map_err(|_| "neither an address nor a network".to_owned())
}

/// A peer whose word is trusted: a network, or everybody on a unix socket.
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
