//! How many times a request may be passed on
//! ([RFC 9110, 7.6.2](https://www.rfc-editor.org/rfc/rfc9110#section-7.6.2)).
//!
//! Only OPTIONS has the field count here: TRACE is answered and goes no further, and of other methods the field means
//! nothing.

use crate::exchange::{self, Answer, Request};
use crate::h1::head::Head;
use crate::h1::method::Method;
use crate::h1::name::Name;

/// What Max-Forwards allows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MaxForwards {
    /// Nothing is said that counts.
    Any,
    /// To be passed on so many times.
    Hops(u64),
    /// No number.
    Invalid,
}

/// What a request says. Of what is too large to count, as much as can be counted is left.
#[inline]
pub(crate) fn of(head: &Head, bytes: &[u8]) -> MaxForwards {
    if head.method == Method::Options { of_options(head, bytes) } else { MaxForwards::Any }
}

#[cold]
fn of_options(head: &Head, bytes: &[u8]) -> MaxForwards {
    let mut values = head.values(Name::MaxForwards, bytes);
    match (values.next(), values.next()) {
        (None, _) => MaxForwards::Any,
        (Some(digits), None) if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) => {
            let add =
                |number: u64, digit: &u8| number.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
            MaxForwards::Hops(digits.iter().fold(0, add))
        }
        _ => MaxForwards::Invalid,
    }
}

/// The answer to a request that is not passed on: as from who it was meant for.
pub(crate) fn answer(request: &Request<'_>, allow: &[u8], out: &mut Vec<u8>) -> Option<Answer> {
    match of(request.head, request.bytes) {
        MaxForwards::Hops(0) => Some(exchange::with_body(request, 204, allow, "", b"", out)),
        MaxForwards::Invalid => Some(exchange::page(request, 400, b"", out)),
        MaxForwards::Any | MaxForwards::Hops(_) => None,
    }
}
