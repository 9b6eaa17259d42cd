//! `proxy_pass` and `[http.proxy]`: how requests are passed to upstreams.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use drover_config::{Located, Size};
use drover_upstream::proxy_protocol::Version;

use super::{LONGEST, SHORTEST};

drover_config::choice! {
    /// What lets another server of an upstream be tried.
    pub enum Failure {
        /// No connection, or one that broke before an answer.
        Error = "error",
        /// No connection or no answer in time.
        Timeout = "timeout",
        /// An answer whose head is none.
        InvalidHeader = "invalid_header",
        /// An answer with this status.
        Http403 = "http_403",
        /// An answer with this status.
        Http404 = "http_404",
        /// An answer with this status.
        Http429 = "http_429",
        /// An answer with this status.
        Http500 = "http_500",
        /// An answer with this status.
        Http502 = "http_502",
        /// An answer with this status.
        Http503 = "http_503",
        /// An answer with this status.
        Http504 = "http_504",
        /// All of these also where the method is not idempotent and a server may have received the request.
        NonIdempotent = "non_idempotent",
    }
}

impl Failure {
    /// The status that is meant, if one is.
    pub(crate) fn status(self) -> Option<u16> {
        Some(match self {
            Failure::Http403 => 403,
            Failure::Http404 => 404,
            Failure::Http429 => 429,
            Failure::Http500 => 500,
            Failure::Http502 => 502,
            Failure::Http503 => 503,
            Failure::Http504 => 504,
            Failure::Error | Failure::Timeout | Failure::InvalidHeader | Failure::NonIdempotent => {
                return None;
            }
        })
    }
}

drover_config::choice! {
    /// How an upstream is told whom it answers.
    pub enum Forwarded {
        /// X-Forwarded-For, X-Forwarded-Proto and X-Forwarded-Host.
        XForwarded = "x_forwarded",
        /// Forwarded (RFC 7239).
        Forwarded = "forwarded",
        /// Both.
        Both = "both",
        /// Not at all; what the client sent in such fields is passed on.
        Off = "off",
    }
}

drover_config::table! {
    /// How requests are passed to upstreams.
    pub struct Proxy {
        /// Time between two sends to a server; else 1m.
        #[range = SHORTEST..=LONGEST]
        #[example = "\"1m\""]
        pub send_timeout: Option<Duration> = None,
        /// Time between two receives from a server; else 1m.
        #[range = SHORTEST..=LONGEST]
        #[example = "\"1m\""]
        pub read_timeout: Option<Duration> = None,
        /// What lets another server be tried while nothing of an answer is passed on; else ["error", "timeout"].
        #[example = "[\"error\", \"timeout\", \"http_503\"]"]
        pub next_upstream: Option<Vec<Failure>> = None,
        /// Time after which no further server is tried; else there is no limit.
        #[range = SHORTEST..=LONGEST]
        #[example = "\"10s\""]
        pub next_upstream_timeout: Option<Duration> = None,
        /// Changes to the fields of requests.
        pub request_headers: RequestHeaders = RequestHeaders::default(),
        /// How servers are told of the client; else "x_forwarded".
        #[example = "\"x_forwarded\""]
        pub forwarded: Option<Forwarded> = None,
        /// Whether such fields of the client's are added to rather than replaced; else false.
        #[example = "false"]
        pub trust_forwarded: Option<bool> = None,
        /// What drover calls itself in the field Via of requests, by which loops are found and versions are known; "off" for
        /// no such field; else "drover".
        #[example = "\"drover\""]
        pub via: Option<Located<String>> = None,
        /// Protocols that clients may change to; else ["websocket"].
        #[example = "[\"websocket\"]"]
        pub upgrade: Option<Vec<Located<String>>> = None,
        /// Time that a connection with another protocol may be silent; else 1h.
        #[range = SHORTEST..=LONGEST]
        #[example = "\"1h\""]
        pub tunnel_timeout: Option<Duration> = None,
        /// The largest head of a response; else 16k.
        #[range = Size::from_bytes(256)..=Size::megabytes(1)]
        #[example = "\"16k\""]
        pub header_size: Option<Size> = None,
        /// Whether a request goes on when its client has closed; else false.
        #[example = "false"]
        pub ignore_client_abort: Option<bool> = None,
        /// Whether error pages stand for errors that servers answer with; else false.
        #[example = "true"]
        pub intercept_errors: Option<bool> = None,
        /// Beginnings of Location in responses, and what stands in their place.
        #[example = "\"http://127.0.0.1:9000/\" = \"/\""]
        pub redirects: BTreeMap<String, String> = BTreeMap::new(),
        /// The largest body of a request that is received whole, on a disk if it is long, before a server is asked;
        /// else "0b": bodies go on as they come.
        #[example = "\"16m\""]
        pub buffer_requests: Option<Size> = None,
        /// The most of a response that waits on a disk for a client that is slower than the server; else "0b": the
        /// server waits.
        #[example = "\"64m\""]
        pub buffer_responses: Option<Size> = None,
        /// Directory for both, in which workers may write; else "/var/tmp".
        #[example = "\"/var/tmp\""]
        pub buffer_dir: Option<Located<PathBuf>> = None,
        /// The PROXY protocol, by which servers are told of the client before its request: "v1" or "v2". Each request
        /// then has a connection of its own; else there is none.
        #[example = "\"v2\""]
        pub proxy_protocol: Option<Located<Version>> = None,
    }
}

