//! Encoded forms of a file: files that lie beside it, small ones made once and kept, large ones made on the way.
//!
//! Negotiation is by [RFC 9110, 12.5.3](https://www.rfc-editor.org/rfc/rfc9110#section-12.5.3). A file beside it
//! is a representation of its own with a strong tag. What is made here has the file's tag, weakened: its bytes
//! depend on the level and the library, so no range of it would fit to another answer's.

use std::cell::OnceCell;
use std::rc::Rc;

use super::open_file::{About, Content, OpenFile, not_modified, push_validators};
use super::store::FileStore;
use crate::conditional::{Decision, Target, Validators};
use crate::encoding::Coding;
use crate::encoding::accept::Accepted;
use crate::encoding::encoders::Lent;
use crate::exchange::{self, Answer, Request, Rest};
use crate::h1::name::Name;
use crate::response::{self, Fate};

/// What may be sent in place of a file.
#[derive(Default)]
pub(crate) struct Offers {
    /// Files beside it first, then what can be made; each in the order of the config.
    list: Vec<(Coding, Offer)>,
    /// Of what is made: those of the file, the tag weakened.
    weakened: Validators,
}

enum Offer {
    /// A file that is there.
    Sibling(Rc<OpenFile>),
    /// Made when it is first asked for; none if that was no gain.
    Made(OnceCell<Option<Rc<OpenFile>>>),
    /// Made anew on the way each time.
    Streamed,
}

/// A file that is encoded on its way.
pub(crate) struct Encoded {
    pub(crate) file: Rc<OpenFile>,
    pub(crate) encoder: Lent,
    pub(crate) size: u64,
    /// In chunks; else the end of the connection is that of the body.
    pub(crate) chunked: bool,
}

impl Offers {
    /// The offers of a file with these `siblings`, which can be `made` in other codings.
    pub(super) fn new(
        siblings: Vec<Rc<OpenFile>>,
        made: &[Coding],
        content: &Content,
        validators: &Validators,
    ) -> Offers {
        let sibling = |file: Rc<OpenFile>| Some((file.about.coding?, Offer::Sibling(file)));
        let mut list: Vec<(Coding, Offer)> = siblings.into_iter().filter_map(sibling).collect();
        for coding in made {
            if list.iter().any(|(there, _)| there == coding) {
                continue;
            }
            let how = match content {
                Content::Memory(_) => Offer::Made(OnceCell::new()),
                Content::Descriptor(_) => Offer::Streamed,
            };
            list.push((*coding, how));
        }
        Offers { list, weakened: validators.weakened() }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The files beside it.
    pub(super) fn siblings(&self) -> impl Iterator<Item = &Rc<OpenFile>> {
        self.list.iter().filter_map(|(_, offer)| match offer {
            Offer::Sibling(file) => Some(file),
            Offer::Made(_) | Offer::Streamed => None,
        })
    }
}

impl OpenFile {
    /// Answers in the coding that the client wants most.
    pub(super) fn negotiate(
        self: Rc<Self>,
        request: &Request<'_>,
        store: &FileStore,
        out: &mut Vec<u8>,
    ) -> Answer {
        let accepted = Accepted::of(request.head, request.bytes);
        // Who asks for a part, or for bytes known by a strong tag, wants those of a file.
        let wants_file =
            request.head.conditional && [Name::Range, Name::IfMatch].iter().any(|name| request.has(*name));
        let suits = |(_, offer): &&(Coding, Offer)| !wants_file || offer.is_file();
        let offered = || self.offers.list.iter().filter(suits);
        let chosen = accepted.choose(offered().map(|(coding, _)| *coding));
        let file = match chosen.and_then(|chosen| offered().nth(chosen)) {
            Some((_, Offer::Sibling(file))) => Rc::clone(file),
            Some((coding, Offer::Made(made))) => {
                let made = made.get_or_init(|| self.make(*coding, store));
                // Without gain it goes as it is.
                made.as_ref().map_or_else(|| Rc::clone(&self), Rc::clone)
            }
            Some((coding, Offer::Streamed)) => {
                let coding = *coding;
                return self.stream(coding, request, store, out);
            }
            None => self,
        };
        file.answer_as_it_is(request, out)
    }

    /// The whole file in a coding, if it is smaller so.
    fn make(&self, coding: Coding, store: &FileStore) -> Option<Rc<OpenFile>> {
        let Content::Memory(bytes) = &self.content else { return None };
        let encoded = store.encoders.whole(coding, bytes).filter(|encoded| encoded.len() < bytes.len())?;
        let about = About {
            validators: self.offers.weakened.clone(),
            content_type: Rc::clone(&self.about.content_type),
            coding: Some(coding),
            varies: true,
            max_ranges: 0,
            size: encoded.len() as u64,
        };
        let content = Content::Memory(encoded.into());
        Some(Rc::new(OpenFile::new(None, about, content, Offers::default(), &store.server)))
    }

    /// Begins an answer that is encoded on its way. Its length is not known: it is sent in chunks, or to a
    /// client of HTTP/1.0 up to the end of the connection (RFC 9112, 6.1 and 6.3).
    fn stream(
        self: Rc<Self>,
        coding: Coding,
        request: &Request<'_>,
        store: &FileStore,
        out: &mut Vec<u8>,
    ) -> Answer {
        let validators = &self.offers.weakened;
        let target = Target { validators, size: 0, max_ranges: 0, now: request.date };
        match target.decide(request.head, request.bytes) {
            Decision::NotModified => return not_modified(validators, true, request, out),
            Decision::PreconditionFailed => return exchange::page(request, 412, b"", out),
            Decision::Go(_) => {}
        }
        let size = self.about.size;
        let Some(encoder) = store.encoders.take(coding, Some(size)) else {
            return self.answer_as_it_is(request, out);
        };
        response::begin(out, 200, request.server, request.date);
        response::field(out, "Content-Type", self.about.content_type.as_bytes());
        push_validators(validators, true, out);
        response::field(out, "Content-Encoding", coding.name().as_bytes());
        let chunked = request.head.is_http11;
        let fate = if chunked { request.fate } else { Fate::Close };
        if chunked {
            response::field(out, "Transfer-Encoding", b"chunked");
        }
        out.extend_from_slice(fate.last_lines());
        let rest = match request.wants_body() {
            true => Rest::Encoded(Box::new(Encoded { file: self, encoder, size, chunked })),
            false => Rest::Nothing,
        };
        Answer { rest, closes: !chunked, ..Answer::complete(200, 0) }
    }
}

impl Offer {
    /// Whether its bytes are those of a file.
    fn is_file(&self) -> bool {
        matches!(self, Offer::Sibling(_))
    }
}
