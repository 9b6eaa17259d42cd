//! Addresses to listen on: `"127.0.0.1:8080"`, `"[::]:8080"`, `"unix:/run/app.sock"`, `"systemd:web"`.
//!
//! Address and port are always both written, so that nobody has to know what a bare port listens on. Names are
//! not resolved: what `localhost` means is decided elsewhere and can change under a running daemon.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use crate::node::{Kind, Node};
use crate::output::{Output, quoted};
use crate::reader::Reader;
use crate::value::Value;

/// The longest path of a unix socket in bytes: `sun_path` has 108, one for the NUL at its end (unix(7)).
pub const MAX_UNIX_PATH: usize = 107;

/// Where a listener listens.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ListenAddress {
    /// An IPv4 or IPv6 address and a port.
    Tcp(SocketAddr),
    /// The absolute path of a unix socket.
    Unix(PathBuf),
    /// A socket that systemd has opened, by its name (`FileDescriptorName=` in the socket unit).
    Systemd(String),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenAddress::Tcp(address) => address.fmt(out),
            ListenAddress::Unix(path) => write!(out, "unix:{}", path.display()),
            ListenAddress::Systemd(name) => write!(out, "systemd:{name}"),
        }
    }
}

const TYPE: &str = "address";
const HELP: &str = "addresses are strings: \"127.0.0.1:8080\", \"[::1]:8080\", \"unix:/run/app.sock\"";

impl Value for ListenAddress {
    fn type_name() -> String {
        TYPE.into()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<ListenAddress> {
        let wrong = match &node.kind {
            Kind::String(text) => match text.split_once(':') {
                Some(("unix", path)) => {
                    let path = if path.is_empty() { PathBuf::new() } else { reader.resolve(node, path) };
                    unix(path).map(ListenAddress::Unix)
                }
                Some(("systemd", name)) => systemd(name).map(ListenAddress::Systemd),
                _ => internet(text).map(ListenAddress::Tcp),
            },
            Kind::Integer(Some(port @ 1..=65535)) => Err(bare_port(&port.to_string())),
            _ => {
                reader.wrong_type(node, TYPE).help(HELP);
                return None;
            }
        };
        let report = |wrong: Wrong| {
            reader.wrong_text(node, TYPE, wrong.what).help(wrong.help.unwrap_or_else(|| HELP.into()));
        };
        wrong.map_err(report).ok()
    }

    fn write(&self) -> Output {
        Output::Inline(quoted(&self.to_string()))
    }
}

/// What is wrong with an address, and what would be right if more than the usual can be said.
pub(crate) struct Wrong {
    pub(crate) what: String,
    pub(crate) help: Option<String>,
}

impl From<&str> for Wrong {
    fn from(what: &str) -> Wrong {
        Wrong { what: what.into(), help: None }
    }
}

pub(crate) fn unix(path: PathBuf) -> Result<PathBuf, Wrong> {
    let bytes = path.as_os_str().as_encoded_bytes();
    if bytes.is_empty() || bytes.ends_with(b"/") {
        return Err("the path of the socket is missing".into());
    }
    if bytes.contains(&0) {
        return Err("a path has no NUL in it".into());
    }
    if path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"@")) {
        return Err("abstract names are not supported; use a path".into());
    }
    if bytes.len() > MAX_UNIX_PATH {
        let what = format!("the path has {} bytes; the system allows {MAX_UNIX_PATH}", bytes.len());
        return Err(Wrong { what, help: Some("use a shorter path, such as one under /run".into()) });
    }
    Ok(path)
}

/// systemd.socket(5): `FileDescriptorName=` takes any characters but control characters and colons.
fn systemd(name: &str) -> Result<String, Wrong> {
    match name {
        "" => Err("the name of the socket is missing".into()),
        name if name.contains(|c: char| c == ':' || c.is_control()) => {
            Err("a name of systemd's has no colon and no control character in it".into())
        }
        name => Ok(name.to_owned()),
    }
}

pub(crate) fn internet(text: &str) -> Result<SocketAddr, Wrong> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        return match address.port() {
            0 => Err("the port must be 1 to 65535".into()),
            _ => Ok(address),
        };
    }
    let bare = text.strip_prefix(':').unwrap_or(text);
    if !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(bare_port(bare));
    }
    if let Ok(ip) = text.trim_matches(['[', ']']).parse::<IpAddr>() {
        // "::1:80" is an address too, but 80 may be meant as the port.
        let meant = text.rsplit_once(':').and_then(|(host, port)| {
            Some(SocketAddr::new(
                IpAddr::V6(host.parse().ok()?),
                port.parse().ok().filter(|port| *port != 0)?,
            ))
        });
        let whole = SocketAddr::new(ip, 80);
        let help = match meant {
            Some(meant) => format!("write \"{meant}\", or \"{whole}\" if all of it is the address"),
            None => format!("write \"{whole}\""),
        };
        return Err(Wrong { what: "the port is missing".into(), help: Some(help) });
    }
    match text.rsplit_once(':') {
        Some(("*", port)) => {
            let help = format!("write \"0.0.0.0:{port}\" for IPv4, \"[::]:{port}\" for IPv6, or both");
            Err(Wrong { what: "`*` is not an address".into(), help: Some(help) })
        }
        Some((_, port)) if port.parse::<u16>().is_err() => Err("the port must be 1 to 65535".into()),
        Some((host, _)) if host.parse::<std::net::Ipv6Addr>().is_ok() => {
            Err("an IPv6 address stands in square brackets".into())
        }
        Some((host, port)) if host.chars().any(char::is_alphabetic) && !host.contains(['[', ':']) => {
            let help = format!("write the address itself, such as \"127.0.0.1:{port}\"");
            Err(Wrong { what: "names are not resolved".into(), help: Some(help) })
        }
        Some(_) => Err("this is no IPv4 or IPv6 address".into()),
        None => Err("neither address:port nor unix:path".into()),
    }
}

pub(crate) fn bare_port(port: &str) -> Wrong {
    Wrong {
        what: "the address is missing".into(),
        help: Some(format!(
            "write \"0.0.0.0:{port}\" for all addresses or \"127.0.0.1:{port}\" for this machine"
        )),
    }
}
