//! `[[http.servers.locations]]`: what is served where.

use std::path::PathBuf;
use std::time::Duration;

use drover_config::{Located, Node, Output, Reader, Size, Value};

use super::path_match::PathMatch;
use super::{
    AccessLog, AccessRule, BasicAuth, Coding, ErrorPage, Headers, LONGEST, LimitConnections, LimitRequests,
    Proxy, Rule, StatusForm,
};

drover_config::table! {
    /// What is served under a path.
    pub struct Location {
        /// The path: a prefix, the longest wins; or a table with one of the forms below.
        pub path: Located<PathMatch>,
        /// Whether only drover itself leads requests here (error pages and the like); others are answered with 404.
        pub internal: bool = false,
        /// Steps that a request goes through before it is answered here.
        pub rules: Vec<Rule> = Vec::new(),
        /// Changes to the fields of responses; else as the server says.
        #[example = "{ set = { Cache-Control = \"no-store\" } }"]
        pub headers: Option<Headers> = None,
        /// What clients are shown instead of a bare error; else as the server says.
        #[example = "[{ statuses = [404], to = \"/404.html\" }]"]
        pub error_pages: Option<Vec<ErrorPage>> = None,
        /// Who is let in by address, the first rule that fits decides; else as the server says.
        #[example = "[\"allow 10.0.0.0/8\", \"deny all\"]"]
        pub access: Option<Vec<AccessRule>> = None,
        /// What the password is for that clients are asked for, or "off"; else as the server says.
        #[example = "\"Staff\""]
        pub basic_auth: Option<Located<BasicAuth>> = None,
        /// File of those who are let in; else the server's.
        #[example = "\"/etc/drover/users\""]
        pub basic_auth_users: Option<Located<PathBuf>> = None,
        /// Limits of requests a time that apply; else as the server says.
        #[example = "[{ limit = \"per_client\", burst = 20 }]"]
        pub limit_requests: Option<Vec<LimitRequests>> = None,
        /// Limits of requests under way at once that apply; else as the server says.
        #[example = "[{ limit = \"per_client\", most = 10 }]"]
        pub limit_connections: Option<Vec<LimitConnections>> = None,
        /// Directory of the files to serve; else the server's.
        #[example = "\"/srv/www\""]
        pub root: Option<Located<PathBuf>> = None,
        /// Directory that stands in place of the location's path; with an exact path, the file for it.
        #[example = "\"/srv/uploads\""]
        pub alias: Option<Located<PathBuf>> = None,
        /// Files that stand for a directory; else the server's.
        #[example = "[\"index.html\"]"]
        pub index: Option<Vec<Located<String>>> = None,
        /// Whether a directory without such a file is listed; else as the server says.
        #[example = "true"]
        pub autoindex: Option<bool> = None,
        /// Encodings in which a file may lie beside itself; else the server's.
        #[example = "[\"br\", \"gzip\"]"]
        pub precompressed: Option<Vec<Located<Coding>>> = None,
        /// Encodings to offer for responses on their way, servers' too; else as in [http.compression].
        #[example = "[\"zstd\", \"br\", \"gzip\"]"]
        pub compression: Option<Vec<Located<Coding>>> = None,
        /// Files that are tried in this order; at the end "=404", a path to go on at, or "@name".
        #[example = "[\"$uri\", \"$uri/\", \"=404\"]"]
        pub try_files: Option<Vec<Located<String>>> = None,
        /// A fixed answer instead of files.
        #[key = "return"]
        #[example = "{ status = 200, body = \"ok\\n\" }"]
        pub return_: Option<Located<Return>> = None,
        /// How the daemon is: "json", "openmetrics", or "page" for people; see `access` for who may know.
        #[example = "\"openmetrics\""]
        pub status: Option<Located<StatusForm>> = None,
        /// Passes requests on: "http://" and the name of an upstream, which may be a text with variables, or an
        /// address; with a path, that stands in place of the location's.
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
        /// Locations inside of this one, with the same keys. What they leave out is as here.
        pub locations: Nested = Nested::default(),
    }
}

impl Location {
    /// A location with nothing said but its path.
    pub fn at(path: PathMatch) -> Location {
        Location {
            path: path.into(),
            internal: false,
            rules: Vec::new(),
            headers: None,
            error_pages: None,
            access: None,
            basic_auth: None,
            basic_auth_users: None,
            limit_requests: None,
            limit_connections: None,
            root: None,
            alias: None,
            index: None,
            autoindex: None,
            precompressed: None,
            compression: None,
            try_files: None,
            return_: None,
            status: None,
            proxy_pass: None,
            proxy: None,
            client_body_size: None,
            access_log: None,
            locations: Nested::default(),
        }
    }

    /// This location as it is inside of `outer`: what it leaves out is as there. What a location does with a
    /// request (`return` and the like) is never taken over.
    pub fn inside(&self, outer: &Location) -> Location {
        let mut inner = self.clone();
        inner.headers = inner.headers.or_else(|| outer.headers.clone());
        inner.error_pages = inner.error_pages.or_else(|| outer.error_pages.clone());
        inner.access = inner.access.or_else(|| outer.access.clone());
        inner.basic_auth = inner.basic_auth.or_else(|| outer.basic_auth.clone());
        inner.basic_auth_users = inner.basic_auth_users.or_else(|| outer.basic_auth_users.clone());
        inner.limit_requests = inner.limit_requests.or_else(|| outer.limit_requests.clone());
        inner.limit_connections = inner.limit_connections.or_else(|| outer.limit_connections.clone());
        inner.root = inner.root.or_else(|| outer.root.clone());
        inner.index = inner.index.or_else(|| outer.index.clone());
        inner.autoindex = inner.autoindex.or(outer.autoindex);
        inner.precompressed = inner.precompressed.or_else(|| outer.precompressed.clone());
        inner.compression = inner.compression.or_else(|| outer.compression.clone());
        inner.client_body_size = inner.client_body_size.or(outer.client_body_size);
        inner.proxy = match (&self.proxy, &outer.proxy) {
            (Some(own), Some(outer)) => {
                let joined = own.within(outer);
                Some(match own.place() {
                    Some(place) => Located::new(joined, place),
                    None => joined.into(),
                })
            }
            (own, outer) => own.as_ref().or(outer.as_ref()).cloned(),
        };
        inner.access_log = inner.access_log.or_else(|| outer.access_log.clone());
        inner
    }
}

/// Locations inside of a location. The reference describes them once, where they are not nested.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Nested(pub Vec<Location>);

impl Value for Nested {
    fn type_name() -> String {
        "list of tables".into()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Nested> {
        Vec::read(node, reader).map(Nested)
    }

    fn write(&self) -> Output {
        self.0.write()
    }
}

drover_config::table! {
    /// A fixed answer.
    #[table(inline)]
    pub struct Return {
        /// Status code; 444 closes the connection without an answer.
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

impl Return {
    /// An answer with nothing said but its status.
    pub fn with(status: u16) -> Return {
        Return { status, body: None, location: None, content_type: None, delay: None }
    }
}
