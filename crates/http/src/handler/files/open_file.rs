//! A file that is served, and its answers: whole, in part, or none where the client has it already.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::rc::Rc;

use super::multipart::Parts;
use super::offers::Offers;
use super::store::FileStore;
use crate::conditional::{Decision, Target, Validators};
use crate::encoding::Coding;
use crate::exchange::{self, Answer, Request, Rest};
use crate::range::Ranges;
use crate::response::{self, DATE_LENGTH, Dated};

/// Bodies up to this size are copied behind their head; larger ones are sent from where they are.
const COPIED: usize = 4096;

/// Something with bytes that is served: what goes into the head, and the bytes or where to get them.
///
/// It is a state of a file that was current when it was opened. What is sent never has another length than its
/// head says: a file that grew is sent up to there, and one that shrank ends the connection.
pub(crate) struct OpenFile {
    /// Which file this is; none for what was made of others.
    pub(super) identity: Option<Identity>,
    pub(super) about: About,
    /// The head of a whole answer up to the connection's fate.
    head: Dated,
    pub(crate) content: Content,
    /// What may be sent in its place.
    pub(super) offers: Offers,
}

/// Where the bytes of a file are.
pub(crate) enum Content {
    /// Small ones are kept.
    Memory(Box<[u8]>),
    Descriptor(File),
}

/// What tells one state of a file from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
    pub(super) size: u64,
    pub(super) seconds: i64,
    nanoseconds: i64,
}

impl Identity {
    pub(super) fn of(metadata: &std::fs::Metadata) -> Identity {
        Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            seconds: metadata.mtime(),
            nanoseconds: metadata.mtime_nsec(),
        }
    }

    pub(super) fn validators(&self) -> Validators {
        Validators::of_file(self.seconds, u32::try_from(self.nanoseconds).unwrap_or(0), self.size)
    }
}

/// What heads say about some bytes.
pub(super) struct About {
    pub(super) validators: Validators,
    pub(super) content_type: Rc<str>,
    pub(super) coding: Option<Coding>,
    /// Other codings may be sent in answer to the same target.
    pub(super) varies: bool,
    /// Ranges that a request may ask for; 0 where there are none.
    pub(super) max_ranges: u32,
    pub(super) size: u64,
}

impl About {
    /// Appends what an answer with these bytes, or a part of them, says about them.
    fn push(&self, out: &mut Vec<u8>) {
        push_validators(&self.validators, self.varies, out);
        if let Some(coding) = self.coding {
            response::field(out, "Content-Encoding", coding.name().as_bytes());
        }
    }

    fn target<'a>(&'a self, request: &Request<'a>) -> Target<'a> {
        let (size, max_ranges) = (self.size, self.max_ranges);
        Target { validators: &self.validators, size, max_ranges, now: request.date }
    }
}

/// Appends what every answer about some bytes says, also the one that says that they did not change
/// (RFC 9110, 15.3.7 and 15.4.5). `varies` where other codings may be sent in answer to the same target.
pub(super) fn push_validators(validators: &Validators, varies: bool, out: &mut Vec<u8>) {
    if let Some(modified) = &validators.modified {
        response::field(out, "Last-Modified", &modified.date);
    }
    if !validators.etag.is_empty() {
        response::field(out, "ETag", &validators.etag);
    }
    if varies {
        response::field(out, "Vary", b"Accept-Encoding");
    }
}

/// Appends the answer 304.
pub(super) fn not_modified(
    validators: &Validators,
    varies: bool,
    request: &Request<'_>,
    out: &mut Vec<u8>,
) -> Answer {
    response::begin(out, 304, request.server, request.date);
    push_validators(validators, varies, out);
    out.extend_from_slice(request.fate.last_lines());
    Answer::complete(304, 0)
}

