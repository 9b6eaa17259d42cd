//! `return`: an answer that the config fixes, prepared when the config is read unless variables are in it.

use std::rc::Rc;

use drover_service::TemplateError;

use crate::conditional::{Decision, Target, Validators};
use crate::config::Return;
use crate::encoding::accept::Accepted;
use crate::encoding::compression::Compression;
use crate::encoding::encoders::Encoders;
use crate::encoding::{self, Coding};
use crate::exchange::{self, Answer, Request};
use crate::h1::method::Method;
use crate::own::OwnVariables;
use crate::response::{self, Prepared};
use crate::variables::Template;

/// A fixed answer.
#[derive(Debug)]
pub(crate) enum Fixed {
    Prepared(Prepared),
    /// In codings too, in the order of preference.
    Encoded {
        plain: Prepared,
        encoded: Vec<(Coding, Prepared)>,
    },
    /// The connection closes instead.
    Silence,
    /// With variables.
    Rendered {
        status: u16,
        location: Option<Template>,
        content_type: String,
        body: Option<Template>,
        /// In which codings the body may go, if its type is worth it.
        compression: Option<Compression>,
    },
}

/// The status that stands for no answer, as in nginx.
const SILENCE: u16 = 444;

/// The type of bodies in the config, which is UTF-8.
const DEFAULT_TYPE: &str = "text/plain; charset=utf-8";

impl Fixed {
    /// Compiles a `return`. `server` is the value of the field `Server`. Where an error page may be shown
    /// instead of the answer (`replaced`), one without a body is made only when it is needed. A body without
    /// variables that suits `compression` is encoded now, once for all.
    pub(crate) fn new(
        config: &Return,
        server: &str,
        own: &OwnVariables,
        replaced: bool,
        compression: &Compression,
    ) -> Result<Fixed, TemplateError> {
        if config.status == SILENCE {
            return Ok(Fixed::Silence);
        }
        let parse =
            |text: &Option<_>| text.as_ref().map(|text: &drover_config::Located<String>| own.template(text));
        let body = parse(&config.body).transpose()?;
        let location = parse(&config.location).transpose()?;
        let content_type = config.content_type.as_ref().map_or(DEFAULT_TYPE, |text| text.as_str()).to_owned();
        let status = config.status;
        let literal = |template: &Option<Template>| match template {
            Some(template) => template.as_literal().map(|text| Some(text.to_vec())),
            None => Some(None),
        };
        let replaced = replaced && body.is_none();
        Ok(match (literal(&location), literal(&body)) {
            (Some(location), Some(body)) if !replaced => {
                let location = location.as_deref();
                match &body {
                    Some(body) if compression.suits(&content_type, Some(body.len() as u64)) => {
                        prepare_encoded(status, server, location, &content_type, body, compression)
                    }
                    _ => Fixed::Prepared(prepare(status, server, location, &content_type, body)),
                }
            }
            _ => {
                let compression = compression.suits(&content_type, None).then(|| compression.clone());
                Fixed::Rendered { status, location, content_type, body, compression }
            }
        })
    }

    /// The answer, unless variables are in it.
    #[inline]
    pub(crate) fn prepared(&self) -> Option<&Prepared> {
        match self {
            Fixed::Prepared(prepared) => Some(prepared),
            Fixed::Encoded { .. } | Fixed::Rendered { .. } | Fixed::Silence => None,
        }
    }

    #[inline]
    pub(crate) fn answer(&self, request: &Request<'_>, encoders: &Rc<Encoders>, out: &mut Vec<u8>) -> Answer {
        if request.head.conditional
            && let Some(answer) = self.answer_condition(request, out)
        {
            return answer;
        }
        match self {
            Fixed::Silence => Answer { closes: true, ..Answer::complete(SILENCE, 0) },
            Fixed::Prepared(prepared) => prepared.answer(request, out),
            Fixed::Encoded { plain, encoded } => {
                let accepted = Accepted::of(request.head, request.bytes);
                let chosen = accepted.choose(encoded.iter().map(|(coding, _)| *coding));
                chosen.map_or(plain, |chosen| &encoded[chosen].1).answer(request, out)
            }
            Fixed::Rendered { status, location, content_type, body, compression } => {
                let mut fields = Vec::new();
                if let Some(location) = location {
                    let mut text = Vec::new();
                    (request.render)(location, &mut text);
                    push_location(&mut fields, &text);
                }
                let Some(body) = body else {
                    return exchange::page(request, *status, &fields, out);
                };
                let mut text = Vec::new();
                (request.render)(body, &mut text);
                if let Some(compression) =
                    compression.as_ref().filter(|own| own.suits(content_type, Some(text.len() as u64)))
                {
                    text = encode(request, compression, encoders, text, &mut fields);
                }
                exchange::with_body(request, *status, &fields, content_type, &text, out)
            }
        }
    }

    fn status(&self) -> u16 {
        match self {
            Fixed::Prepared(prepared) | Fixed::Encoded { plain: prepared, .. } => prepared.status(),
            Fixed::Rendered { status, .. } => *status,
            Fixed::Silence => SILENCE,
        }
    }

    /// The answer, where a condition has it differ. There is no validator, so that only those fail or hold which
    /// any does; they count for GET and HEAD, and where all would be fine without them (RFC 9110, 13.2.1).
    #[cold]
    fn answer_condition(&self, request: &Request<'_>, out: &mut Vec<u8>) -> Option<Answer> {
        if !matches!(self.status(), 200..300) || !matches!(request.head.method, Method::Get | Method::Head) {
            return None;
        }
        let none = Validators::default();
        let target = Target { validators: &none, size: 0, max_ranges: 0, now: request.date };
        match target.decide(request.head, request.bytes) {
            Decision::Go(_) => None,
            Decision::NotModified => Some(exchange::page(request, 304, b"", out)),
            Decision::PreconditionFailed => Some(exchange::page(request, 412, b"", out)),
        }
    }
}

