//! Responses of servers that are encoded on their way: which, and what that changes in their heads.
//!
//! As for files: negotiation is by [RFC 9110, 12.5.3](https://www.rfc-editor.org/rfc/rfc9110#section-12.5.3), a
//! client of HTTP/1.0 gets the body up to the end of the connection, and HEAD is told what GET would be. What the
//! server has encoded, or wants to stay as it is, is left alone.

use std::future::poll_fn;
use std::task::Poll;

use super::Proxy;
use super::buffered::poll;
use super::download::Download;
use super::fault::Fault;
use super::reframe::Reframe;
use crate::conditional::{self, Known};
use crate::encoding::Coding;
use crate::encoding::accept::Accepted;
use crate::encoding::encoders::Lent;
use crate::h1::asked::Asked;
use crate::h1::framing::Framing;
use crate::h1::method::Method;
use crate::h1::response_head::ResponseHead;
use crate::header_changes::remove_field;
use crate::response;

/// Fields that tell of the bytes as the server sent them, in heads and trailers.
pub(super) const OF_THE_BYTES: &[&[u8]] =
    &[b"content-length", b"accept-ranges", b"content-md5", b"content-digest", b"repr-digest", b"digest"];

/// What is done about the coding of a response.
pub(super) enum Course {
    /// Nothing: it is no response to encode.
    AsItIs,
    /// It goes as it is, but would go otherwise to another client.
    Varies,
    /// It tells that what was encoded has not changed.
    Unchanged,
    Encoded(Coding, Option<Lent>),
}

impl Course {
    /// Decides on a response, whose head stands in `bytes`.
    #[inline]
    pub(super) fn of(proxy: &Proxy, asked: &Asked<'_>, head: &ResponseHead, bytes: &[u8]) -> Course {
        match proxy.compression.codings.is_empty() {
            true => Course::AsItIs,
            false => Course::among(proxy, asked, head, bytes),
        }
    }

    #[cold]
    fn among(proxy: &Proxy, asked: &Asked<'_>, head: &ResponseHead, bytes: &[u8]) -> Course {
        if !may_be_encoded(proxy, head, bytes) {
            return Course::AsItIs;
        }
        let codings = &proxy.compression.codings;
        let accepted = Accepted::of(asked.head, asked.about.bytes);
        let Some(chosen) = accepted.choose(codings.iter().copied()) else { return Course::Varies };
        let coding = codings[chosen];
        match head.status {
            // It is a part of what is not encoded.
            206 => Course::Varies,
            304 => Course::unchanged(asked, bytes),
            _ if asked.head.method == Method::Head => Course::Encoded(coding, None),
            _ => match asked.on.worker.store.encoders().take(coding, head.length()) {
                Some(encoder) => Course::Encoded(coding, Some(encoder)),
                None => Course::Varies,
            },
        }
    }

    /// Of what has not changed (304), the client must be told the tag that it was told before (RFC 9110, 15.4.5):
    /// that of the encoded form if it has that one, which by a strong tag could not be found (RFC 9111, 4.3.4).
    fn unchanged(asked: &Asked<'_>, bytes: &[u8]) -> Course {
        let tag = values(bytes, b"etag").next().unwrap_or_default();
        match conditional::known_as(tag, asked.head, asked.about.bytes) {
            Known::Strong => Course::Varies,
            Known::Weak | Known::Either => Course::Unchanged,
        }
    }

    /// How the body is delimited as far as the client is concerned: no length is known of what is encoded.
    #[inline]
    pub(super) fn framing(&self, of_server: Framing) -> Framing {
        match self {
            Course::Encoded(_, Some(_)) => Framing::UntilClose,
            _ => of_server,
        }
    }

    /// Has the head that `output` holds from `start` on tell so.
    #[inline]
    pub(super) fn tell(&self, output: &mut Vec<u8>, start: usize) {
        match self {
            Course::AsItIs => {}
            Course::Varies => change(output, start, |_| ()),
            Course::Unchanged => change(output, start, tell_of_encoded),
            Course::Encoded(coding, _) => change(output, start, |head| {
                tell_of_encoded(head);
                response::field(head, "Content-Encoding", coding.name().as_bytes());
            }),
        }
    }

    pub(super) fn encoder(self) -> Option<Lent> {
        match self {
            Course::Encoded(_, encoder) => encoder,
            Course::AsItIs | Course::Varies | Course::Unchanged => None,
        }
    }
}

impl Download<'_> {
    /// Gives way, as encoding takes its time. Where the server pauses then, the client gets all that is there.
    pub(super) async fn bring_out(&mut self, body: &mut Reframe) -> Result<(), Fault> {
        self.server.core().yield_now().await;
        if let Poll::Ready(ready) =
            poll_fn(|context| Poll::Ready(poll(self.server.readable(), context))).await
        {
            return ready.map_err(Fault::Receive);
        }
        let before = self.output.len();
        body.flush(self.output);
        body.coding().map_err(Fault::Encoding)?;
        self.passed.body += (self.output.len() - before) as u64;
        self.flush().await
    }
}

