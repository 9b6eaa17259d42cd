//! Socket calls that nix lacks or makes dearer: `accept4` with the peer's address, and a gathering
//! send without auxiliary data.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use crate::address;

/// Accepts one connection from `listener` as non-blocking and close-on-exec. The address is `None`
/// for peers that have none (unix sockets).
///
/// # Errors
/// What `accept4(2)` reports.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<(OwnedFd, Option<SocketAddr>)> {
    let mut storage = MaybeUninit::<libc::sockaddr_storage>::uninit();
    let mut length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: `storage` has room for `length` bytes, and the kernel writes no more than that.
    let descriptor = unsafe {
        libc::accept4(
            listener.as_raw_fd(),
            storage.as_mut_ptr().cast(),
            &mut length,
            libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
        )
    };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave this descriptor to us and nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(descriptor) };
    Ok((socket, address::from_storage(&storage, length as usize)))
}

/// Sends `parts` in their order with one `sendmsg(2)`; `more` tells the kernel that further data
/// follows at once (`MSG_MORE`). Never raises SIGPIPE.
///
/// # Errors
/// What `sendmsg(2)` reports.
pub fn send_vectored(socket: BorrowedFd<'_>, parts: &[IoSlice<'_>], more: bool) -> io::Result<usize> {
    let message = libc::msghdr {
        msg_name: ptr::null_mut(),
        msg_namelen: 0,
        // `IoSlice` is guaranteed to have the layout of `iovec`; the kernel only reads it.
        msg_iov: parts.as_ptr().cast_mut().cast(),
        msg_iovlen: parts.len(),
        msg_control: ptr::null_mut(),
        msg_controllen: 0,
        msg_flags: 0,
    };
    let flags = libc::MSG_NOSIGNAL | if more { libc::MSG_MORE } else { 0 };
    // SAFETY: `message` and the parts it points to live through the call and are only read.
    let sent = unsafe { libc::sendmsg(socket.as_raw_fd(), &message, flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// How many bytes that were sent the peer has not taken yet (`SIOCOUTQ`, tcp(7) and unix(7)).
///
/// # Errors
/// What `ioctl(2)` reports.
pub fn untaken(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: the kernel writes one `int`, for which there is room. `SIOCOUTQ` has the number of `TIOCOUTQ`.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usize::try_from(count).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn accept_tells_the_address_of_the_peer() {
        for place in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(place) else { continue };
            let client = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
            let (_socket, peer) = accept(listener.as_fd()).expect("accept");
            assert_eq!(peer, Some(client.local_addr().expect("address")));
        }
    }

    #[test]
    fn a_gathering_send_keeps_the_order_of_its_parts() {
        let (left, mut right) = std::os::unix::net::UnixStream::pair().expect("pair");
        let parts = [IoSlice::new(b"one "), IoSlice::new(b"two")];
        assert_eq!(send_vectored(left.as_fd(), &parts, false).expect("send"), 7);
        drop(left);
        let mut text = String::new();
        right.read_to_string(&mut text).expect("read");
        assert_eq!(text, "one two");
    }

    #[test]
    fn what_the_peer_takes_is_known() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut client = TcpStream::connect(listener.local_addr().expect("address")).expect("connect");
        let (mut server, _) = listener.accept().expect("accept");
        server.set_nonblocking(true).expect("a socket");
        while server.write(&[0; 65_536]).is_ok() {}
        let full = untaken(server.as_fd()).expect("a number");
        assert!(full > 0);
        while untaken(server.as_fd()).expect("a number") == full {
            assert!(client.read(&mut [0; 65_536]).expect("bytes") > 0);
        }
    }
}
