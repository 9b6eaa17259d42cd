//! One request and its answer: what handlers are given and what they give back.

use std::ops::Range;
use std::rc::Rc;

use drover_event::Millis;

use crate::error_pages::ErrorPages;
use crate::h1::head::Head;
use crate::h1::method::Method;
use crate::h1::name::Name;
use crate::handler::files::multipart::Parts;
use crate::handler::files::offers::Encoded;
use crate::handler::files::open_file::OpenFile;
use crate::response::{self, Date, Fate};
use crate::variables::Template;

/// A request as handlers see it. They know no socket and no clock.
pub(crate) struct Request<'a> {
    pub(crate) head: &'a Head,
    /// The bytes the head was parsed from.
    pub(crate) bytes: &'a [u8],
    /// What becomes of the connection after the answer.
    pub(crate) fate: Fate,
    pub(crate) date: &'a Date,
    pub(crate) now: Millis,
    /// The value of the field `Server`.
    pub(crate) server: &'a str,
    /// What is shown instead of bare errors.
    pub(crate) error_pages: Option<&'a ErrorPages>,
    /// Appends a text with the values of its variables.
    pub(crate) render: &'a dyn Fn(&Template, &mut Vec<u8>),
}

impl Request<'_> {
    /// The path that is matched and looked up.
    pub(crate) fn path(&self) -> &[u8] {
        self.head.path(self.bytes)
    }

    /// Whether a field of this name is there.
    pub(crate) fn has(&self, name: Name) -> bool {
        self.head.values(name, self.bytes).next().is_some()
    }

    /// Whether the answer has a body, where its status allows one.
    pub(crate) fn wants_body(&self) -> bool {
        self.head.method != Method::Head
    }
}

/// The part of an answer's body that does not stand in the output yet.
pub(crate) enum Rest {
    Nothing,
    /// A range of a file, from memory or from the file itself.
    File(Rc<OpenFile>, Range<u64>),
    /// All of it, and the head too: the request is to be passed on.
    Proxy,
    /// Several ranges of a file.
    Parts(Box<Parts>),
    /// A file that is encoded on its way.
    Encoded(Box<Encoded>),
    /// Nothing is answered here: the request goes on elsewhere. Nothing of the answer stands in the output.
    Elsewhere(Box<Elsewhere>),
}

/// Where a request goes on within drover: an internal redirect.
#[derive(Debug)]
pub(crate) enum Elsewhere {
    /// At an error page of the location at hand, by number, for an error with this status and these fields
    /// (whole lines).
    Page(usize, u16, Vec<u8>),
    /// At a path, decoded, with this query or none.
    Path(Vec<u8>, Option<Vec<u8>>),
    /// At a named location, by number among the plan's.
    Named(u32),
}

/// An answer, begun: its head stands in the output.
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Bytes of the body that stand in the output.
    pub(crate) body: usize,
    pub(crate) rest: Rest,
    /// The head says that the connection closes, whatever was to become of it.
    pub(crate) closes: bool,
}

impl Answer {
    pub(crate) fn complete(status: u16, body: usize) -> Answer {
        Answer { status, body, rest: Rest::Nothing, closes: false }
    }

    /// No answer: the request goes on elsewhere.
    pub(crate) fn elsewhere(status: u16, to: Elsewhere) -> Answer {
        Answer { rest: Rest::Elsewhere(Box::new(to)), ..Answer::complete(status, 0) }
    }
}

/// Appends an answer with these `fields` (whole lines) and a small page as its body, unless the location has an
/// error page for the status.
pub(crate) fn page(request: &Request<'_>, status: u16, fields: &[u8], out: &mut Vec<u8>) -> Answer {
    if let Some(page) = request.error_pages.and_then(|pages| pages.find(status)) {
        return Answer::elsewhere(status, Elsewhere::Page(page, status, fields.to_vec()));
    }
    let page = response::page(status, request.server);
    with_body(request, status, fields, response::PAGE_TYPE, &page, out)
}

/// Appends an answer with these `fields` (whole lines) and `body`.
pub(crate) fn with_body(
    request: &Request<'_>,
    status: u16,
    fields: &[u8],
    content_type: &str,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Answer {
    response::begin(out, status, request.server, request.date);
    out.extend_from_slice(fields);
    if response::has_no_content(status) {
        out.extend_from_slice(request.fate.last_lines());
        return Answer::complete(status, 0);
    }
    if !body.is_empty() {
        response::field(out, "Content-Type", content_type.as_bytes());
    }
    response::content_length(out, body.len() as u64);
    out.extend_from_slice(request.fate.last_lines());
    if !request.wants_body() {
        return Answer::complete(status, 0);
    }
    out.extend_from_slice(body);
    Answer::complete(status, body.len())
}