drover_config::table! {
    /// Changes to the fields of requests that are passed on.
    #[table(inline)]
    pub struct RequestHeaders {
        /// Fields by name, and the texts with variables that are their values instead of the client's; "" for none.
        #[example = "{ X-Real-IP = \"$remote_addr\" }"]
        pub set: BTreeMap<String, Located<String>> = BTreeMap::new(),
        /// Fields by name that are added to the client's.
        #[example = "{ X-Gateway = \"$pid\" }"]
        pub add: BTreeMap<String, Located<String>> = BTreeMap::new(),
        /// Names of fields that are taken out.
        pub remove: Vec<Located<String>> = Vec::new(),
    }
}

impl RequestHeaders {
    /// These changes and those of `outer`, but to fields that are set here.
    fn within(&self, outer: &RequestHeaders) -> RequestHeaders {
        let is_set = |name: &str| self.set.keys().any(|known| known.eq_ignore_ascii_case(name));
        let mut joined = self.clone();
        let outer_set = outer.set.iter().filter(|(name, _)| !is_set(name));
        joined.set.extend(outer_set.map(|(name, text)| (name.clone(), text.clone())));
        for (name, text) in outer.add.iter().filter(|(name, _)| !is_set(name)) {
            joined.add.entry(name.clone()).or_insert_with(|| text.clone());
        }
        joined.remove.extend(outer.remove.iter().cloned());
        joined
    }
}

impl Proxy {
    /// This, and where it is silent what `outer` says.
    pub(crate) fn within(&self, outer: &Proxy) -> Proxy {
        Proxy {
            send_timeout: self.send_timeout.or(outer.send_timeout),
            read_timeout: self.read_timeout.or(outer.read_timeout),
            next_upstream: self.next_upstream.clone().or_else(|| outer.next_upstream.clone()),
            next_upstream_timeout: self.next_upstream_timeout.or(outer.next_upstream_timeout),
            request_headers: self.request_headers.within(&outer.request_headers),
            forwarded: self.forwarded.or(outer.forwarded),
            trust_forwarded: self.trust_forwarded.or(outer.trust_forwarded),
            via: self.via.clone().or_else(|| outer.via.clone()),
            upgrade: self.upgrade.clone().or_else(|| outer.upgrade.clone()),
            tunnel_timeout: self.tunnel_timeout.or(outer.tunnel_timeout),
            header_size: self.header_size.or(outer.header_size),
            ignore_client_abort: self.ignore_client_abort.or(outer.ignore_client_abort),
            intercept_errors: self.intercept_errors.or(outer.intercept_errors),
            redirects: if self.redirects.is_empty() { &outer.redirects } else { &self.redirects }.clone(),
            buffer_requests: self.buffer_requests.or(outer.buffer_requests),
            buffer_responses: self.buffer_responses.or(outer.buffer_responses),
            buffer_dir: self.buffer_dir.clone().or_else(|| outer.buffer_dir.clone()),
            proxy_protocol: self.proxy_protocol.or(outer.proxy_protocol),
        }
    }
}

