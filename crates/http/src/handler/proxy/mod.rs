//! The reverse proxy: a request is passed on to a server of an upstream, and its response back to the client.
//!
//! Read [`exchange`] first: one request, from top to bottom. Beside it stand the heads that go out
//! ([`forward`] with [`max_forwards`], [`respond`]), the bodies ([`upload`] and [`download`], with [`reframe`] where the framing changes and
//! [`encode`] where the coding does),
//! what goes wrong ([`fault`]) and what follows from it ([`verdict`]).
//!
//! Invariants: nothing is repeated that a server may have acted on, unless twice is as good as once; a response
//! that is not whole never looks whole to the client; a connection with a server is used again only if the
//! response on it was whole and nothing followed it. What a slow side holds up is at most one scratch buffer of
//! the worker, one kernel pipe and two socket buffers in each direction, and on a disk, where the config wants that
//! ([`collect`], [`buffered`], [`spool`]), as much as it allows.

mod buffered;
mod choice;
mod collect;
mod download;
mod encode;
pub(crate) mod examined;
mod exchange;
mod fault;
mod forward;
pub(crate) mod max_forwards;
mod memory;
mod redirects;
mod reframe;
mod respond;
mod spool;
mod tunnel;
mod upload;
mod verdict;

use std::time::Duration;

use drover_config::Size;
use drover_service::TemplateError;
use drover_upstream::Cause;
use drover_upstream::proxy_protocol::Version;

use crate::config;
use crate::config::Failure;
use crate::encoding::compression::Compression;
use crate::h1::head::Limits;
use crate::h1::method::Method;
use crate::own::OwnVariables;

pub(crate) use choice::Choice;
pub(crate) use exchange::pass_on;
pub(crate) use memory::{Memory, Told, Trail};

/// A location that passes requests on.
#[derive(Debug)]
pub(crate) struct Proxy {
    upstream: Choice,
    forward: forward::Forward,
    redirects: redirects::Redirects,
    /// Error pages stand for errors of servers.
    intercepts: bool,
    /// Bounds on the heads of responses.
    limits: Limits,
    send_timeout: Duration,
    read_timeout: Duration,
    tunnel_timeout: Duration,
    ignores_abort: bool,
    retry: Retry,
    buffering: spool::Buffering,
    /// Codings in which responses go out that have none.
    compression: Compression,
    /// The header that is sent first, on a connection of the client's own.
    proxy_protocol: Option<Version>,
}

/// How a location and its upstream go together.
pub(crate) struct Destination<'a> {
    pub(crate) upstream: Choice,
    /// What `proxy_pass` says.
    pub(crate) pass: config::ProxyPass<'a>,
    /// How many bytes of a path the location's own path takes.
    pub(crate) matched: usize,
    /// The most fields of a head.
    pub(crate) max_headers: usize,
}

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
const DEFAULT_TUNNEL_TIMEOUT: Duration = Duration::from_secs(3600);
/// Where bodies are buffered if the config says nothing.
const DEFAULT_BUFFER_DIR: &str = "/var/tmp";
/// The largest head of a response where the config says nothing.
pub(crate) const DEFAULT_HEADER_SIZE: usize = 16 * 1024;

impl Proxy {
    /// Compiles the rules of a location.
    pub(crate) fn new(
        config: &config::Proxy,
        to: &Destination<'_>,
        compression: Compression,
        own: &OwnVariables,
    ) -> Result<Proxy, TemplateError> {
        Ok(Proxy {
            upstream: to.upstream.clone(),
            forward: forward::Forward::new(config, to, own)?,
            redirects: redirects::Redirects::new(&config.redirects),
            intercepts: config.intercept_errors.unwrap_or(false),
            limits: Limits {
                size: config.header_size.map_or(DEFAULT_HEADER_SIZE, |size| size.as_usize()),
                max_headers: to.max_headers,
                keep_odd_names: true,
            },
            send_timeout: config.send_timeout.unwrap_or(DEFAULT_TIMEOUT),
            read_timeout: config.read_timeout.unwrap_or(DEFAULT_TIMEOUT),
            tunnel_timeout: config.tunnel_timeout.unwrap_or(DEFAULT_TUNNEL_TIMEOUT),
            ignores_abort: config.ignore_client_abort.unwrap_or(false),
            retry: Retry::new(config),
            buffering: spool::Buffering {
                directory: config
                    .buffer_dir
                    .as_ref()
                    .map_or_else(|| DEFAULT_BUFFER_DIR.into(), |own| own.to_path_buf()),
                requests: config.buffer_requests.map_or(0, Size::bytes),
                responses: config.buffer_responses.map_or(0, Size::bytes),
            },
            compression,
            proxy_protocol: config.proxy_protocol.as_ref().map(|version| **version),
        })
    }
}

/// When another server is tried.
#[derive(Debug)]
struct Retry {
    error: bool,
    timeout: bool,
    invalid: bool,
    statuses: Vec<u16>,
    non_idempotent: bool,
    within: Option<Duration>,
}

impl Retry {
    fn new(config: &config::Proxy) -> Retry {
        let own = config.next_upstream.as_deref();
        let failures = own.unwrap_or(&[Failure::Error, Failure::Timeout]);
        let has = |failure| failures.contains(&failure);
        Retry {
            error: has(Failure::Error),
            timeout: has(Failure::Timeout),
            invalid: has(Failure::InvalidHeader),
            statuses: failures.iter().filter_map(|failure| failure.status()).collect(),
            non_idempotent: has(Failure::NonIdempotent),
            within: config.next_upstream_timeout,
        }
    }

    /// Whether this cause lets another server be tried, as far as the config goes.
    fn allows(&self, cause: Cause) -> bool {
        match cause {
            Cause::ConnectTimedOut | Cause::SendTimedOut | Cause::ReceiveTimedOut => self.timeout,
            Cause::Refused | Cause::Closed | Cause::Reset => self.error,
            Cause::Invalid => self.invalid,
            Cause::Answer => true,
            Cause::Local => false,
        }
    }

    /// Whether a request of this method may reach servers twice
    /// ([RFC 9110, 9.2.2](https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2)).
    fn repeats(&self, method: Method) -> bool {
        let idempotent = match method {
            Method::Get | Method::Head | Method::Put | Method::Delete | Method::Options | Method::Trace => {
                true
            }
            Method::Post | Method::Patch | Method::Connect | Method::Other => false,
        };
        idempotent || self.non_idempotent
    }
}
