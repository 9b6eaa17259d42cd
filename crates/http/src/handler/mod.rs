//! Handlers: what answers a request once its location is known.

pub(crate) mod files;
pub(crate) mod fixed;
pub(crate) mod proxy;
pub(crate) mod status;

use crate::exchange::{self, Answer, Request, Rest};
use crate::h1::method::Method;
use crate::response::Prepared;

/// What a location does.
#[derive(Debug)]
pub(crate) enum Handler {
    /// A fixed answer.
    Fixed(fixed::Fixed),
    /// Files beneath a root.
    Files(files::Files),
    /// A server of an upstream.
    Proxy(Box<proxy::Proxy>),
    /// How the daemon is.
    Status(status::Status),
    /// Nothing is there.
    Nothing,
}

/// The methods of requests that are passed on, and others that we have no number for.
const PASSED_ON: &[u8] = b"Allow: GET, HEAD, POST, PUT, DELETE, OPTIONS, PATCH\r\n";

impl Handler {
    /// Its answer, where that depends on nothing but the date, the method and the connection's fate.
    #[inline]
    pub(crate) fn prepared(&self) -> Option<&Prepared> {
        match self {
            Handler::Fixed(fixed) => fixed.prepared(),
            Handler::Files(_) | Handler::Proxy(_) | Handler::Status(_) | Handler::Nothing => None,
        }
    }

    /// Answers `request` into `out`.
    #[inline]
    pub(crate) fn answer(
        &self,
        request: &Request<'_>,
        store: &files::store::FileStore,
        out: &mut Vec<u8>,
    ) -> Answer {
        match self {
            Handler::Fixed(fixed) => fixed.answer(request, store.encoders(), out),
            Handler::Files(files) => files.answer(request, store, out),
            // RFC 9110, 9.3.8: what comes back may hold what only servers are to know.
            Handler::Proxy(_) if request.head.method == Method::Trace => {
                exchange::page(request, 405, PASSED_ON, out)
            }
            Handler::Proxy(_) => proxy::max_forwards::answer(request, PASSED_ON, out)
                .unwrap_or_else(|| Answer { rest: Rest::Proxy, ..Answer::complete(0, 0) }),
            Handler::Status(status) => status.answer(request, out),
            Handler::Nothing => exchange::page(request, 404, b"", out),
        }
    }
}
