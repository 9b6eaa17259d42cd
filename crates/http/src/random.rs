//! Bytes that nobody can foretell.

use std::fs::File;
use std::io::{self, Read};

/// Random bytes of the system. To be called after the fork where workers must differ.
///
/// # Errors
/// When the system gives none.
pub(crate) fn bytes<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}