/// Has the body take what belongs to it. Gives how much that is.
pub(super) fn feed(body: &mut Reframe, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, Fault> {
    let taken = body.feed(bytes, out).map_err(Fault::InvalidBody)?;
    body.coding().map_err(Fault::Encoding)?;
    Ok(taken)
}

/// Whether a response can be one that is encoded, or tells of one. The statuses are those of nginx, and those of what
/// is not sent whole.
fn may_be_encoded(proxy: &Proxy, head: &ResponseHead, bytes: &[u8]) -> bool {
    let content_type = values(bytes, b"content-type").next();
    let suits = |kind, length| proxy.compression.suits(&String::from_utf8_lossy(kind), length);
    let fits = match (head.status, content_type) {
        (200 | 403 | 404, kind) => {
            suits(kind.unwrap_or_default(), head.length()) && values(bytes, b"content-range").next().is_none()
        }
        (206, Some(kind)) => suits(kind, None),
        // It need not tell of what type.
        (304, kind) => kind.is_none_or(|kind| suits(kind, None)),
        _ => false,
    };
    fits && values(bytes, b"content-encoding").next().is_none()
        && !elements(bytes, b"cache-control").any(|element| element.eq_ignore_ascii_case(b"no-transform"))
}

/// Has the head that `output` holds from `start` on tell that it depends on what the client takes, and what else
/// `tell` appends or takes out.
#[cold]
fn change(output: &mut Vec<u8>, start: usize, tell: impl FnOnce(&mut Vec<u8>)) {
    let mut head = output.split_off(start);
    // The empty line that ends it.
    head.truncate(head.len() - 2);
    let varies =
        elements(&head, b"vary").any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"));
    if !varies {
        let mut names: Vec<&[u8]> = values(&head, b"vary").filter(|value| !value.is_empty()).collect();
        names.push(b"Accept-Encoding");
        let names = names.join(&b", "[..]);
        remove_field(&mut head, b"vary");
        response::field(&mut head, "Vary", &names);
    }
    tell(&mut head);
    output.extend_from_slice(&head);
    output.extend_from_slice(b"\r\n");
}

/// Has a head tell of the encoded form.
fn tell_of_encoded(head: &mut Vec<u8>) {
    OF_THE_BYTES.iter().for_each(|name| remove_field(head, name));
    let strong = values(head, b"etag").next().filter(|tag| tag.starts_with(b"\""));
    // Its bytes depend on the level and the library.
    if let Some(weak) = strong.map(|tag| [b"W/", tag].concat()) {
        remove_field(head, b"etag");
        response::field(head, "ETag", &weak);
    }
}

/// The values of the fields of this name, which is in lower case, in a head that is well formed.
fn values<'a>(head: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    head.split(|byte| *byte == b'\n').skip(1).filter_map(move |line| {
        let (own, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?;
        own.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
    })
}

/// The elements of the lists that the fields of this name are.
fn elements<'a>(head: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    values(head, name).flat_map(|value| value.split(|byte| *byte == b',')).map(|element| element.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(course: &Course, fields: &str) -> String {
        let mut output = format!("before\r\nHTTP/1.1 200 OK\r\n{fields}\r\n").into_bytes();
        course.tell(&mut output, 8);
        let text = String::from_utf8(output).expect("text");
        let fields = text.strip_prefix("before\r\nHTTP/1.1 200 OK\r\n").expect("what was before");
        fields.strip_suffix("\r\n").expect("an empty line").to_owned()
    }

    #[test]
    fn heads_tell_what_was_done() {
        for (fields, varies, encoded) in [
            ("A: b\r\n", "A: b\r\nVary: Accept-Encoding\r\n", "A: b\r\nVary: Accept-Encoding\r\n"),
            (
                "Vary: Cookie\r\nETag: \"x\"\r\nvary: Accept\r\nContent-Length: 5\r\nAccept-Ranges: bytes\r\n",
                "ETag: \"x\"\r\nContent-Length: 5\r\nAccept-Ranges: bytes\r\nVary: Cookie, Accept, Accept-Encoding\r\n",
                "Vary: Cookie, Accept, Accept-Encoding\r\nETag: W/\"x\"\r\n",
            ),
            ("Vary: *\r\nETag: W/\"x\"\r\n", "Vary: *\r\nETag: W/\"x\"\r\n", "Vary: *\r\nETag: W/\"x\"\r\n"),
            ("Vary: a, accept-encoding\r\n", "Vary: a, accept-encoding\r\n", "Vary: a, accept-encoding\r\n"),
            (
                "Digest: x\r\nVarying: y\r\nVary: Accept-Encoding\r\n",
                "Digest: x\r\nVarying: y\r\nVary: Accept-Encoding\r\n",
                "Varying: y\r\nVary: Accept-Encoding\r\n",
            ),
        ] {
            assert_eq!(changed(&Course::AsItIs, fields), fields);
            assert_eq!(changed(&Course::Varies, fields), varies);
            assert_eq!(changed(&Course::Unchanged, fields), encoded);
            let told = changed(&Course::Encoded(Coding::Brotli, None), fields);
            assert_eq!(told, format!("{encoded}Content-Encoding: br\r\n"));
        }
    }
}
