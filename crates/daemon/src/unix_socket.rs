//! Listening on a unix socket: its file outlives the socket, so it has to be found out whether one that
//! is there belongs to a living listener, and removed by whoever is the last to use it.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::socket::{self, AddressFamily, SockFlag, SockType, UnixAddr};

/// Binds a socket at `path`, in place of one that a killed daemon left. Anyone may connect: who can
/// reach the file is decided by the directories above it.
///
/// # Errors
/// `AddrInUse` when somebody listens there, or the file is no socket.
pub(crate) fn bind(path: &Path) -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    let address = UnixAddr::new(path)?;
    if left_behind(path, &address)? {
        fs::remove_file(path)?;
    }
    socket::bind(socket.as_raw_fd(), &address)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
    Ok(socket)
}

/// Removes the file at `path` if it is a socket that nobody listens on any more.
pub(crate) fn remove_left_behind(path: &Path) {
    let left = UnixAddr::new(path).map_err(io::Error::from).and_then(|address| left_behind(path, &address));
    if left.is_ok_and(|left| left) {
        let _ = fs::remove_file(path);
    }
}

/// A socket that refuses connections has no listener any more. Asked without waiting: a listener whose
/// queue is full is alive too.
fn left_behind(path: &Path, address: &UnixAddr) -> io::Result<bool> {
    if !fs::symlink_metadata(path).is_ok_and(|metadata| metadata.file_type().is_socket()) {
        return Ok(false);
    }
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let probe = socket::socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    Ok(socket::connect(probe.as_raw_fd(), address) == Err(Errno::ECONNREFUSED))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owned_path::OwnedPath;

    #[test]
    fn what_a_killed_daemon_left_is_replaced_and_other_files_are_not() {
        let path = std::env::temp_dir().join(format!("drover-left-{}.sock", std::process::id()));
        drop(bind(&path).expect("bound"));
        assert!(path.exists(), "closing leaves the file");
        let socket = bind(&path).expect("replaced");
        let guard = OwnedPath::new(&path);
        drop(socket);
        drop(guard);
        assert!(!path.exists());
        fs::write(&path, "precious").expect("file");
        assert_eq!(bind(&path).expect_err("in the way").kind(), io::ErrorKind::AddrInUse);
        assert!(path.exists());
        fs::remove_file(&path).expect("removed");
    }
}
