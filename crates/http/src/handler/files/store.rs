//! The files that a worker has open, found beneath their roots.
//!
//! The file system is asked only where the cache does not know. A root is opened by its path again every now
//! and then, so that one that was replaced is seen.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use drover_event::Millis;
use nix::errno::Errno;
use tracing::{debug, error, info};

use super::offers::Offers;
use super::open_file::{About, Content, Identity, OpenFile};
use super::{Files, listing};
use crate::conditional::Validators;
use crate::encoding::Coding;
use crate::encoding::encoders::Encoders;
use crate::open;
use crate::open_file_cache::{Cached, OpenFileCache};
use crate::types::Types;

/// What a path leads to.
pub(super) enum Found {
    File(Rc<OpenFile>),
    /// A directory, asked for without its slash.
    Directory,
}

/// The files that a worker has open, and its roots.
pub(crate) struct FileStore {
    cache: RefCell<OpenFileCache<Rc<OpenFile>>>,
    roots: RefCell<Vec<Root>>,
    valid_ms: u64,
    small: u64,
    max_ranges: u32,
    types: Rc<Types>,
    /// The value of the field `Server`.
    pub(super) server: Box<str>,
    pub(super) encoders: Rc<Encoders>,
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
    pub(crate) max_ranges: u32,
    pub(crate) types: Rc<Types>,
    pub(crate) server: Box<str>,
}

/// A file as it was opened.
struct Opened {
    file: File,
    identity: Identity,
}

impl FileStore {
    /// The worker's encoders.
    pub(crate) fn encoders(&self) -> &Rc<Encoders> {
        &self.encoders
    }

    pub(crate) fn new(plan: &StorePlan, encoders: Rc<Encoders>) -> FileStore {
        let root = |path: &PathBuf| Root { path: path.clone(), opened: None };
        FileStore {
            cache: RefCell::new(OpenFileCache::new(plan.entries, plan.valid)),
            roots: RefCell::new(plan.roots.iter().map(root).collect()),
            valid_ms: u64::try_from(plan.valid.as_millis()).unwrap_or(u64::MAX),
            // Without a cache nothing would be gained by reading a file into memory.
            small: if plan.entries == 0 { 0 } else { plan.small },
            max_ranges: plan.max_ranges,
            types: Rc::clone(&plan.types),
            server: plan.server.clone(),
            encoders,
        }
    }

    /// What is at `path`, or the status that says why nothing is.
    #[inline]
    pub(super) fn find(&self, files: &Files, path: &[u8], now: Millis) -> Result<Found, u16> {
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
        let relative = files.relative(path).ok_or(Errno::ENOENT)?;
        if !path.ends_with(b"/") {
            return self.open_one(files, &root, beneath(relative), known);
        }
        for index in &files.index {
            let name = [relative, index].concat();
            match self.open_one(files, &root, &name, known.clone()) {
                Ok(Found::Directory) => {}
                Err(fault) if fault.kind() == io::ErrorKind::NotFound => {}
                result => return result,
            }
        }
        let directory = open::beneath(root.as_fd(), beneath(relative))?;
        if !files.autoindex {
            return Err(NO_INDEX.into());
        }
        let page = listing::page(&root, relative, directory)?;
        Ok(Found::File(Rc::new(self.made(files, listing::CONTENT_TYPE, page))))
    }

    fn open_one(
        &self,
        files: &Files,
        root: &OwnedFd,
        name: &[u8],
        known: Option<Rc<OpenFile>>,
    ) -> io::Result<Found> {
        let Some(main) = Opened::beneath(root, name)? else { return Ok(Found::Directory) };
        let siblings = siblings(files, root, name, &main.identity);
        let same = |known: &Rc<OpenFile>| {
            known.identity == Some(main.identity)
                && known
                    .offers
                    .siblings()
                    .map(|file| (file.about.coding, file.identity))
                    .eq(siblings.iter().map(|(coding, sibling)| (Some(*coding), Some(sibling.identity))))
        };
        if let Some(known) = known.filter(same) {
            return Ok(Found::File(known));
        }
        self.opened(files, name, main, siblings).map(|file| Found::File(Rc::new(file)))
    }

