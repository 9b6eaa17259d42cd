//! Files beneath a root.
//!
//! Plain functions on the request's normal path; the file system is asked only where the worker's cache does
//! not know ([`store`]). What is found is an [open file](crate::open_file_cache), which answers: whole, in part, or
//! not at all where the client has it already. Encoded forms of it are its [`offers`].

mod listing;
pub(crate) mod multipart;
pub(crate) mod offers;
pub(crate) mod open_file;
pub(crate) mod store;
pub(crate) mod try_files;

use std::path::{Path, PathBuf};

use crate::config::PathMatch;
use crate::encoding::Coding;
use crate::encoding::compression::Compression;
use crate::exchange::{self, Answer, Request};
use crate::h1::method::Method;
use crate::path;
use store::{FileStore, Found};
use try_files::TryFiles;

/// A location's files.
#[derive(Debug)]
pub(crate) struct Files {
    /// Number of the root among the worker's.
    pub(crate) root: u32,
    pub(crate) alias: Option<Alias>,
    /// Names that stand for a directory.
    pub(crate) index: Vec<Box<[u8]>>,
    /// A directory without an index is listed.
    pub(crate) autoindex: bool,
    /// Which encoded files may lie beside a file, in the order of preference.
    pub(crate) precompressed: Vec<Coding>,
    pub(crate) compression: Compression,
    pub(crate) try_files: Option<TryFiles>,
}

/// What of a path does not count beneath the root.
#[derive(Debug)]
pub(crate) enum Alias {
    /// So many bytes at its beginning.
    Strip(usize),
    /// All of it: the file is this one.
    File(Box<[u8]>),
}

impl Alias {
    /// The directory to look in, and how, where `alias` stands in place of a location's path.
    pub(crate) fn of(alias: &Path, location: &PathMatch) -> (PathBuf, Option<Alias>) {
        let strip = location.path().map_or(0, str::len);
        if let (PathMatch::Exact(_), Some(directory), Some(name)) =
            (location, alias.parent(), alias.file_name())
        {
            return (directory.to_path_buf(), Some(Alias::File(name.as_encoded_bytes().into())));
        }
        (alias.to_path_buf(), Some(Alias::Strip(strip)))
    }
}

const ALLOW: &[u8] = b"Allow: GET, HEAD\r\n";

impl Files {
    /// What is opened for a path beneath the root; none where that can be nothing. Normal paths begin with a slash.
    fn relative<'a>(&'a self, path: &'a [u8]) -> Option<&'a [u8]> {
        match &self.alias {
            None => Some(path.strip_prefix(b"/").unwrap_or(path)),
            Some(Alias::File(name)) => Some(name),
            // Of "/a" in place of which a directory stands, "/ab" is not beneath it.
            Some(Alias::Strip(strip)) => match path.get(*strip..)? {
                rest if rest.is_empty() || path[..*strip].ends_with(b"/") => Some(rest),
                rest => rest.strip_prefix(b"/"),
            },
        }
    }

    #[inline]
    pub(crate) fn answer(&self, request: &Request<'_>, store: &FileStore, out: &mut Vec<u8>) -> Answer {
        match request.head.method {
            Method::Get | Method::Head => {}
            // RFC 9110, 9.1: a method that nothing here has is 501, one that files do not have 405, with Allow
            // (15.5.6).
            Method::Other => return exchange::page(request, 501, ALLOW, out),
            _ => return exchange::page(request, 405, ALLOW, out),
        }
        if let Some(try_files) = &self.try_files {
            return try_files.answer(self, request, store, out);
        }
        match store.find(self, request.path(), request.now) {
            Ok(Found::File(file)) => file.answer(request, store, out),
            Ok(Found::Directory) => redirect_to_directory(request, out),
            Err(status) => exchange::page(request, status, b"", out),
        }
    }
}

/// The path of a directory without its slash would make relative links wrong.
fn redirect_to_directory(request: &Request<'_>, out: &mut Vec<u8>) -> Answer {
    let mut fields = b"Location: ".to_vec();
    path::encode(request.path(), &mut fields);
    fields.push(b'/');
    if let Some(query) = request.head.query(request.bytes) {
        fields.push(b'?');
        fields.extend_from_slice(query);
    }
    fields.extend_from_slice(b"\r\n");
    exchange::page(request, 301, &fields, out)
}