/// A body in the coding that the client likes best, where one makes it smaller; appends the fields that tell so.
fn encode(
    request: &Request<'_>,
    compression: &Compression,
    encoders: &Rc<Encoders>,
    body: Vec<u8>,
    fields: &mut Vec<u8>,
) -> Vec<u8> {
    response::field(fields, "Vary", b"Accept-Encoding");
    let chosen = Accepted::of(request.head, request.bytes).choose(compression.codings.iter().copied());
    let Some(coding) = chosen.map(|chosen| compression.codings[chosen]) else { return body };
    match encoders.whole(coding, &body).filter(|encoded| encoded.len() < body.len()) {
        Some(encoded) => {
            response::field(fields, "Content-Encoding", coding.name().as_bytes());
            encoded
        }
        None => body,
    }
}

/// The answer as it is and in all codings that make it smaller.
fn prepare_encoded(
    status: u16,
    server: &str,
    location: Option<&[u8]>,
    content_type: &str,
    body: &[u8],
    compression: &Compression,
) -> Fixed {
    let prepared = |coding: Option<Coding>, body: &[u8]| {
        let mut fields = Vec::new();
        if let Some(location) = location {
            push_location(&mut fields, location);
        }
        response::field(&mut fields, "Content-Type", content_type.as_bytes());
        response::field(&mut fields, "Vary", b"Accept-Encoding");
        if let Some(coding) = coding {
            response::field(&mut fields, "Content-Encoding", coding.name().as_bytes());
        }
        Prepared::new(status, server, &fields, body)
    };
    let encoded = compression.codings.iter().filter_map(|coding| {
        let encoded = encoding::whole(*coding, compression.levels(), body).ok()?;
        (encoded.len() < body.len()).then(|| (*coding, prepared(Some(*coding), &encoded)))
    });
    Fixed::Encoded { encoded: encoded.collect(), plain: prepared(None, body) }
}

fn prepare(
    status: u16,
    server: &str,
    location: Option<&[u8]>,
    content_type: &str,
    body: Option<Vec<u8>>,
) -> Prepared {
    let mut fields = Vec::new();
    if let Some(location) = location {
        push_location(&mut fields, location);
    }
    // A status that is not fine explains itself, unless the config does.
    let (content_type, body) = match body {
        Some(body) => (content_type, body),
        None if status >= 300 => (response::PAGE_TYPE, response::page(status, server)),
        None => (content_type, Vec::new()),
    };
    if !body.is_empty() && !response::has_no_content(status) {
        response::field(&mut fields, "Content-Type", content_type.as_bytes());
    }
    Prepared::new(status, server, &fields, &body)
}

/// Appends `Location`. What no URI may hold is encoded, so that no value of a variable can end the line.
pub(crate) fn push_location(fields: &mut Vec<u8>, location: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    fields.extend_from_slice(b"Location: ");
    for byte in location {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(byte) {
            fields.push(*byte);
        } else {
            fields.extend_from_slice(&[b'%', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
    }
    fields.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h1::head::Head;
    use crate::h1::method::Method;
    use crate::response::Fate;
    use drover_event::Millis;

    fn answered(config: &Return, method: Method) -> (String, Answer) {
        let compression = Compression::new(&crate::config::Compression::default());
        let own = OwnVariables::default();
        let fixed = Fixed::new(config, "drover", &own, false, &compression);
        let fixed = fixed.expect("the templates are right");
        let head = Head { method, ..Head::default() };
        let request = Request {
            head: &head,
            bytes: b"",
            fate: Fate::Keep,
            date: b"Sun, 06 Nov 1994 08:49:37 GMT",
            now: Millis::new(0),
            server: "drover",
            error_pages: None,
            render: &|_, out| out.extend_from_slice(b"/a b\r\nX: y"),
        };
        let mut out = Vec::new();
        let encoders = Encoders::new(*compression.levels(), 1 << 20);
        let answer = fixed.answer(&request, &encoders, &mut out);
        (String::from_utf8(out).expect("text"), answer)
    }

    #[test]
    fn a_literal_body_is_prepared() {
        let config = Return { body: Some("ok\n".to_owned().into()), ..Return::with(200) };
        let (text, answer) = answered(&config, Method::Get);
        assert_eq!(
            text,
            "HTTP/1.1 200 OK\r\nServer: drover\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
             Content-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\n\r\nok\n"
        );
        assert_eq!((answer.status, answer.body), (200, 3));
        let (text, answer) = answered(&config, Method::Head);
        assert!(text.ends_with("Content-Length: 3\r\n\r\n") && answer.body == 0, "{text}");
    }

    #[test]
    fn errors_and_redirects_have_a_page() {
        let (text, _) = answered(&Return::with(404), Method::Get);
        assert!(text.contains("text/html") && text.contains("<h1>404 Not Found</h1>"), "{text}");
        let redirect = Return { location: Some("/new place".to_owned().into()), ..Return::with(301) };
        let (text, _) = answered(&redirect, Method::Get);
        assert!(text.contains("\r\nLocation: /new%20place\r\n"), "{text}");
        let (text, _) = answered(&Return::with(204), Method::Get);
        assert!(text.ends_with("GMT\r\n\r\n"), "{text}");
    }

    #[test]
    fn no_variable_can_end_a_field() {
        let redirect = Return { location: Some("$request_uri".to_owned().into()), ..Return::with(302) };
        let (text, answer) = answered(&redirect, Method::Get);
        assert!(text.contains("\r\nLocation: /a%20b%0D%0AX:%20y\r\n"), "{text}");
        assert!(answer.body > 0);
    }
}
