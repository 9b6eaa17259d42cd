//! `[http.real_ip]`: which address a client has.

use drover_config::Located;

use super::Peers;

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
