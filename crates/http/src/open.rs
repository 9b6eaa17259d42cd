//! Opening files beneath a directory, with no way out of it (`openat2`, Linux 5.6).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::Mode;

/// The kernel gives EAGAIN when a rename raced with the resolution of `..` in a link; so often it is asked
/// again (openat2(2)).
const TRIES: u32 = 8;

/// Opens a directory as the starting point of [`beneath`].
///
/// # Errors
/// What `open(2)` reports; `ENOTDIR` for anything but a directory.
pub(crate) fn directory(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())?)
}

/// Opens `path`, which is relative, for reading. Neither `..` nor a symbolic link leads out of `root`: links
/// are followed as long as they stay beneath it. Does not wait, also not for the writer of a pipe.
///
/// # Errors
/// What `openat2(2)` reports: `EXDEV` for a way out, `ELOOP` for too many links, `EINVAL` for a NUL in `path`.
pub(crate) fn beneath(root: BorrowedFd<'_>, path: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let resolve = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let how = OpenHow::new().flags(flags).resolve(resolve);
    let mut tries = 0;
    loop {
        tries += 1;
        match openat2(root, path, how) {
            Err(Errno::EAGAIN | Errno::EINTR) if tries < TRIES => {}
            // Some sandboxes and tools know the call less long than the kernel does.
            Err(Errno::ENOSYS) => return step_by_step(root, path, flags),
            result => return Ok(result?),
        }
    }
}

/// The same without `openat2`: one directory after the other, and no symbolic link followed at all.
fn step_by_step(root: BorrowedFd<'_>, path: &[u8], flags: OFlag) -> io::Result<OwnedFd> {
    let mut parts = path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).peekable();
    if path.starts_with(b"/") || path.split(|byte| *byte == b'/').any(|part| part == b"..") {
        return Err(Errno::EXDEV.into());
    }
    let mut directory: Option<OwnedFd> = None;
    while let Some(part) = parts.next() {
        let inside = directory.as_ref().map_or(root, |directory| directory.as_fd());
        if parts.peek().is_some() {
            let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            directory = Some(openat(inside, part, flags, Mode::empty())?);
            continue;
        }
        let needs_directory = if path.ends_with(b"/") { OFlag::O_DIRECTORY } else { OFlag::empty() };
        return Ok(openat(inside, part, flags | OFlag::O_NOFOLLOW | needs_directory, Mode::empty())?);
    }
    Err(Errno::ENOENT.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    use nix::libc;

    #[test]
    fn nothing_outside_the_root_is_opened() {
        let top = std::env::temp_dir().join(format!("drover-open-{}", std::process::id()));
        fs::create_dir_all(top.join("root/sub")).expect("a directory can be made");
        fs::write(top.join("secret"), "s").expect("a file can be written");
        fs::write(top.join("root/sub/file"), "f").expect("a file can be written");
        for (link, target) in
            [("out", "../secret"), ("absolute", "/etc/passwd"), ("in", "sub/../sub/file"), ("loop", "loop")]
        {
            symlink(target, top.join("root").join(link)).expect("a link can be made");
        }
        let root = directory(&top.join("root")).expect("the root opens");
        let open =
            |path: &str| beneath(root.as_fd(), path.as_bytes()).map(drop).map_err(|e| e.raw_os_error());
        assert_eq!(open("sub/file"), Ok(()));
        assert_eq!(open("in"), Ok(()));
        for path in ["out", "absolute", "../secret", "sub/../../secret", "/etc/passwd"] {
            assert_eq!(open(path), Err(Some(libc::EXDEV)), "{path}");
        }
        assert_eq!(open("loop"), Err(Some(libc::ELOOP)));
        assert_eq!(open("none"), Err(Some(libc::ENOENT)));
        assert_eq!(open("sub\0/file"), Err(Some(libc::EINVAL)));
        assert!(directory(&top.join("secret")).is_err());
        let step = |path: &str| {
            step_by_step(root.as_fd(), path.as_bytes(), OFlag::O_RDONLY)
                .map(drop)
                .map_err(|e| e.raw_os_error())
        };
        for path in ["sub/file", "./sub//file", "sub/", "."] {
            assert_eq!(step(path), Ok(()), "{path}");
        }
        for path in ["../secret", "sub/../../secret", "/etc/passwd"] {
            assert_eq!(step(path), Err(Some(libc::EXDEV)), "{path}");
        }
        for path in ["out", "absolute", "in", "loop"] {
            assert_eq!(step(path), Err(Some(libc::ELOOP)), "{path}");
        }
        assert_eq!(step("sub/file/"), Err(Some(libc::ENOTDIR)));
        fs::remove_dir_all(top).expect("the directory can be removed");
    }
}