/// What `proxy_pass` says: `http://SERVER`, or `http://SERVER/path`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProxyPass<'a> {
    /// The name of an upstream, or an address.
    pub server: &'a str,
    /// What stands in place of the location's path.
    pub path: Option<&'a str>,
}

impl<'a> ProxyPass<'a> {
    /// Takes the text apart.
    ///
    /// # Errors
    /// What is wrong, in a few words.
    pub fn parse(text: &'a str) -> Result<ProxyPass<'a>, &'static str> {
        if text.starts_with("https://") {
            return Err("servers are talked to in plain HTTP only");
        }
        let rest = text.strip_prefix("http://").ok_or("must begin with \"http://\"")?;
        // The path of a unix socket ends at a colon: "http://unix:/run/app.sock:/path".
        let (server, path) = match rest.strip_prefix("unix:").and_then(|socket| socket.find(':')) {
            Some(at) => (&rest[..at + 5], Some(&rest[at + 6..])),
            None if rest.starts_with("unix:") => (rest, None),
            None => match rest.find('/') {
                Some(at) => (&rest[..at], Some(&rest[at..])),
                None => (rest, None),
            },
        };
        if server.is_empty() || server == "unix:" {
            return Err("the server is missing");
        }
        if server.contains(['?', '#', '@', ' ']) {
            return Err("a server is the name of an upstream, or an address");
        }
        if path.is_some_and(|path| !path.starts_with('/')) {
            return Err("the path must begin with \"/\"");
        }
        if path
            .is_some_and(|path| path.bytes().any(|byte| !byte.is_ascii_graphic() || b"?#$".contains(&byte)))
        {
            return Err("the path is visible ASCII, without `?`, `#` and variables");
        }
        Ok(ProxyPass { server, path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_or_without_a_path() {
        for (text, server, path) in [
            ("http://app", "app", None),
            ("http://app/", "app", Some("/")),
            ("http://127.0.0.1:9000/base/", "127.0.0.1:9000", Some("/base/")),
            ("http://[::1]:9000", "[::1]:9000", None),
            ("http://unix:/run/app.sock", "unix:/run/app.sock", None),
            ("http://unix:/run/app.sock:/x", "unix:/run/app.sock", Some("/x")),
        ] {
            assert_eq!(ProxyPass::parse(text), Ok(ProxyPass { server, path }), "{text}");
        }
        for text in [
            "app",
            "http://",
            "https://app",
            "http:///x",
            "http://unix:",
            "http://u@h",
            "http://a/?b",
            "http://unix:/a:b",
        ] {
            assert!(ProxyPass::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_location_says_more_than_the_whole() {
        let text = |text: &str| Located::from(text.to_owned());
        let set = |fields: &[(&str, &str)]| RequestHeaders {
            set: fields.iter().map(|(name, value)| ((*name).to_owned(), text(value))).collect(),
            ..RequestHeaders::default()
        };
        let outer = Proxy {
            read_timeout: Some(Duration::from_secs(5)),
            send_timeout: Some(Duration::from_secs(6)),
            request_headers: set(&[("Host", "a"), ("X-B", "b")]),
            ..Proxy::default()
        };
        let own = Proxy {
            read_timeout: Some(Duration::from_secs(1)),
            request_headers: set(&[("host", "c")]),
            ..Proxy::default()
        };
        let both = own.within(&outer);
        assert_eq!((both.read_timeout, both.send_timeout), (own.read_timeout, outer.send_timeout));
        let names: Vec<&str> = both.request_headers.set.keys().map(String::as_str).collect();
        assert_eq!(names, ["X-B", "host"]);
    }
}