    /// A file with those beside it that can be sent in its place.
    fn opened(
        &self,
        files: &Files,
        name: &[u8],
        main: Opened,
        siblings: Vec<(Coding, Opened)>,
    ) -> io::Result<OpenFile> {
        let content_type: Rc<str> = self.types.of(name).into();
        let mut encoded = Vec::with_capacity(siblings.len());
        for (coding, Opened { file, mut identity }) in siblings {
            let content = Content::of(file, &mut identity, self.small)?;
            let about = About {
                validators: identity.validators().of_coding(coding),
                content_type: Rc::clone(&content_type),
                coding: Some(coding),
                varies: true,
                // Several parts would together be a body that no coding fits.
                max_ranges: self.max_ranges.min(1),
                size: identity.size,
            };
            let offers = Offers::default();
            encoded.push(Rc::new(OpenFile::new(Some(identity), about, content, offers, &self.server)));
        }
        let Opened { file, mut identity } = main;
        let content = Content::of(file, &mut identity, self.small)?;
        let validators = identity.validators();
        Ok(self.offering(files, Some(identity), (content_type, validators), content, encoded))
    }

    /// A page that was made.
    fn made(&self, files: &Files, content_type: &str, page: Vec<u8>) -> OpenFile {
        let known_by = (content_type.into(), Validators::of_bytes(&page));
        self.offering(files, None, known_by, Content::Memory(page.into()), Vec::new())
    }

    fn offering(
        &self,
        files: &Files,
        identity: Option<Identity>,
        (content_type, validators): (Rc<str>, Validators),
        content: Content,
        siblings: Vec<Rc<OpenFile>>,
    ) -> OpenFile {
        let size = match (&content, &identity) {
            (Content::Memory(bytes), _) => bytes.len() as u64,
            (Content::Descriptor(_), identity) => identity.map_or(0, |identity| identity.size),
        };
        let compression = &files.compression;
        let made = match compression.suits(&content_type, Some(size)) {
            true => &compression.codings[..],
            false => &[],
        };
        let offers = Offers::new(siblings, made, &content, &validators);
        let (coding, varies, max_ranges) = (None, !offers.is_empty(), self.max_ranges);
        let about = About { validators, content_type, coding, varies, max_ranges, size };
        OpenFile::new(identity, about, content, offers, &self.server)
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

impl Opened {
    /// Opens a file; none where it is a directory.
    fn beneath(root: &OwnedFd, name: &[u8]) -> io::Result<Option<Opened>> {
        let file = File::from(open::beneath(root.as_fd(), name)?);
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Ok(None);
        }
        if !metadata.is_file() {
            return Err(NO_FILE.into());
        }
        Ok(Some(Opened { file, identity: Identity::of(&metadata) }))
    }
}

/// The root itself is its own directory.
fn beneath(relative: &[u8]) -> &[u8] {
    if relative.is_empty() { b"." } else { relative }
}

/// The encoded files beside one that can be sent in its place. What is older than it was made of another state
/// of it; what cannot be opened is done without.
fn siblings(files: &Files, root: &OwnedFd, name: &[u8], main: &Identity) -> Vec<(Coding, Opened)> {
    let mut found = Vec::new();
    for coding in &files.precompressed {
        let sibling = [name, coding.suffix().as_bytes()].concat();
        let opened = match Opened::beneath(root, &sibling) {
            Ok(Some(opened)) => opened,
            Ok(None) => continue,
            Err(fault) => {
                if fault.kind() != io::ErrorKind::NotFound {
                    debug!("{} is not served: {}", sibling.escape_ascii(), refusal(&fault));
                }
                continue;
            }
        };
        if opened.identity.seconds < main.seconds {
            debug!("{} is not served: it is older than what it stands for", sibling.escape_ascii());
            continue;
        }
        found.push((*coding, opened));
    }
    found
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
