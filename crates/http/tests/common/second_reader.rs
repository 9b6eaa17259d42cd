//! What is passed on, read by another program's parser: it must be the same single request.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use drover_http::fuzz::PassedOn;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};

/// What hyper read.
struct Seen {
    method: String,
    target: String,
    /// Names in lower case, and values.
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    body: Vec<u8>,
}

/// Bytes that come, and then the end; what is sent is dropped.
struct Wire(io::Cursor<Vec<u8>>);

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut room: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let at = self.0.position() as usize;
        let left = &self.0.get_ref()[at..];
        let count = left.len().min(room.remaining());
        room.put_slice(&left[..count]);
        self.0.set_position((at + count) as u64);
        Poll::Ready(Ok(()))
    }
}

impl Write for Wire {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// All requests that hyper finds in `bytes`; fails where it finds something else too.
fn read(bytes: &[u8]) -> Result<Vec<Seen>, String> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let service = service_fn(|request: Request<Incoming>| {
        let seen = Rc::clone(&seen);
        async move {
            let (head, body) = request.into_parts();
            let Ok(body) = body.collect().await else { return Ok(Response::new(Empty::<Bytes>::new())) };
            let fields = head.headers.iter();
            let fields = fields.map(|(name, value)| (name.as_str().into(), value.as_bytes().to_vec()));
            seen.borrow_mut().push(Seen {
                method: head.method.to_string(),
                target: head.uri.to_string(),
                fields: fields.collect(),
                body: body.to_bytes().to_vec(),
            });
            Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new()))
        }
    });
    let wire = Wire(io::Cursor::new(bytes.to_vec()));
    {
        let mut connection = pin!(http1::Builder::new().half_close(true).serve_connection(wire, service));
        let mut context = Context::from_waker(Waker::noop());
        let mut polls = 0;
        loop {
            match connection.as_mut().poll(&mut context) {
                Poll::Ready(result) => break result.map_err(|fault| format!("{fault:?}"))?,
                Poll::Pending if polls == 1000 => return Err("waits for more".to_owned()),
                Poll::Pending => polls += 1,
            }
        }
    }
    Ok(seen.take())
}

/// Fields that are about one connection, or that drover answers for itself.
const OWN: &[&[u8]] = &[
    b"host",
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"expect",
    b"x-forwarded-for",
    b"x-forwarded-proto",
    b"x-forwarded-host",
    b"content-length",
    b"max-forwards",
    b"via",
];

/// Panics unless hyper reads what is passed on as drover understood it.
pub(crate) fn agrees(passed: &PassedOn) {
    let text = passed.bytes.escape_ascii();
    let seen = match read(&passed.bytes) {
        Ok(seen) => seen,
        // What hyper does not take for a target or a method is refused, and so not understood otherwise.
        Err(fault) if fault.contains("Uri") || fault.contains("Method") => return,
        Err(fault) => panic!("{fault}: {text}"),
    };
    let [request] = seen.as_slice() else { panic!("{} requests: {text}", seen.len()) };
    assert_eq!(request.method.as_bytes(), passed.method, "{text}");
    let line = passed.bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let target = line.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    assert_eq!(
        request.target.as_bytes(),
        target.split(|byte| *byte == b'#').next().unwrap_or_default(),
        "{text}"
    );
    assert_eq!(request.body, passed.body, "{text}");
    // What hyper has is what the client sent, but for what the client's Connection names.
    let named = passed.fields.iter().filter(|(name, _)| name == b"connection");
    let named: Vec<Vec<u8>> = named
        .flat_map(|(_, value)| value.split(|byte| *byte == b','))
        .map(|name| name.trim_ascii().to_ascii_lowercase())
        .collect();
    let theirs = |fields: &[(Vec<u8>, Vec<u8>)]| {
        let others =
            fields.iter().filter(|(name, _)| !OWN.contains(&name.as_slice()) && !named.contains(name));
        let mut others: Vec<_> = others.cloned().collect();
        // hyper keeps the order of one name's values alone.
        others.sort_by(|(one, _), (other, _)| one.cmp(other));
        others
    };
    assert_eq!(theirs(&request.fields), theirs(&passed.fields), "{text}");
}
