//! Limits of requests and connections for each client: `[http.request_limits]`, `[http.connection_limits]`,
//! and the keys that apply them.

use drover_config::{Kind, Located, Node, Output, Reader, Value};
use drover_service::limits::Rate;

drover_config::table! {
    /// How many requests a time those with one key may make; counted over all workers.
    pub struct RequestLimit {
        /// What is counted by, a text with variables; requests for which it is empty are not limited.
        pub key: Located<String>,
        /// Requests a second, minute or hour.
        pub rate: Rate,
        /// Keys that are known at once; the one that has been quiet longest makes room for another.
        #[range = 64..=16_777_216]
        pub entries: u32 = 16_384,
    }
}

drover_config::table! {
    /// How many requests those with one key may have under way at once; counted over all workers.
    pub struct ConnectionLimit {
        /// What is counted by, a text with variables; requests for which it is empty are not limited.
        pub key: Located<String>,
        /// Keys that each worker knows at once; further ones are refused.
        #[range = 64..=16_777_216]
        pub entries: u32 = 16_384,
    }
}

drover_config::table! {
    /// A limit of requests as it applies here.
    #[table(inline)]
    pub struct LimitRequests {
        /// The name of one of [http.request_limits].
        pub limit: Located<String>,
        /// Requests above the rate that are served all the same, later.
        #[range = 0..=1_000_000]
        pub burst: u32 = 0,
        /// Requests of the burst that are served at once: a number, or "none" for all to wait, "all" for none.
        pub at_once: AtOnce = AtOnce::None,
        /// Status of a refusal.
        #[range = 400..=599]
        pub status: u16 = 429,
    }
}

drover_config::table! {
    /// A limit of connections as it applies here.
    #[table(inline)]
    pub struct LimitConnections {
        /// The name of one of [http.connection_limits].
        pub limit: Located<String>,
        /// Requests under way at once.
        #[range = 1..=1_000_000]
        pub most: u32,
        /// Status of a refusal.
        #[range = 400..=599]
        pub status: u16 = 429,
    }
}

/// How much of a burst does not wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtOnce {
    /// Each request above the rate waits for its time.
    None,
    /// So many do not.
    Count(u32),
    /// None waits.
    All,
}

impl Value for AtOnce {
    fn type_name() -> String {
        "\"none\" or \"all\" or integer".into()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<AtOnce> {
        match &node.kind {
            Kind::String(text) if text == "none" => Some(AtOnce::None),
            Kind::String(text) if text == "all" => Some(AtOnce::All),
            Kind::Integer(_) => u32::read(node, reader).map(AtOnce::Count),
            _ => reader.expected(node, &Self::type_name()),
        }
    }

    fn write(&self) -> Output {
        match self {
            AtOnce::None => "none".to_owned().write(),
            AtOnce::All => "all".to_owned().write(),
            AtOnce::Count(count) => count.write(),
        }
    }
}
