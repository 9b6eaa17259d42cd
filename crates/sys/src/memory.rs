//! Shared memory as a slice of atomic 64-bit words.
//!
//! Everything that drover's processes share (scoreboard, accept mutex, limits) is made of these
//! words: a word is always valid whatever another process wrote into it, so mapping a file that
//! somebody else scribbles on can give wrong numbers but never undefined behaviour.
//!
//! Invariant: the mapping lives as long as the value, and is never resized.

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};

const WORD: usize = size_of::<AtomicU64>();

/// A mapping shared between processes (`MAP_SHARED`), seen as atomic words that start as zero.
#[derive(Debug)]
pub struct SharedWords {
    base: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping is plain memory reached only through atomics; it belongs to no thread.
unsafe impl Send for SharedWords {}
// SAFETY: as above; `AtomicU64` is `Sync`, and `Deref` hands out shared references only.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Maps `words` words that only this process and its later children see.
    ///
    /// # Errors
    /// What `mmap(2)` reports, and `InvalidInput` for zero words.
    pub fn anonymous(words: usize) -> io::Result<Self> {
        let length = length_of(words)?;
        // SAFETY: no address is asked for, so no existing mapping is replaced.
        let base = unsafe {
            mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_SHARED)?
        };
        Ok(Self { base: base.cast(), words })
    }

    /// Maps the first `words` words of `file`, which must be open for reading and writing; the
    /// file is made longer where it is too short.
    ///
    /// # Errors
    /// What `ftruncate(2)` and `mmap(2)` report, and `InvalidInput` for zero words.
    pub fn create(file: &File, words: usize) -> io::Result<Self> {
        let length = length_of(words)?;
        if file.metadata()?.len() < length.get() as u64 {
            file.set_len(length.get() as u64)?;
        }
        Self::map(file, length, words, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE)
    }

    /// Maps the whole of `file` for reading. Storing to a word of such a mapping would fault, so
    /// the words are to be loaded only; [`ReadOnlyWords`] sees to that.
    ///
    /// # Errors
    /// What `mmap(2)` reports, and `InvalidInput` for a file shorter than one word.
    pub fn open_read_only(file: &File) -> io::Result<ReadOnlyWords> {
        let words = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX) / WORD;
        Self::map(file, length_of(words)?, words, ProtFlags::PROT_READ).map(ReadOnlyWords)
    }

    fn map(file: &File, length: NonZeroUsize, words: usize, protection: ProtFlags) -> io::Result<Self> {
        // SAFETY: no address is asked for, so no existing mapping is replaced. Another process may
        // change the bytes at any time, which atomics allow.
        let base = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, file.as_fd(), 0)? };
        Ok(Self { base: base.cast(), words })
    }
}

fn length_of(words: usize) -> io::Result<NonZeroUsize> {
    words.checked_mul(WORD).and_then(NonZeroUsize::new).ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidInput, "a shared mapping needs at least one word")
    })
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        // SAFETY: `base` is page-aligned and starts a live mapping of `words` words; every bit
        // pattern is a valid `AtomicU64`.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.words) }
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by this value with this length, and no reference into it
        // can outlive the value. Failure would leak address space and harms nothing else.
        let _ = unsafe { munmap(self.base.cast(), self.words * WORD) };
    }
}

/// The words of somebody else's mapping: they can be loaded and not stored.
#[derive(Debug)]
pub struct ReadOnlyWords(SharedWords);

impl ReadOnlyWords {
    /// The word at `index`, or `None` past the end.
    pub fn load(&self, index: usize) -> Option<u64> {
        self.0.get(index).map(|word| word.load(std::sync::atomic::Ordering::Acquire))
    }

    /// How many words there are.
    pub fn len(&self) -> usize {
        self.0.words
    }

    /// Whether there is no word; never true, as an empty mapping cannot be made.
    pub fn is_empty(&self) -> bool {
        self.0.words == 0
    }
}

/// `N` words in a row of a mapping, which they keep alive. Known in number, they are reached without
/// a check.
#[derive(Clone, Debug)]
pub struct WordBlock<const N: usize> {
    first: NonNull<[AtomicU64; N]>,
    _mapping: Rc<SharedWords>,
}

impl<const N: usize> WordBlock<N> {
    /// The words from `base` on; `None` if there are not as many.
    pub fn new(mapping: &Rc<SharedWords>, base: usize) -> Option<Self> {
        let words: &[AtomicU64; N] = mapping.get(base..)?.first_chunk()?;
        Some(Self { first: NonNull::from(words), _mapping: Rc::clone(mapping) })
    }
}

impl<const N: usize> Deref for WordBlock<N> {
    type Target = [AtomicU64; N];

    fn deref(&self) -> &[AtomicU64; N] {
        // SAFETY: the words lie inside a mapping that this value keeps alive and that never moves.
        unsafe { self.first.as_ref() }
    }
}

/// A file in memory that nobody else can find, for words that are shared with whoever is given its descriptor.
///
/// # Errors
/// What `memfd_create(2)` reports.
pub fn anonymous_file(name: &CStr) -> io::Result<File> {
    Ok(memfd_create(name, MFdFlags::MFD_CLOEXEC)?.into())
}

/// A file in memory with these bytes, which nobody can change any more: whoever is given its descriptor may rely on
/// them.
///
/// # Errors
/// What `memfd_create(2)`, `write(2)` or `fcntl(2)` report.
pub fn sealed_file(name: &CStr, bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create(name, MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)?);
    file.write_all(bytes)?;
    let seals =
        SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    Ok(file)
}

/// Gives free memory of the heap back to the system, wherever it lies, as far as the allocator can
/// (`malloc_trim(3)` of glibc); by itself it does that only at the heap's end.
pub fn trim_heap() {
    // SAFETY: it takes no memory that is in use, and may be called at any time.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_file_mapped_twice_shows_the_same_words() {
        let path = std::env::temp_dir().join(format!("drover-words-{}", std::process::id()));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .expect("temporary file");
        let writer = SharedWords::create(&file, 16).expect("mapping");
        let reader = SharedWords::open_read_only(&file).expect("second mapping");
        assert_eq!(reader.len(), 16);
        writer[7].store(99, Ordering::Release);
        assert_eq!(reader.load(7), Some(99));
        assert_eq!(reader.load(16), None);
        std::fs::remove_file(path).expect("removing the temporary file");
    }

    #[test]
    fn a_block_is_a_part_of_its_mapping_and_keeps_it() {
        let words = Rc::new(SharedWords::anonymous(10).expect("mapping"));
        let block = WordBlock::<4>::new(&words, 6).expect("room");
        assert!(WordBlock::<4>::new(&words, 7).is_none());
        assert!(WordBlock::<4>::new(&words, usize::MAX).is_none());
        words[9].store(5, Ordering::Relaxed);
        drop(words);
        assert_eq!(block[3].load(Ordering::Relaxed), 5);
    }

    #[test]
    fn what_is_sealed_stays_as_it_is() {
        let mut file = sealed_file(c"test", b"whole").expect("a file in memory");
        assert_eq!(file.metadata().expect("it is open").len(), 5);
        assert!(file.write_all(b"more").is_err());
        assert!(file.set_len(0).is_err());
    }

    #[test]
    fn zero_words_are_refused() {
        assert_eq!(SharedWords::anonymous(0).expect_err("empty").kind(), io::ErrorKind::InvalidInput);
    }
}
