//! The head of a request: request line and fields.
//!
//! `httparse` finds the parts; what it lets pass though it could be read in two ways is refused here. The
//! result is compact: ranges into the bytes received and numbers of known names, so that a head costs no
//! allocation. Bytes come in as a slice; no socket and no clock is known here.
//!
//! Invariant: the answer depends on the bytes alone, never on how they were split. Feeding a prefix gives
//! `Partial` until the answer is certain, and that answer then stays, whatever follows.

use std::mem::MaybeUninit;

use super::framing::{Framing, Notes, Options};
use super::method::Method;
use super::name::{Look, Name};
use super::rule::{Refusal, Rule};
use super::scan;
use super::target::{self, Form, Target};
use crate::path;

/// Bounds on a head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of the whole head, request line and empty lines included.
    pub(crate) size: usize,
    /// Number of fields.
    pub(crate) max_headers: usize,
    /// Keep fields with `_` or `.` in their names instead of dropping them.
    pub(crate) keep_odd_names: bool,
}

/// A range of the head's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    #[inline]
    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }

    /// Where `part`, a piece of `whole`, lies in it.
    #[inline]
    pub(super) fn within(whole: &[u8], part: &[u8]) -> Span {
        let start = (part.as_ptr() as usize - whole.as_ptr() as usize) as u32;
        Span { start, end: start + part.len() as u32 }
    }

    /// What of `whole` lies between the beginnings of `from` and `to`, pieces of it.
    #[inline]
    pub(super) fn between(whole: &[u8], from: &[u8], to: &[u8]) -> Span {
        Span { start: Span::within(whole, from).start, end: Span::within(whole, to).start }
    }
}

/// One field line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Field {
    pub(crate) id: Name,
    pub(crate) name: Span,
    pub(crate) value: Span,
}

/// A parsed head. Kept by the worker and filled anew for each request.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) method: Method,
    pub(crate) method_span: Span,
    pub(crate) target: Target,
    /// HTTP/1.1, not 1.0.
    pub(crate) is_http11: bool,
    /// Host, or the authority of an absolute target; as received.
    pub(crate) host: Option<Span>,
    pub(crate) framing: Framing,
    /// What the client says about the connection.
    pub(crate) connection: Options,
    /// Some field makes the request conditional or asks for a range.
    pub(crate) conditional: bool,
    /// The client waits for `100 Continue`.
    pub(crate) expects_continue: bool,
    pub(crate) fields: Vec<Field>,
    /// The normal path, unless the target's path is [plain](Target::plain).
    pub(crate) decoded_path: Vec<u8>,
    /// The query, where a rule or an internal redirect [replaced](Target::replaced) it; empty for none.
    pub(crate) new_query: Vec<u8>,
}

/// What some bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    /// A head of so many bytes.
    Complete(usize),
    /// The beginning of a head.
    Partial,
}

/// Fields that are parsed without allocating; a higher `max_headers` takes memory for each head.
const FIELDS_ON_STACK: usize = 128;

impl Head {
    /// Reads the head that `input` begins with.
    ///
    /// The usual head is read the [short way](super::usual), every other by `httparse`.
    #[inline(never)]
    pub(crate) fn parse(&mut self, input: &[u8], limits: &Limits) -> Result<Status, Refusal> {
        let window = &input[..input.len().min(limits.size)];
        match self.parse_usual(window, limits) {
            Some(length) => Ok(Status::Complete(length)),
            None => self.parse_generally(window, limits),
        }
    }

    #[cold]
    pub(super) fn parse_generally(&mut self, window: &[u8], limits: &Limits) -> Result<Status, Refusal> {
        if limits.max_headers <= FIELDS_ON_STACK {
            let mut fields = [const { MaybeUninit::uninit() }; FIELDS_ON_STACK];
            self.parse_into(window, limits, &mut fields[..limits.max_headers])
        } else {
            let mut fields = vec![MaybeUninit::uninit(); limits.max_headers];
            self.parse_into(window, limits, &mut fields)
        }
    }

