//! `[[http.servers.locations]]`: what is served where.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use drover_config::{Kind, Located, Node, Output, Reader, Shape, Size, Value};

use super::{AccessLog, LONGEST, Proxy};

drover_config::table! {
    /// What is served under a path.
    pub struct Location {
        /// The path: a prefix, the longest wins; or { exact = "/path" }.
        pub path: Located<PathMatch>,
        /// Directory of the files to serve; else the server's.
        #[example = "\"/srv/www\""]
        pub root: Option<Located<PathBuf>> = None,
        /// Files that stand for a directory; else the server's.
        #[example = "[\"index.html\"]"]
        pub index: Option<Vec<Located<String>>> = None,
        /// A fixed answer instead of files.
        #[key = "return"]
        #[example = "{ status = 200, body = \"ok\\n\" }"]
        pub return_: Option<Located<Return>> = None,
        /// Passes requests on: "http://" and the name of an upstream or an address; with a path, that stands in
        /// place of the location's.
        #[example = "\"http://app\""]
        pub proxy_pass: Option<Located<String>> = None,
        /// How requests are passed on; where it is silent, as [http.proxy] says.
        #[example = "{ read_timeout = \"5m\" }"]
        pub proxy: Option<Located<Proxy>> = None,
        /// The largest request body; else as in [http].
        #[example = "\"1m\""]
        pub client_body_size: Option<Size> = None,
        /// The log of requests; else as in [http].
        #[example = "\"off\""]
        pub access_log: Option<AccessLog> = None,
    }
}

drover_config::table! {
    /// A fixed answer.
    #[table(inline)]
    pub struct Return {
        /// Status code.
        #[range = 200..=599]
        pub status: u16,
        /// Body, with variables.
        #[example = "\"ok\\n\""]
        pub body: Option<Located<String>> = None,
        /// Field Location of a redirect, with variables.
        #[example = "\"https://example.org$request_uri\""]
        pub location: Option<Located<String>> = None,
        /// Field Content-Type; else text/plain.
        #[example = "\"text/plain\""]
        pub content_type: Option<Located<String>> = None,
        /// Time to wait before answering.
        #[range = Duration::ZERO..=LONGEST]
        #[example = "\"4s\""]
        pub delay: Option<Duration> = None,
    }
}

/// Which request paths a location is for.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PathMatch {
    /// Paths that begin so.
    Prefix(String),
    /// This path alone.
    Exact(String),
}

impl PathMatch {
    /// The path or its beginning.
    pub fn as_str(&self) -> &str {
        match self {
            PathMatch::Prefix(path) | PathMatch::Exact(path) => path,
        }
    }
}

impl fmt::Display for PathMatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathMatch::Prefix(path) => write!(out, "{path}"),
            PathMatch::Exact(path) => write!(out, "{path} (exact)"),
        }
    }
}

drover_config::table! {
    /// The long form of a path.
    #[table(inline)]
    pub struct ExactPath {
        /// This path alone, rather than all that begin so.
        pub exact: String,
    }
}

impl Value for PathMatch {
    fn type_name() -> String {
        "string or table".into()
    }

    fn shape() -> Shape {
        ExactPath::shape()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<PathMatch> {
        match node.kind {
            Kind::Table(_) => ExactPath::read(node, reader).map(|path| PathMatch::Exact(path.exact)),
            _ => String::read(node, reader).map(PathMatch::Prefix),
        }
    }

    fn write(&self) -> Output {
        match self {
            PathMatch::Prefix(path) => path.write(),
            PathMatch::Exact(path) => ExactPath { exact: path.clone() }.write(),
        }
    }
}
