//! The title of this process in `ps` and `/proc/PID/cmdline`.
//!
//! The kernel shows whatever lies between two addresses of the process. [`Title`] points them at memory
//! of its own (`PR_SET_MM_MAP`, which needs no privilege), so that a title may be longer than the
//! command line was and the environment stays untouched. Where the kernel was built without that call
//! the argument area itself is overwritten, and a title is cut to its length.

use std::fs;
use std::io::{self, Write};
use std::ptr;

/// Room for a title and the zero byte that ends it, in bytes.
const ROOM: usize = 128;

/// `PR_SET_MM` and the one of its operations that sets everything at once: `prctl(2)`.
const PR_SET_MM: libc::c_int = 35;
const PR_SET_MM_MAP: libc::c_ulong = 14;

/// `struct prctl_mm_map` of linux/prctl.h.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
struct MemoryMap {
    start_code: u64,
    end_code: u64,
    start_data: u64,
    end_data: u64,
    start_brk: u64,
    brk: u64,
    start_stack: u64,
    arg_start: u64,
    arg_end: u64,
    env_start: u64,
    env_end: u64,
    auxv: u64,
    auxv_size: u32,
    exe_fd: u32,
}

/// Sets the title of this process; carried over a fork, it sets the child's.
#[derive(Debug)]
pub struct Title {
    /// Never freed: the kernel reads it as long as the process lives.
    room: &'static mut [u8; ROOM],
    map: MemoryMap,
}

impl Title {
    /// Finds out where the kernel looks for the title now.
    ///
    /// # Errors
    /// When `/proc/self/stat` cannot be read or understood.
    pub fn new() -> io::Result<Self> {
        let map = current_map(&fs::read_to_string("/proc/self/stat")?).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, "/proc/self/stat has an unknown form")
        })?;
        Ok(Self { room: Box::leak(Box::new([0; ROOM])), map })
    }

    /// Makes `title` the title of this process, cut to 127 bytes.
    ///
    /// The process must have one thread: the argument area may be written to.
    ///
    /// # Errors
    /// When there is no argument area to fall back on.
    pub fn set(&mut self, title: &str) -> io::Result<()> {
        self.room.fill(0);
        let mut rest: &mut [u8] = &mut self.room[..ROOM - 1];
        let cut = title.len().min(rest.len());
        rest.write_all(&title.as_bytes()[..cut])?;
        let start = self.room.as_ptr() as u64;
        let map =
            MemoryMap { arg_start: start, arg_end: start + cut as u64 + 1, brk: program_break(), ..self.map };
        if install(&map).is_ok() { Ok(()) } else { self.overwrite_arguments(cut) }
    }

    fn overwrite_arguments(&self, length: usize) -> io::Result<()> {
        let area = self.map.arg_end.saturating_sub(self.map.arg_start) as usize;
        if area < 2 {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the process has no argument area"));
        }
        let start = self.map.arg_start as *mut u8;
        let length = length.min(area - 1);
        // SAFETY: the kernel laid `area` bytes of arguments out at `start`, on the stack, writable and
        // mapped for as long as the process lives. This process has one thread, so nobody reads them
        // meanwhile, and they stay what they were: bytes that end with a zero.
        unsafe {
            ptr::copy_nonoverlapping(self.room.as_ptr(), start, length);
            ptr::write_bytes(start.add(length), 0, area - length);
        }
        Ok(())
    }
}

/// Reads the fields that the map is made of, by their numbers in proc(5).
fn current_map(stat: &str) -> Option<MemoryMap> {
    // The second field is the command in parentheses, which may contain anything.
    let rest = stat.get(stat.rfind(')')? + 2..)?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    Some(MemoryMap {
        start_code: field(26)?,
        end_code: field(27)?,
        start_data: field(45)?,
        end_data: field(46)?,
        start_brk: field(47)?,
        brk: 0,
        start_stack: field(28)?,
        arg_start: field(48)?,
        arg_end: field(49)?,
        env_start: field(50)?,
        env_end: field(51)?,
        auxv: 0,
        auxv_size: 0,
        exe_fd: u32::MAX,
    })
}

fn program_break() -> u64 {
    // SAFETY: an increment of zero moves nothing.
    unsafe { libc::sbrk(0) as u64 }
}

fn install(map: &MemoryMap) -> io::Result<()> {
    let size = size_of::<MemoryMap>() as libc::c_ulong;
    let unused: libc::c_ulong = 0;
    // SAFETY: the kernel copies `size` bytes out of `map`, which has exactly that layout, and checks
    // them. Only the argument bounds differ from what the process has: they are for display alone.
    let result = unsafe { libc::prctl(PR_SET_MM, PR_SET_MM_MAP, ptr::from_ref(map), size, unused) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_shows_in_proc() {
        let original = fs::read("/proc/self/cmdline").expect("cmdline");
        let mut title = Title::new().expect("map");
        for text in ["drover: worker 0, generation 3", "drover: master"] {
            title.set(text).expect("set");
            let shown = fs::read("/proc/self/cmdline").expect("cmdline");
            let shown = String::from_utf8_lossy(&shown).trim_end_matches('\0').to_owned();
            assert_eq!(shown, text);
        }
        title.set(&"x".repeat(500)).expect("set");
        assert!(!original.is_empty());
        assert!(fs::read("/proc/self/cmdline").expect("cmdline").len() <= ROOM);
    }

    #[test]
    fn fields_are_counted_from_behind_the_command() {
        let numbers = (3..=52).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        let map = current_map(&format!("17 (a ) b) {numbers}")).expect("fields");
        assert_eq!((map.start_code, map.start_stack, map.arg_start, map.env_end), (26, 28, 48, 51));
    }
}
