//! The field Authorization: a name and a password.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::h1::head::Head;
use crate::h1::name::Name;

/// What a client says of itself.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Credentials {
    /// `name:password`.
    whole: Vec<u8>,
    colon: usize,
}

/// Longer passwords are nobody's: working out their hashes would take longer than that of all others.
const LONGEST_PASSWORD: usize = 256;

impl Credentials {
    /// Those of a request; none where they are missing, repeated or not of this kind.
    pub(crate) fn of(head: &Head, bytes: &[u8]) -> Option<Credentials> {
        let mut values = head.values(Name::Authorization, bytes);
        let value = values.next()?;
        if values.next().is_some() {
            return None;
        }
        Credentials::parse(value)
    }

    fn parse(value: &[u8]) -> Option<Credentials> {
        let (scheme, rest) = value.split_at_checked("Basic ".len())?;
        if !scheme.eq_ignore_ascii_case(b"Basic ") {
            return None;
        }
        let whole = BASE64_STANDARD.decode(rest.trim_ascii()).ok()?;
        let colon = whole.iter().position(|byte| *byte == b':')?;
        // RFC 7617, 2: neither may hold control characters.
        let fine = whole.len() - colon <= LONGEST_PASSWORD + 1 && !whole.iter().any(u8::is_ascii_control);
        fine.then_some(Credentials { whole, colon })
    }

    /// `name:password`.
    pub(crate) fn whole(&self) -> &[u8] {
        &self.whole
    }

    /// The name.
    pub(crate) fn user(&self) -> &[u8] {
        &self.whole[..self.colon]
    }

    /// The password.
    pub(crate) fn password(&self) -> &[u8] {
        &self.whole[self.colon + 1..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_form_is_taken() {
        let encoded = |text: &str| BASE64_STANDARD.encode(text);
        let parse = |value: String| {
            let credentials = Credentials::parse(value.as_bytes())?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Some((text(credentials.user()), text(credentials.password())))
        };
        let found = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(parse(format!("Basic {}", encoded("a:b:c"))), found("a", "b:c"));
        assert_eq!(parse(format!("bASIC   {}", encoded("a:"))), found("a", ""));
        assert_eq!(
            parse(format!("Basic {}", encoded(&format!("a:{}", "x".repeat(256))))).map(|_| ()),
            Some(())
        );
        for wrong in [
            String::new(),
            "Basic".to_owned(),
            "Basic ".to_owned(),
            format!("Bearer {}", encoded("a:b")),
            format!("Basic{}", encoded("a:b")),
            format!("Basic {}", encoded("ab")),
            format!("Basic {}", encoded("a:b\n")),
            format!("Basic {} x", encoded("a:b")),
            "Basic a===".to_owned(),
            format!("Basic {}", encoded(&format!("a:{}", "x".repeat(257)))),
        ] {
            assert_eq!(parse(wrong.clone()), None, "{wrong}");
        }
    }
}
