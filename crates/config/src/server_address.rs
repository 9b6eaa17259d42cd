//! Addresses to connect to: as those to listen on, and names that are resolved while drover runs.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::address::{self, Wrong};
use crate::node::{Kind, Node};
use crate::output::{Output, quoted};
use crate::reader::Reader;
use crate::value::Value;

/// The longest name in bytes (RFC 1035 section 2.3.4, as text).
const LONGEST_NAME: usize = 253;
/// The longest part of a name between dots.
const LONGEST_LABEL: usize = 63;

/// Where a server is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ServerAddress {
    /// An IPv4 or IPv6 address and a port.
    Internet(SocketAddr),
    /// A name, which may have several addresses, and a port.
    Name {
        /// The name as it is asked for.
        host: String,
        /// The port at each of its addresses.
        port: u16,
    },
    /// The absolute path of a unix socket.
    Unix(PathBuf),
}

impl ServerAddress {
    /// Reads `"127.0.0.1:9000"`, `"[::1]:9000"`, `"app.internal:9000"` or `"unix:/run/app.sock"`.
    ///
    /// # Errors
    /// What is wrong, in a few words.
    pub fn parse(text: &str) -> Result<ServerAddress, String> {
        let parsed = match text.strip_prefix("unix:") {
            Some(path) if !path.starts_with('/') => Err("the path of a socket begins with /".into()),
            Some(path) => address::unix(Path::new(path).to_owned()).map(ServerAddress::Unix),
            None => internet(text),
        };
        parsed.map_err(|wrong| wrong.what)
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServerAddress::Internet(address) => address.fmt(out),
            ServerAddress::Name { host, port } => write!(out, "{host}:{port}"),
            ServerAddress::Unix(path) => write!(out, "unix:{}", path.display()),
        }
    }
}

const TYPE: &str = "address";
const HELP: &str = "addresses are strings: \"127.0.0.1:9000\", \"[::1]:9000\", \"app.internal:9000\", \
                    \"unix:/run/app.sock\"";

impl Value for ServerAddress {
    fn type_name() -> String {
        TYPE.into()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<ServerAddress> {
        let parsed = match &node.kind {
            Kind::String(text) => match text.strip_prefix("unix:") {
                Some("") => address::unix(PathBuf::new()).map(ServerAddress::Unix),
                Some(path) => address::unix(reader.resolve(node, path)).map(ServerAddress::Unix),
                None => internet(text),
            },
            Kind::Integer(Some(port @ 1..=65535)) => Err(Wrong {
                what: "the address is missing".into(),
                help: Some(format!("write \"127.0.0.1:{port}\" for this machine")),
            }),
            _ => {
                reader.wrong_type(node, TYPE).help(HELP);
                return None;
            }
        };
        let report = |wrong: Wrong| {
            reader.wrong_text(node, TYPE, wrong.what).help(wrong.help.unwrap_or_else(|| HELP.into()));
        };
        parsed.map_err(report).ok()
    }

    fn write(&self) -> Output {
        Output::Inline(quoted(&self.to_string()))
    }
}

fn internet(text: &str) -> Result<ServerAddress, Wrong> {
    if is_name(text) {
        let help = Some(format!("write the port too, such as \"{text}:80\""));
        return Err(Wrong { what: "the port is missing".into(), help });
    }
    match text.rsplit_once(':') {
        Some((host, port)) if is_name(host) => match port.parse() {
            Ok(port @ 1..) => Ok(ServerAddress::Name { host: host.to_owned(), port }),
            _ => Err("the port must be 1 to 65535".into()),
        },
        _ => address::internet(text).map(ServerAddress::Internet),
    }
}

/// Whether the text is a name and cannot be meant as an address: its last label has a letter in it.
fn is_name(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    let is_label = |label: &str| {
        (1..=LONGEST_LABEL).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    text.len() <= LONGEST_NAME
        && text.split('.').all(is_label)
        && text.rsplit('.').next().is_some_and(|last| last.bytes().any(|byte| byte.is_ascii_alphabetic()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, String> {
        ServerAddress::parse(text).map(|address| format!("{address:?}"))
    }

    #[test]
    fn addresses_names_and_sockets_are_told_apart() {
        assert_eq!(parse("127.0.0.1:80"), Ok("Internet(127.0.0.1:80)".to_owned()));
        assert_eq!(parse("[::1]:80"), Ok("Internet([::1]:80)".to_owned()));
        assert_eq!(parse("localhost:80"), Ok("Name { host: \"localhost\", port: 80 }".to_owned()));
        assert_eq!(
            parse("db-1.example.org.:5"),
            Ok("Name { host: \"db-1.example.org.\", port: 5 }".to_owned())
        );
        assert_eq!(parse("unix:/run/a.sock"), Ok("Unix(\"/run/a.sock\")".to_owned()));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for (text, wrong) in [
            ("localhost", "the port is missing"),
            ("127.0.0.1", "the port is missing"),
            ("localhost:0", "the port must be 1 to 65535"),
            ("localhost:http", "the port must be 1 to 65535"),
            ("127.0.0.1:0", "the port must be 1 to 65535"),
            ("256.1.1.1:80", "this is no IPv4 or IPv6 address"),
            ("a..b:80", "names are not resolved"),
            ("unix:a.sock", "the path of a socket begins with /"),
            ("unix:/", "the path of the socket is missing"),
            ("", "neither address:port nor unix:path"),
        ] {
            assert_eq!(parse(text), Err(wrong.to_owned()), "{text}");
        }
    }
}
