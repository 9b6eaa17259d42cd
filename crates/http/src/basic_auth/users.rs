//! A file of users: `name:hash` in each line, and lines that begin with `#`.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use super::hash::PasswordHash;

/// The users of a file.
#[derive(Debug)]
pub(crate) struct Users {
    /// Tells apart what was verified by different files.
    pub(crate) number: u32,
    hashes: HashMap<Box<[u8]>, PasswordHash>,
    /// The first one's.
    some: Option<PasswordHash>,
}

/// Why users cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// The file cannot be read.
    #[error("users file {}", path.display())]
    Read {
        /// Where it is.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line that is not of the form.
    #[error("users file {}, line {line}: {what}", path.display())]
    Line {
        /// Where the file is.
        path: PathBuf,
        /// The line's number.
        line: usize,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl Users {
    /// Reads a file.
    pub(super) fn read(path: &Path, number: u32) -> Result<Users, UsersError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| UsersError::Read { path: path.to_owned(), source })?;
        Users::parse(&text, number).map_err(|(line, what)| UsersError::Line {
            path: path.to_owned(),
            line,
            what,
        })
    }

    /// Fails with the number of a line and what is wrong with it.
    pub(super) fn parse(text: &str, number: u32) -> Result<Users, (usize, &'static str)> {
        let mut users = Users { number, hashes: HashMap::new(), some: None };
        for (at, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let wrong = |what| (at + 1, what);
            // What stands behind a second colon is a remark.
            let (name, rest) = line.split_once(':').ok_or(wrong("no `name:hash`"))?;
            let hash = rest.split(':').next().unwrap_or_default();
            if name.chars().any(char::is_control) {
                return Err(wrong("a name with control characters"));
            }
            let hash = PasswordHash::parse(hash).map_err(wrong)?;
            users.some.get_or_insert_with(|| hash.clone());
            if users.hashes.insert(name.as_bytes().into(), hash).is_some() {
                return Err(wrong("a name that stands there already"));
            }
        }
        Ok(users)
    }

    /// The hash to check a password against, and whether it is this user's own; none where there are no users.
    pub(crate) fn find(&self, user: &[u8]) -> Option<(PasswordHash, bool)> {
        match self.hashes.get(user) {
            Some(hash) => Some((hash.clone(), true)),
            None => self.some.clone().map(|hash| (hash, false)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$2y$05$SFTjnhAfU/ij0XKmxZi37Orm5wTXRy6PFEg2SzgPqTumdsFgfwQ0m";

    #[test]
    fn a_file_has_a_line_for_each_user() {
        let users = Users::parse(&format!("# staff\n\nann:{HASH}\nbob b:{HASH}:a remark\r\n"), 7);
        let users = users.expect("it is right");
        let is_known = |user: &str| users.find(user.as_bytes()).map(|(_, known)| known);
        assert_eq!(
            (is_known("ann"), is_known("bob b"), is_known("bob")),
            (Some(true), Some(true), Some(false))
        );
        assert!(Users::parse("", 0).expect("nobody").find(b"ann").is_none());
    }

    #[test]
    fn a_wrong_line_is_named() {
        let line = |text: &str| Users::parse(text, 0).map(|_| ()).map_err(|(line, _)| line);
        assert_eq!(line("#\nann"), Err(2));
        assert_eq!(line("ann:secret"), Err(1));
        assert_eq!(line(&format!("ann:{HASH}\nann:{HASH}")), Err(2));
    }
}