    fn parse_into<'b>(
        &mut self,
        window: &'b [u8],
        limits: &Limits,
        fields: &mut [MaybeUninit<httparse::Header<'b>>],
    ) -> Result<Status, Refusal> {
        let skipped = leading_empty_lines(window);
        let bytes = &window[skipped..];
        // `httparse` would pass over it as an empty line.
        if bytes.first() == Some(&b'\n') {
            return Err(Refusal::new(Rule::BareLf, skipped));
        }
        let mut request = httparse::Request::new(&mut []);
        match request.parse_with_uninit_headers(bytes, fields) {
            Ok(httparse::Status::Complete(length)) => {
                self.fill(&window[..skipped + length], &request, limits)?;
                Ok(Status::Complete(skipped + length))
            }
            Ok(httparse::Status::Partial) => partial(window, skipped, limits),
            Err(_) => match scan::first_fault(bytes, limits) {
                Some(refusal) => Err(Refusal::new(refusal.rule, refusal.offset + skipped)),
                None => partial(window, skipped, limits),
            },
        }
    }

    /// Takes over what `httparse` found in `head`, and checks what it does not.
    fn fill(
        &mut self,
        head: &[u8],
        request: &httparse::Request<'_, '_>,
        limits: &Limits,
    ) -> Result<(), Refusal> {
        let method = request.method.unwrap_or_default().as_bytes();
        let target = Span::within(head, request.path.unwrap_or_default().as_bytes());
        self.method = Method::of(method);
        self.method_span = Span::within(head, method);
        self.is_http11 = request.version == Some(1);
        self.target = target::parse(head, target, self.method)?;
        ends_with_cr(head, target.end as usize + " HTTP/1.1".len())?;
        self.begin_fields();
        // What follows CONNECT is meant for somebody else.
        self.connection.close = self.target.form == Form::Authority;
        let mut notes = Notes::default();
        for field in request.headers.iter() {
            ends_with_cr(head, Span::within(head, field.value).end as usize)?;
            self.take_field(head, field.name.as_bytes(), field.value, limits, &mut notes)?;
        }
        if !head.ends_with(b"\r\n") {
            return Err(Refusal::new(Rule::BareLf, head.len() - 1));
        }
        self.conclude(head, &notes)
    }

    /// Forgets the fields of the head before.
    #[inline]
    pub(super) fn begin_fields(&mut self) {
        self.host = None;
        self.framing = Framing::None;
        self.connection = Options::default();
        self.conditional = false;
        self.expects_continue = false;
        self.fields.clear();
    }

    /// Takes a field, unless its name is to be dropped. `name` and `value` are pieces of `head`.
    #[inline(always)]
    pub(super) fn take_field(
        &mut self,
        head: &[u8],
        name: &[u8],
        value: &[u8],
        limits: &Limits,
        notes: &mut Notes,
    ) -> Result<(), Refusal> {
        let id = Name::of(name);
        let (name_span, value_span) = (Span::within(head, name), Span::within(head, value));
        match id {
            Name::Other => match Look::of(head, name_span) {
                Look::Odd if !limits.keep_odd_names => return Ok(()),
                Look::Usual | Look::Odd => {}
                Look::Invalid => return Err(Refusal::new(Rule::NameByte, name_span.start as usize)),
            },
            Name::Host => self.note_host(head, value_span)?,
            _ => self.note(id, value, value_span.start as usize, notes)?,
        }
        self.fields.push(Field { id, name: name_span, value: value_span });
        Ok(())
    }

    #[inline]
    fn note_host(&mut self, head: &[u8], value: Span) -> Result<(), Refusal> {
        if self.host.is_some() {
            return Err(Refusal::new(Rule::HostRepeated, value.start as usize));
        }
        if !target::is_host(head, value) {
            return Err(Refusal::new(Rule::HostInvalid, value.start as usize));
        }
        self.host = Some(value);
        Ok(())
    }

