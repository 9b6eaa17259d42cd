//! The scheduling priority of this process.

use std::io;

/// Sets the nice value of this process, -20 (first) to 19 (last): `setpriority(2)`.
///
/// # Errors
/// What the kernel reports; lowering the value needs privileges.
pub fn set_nice(value: i32) -> io::Result<()> {
    // SAFETY: no memory is passed.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, value) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
