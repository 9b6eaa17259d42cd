//! Time-outs as the kernel's older waits want them.

/// `timeout_ms` as a `timespec`; `None` for no limit (negative).
pub(crate) fn timespec(timeout_ms: i32) -> Option<libc::timespec> {
    (timeout_ms >= 0).then(|| libc::timespec {
        tv_sec: libc::time_t::from(timeout_ms / 1000),
        tv_nsec: libc::c_long::from(timeout_ms % 1000) * 1_000_000,
    })
}