    /// What another field says about the message itself. Its value begins `at` there.
    fn note(&mut self, id: Name, value: &[u8], at: usize, notes: &mut Notes) -> Result<(), Refusal> {
        match id {
            Name::ContentLength => notes.take_length(value, at)?,
            Name::TransferEncoding => notes.take_encoding(value, at)?,
            Name::Connection => self.connection.take(value),
            Name::Expect => {
                if !value.eq_ignore_ascii_case(b"100-continue") {
                    return Err(Refusal::new(Rule::ExpectUnknown, at));
                }
                self.expects_continue = true;
            }
            Name::IfMatch
            | Name::IfNoneMatch
            | Name::IfModifiedSince
            | Name::IfUnmodifiedSince
            | Name::Range => self.conditional = true,
            _ => {}
        }
        Ok(())
    }

    /// What can be said only once all fields are known.
    #[inline]
    pub(super) fn conclude(&mut self, head: &[u8], notes: &Notes) -> Result<(), Refusal> {
        if notes.any() {
            self.frame(notes)?;
        }
        // RFC 9110, 10.1.1: from HTTP/1.0 the expectation is ignored, and without a body it is none.
        if self.expects_continue {
            self.expects_continue = self.is_http11 && self.framing != Framing::None;
        }
        if self.host.is_none() && self.is_http11 {
            return Err(Refusal::new(Rule::HostMissing, head.len() - 2));
        }
        if self.target.form == Form::Absolute {
            self.check_absolute(head)?;
        }
        if !self.target.plain {
            self.normalise_path(head)?;
        }
        Ok(())
    }

    #[cold]
    fn frame(&mut self, notes: &Notes) -> Result<(), Refusal> {
        self.framing = notes.framing(self.is_http11)?;
        Ok(())
    }

    #[cold]
    fn check_absolute(&mut self, head: &[u8]) -> Result<(), Refusal> {
        let authority = self.target.authority;
        if let Some(host) = self.host
            && !target::same_authority(authority.of(head), host.of(head), self.target.is_https())
        {
            return Err(Refusal::new(Rule::HostContradictsTarget, host.start as usize));
        }
        self.host = Some(authority);
        Ok(())
    }

    #[cold]
    fn normalise_path(&mut self, head: &[u8]) -> Result<(), Refusal> {
        let raw = self.target.path;
        path::normalise(raw.of(head), &mut self.decoded_path)
            .map_err(|(rule, at)| Refusal::new(rule, raw.start as usize + at))
    }

    /// The values of all fields called `name`, in their order. `bytes` are those this was parsed from.
    pub(crate) fn values<'a>(&self, name: Name, bytes: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.fields.iter().filter(move |field| field.id == name).map(move |field| field.value.of(bytes))
    }

    /// The path as it is matched: decoded and normal. `head` are the bytes this was parsed from.
    #[inline]
    pub(crate) fn path<'a>(&'a self, head: &'a [u8]) -> &'a [u8] {
        if self.target.plain { self.target.path.of(head) } else { &self.decoded_path }
    }
}

/// `httparse` ends lines at LF; between a value's end and it there is only space and one CR, or none.
#[inline]
fn ends_with_cr(head: &[u8], mut at: usize) -> Result<(), Refusal> {
    while let Some(b' ' | b'\t') = head.get(at) {
        at += 1;
    }
    if head.get(at) == Some(&b'\r') { Ok(()) } else { Err(Refusal::new(Rule::BareLf, at)) }
}

/// Length of the empty lines before a request, which are passed over
/// ([RFC 9112, 2.2](https://www.rfc-editor.org/rfc/rfc9112#section-2.2)).
#[inline]
fn leading_empty_lines(window: &[u8]) -> usize {
    let mut skipped = 0;
    while window[skipped..].starts_with(b"\r\n") {
        skipped += 2;
    }
    skipped
}

#[cold]
fn partial(window: &[u8], skipped: usize, limits: &Limits) -> Result<Status, Refusal> {
    if window.len() < limits.size {
        return Ok(Status::Partial);
    }
    let rule = match memchr::memchr(b'\n', &window[skipped..]) {
        Some(_) => Rule::HeadTooLarge,
        None => Rule::TargetTooLong,
    };
    Err(Refusal::new(rule, limits.size))
}
