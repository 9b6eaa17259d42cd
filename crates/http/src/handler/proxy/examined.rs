//! What is passed on of some bytes, for whoever wants to read it by other means.

use drover_event::Millis;

use super::choice::Choice;
use super::forward::Forward;
use super::reframe::{Outgoing, Reframe};
use super::{Destination, config};
use crate::exchange::Request;
use crate::h1::body::{Body, Piece};
use crate::h1::framing::Framing;
use crate::h1::head::{Head, Limits, Status};
use crate::h1::target::Form;
use crate::own::OwnVariables;
use crate::response::{Date, Fate};

/// A request as it was understood, and as it is passed on.
#[derive(Debug)]
pub struct PassedOn {
    /// What a server receives.
    pub bytes: Vec<u8>,
    /// The method as it was understood.
    pub method: Vec<u8>,
    /// The data of the body as it was understood.
    pub body: Vec<u8>,
    /// Names and values of the fields that were understood, in their order, names in lower case.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What a location that passes everything on makes of `bytes`; none where they are no whole request.
pub(crate) fn pass_on(bytes: &[u8]) -> Option<PassedOn> {
    let limits = Limits { size: 4096, max_headers: 32, keep_odd_names: false };
    let mut head = Head::default();
    let Ok(Status::Complete(length)) = head.parse(bytes, &limits) else { return None };
    if !matches!(head.target.form, Form::Origin | Form::Absolute) {
        return None;
    }
    let (own, head_bytes) = (OwnVariables::default(), &bytes[..length]);
    let pass = config::ProxyPass::parse("http://app").ok()?;
    let upstream = Choice::One((0, None));
    let to = Destination { upstream, pass, matched: 1, max_headers: limits.max_headers };
    let forward = Forward::new(&config::Proxy::default(), &to, &own).ok()?;
    let request = Request {
        head: &head,
        bytes: head_bytes,
        fate: Fate::Keep,
        date: &[b' '; size_of::<Date>()],
        now: Millis::new(0),
        server: "drover",
        error_pages: None,
        render: &|_, _| {},
    };
    let mut out = Vec::new();
    forward.push_head(&request, None, false, &mut out);
    let outgoing = if head.framing == Framing::Chunked { Outgoing::Chunked } else { Outgoing::Plain };
    let received = Body::new(head.framing, 1 << 20).ok()?;
    let body = data(received, &bytes[length..])?;
    Reframe::new(received, outgoing).feed(&bytes[length..], &mut out).ok()?;
    let field = |field: &crate::h1::head::Field| {
        (field.name.of(head_bytes).to_ascii_lowercase(), field.value.of(head_bytes).to_vec())
    };
    Some(PassedOn {
        bytes: out,
        method: head.method_span.of(head_bytes).to_vec(),
        body,
        fields: head.fields.iter().map(field).collect(),
    })
}

/// The data of a body; none where it is not whole.
fn data(mut body: Body, bytes: &[u8]) -> Option<Vec<u8>> {
    let (mut data, mut at) = (Vec::new(), 0);
    while let Some(piece) = body.next(bytes, &mut at).ok()? {
        if let Piece::Data(range) = piece {
            data.extend_from_slice(&bytes[range]);
        }
    }
    body.is_done().then_some(data)
}
