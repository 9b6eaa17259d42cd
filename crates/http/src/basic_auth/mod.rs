//! Who is let in by name and password, as [RFC 7617](https://www.rfc-editor.org/rfc/rfc7617) has it.
//!
//! The master reads the users when it makes the plan, so that the file need not be readable for workers. A password
//! is checked on a thread of the pool, because its hash takes long to work out, and what was right is remembered
//! by the worker, bounded and behind a keyed hash.

mod credentials;
mod hash;
mod users;
mod verified;

use std::path::Path;
use std::rc::Rc;

pub(crate) use credentials::Credentials;
pub(crate) use hash::PasswordHash;
pub(crate) use users::Users;
pub use users::UsersError;
pub(crate) use verified::{Mark, Verified};

/// What a location asks for.
#[derive(Debug)]
pub(crate) struct BasicAuth {
    /// The line of the field WWW-Authenticate.
    pub(crate) challenge: Box<[u8]>,
    pub(crate) users: Rc<Users>,
}

impl BasicAuth {
    pub(crate) fn new(realm: &str, users: Rc<Users>) -> BasicAuth {
        let quoted = realm.replace('\\', "\\\\").replace('"', "\\\"");
        let line = format!("WWW-Authenticate: Basic realm=\"{quoted}\", charset=\"UTF-8\"\r\n");
        BasicAuth { challenge: line.into_bytes().into(), users }
    }
}

/// The files of users that were read, each once.
#[derive(Debug, Default)]
pub(crate) struct UsersFiles(Vec<(Box<Path>, Rc<Users>)>);

impl UsersFiles {
    /// The users in a file.
    pub(crate) fn read(&mut self, path: &Path) -> Result<Rc<Users>, UsersError> {
        if let Some((_, users)) = self.0.iter().find(|(known, _)| **known == *path) {
            return Ok(Rc::clone(users));
        }
        let users = Rc::new(Users::read(path, self.0.len() as u32)?);
        self.0.push((path.into(), Rc::clone(&users)));
        Ok(users)
    }
}

/// Credentials whose password is not checked yet.
#[derive(Debug)]
pub(crate) struct Unverified {
    pub(crate) user: Vec<u8>,
    pub(crate) password: Vec<u8>,
    /// The user's hash; of somebody who is unknown that of another, so that the time tells nobody who is known.
    pub(crate) hash: PasswordHash,
    pub(crate) is_known: bool,
    pub(crate) mark: Mark,
}

impl Unverified {
    /// Works out whether the password is right, which takes long. Gives back who it was about.
    pub(crate) fn verify(self) -> (Unverified, bool) {
        let right = self.hash.is_of(&self.password);
        let verdict = right && self.is_known;
        (self, verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_realm_cannot_end_its_quotes() {
        let auth = BasicAuth::new(r#"a "b" \c"#, Rc::new(Users::parse("", 0).expect("nobody")));
        let line = String::from_utf8(auth.challenge.into_vec()).expect("text");
        assert_eq!(line, "WWW-Authenticate: Basic realm=\"a \\\"b\\\" \\\\c\", charset=\"UTF-8\"\r\n");
    }
}
