//! Files beneath a root.
//!
//! Plain functions on the request's normal path; the file system is asked only where the worker's cache does
//! not know. A root is opened by its path again every now and then, so that one that was replaced is seen.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use drover_event::Millis;
use nix::errno::Errno;
use tracing::{debug, error, info};

use crate::conditional::{self, Decision, Validators};
use crate::exchange::{self, Answer, Request, Rest};
use crate::h1::method::Method;
use crate::open;
use crate::open_file_cache::{Cached, OpenFileCache};
use crate::path;
use crate::response::{self, DATE_LENGTH, Dated};
use crate::types::Types;

/// A location's files.
#[derive(Debug)]
pub(crate) struct Files {
    /// Number of the root among the worker's.
    pub(crate) root: u32,
    /// Names that stand for a directory.
    pub(crate) index: Vec<Box<[u8]>>,
}

/// Bodies up to this size are copied behind their head; larger ones are sent from where they are.
const COPIED: usize = 4096;

const ALLOW: &[u8] = b"Allow: GET, HEAD\r\n";

impl Files {
    #[inline]
    pub(crate) fn answer(&self, request: &Request<'_>, store: &FileStore, out: &mut Vec<u8>) -> Answer {
        match request.head.method {
            Method::Get | Method::Head => {}
            Method::Other => return exchange::page(request, 501, ALLOW, out),
            _ => return exchange::page(request, 405, ALLOW, out),
        }
        match store.find(self, request.path(), request.now) {
            Ok(Found::File(file)) => file.answer(request, out),
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

/// What a path leads to.
enum Found {
    File(Rc<OpenFile>),
    /// A directory, asked for without its slash.
    Directory,
}

/// A file that is served: what goes into the head, and the bytes or where to get them.
pub(crate) struct OpenFile {
    identity: Identity,
    validators: Validators,
    content_type: Box<str>,
    /// The head of a whole answer up to the connection's fate.
    head: Dated,
    pub(crate) content: Content,
}

/// Where the bytes of a file are.
pub(crate) enum Content {
    /// Small ones are kept.
    Memory(Box<[u8]>),
    Descriptor(File),
}

/// What tells one state of a file from another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl OpenFile {
    fn new(
        file: File,
        identity: Identity,
        content_type: &str,
        server: &str,
        small: u64,
    ) -> io::Result<OpenFile> {
        let mut identity = identity;
        let content = if identity.size <= small {
            let mut bytes = vec![0; identity.size as usize];
            let length = read_at(&file, &mut bytes)?;
            // Shorter than it was a moment ago.
            bytes.truncate(length);
            identity.size = length as u64;
            Content::Memory(bytes.into())
        } else {
            Content::Descriptor(file)
        };
        let nanoseconds = u32::try_from(identity.nanoseconds).unwrap_or(0);
        let validators = Validators::of_file(identity.seconds, nanoseconds, identity.size);
        let mut head = Vec::new();
        let date_at = response::begin(&mut head, 200, server, &[b' '; DATE_LENGTH]);
        response::field(&mut head, "Content-Type", content_type.as_bytes());
        response::content_length(&mut head, identity.size);
        push_validators(&mut head, &validators);
        response::field(&mut head, "Accept-Ranges", b"bytes");
        let head = Dated::new(head, date_at);
        Ok(OpenFile { identity, validators, content_type: content_type.into(), head, content })
    }

    #[inline]
    fn answer(self: Rc<Self>, request: &Request<'_>, out: &mut Vec<u8>) -> Answer {
        let size = self.identity.size;
        match conditional::decide(request.head, request.bytes, &self.validators, size) {
            Decision::Whole => {
                self.head.push(out, request.date);
                out.extend_from_slice(request.fate.last_lines());
                self.with_body(request, 200, 0..size, out)
            }
            Decision::Part(range) => {
                response::begin(out, 206, request.server, request.date);
                response::field(out, "Content-Type", self.content_type.as_bytes());
                response::content_length(out, range.end - range.start);
                let part = format!("bytes {}-{}/{size}", range.start, range.end - 1);
                response::field(out, "Content-Range", part.as_bytes());
                push_validators(out, &self.validators);
                out.extend_from_slice(request.fate.last_lines());
                self.with_body(request, 206, range, out)
            }
            Decision::NotModified => {
                response::begin(out, 304, request.server, request.date);
                push_validators(out, &self.validators);
                out.extend_from_slice(request.fate.last_lines());
                Answer::complete(304, 0)
            }
            Decision::PreconditionFailed => exchange::page(request, 412, b"", out),
            Decision::Unsatisfiable => {
                let field = format!("Content-Range: bytes */{size}\r\n");
                exchange::page(request, 416, field.as_bytes(), out)
            }
        }
    }

    #[inline]
    fn with_body(
        self: Rc<Self>,
        request: &Request<'_>,
        status: u16,
        range: Range<u64>,
        out: &mut Vec<u8>,
    ) -> Answer {
        if !request.wants_body() || range.is_empty() {
            return Answer::complete(status, 0);
        }
        if let Content::Memory(bytes) = &self.content
            && bytes.len() <= COPIED
        {
            let part = &bytes[range.start as usize..range.end as usize];
            out.extend_from_slice(part);
            return Answer::complete(status, part.len());
        }
        Answer { status, body: 0, rest: Rest::File(self, range) }
    }
}

fn push_validators(out: &mut Vec<u8>, validators: &Validators) {
    response::field(out, "Last-Modified", &validators.last_modified);
    response::field(out, "ETag", &validators.etag);
}

/// Reads from the start of a file until `bytes` are full or it ends.
fn read_at(file: &File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < bytes.len() {
        match file.read_at(&mut bytes[length..], length as u64) {
            Ok(0) => break,
            Ok(count) => length += count,
            Err(fault) if fault.kind() == io::ErrorKind::Interrupted => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(length)
}

/// The files that a worker has open, and its roots.
pub(crate) struct FileStore {
    cache: RefCell<OpenFileCache<Rc<OpenFile>>>,
    roots: RefCell<Vec<Root>>,
    valid_ms: u64,
    small: u64,
    server: Box<str>,
    types: Rc<Types>,
}

struct Root {
    path: PathBuf,
    opened: Option<(Rc<OwnedFd>, Millis)>,
}

/// What is configured about a [`FileStore`].
pub(crate) struct StorePlan {
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) entries: u32,
    pub(crate) valid: Duration,
    pub(crate) small: u64,
    pub(crate) types: Rc<Types>,
    pub(crate) server: Box<str>,
}

impl FileStore {
    pub(crate) fn new(plan: &StorePlan) -> FileStore {
        let root = |path: &PathBuf| Root { path: path.clone(), opened: None };
        FileStore {
            cache: RefCell::new(OpenFileCache::new(plan.entries, plan.valid)),
            roots: RefCell::new(plan.roots.iter().map(root).collect()),
            valid_ms: u64::try_from(plan.valid.as_millis()).unwrap_or(u64::MAX),
            // Without a cache nothing would be gained by reading a file into memory.
            small: if plan.entries == 0 { 0 } else { plan.small },
            server: plan.server.clone(),
            types: Rc::clone(&plan.types),
        }
    }

    /// What is at `path`, or the status that says why nothing is.
    #[inline]
    fn find(&self, files: &Files, path: &[u8], now: Millis) -> Result<Found, u16> {
        let known = match self.cache.borrow_mut().get(files.root, path, now) {
            Cached::Fresh(file) => return Ok(Found::File(file)),
            Cached::Stale(file) => Some(file),
            Cached::Missing => None,
        };
        self.look(files, path, known, now)
    }

    #[cold]
    fn look(
        &self,
        files: &Files,
        path: &[u8],
        known: Option<Rc<OpenFile>>,
        now: Millis,
    ) -> Result<Found, u16> {
        let found = self.open(files, path, known, now).map_err(|fault| self.status(files, path, &fault));
        let mut cache = self.cache.borrow_mut();
        match &found {
            Ok(Found::File(file)) => cache.put(files.root, path, Rc::clone(file), now),
            _ => cache.remove(files.root, path),
        }
        found
    }

    fn open(
        &self,
        files: &Files,
        path: &[u8],
        known: Option<Rc<OpenFile>>,
        now: Millis,
    ) -> io::Result<Found> {
        let root = self.root(files.root, now)?;
        // Normal paths begin with a slash; what is opened is relative.
        let relative = path.strip_prefix(b"/").unwrap_or(path);
        if !path.ends_with(b"/") {
            return self.open_one(&root, relative, known);
        }
        for index in &files.index {
            let name = [relative, index].concat();
            match self.open_one(&root, &name, known.clone()) {
                Ok(Found::Directory) => {}
                Err(fault) if fault.kind() == io::ErrorKind::NotFound => {}
                result => return result,
            }
        }
        // Listing is not allowed, if it is there at all.
        open::beneath(root.as_fd(), if relative.is_empty() { b"." } else { relative })?;
        Err(NO_INDEX.into())
    }

    fn open_one(&self, root: &OwnedFd, name: &[u8], known: Option<Rc<OpenFile>>) -> io::Result<Found> {
        let file = File::from(open::beneath(root.as_fd(), name)?);
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Ok(Found::Directory);
        }
        if !metadata.is_file() {
            return Err(NO_FILE.into());
        }
        let identity = Identity {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            seconds: metadata.mtime(),
            nanoseconds: metadata.mtime_nsec(),
        };
        if let Some(known) = known.filter(|known| known.identity == identity) {
            return Ok(Found::File(known));
        }
        let opened = OpenFile::new(file, identity, self.types.of(name), &self.server, self.small)?;
        Ok(Found::File(Rc::new(opened)))
    }

    fn root(&self, number: u32, now: Millis) -> io::Result<Rc<OwnedFd>> {
        let root = &mut self.roots.borrow_mut()[number as usize];
        match &root.opened {
            Some((directory, when)) if now.since(*when) < self.valid_ms => Ok(Rc::clone(directory)),
            _ => {
                let opened = open::directory(&root.path);
                let opened = opened.inspect_err(|fault| error!("root {}: {fault}", root.path.display()));
                let directory = Rc::new(opened?);
                root.opened = Some((Rc::clone(&directory), now));
                Ok(directory)
            }
        }
    }

    /// What the client is told about a fault; the log is told more.
    fn status(&self, files: &Files, path: &[u8], fault: &io::Error) -> u16 {
        let root = self.roots.borrow()[files.root as usize].path.clone();
        let (root, path) = (root.display(), path.escape_ascii());
        match fault.raw_os_error().map(Errno::from_raw) {
            Some(Errno::ENOENT | Errno::ENOTDIR | Errno::ENAMETOOLONG) => {
                debug!("no file for {path} beneath {root}: {fault}");
                404
            }
            Some(
                Errno::EACCES
                | Errno::EPERM
                | Errno::EXDEV
                | Errno::ELOOP
                | Errno::ENXIO
                | NO_INDEX
                | NO_FILE,
            ) => {
                info!("{path} beneath {root} is not served: {}", refusal(fault));
                403
            }
            Some(Errno::EMFILE | Errno::ENFILE | Errno::ENOMEM | Errno::EAGAIN) => {
                error!("{path} beneath {root} cannot be opened now: {fault}");
                503
            }
            _ => {
                error!("{path} beneath {root} cannot be opened: {fault}");
                500
            }
        }
    }
}

/// A directory, and none of the files is there that could stand for it. Opening to read never gives this.
const NO_INDEX: Errno = Errno::EISDIR;
/// A pipe, socket or device.
const NO_FILE: Errno = Errno::ENODEV;

/// Why something that is there is not served, in words of its owner's.
fn refusal(fault: &io::Error) -> String {
    match fault.raw_os_error().map(Errno::from_raw) {
        Some(NO_INDEX) => "a directory without an index file".into(),
        Some(NO_FILE) => "neither a regular file nor a directory".into(),
        Some(Errno::EXDEV) => "a symbolic link leads out of the root (an absolute one always does)".into(),
        _ => fault.to_string(),
    }
}