impl OpenFile {
    pub(super) fn new(
        identity: Option<Identity>,
        about: About,
        content: Content,
        offers: Offers,
        server: &str,
    ) -> OpenFile {
        let mut head = Vec::new();
        let date_at = response::begin(&mut head, 200, server, &[b' '; DATE_LENGTH]);
        response::field(&mut head, "Content-Type", about.content_type.as_bytes());
        response::content_length(&mut head, about.size);
        about.push(&mut head);
        if about.max_ranges > 0 {
            response::field(&mut head, "Accept-Ranges", b"bytes");
        }
        OpenFile { identity, about, head: Dated::new(head, date_at), content, offers }
    }

    #[inline]
    pub(super) fn answer(
        self: Rc<Self>,
        request: &Request<'_>,
        store: &FileStore,
        out: &mut Vec<u8>,
    ) -> Answer {
        if self.offers.is_empty() {
            self.answer_as_it_is(request, out)
        } else {
            self.negotiate(request, store, out)
        }
    }

    #[inline]
    pub(super) fn answer_as_it_is(self: Rc<Self>, request: &Request<'_>, out: &mut Vec<u8>) -> Answer {
        match self.about.target(request).decide(request.head, request.bytes) {
            Decision::Go(Ranges::Whole) => {
                self.head.push(out, request.date);
                out.extend_from_slice(request.fate.last_lines());
                let size = self.about.size;
                self.with_body(request, 200, 0..size, out)
            }
            decision => self.answer_otherwise(decision, request, out),
        }
    }

    fn answer_otherwise(
        self: Rc<Self>,
        decision: Decision,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Answer {
        let size = self.about.size;
        match decision {
            Decision::Go(Ranges::One(range)) => {
                let part = format!("bytes {}-{}/{size}", range.start, range.end - 1);
                self.begin_part(request, &self.about.content_type, range.end - range.start, out);
                response::field(out, "Content-Range", part.as_bytes());
                out.extend_from_slice(request.fate.last_lines());
                self.with_body(request, 206, range, out)
            }
            Decision::Go(Ranges::Several(ranges)) => {
                let parts = Parts::new(Rc::clone(&self), ranges, &self.about.content_type, size);
                self.begin_part(request, &parts.content_type(), parts.length(), out);
                out.extend_from_slice(request.fate.last_lines());
                Answer { rest: Rest::Parts(Box::new(parts)), ..Answer::complete(206, 0) }
            }
            Decision::Go(_) => {
                let field = format!("Content-Range: bytes */{size}\r\n");
                exchange::page(request, 416, field.as_bytes(), out)
            }
            Decision::NotModified => not_modified(&self.about.validators, self.about.varies, request, out),
            Decision::PreconditionFailed => exchange::page(request, 412, b"", out),
        }
    }

    /// Appends what all answers with a part begin with.
    fn begin_part(&self, request: &Request<'_>, content_type: &str, length: u64, out: &mut Vec<u8>) {
        response::begin(out, 206, request.server, request.date);
        response::field(out, "Content-Type", content_type.as_bytes());
        response::content_length(out, length);
        self.about.push(out);
    }

    #[inline]
    fn with_body(
        self: Rc<Self>,
        request: &Request<'_>,
        status: u16,
        range: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Answer {
        if !request.wants_body() || range.is_empty() {
            return Answer::complete(status, 0);
        }
        if let Content::Memory(bytes) = &self.content
            && bytes.len() <= COPIED
        {
            let part = &bytes[range.start as usize..range.end as usize];
            out.extend_from_slice(part);
            return Answer::complete(status, part.len());
        }
        Answer { rest: Rest::File(self, range), ..Answer::complete(status, 0) }
    }
}

impl Content {
    /// The content of a file of `identity.size` bytes, which is corrected if it is shorter by now. Up to `small`
    /// bytes are read at once.
    pub(super) fn of(file: File, identity: &mut Identity, small: u64) -> io::Result<Content> {
        if identity.size > small {
            return Ok(Content::Descriptor(file));
        }
        let mut bytes = vec![0; identity.size as usize];
        let length = read_at(&file, &mut bytes)?;
        bytes.truncate(length);
        identity.size = length as u64;
        Ok(Content::Memory(bytes.into()))
    }
}

/// Reads from the start of a file until `bytes` are full or it ends.
fn read_at(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(length)
}
