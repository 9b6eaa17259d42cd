//! Limits of connections and sessions for each client: `[stream.connection_limits]`, `[stream.accept_limits]`, and
//! the keys that apply them.

use drover_config::Located;
use drover_service::limits::Rate;

drover_config::table! {
    /// How many connections and sessions those with one key may have at once; counted over all workers.
    pub struct ConnectionLimit {
        /// What is counted by, a text with variables; where it is empty there is no limit.
        pub key: Located<String>,
        /// Keys that each worker knows at once; further ones are refused.
        #[range = 64..=16_777_216]
        pub entries: u32 = 16_384,
    }
}

drover_config::table! {
    /// How many connections and sessions a time those with one key may begin; counted over all workers.
    pub struct AcceptLimit {
        /// What is counted by, a text with variables; where it is empty there is no limit.
        pub key: Located<String>,
        /// New connections a second, minute or hour.
        pub rate: Rate,
        /// Keys that are known at once; the one that has been quiet longest makes room for another.
        #[range = 64..=16_777_216]
        pub entries: u32 = 16_384,
    }
}

drover_config::table! {
    /// A limit of connections as it applies here.
    #[table(inline)]
    pub struct LimitConnections {
        /// The name of one of [stream.connection_limits].
        pub limit: Located<String>,
        /// Connections and sessions at once.
        #[range = 1..=1_000_000]
        pub most: u32,
    }
}

drover_config::table! {
    /// A limit of new connections as it applies here.
    #[table(inline)]
    pub struct LimitAccepts {
        /// The name of one of [stream.accept_limits].
        pub limit: Located<String>,
        /// New connections above the rate that are let in all the same.
        #[range = 0..=1_000_000]
        pub burst: u32 = 0,
    }
}
