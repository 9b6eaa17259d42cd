//! Handlers: what answers a request once its location is known.

pub(crate) mod files;
pub(crate) mod fixed;

use crate::exchange::{self, Answer, Request};
use crate::response::Prepared;

/// What a location does.
#[derive(Debug)]
pub(crate) enum Handler {
    /// A fixed answer.
    Fixed(fixed::Fixed),
    /// Files beneath a root.
    Files(files::Files),
    /// Nothing is there.
    Nothing,
}

impl Handler {
    /// Its answer, where that depends on nothing but the date, the method and the connection's fate.
    #[inline]
    pub(crate) fn prepared(&self) -> Option<&Prepared> {
        match self {
            Handler::Fixed(fixed) => fixed.prepared(),
            Handler::Files(_) | Handler::Nothing => None,
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
            Handler::Fixed(fixed) => fixed.answer(request, out),
            Handler::Files(files) => files.answer(request, store, out),
            Handler::Nothing => exchange::page(request, 404, b"", out),
        }
    }
}
