//! `pselect(2)` over sets that are kept between waits.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::RawFd;
use std::ptr;

use nix::sys::signal::SigSet;

/// The first descriptor that a set cannot represent (`FD_SETSIZE`).
pub const LIMIT: RawFd = libc::FD_SETSIZE as RawFd;

/// A set of descriptors below [`LIMIT`].
#[derive(Clone, Copy)]
pub struct DescriptorSet(libc::fd_set);

impl Default for DescriptorSet {
    fn default() -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `FD_ZERO` initialises the whole set it is given.
        unsafe {
            libc::FD_ZERO(set.as_mut_ptr());
            Self(set.assume_init())
        }
    }
}

impl DescriptorSet {
    /// Whether a set can hold `descriptor`.
    pub fn can_hold(descriptor: RawFd) -> bool {
        (0..LIMIT).contains(&descriptor)
    }

    /// Puts `descriptor` in, or takes it out.
    ///
    /// # Panics
    /// If the set cannot hold it.
    pub fn set(&mut self, descriptor: RawFd, present: bool) {
        assert!(Self::can_hold(descriptor), "descriptor {descriptor} is beyond FD_SETSIZE");
        // SAFETY: the descriptor is within the set, so the bit that is written lies inside it.
        unsafe {
            if present {
                libc::FD_SET(descriptor, &mut self.0)
            } else {
                libc::FD_CLR(descriptor, &mut self.0)
            }
        }
    }

    /// Whether `descriptor` is in the set.
    pub fn has(&self, descriptor: RawFd) -> bool {
        // SAFETY: the descriptor is within the set, so the bit that is read lies inside it.
        Self::can_hold(descriptor) && unsafe { libc::FD_ISSET(descriptor, &self.0) }
    }
}

/// Sleeps until a descriptor below `end` in `reading` or `writing` is ready, or `timeout_ms` (-1: no
/// limit) has passed, with `mask` as the signal mask meanwhile. The sets are left with those that
/// are ready. Returns how many that are.
///
/// # Errors
/// What `pselect(2)` reports; `Interrupted` when a signal that `mask` lets through came, and then
/// the sets are undefined.
pub fn wait(
    end: RawFd,
    reading: &mut DescriptorSet,
    writing: &mut DescriptorSet,
    timeout_ms: i32,
    mask: Option<&SigSet>,
) -> io::Result<usize> {
    let limit = super::time::timespec(timeout_ms);
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    let mask = mask.map_or(ptr::null(), |mask| ptr::from_ref::<libc::sigset_t>(mask.as_ref()));
    // SAFETY: both sets are whole and `end` is at most their size; `limit` and `mask` are null or
    // point to values that outlive the call.
    let count = unsafe {
        libc::pselect(end.clamp(0, LIMIT), &mut reading.0, &mut writing.0, ptr::null_mut(), limit, mask)
    };
    usize::try_from(count).map_err(|_| io::Error::last_os_error())
}
