//! What a client accepts of content codings
//! ([RFC 9110, 12.5.3](https://www.rfc-editor.org/rfc/rfc9110#section-12.5.3)).

use super::Coding;
use crate::h1::head::Head;
use crate::h1::name::Name;

/// A weight in thousandths, which is all that three decimals can say (RFC 9110, 12.4.2).
type Weight = u16;

/// The weights of `Accept-Encoding`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Accepted {
    /// By [`Coding`]; none for one that is not named.
    codings: [Option<Weight>; Coding::ALL.len()],
    identity: Option<Weight>,
    /// Those not named, where there is a `*`.
    others: Option<Weight>,
}

impl Accepted {
    /// Reads the fields of a request; several count as one list.
    pub(crate) fn of(head: &Head, bytes: &[u8]) -> Accepted {
        let mut accepted = Accepted { codings: [None; Coding::ALL.len()], identity: None, others: None };
        for value in head.values(Name::AcceptEncoding, bytes) {
            value.split(|byte| *byte == b',').for_each(|element| accepted.note(element));
        }
        accepted
    }

    /// Takes one element of the list; one that is wrong is passed over.
    fn note(&mut self, element: &[u8]) {
        let mut parts = element.splitn(2, |byte| *byte == b';');
        let name = parts.next().unwrap_or_default().trim_ascii();
        let Some(weight) = parts.next().map_or(Some(1000), |part| weight(part.trim_ascii())) else { return };
        let place = if name.eq_ignore_ascii_case(b"identity") {
            &mut self.identity
        } else if name == b"*" {
            &mut self.others
        } else {
            match Coding::ALL.into_iter().find(|coding| is_named(*coding, name)) {
                Some(coding) => &mut self.codings[coding as usize],
                None => return,
            }
        };
        *place = Some(weight);
    }

    /// How much the client wants a coding; 0 for not at all.
    fn of_coding(&self, coding: Coding) -> Weight {
        self.codings[coding as usize].or(self.others).unwrap_or(0)
    }

    /// How much it wants no coding. Unless it says so, that is acceptable, but less than what it names.
    fn of_identity(&self) -> Weight {
        match (self.identity, self.others) {
            (Some(weight), _) => weight,
            (None, Some(0)) => 0,
            (None, _) => 1,
        }
    }

    /// Which of the codings `offered`, in the order of our preference, to send; none for no coding.
    ///
    /// Where nothing is acceptable, the answer has no coding: a server may take a response as not subject to
    /// negotiation (RFC 9110, 12.1), and a body that a client can mostly use is worth more than 406.
    pub(crate) fn choose(&self, offered: impl Iterator<Item = Coding>) -> Option<usize> {
        let mut best = (self.of_identity().max(1) - 1, None);
        for (at, coding) in offered.enumerate() {
            let weight = self.of_coding(coding);
            if weight > best.0 {
                best = (weight, Some(at));
            }
        }
        best.1
    }
}

/// RFC 9110, 8.4.1: names are case-insensitive, and `x-gzip` is the same as `gzip`.
fn is_named(coding: Coding, name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(coding.name().as_bytes())
        || coding == Coding::Gzip && name.eq_ignore_ascii_case(b"x-gzip")
}

/// `q=0.5`. More than three decimals are cut off; none where it is no weight.
fn weight(part: &[u8]) -> Option<Weight> {
    let (b'q' | b'Q', value) = part.split_first().map(|(name, value)| (*name, value))? else { return None };
    let (whole, decimals) = match value.strip_prefix(b"=")? {
        [whole] => (whole, &b""[..]),
        [whole, b'.', decimals @ ..] => (whole, decimals),
        _ => return None,
    };
    if !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |place: usize| decimals.get(place).map_or(0, |digit| Weight::from(digit - b'0'));
    let fraction = digit(0) * 100 + digit(1) * 10 + digit(2);
    match whole {
        b'0' => Some(fraction),
        b'1' if fraction == 0 => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(value: &str) -> Accepted {
        let mut accepted = Accepted { codings: [None; 3], identity: None, others: None };
        value.split(',').for_each(|element| accepted.note(element.as_bytes()));
        accepted
    }

    #[test]
    fn the_best_that_is_offered_is_chosen() {
        use Coding::{Brotli, Gzip, Zstd};
        let all = [Zstd, Brotli, Gzip];
        for (value, offered, want) in [
            ("gzip", &all[..], Some(Gzip)),
            ("gzip, deflate, br, zstd", &all, Some(Zstd)),
            ("gzip, deflate, br, zstd", &[Gzip, Brotli], Some(Gzip)),
            ("br;q=1.0, gzip;q=0.8, *;q=0.1", &all, Some(Brotli)),
            ("GZIP;Q=0.5, Br ; q=0.4", &all, Some(Gzip)),
            ("x-gzip", &all, Some(Gzip)),
            ("gzip;q=0", &all, None),
            ("gzip;q=0.000", &all, None),
            ("gzip;q=0.001", &all, Some(Gzip)),
            ("gzip;q=0, *", &all, Some(Zstd)),
            ("gzip;q=0, *", &[Gzip], None),
            ("*", &all, Some(Zstd)),
            ("*;q=0", &all, None),
            ("*;q=0, br", &all, Some(Brotli)),
            ("identity", &all, None),
            ("identity, gzip", &all, Some(Gzip)),
            ("identity;q=0.5, gzip;q=0.4", &all, None),
            ("identity;q=0.5, gzip;q=0.5", &all, Some(Gzip)),
            ("identity;q=0, gzip;q=0.001", &all, Some(Gzip)),
            ("identity;q=0", &all, None),
            ("deflate, compress", &all, None),
            ("gzip;level=9", &all, None),
            ("gzip;q=2", &all, None),
            ("gzip;q=1.5", &all, None),
            ("gzip;q=-1", &all, None),
            ("gzip;q=", &all, None),
            ("gzip;q=.5", &all, None),
            ("gzip;q=0.x", &all, None),
            ("", &all, None),
            (",,", &all, None),
            (" ,br;q=0.5,, gzip", &all, Some(Gzip)),
            ("gzip", &[], None),
        ] {
            let chosen = accepted(value).choose(offered.iter().copied());
            assert_eq!(chosen.map(|at| offered[at]), want, "{value}");
        }
    }
}
