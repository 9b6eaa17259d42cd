//! Limits of requests and connections for each client: `[http.request_limits]`, `[http.connection_limits]`,
//! and the keys that apply them.

use drover_config::{Kind, Leaf, Located, Node, Output, Reader, Value};

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

/// Requests a time: `"10/s"`, `"30/m"`, `"100/h"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    requests: u32,
    unit: char,
}

/// More than this a second is no limit.
const MOST_A_SECOND: u32 = 1_000_000;

impl Rate {
    /// Microseconds from one request to the next at this rate.
    pub fn interval_us(&self) -> u64 {
        let seconds = match self.unit {
            'm' => 60,
            'h' => 3600,
            _ => 1,
        };
        seconds * 1_000_000 / u64::from(self.requests)
    }
}

impl Leaf for Rate {
    const TYPE: &'static str = "rate";
    const HELP: &'static str = "requests a second \"10/s\", a minute \"30/m\" or an hour \"100/h\"";

    fn parse(text: &str) -> Result<Rate, String> {
        let wrong = || "a number, `/`, and `s`, `m` or `h`".to_owned();
        let (requests, unit) = text.split_once('/').ok_or_else(wrong)?;
        let requests: u32 = requests.trim().parse().map_err(|_| wrong())?;
        let unit = match unit.trim() {
            "s" => 's',
            "m" => 'm',
            "h" => 'h',
            _ => return Err(wrong()),
        };
        match requests {
            0 => Err("at least 1".to_owned()),
            1..=MOST_A_SECOND => Ok(Rate { requests, unit }),
            _ => Err(format!("at most {MOST_A_SECOND}")),
        }
    }

    fn text(&self) -> String {
        format!("{}/{}", self.requests, self.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_requests_a_time() {
        for (text, interval) in
            [("10/s", 100_000), ("1/s", 1_000_000), ("30/m", 2_000_000), ("1 / h", 3_600_000_000)]
        {
            assert_eq!(Rate::parse(text).map(|rate| rate.interval_us()), Ok(interval), "{text}");
        }
        for text in ["", "10", "0/s", "-1/s", "10/d", "1.5/s", "9999999/s"] {
            assert!(Rate::parse(text).is_err(), "{text}");
        }
    }
}
