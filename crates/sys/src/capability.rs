//! Giving up capabilities (capabilities(7)), which nix has no call for.

use std::io;

/// `_LINUX_CAPABILITY_VERSION_3` of linux/capability.h: two words for each set.
const VERSION: u32 = 0x2008_0522;

/// `struct __user_cap_header_struct` of linux/capability.h.
#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

/// `struct __user_cap_data_struct` of linux/capability.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Empties the effective, permitted and inheritable set of this thread for good; what is ambient goes with them.
///
/// # Errors
/// What `capset(2)` reports; it refuses nobody who wants less.
pub fn drop_all() -> io::Result<()> {
    let mut header = Header { version: VERSION, pid: 0 };
    let sets = [Sets::default(); 2];
    // SAFETY: both live through the call and have the layout that the kernel expects: two elements of data for this
    // version. Of the header it may write the version.
    let result = unsafe { libc::syscall(libc::SYS_capset, &raw mut header, sets.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left() {
        // In a thread of its own, as the others of the test may need theirs.
        let status = std::thread::spawn(|| {
            drop_all().expect("allowed");
            std::fs::read_to_string("/proc/thread-self/status").expect("status")
        });
        let status = status.join().expect("no panic");
        for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
            let line = status.lines().find_map(|line| line.strip_prefix(set)?.strip_prefix(':'));
            assert_eq!(line.map(str::trim), Some("0000000000000000"), "{set}");
        }
    }
}
