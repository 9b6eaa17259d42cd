//! Batches of datagrams: `recvmmsg(2)` and `sendmmsg(2)` with the local address of each.
//!
//! A socket bound to a wildcard address receives for many addresses, and an answer has to leave
//! from the one that was asked. The kernel tells which it was, and is told, in a control message
//! (`IP_PKTINFO` in ip(7), `IPV6_PKTINFO` in ipv6(7)).

use std::io;
use std::mem::{self, MaybeUninit};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use crate::address;

/// Room for one control message of either kind; the largest is `in6_pktinfo`.
const CONTROL: usize = 64;

/// Has the kernel tell for which local address a datagram came.
///
/// # Errors
/// What `setsockopt(2)` reports.
pub fn tell_local_address(socket: BorrowedFd<'_>, ipv6: bool) -> io::Result<()> {
    let (level, option) = if ipv6 {
        (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO)
    } else {
        (libc::IPPROTO_IP, libc::IP_PKTINFO)
    };
    let on: libc::c_int = 1;
    // SAFETY: the option's value is the integer that `on` is, of the size that is told.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            ptr::from_ref(&on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Aligned as control messages have to be.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// The parts of a batch that the kernel reads and writes, of which the headers point into the rest.
struct Headers {
    messages: Vec<libc::mmsghdr>,
    parts: Vec<libc::iovec>,
    addresses: Vec<libc::sockaddr_storage>,
    controls: Vec<Control>,
}

impl Headers {
    fn new(count: usize) -> Self {
        // SAFETY: all-zero bytes are a valid value of these plain C structures.
        let (message, address) = unsafe { (mem::zeroed(), mem::zeroed()) };
        Self {
            messages: vec![message; count],
            parts: vec![libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; count],
            addresses: vec![address; count],
            controls: vec![Control([0; CONTROL]); count],
        }
    }

    /// Points header `index` at its parts.
    fn prepare(&mut self, index: usize, bytes: *mut u8, length: usize, name: usize, control: usize) {
        self.parts[index] = libc::iovec { iov_base: bytes.cast(), iov_len: length };
        let header = &mut self.messages[index].msg_hdr;
        header.msg_name = ptr::from_mut(&mut self.addresses[index]).cast();
        header.msg_namelen = name as libc::socklen_t;
        header.msg_iov = ptr::from_mut(&mut self.parts[index]);
        header.msg_iovlen = 1;
        header.msg_control =
            if control == 0 { ptr::null_mut() } else { self.controls[index].0.as_mut_ptr().cast() };
        header.msg_controllen = control;
        header.msg_flags = 0;
    }
}

/// One received datagram.
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Its content.
    pub bytes: &'a [u8],
    /// Who sent it.
    pub peer: SocketAddr,
    /// The local address it came to, if the kernel told.
    pub local: Option<IpAddr>,
}

/// Room for several datagrams at once.
pub struct ReceiveBatch {
    headers: Headers,
    buffer: Vec<u8>,
    size: usize,
}

impl ReceiveBatch {
    /// Room for `count` datagrams of at most `size` bytes.
    pub fn new(count: usize, size: usize) -> Self {
        Self { headers: Headers::new(count), buffer: vec![0; count * size], size }
    }

    /// How many datagrams there is room for.
    pub fn capacity(&self) -> usize {
        self.headers.messages.len()
    }

    /// Receives what is there, without waiting, and tells how many datagrams that is.
    ///
    /// # Errors
    /// `WouldBlock` when nothing is there, else what `recvmmsg(2)` reports.
    pub fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<usize> {
        for (index, bytes) in self.buffer.chunks_exact_mut(self.size).enumerate() {
            let name = size_of::<libc::sockaddr_storage>();
            self.headers.prepare(index, bytes.as_mut_ptr(), bytes.len(), name, CONTROL);
        }
        let messages = &mut self.headers.messages;
        // SAFETY: each header points to an address, a part and a control buffer of its own, all
        // alive and as long as told; the parts are disjoint slices of the buffer.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as libc::c_uint,
                libc::MSG_DONTWAIT,
                ptr::null_mut(),
            )
        };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    /// The content of datagram `index` of the last receive.
    ///
    /// # Panics
    /// If `index` is not below [`ReceiveBatch::capacity`].
    pub fn bytes(&self, index: usize) -> &[u8] {
        let length = (self.headers.messages[index].msg_len as usize).min(self.size);
        &self.buffer[index * self.size..][..length]
    }

    /// Datagram `index` of the last receive; `None` if its sender has no internet address.
    ///
    /// # Panics
    /// If `index` is not below [`ReceiveBatch::capacity`].
    pub fn get(&self, index: usize) -> Option<Received<'_>> {
        let message = &self.headers.messages[index];
        let peer = address::from_storage(
            &MaybeUninit::new(self.headers.addresses[index]),
            message.msg_hdr.msg_namelen as usize,
        )?;
        Some(Received { bytes: self.bytes(index), peer, local: local_address(&message.msg_hdr) })
    }
}

/// Finds the local address among the control messages of a received datagram.
fn local_address(header: &libc::msghdr) -> Option<IpAddr> {
    // SAFETY: the kernel wrote well-formed control messages of `msg_controllen` bytes in all into
    // the buffer that the header points to; the macros stay within it, and each structure is read
    // from where its type says it is, with no assumption on alignment.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while !message.is_null() {
            let data = libc::CMSG_DATA(message);
            match ((*message).cmsg_level, (*message).cmsg_type) {
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info: libc::in_pktinfo = ptr::read_unaligned(data.cast());
                    return Some(Ipv4Addr::from(u32::from_be(info.ipi_addr.s_addr)).into());
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info: libc::in6_pktinfo = ptr::read_unaligned(data.cast());
                    return Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                _ => message = libc::CMSG_NXTHDR(header, message),
            }
        }
    }
    None
}

/// Datagrams that are sent together.
pub struct SendBatch {
    headers: Headers,
    buffer: Vec<u8>,
    /// For each datagram its length, the length of its address and that of its control message.
    lengths: Vec<(usize, usize, usize)>,
}

impl SendBatch {
    /// A batch of at most `count` datagrams.
    pub fn new(count: usize) -> Self {
        Self { headers: Headers::new(count), buffer: Vec::new(), lengths: Vec::with_capacity(count) }
    }

    /// Whether no further datagram fits.
    pub fn is_full(&self) -> bool {
        self.lengths.len() == self.headers.messages.len()
    }

    /// How many datagrams wait.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// Adds a datagram for `peer`, to leave from `local` if given.
    ///
    /// # Panics
    /// If the batch is full.
    pub fn push(&mut self, bytes: &[u8], peer: SocketAddr, local: Option<IpAddr>) {
        let index = self.lengths.len();
        let name = address::to_storage(peer, &mut self.headers.addresses[index]);
        let control = local.map_or(0, |local| write_source(local, &mut self.headers.controls[index]));
        self.buffer.extend_from_slice(bytes);
        self.lengths.push((bytes.len(), name, control));
    }

    /// Sends all that wait, and forgets them whether or not the kernel took them; tells how many
    /// bytes it took, and how many datagrams it did not.
    pub fn send(&mut self, socket: BorrowedFd<'_>) -> (usize, usize) {
        let mut place = 0;
        for (index, &(length, name, control)) in self.lengths.iter().enumerate() {
            // The kernel only reads the bytes; the type of an `iovec` cannot say so.
            let bytes = self.buffer[place..place + length].as_ptr().cast_mut();
            self.headers.prepare(index, bytes, length, name, control);
            place += length;
        }
        let (mut sent, mut bytes, mut refused) = (0, 0, 0);
        while sent < self.lengths.len() {
            let left = &mut self.headers.messages[sent..self.lengths.len()];
            // SAFETY: each header points to an address, a part and perhaps a control message, all
            // alive, initialised and as long as told.
            let count = unsafe {
                libc::sendmmsg(
                    socket.as_raw_fd(),
                    left.as_mut_ptr(),
                    left.len() as libc::c_uint,
                    libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
                )
            };
            match usize::try_from(count) {
                Ok(count) => {
                    bytes +=
                        self.lengths[sent..sent + count].iter().map(|(length, ..)| length).sum::<usize>();
                    sent += count;
                }
                // The first one left was refused: the network takes no more, or not this one.
                Err(_) => {
                    refused += 1;
                    sent += 1;
                }
            }
        }
        self.lengths.clear();
        self.buffer.clear();
        (bytes, refused)
    }
}

/// Writes the control message that makes a datagram leave from `local`; returns its length.
fn write_source(local: IpAddr, control: &mut Control) -> usize {
    match local {
        IpAddr::V4(local) => {
            let address = libc::in_addr { s_addr: u32::from(local).to_be() };
            let none = libc::in_addr { s_addr: 0 };
            let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: address, ipi_addr: none };
            write_control(control, libc::IPPROTO_IP, libc::IP_PKTINFO, info)
        }
        IpAddr::V6(local) => {
            let address = libc::in6_addr { s6_addr: local.octets() };
            let info = libc::in6_pktinfo { ipi6_addr: address, ipi6_ifindex: 0 };
            write_control(control, libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info)
        }
    }
}

fn write_control<T: Copy>(control: &mut Control, level: i32, kind: i32, value: T) -> usize {
    let size = size_of::<T>() as libc::c_uint;
    // SAFETY: these only compute with sizes.
    let (length, space) = unsafe { (libc::CMSG_LEN(size), libc::CMSG_SPACE(size) as usize) };
    assert!(space <= CONTROL, "a control message of {space} bytes does not fit");
    let header = control.0.as_mut_ptr().cast::<libc::cmsghdr>();
    // SAFETY: the buffer is aligned for a control message header and has `space` bytes, in which
    // the header and the value lie where the macros say.
    unsafe {
        (*header).cmsg_len = length as _;
        (*header).cmsg_level = level;
        (*header).cmsg_type = kind;
        ptr::write_unaligned(libc::CMSG_DATA(header).cast(), value);
    }
    space
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    #[test]
    fn answers_leave_from_the_address_that_was_asked() {
        let server = UdpSocket::bind("0.0.0.0:0").expect("server");
        tell_local_address(server.as_fd(), false).expect("option");
        let port = server.local_addr().expect("address").port();
        let client = UdpSocket::bind("127.0.0.1:0").expect("client");
        client.set_read_timeout(Some(std::time::Duration::from_secs(5))).expect("time-out");
        let mut incoming = ReceiveBatch::new(4, 65_536);
        let mut outgoing = SendBatch::new(4);
        for (host, text) in [("127.0.0.2", "to two"), ("127.0.0.3", ""), ("127.0.0.4", "to four")] {
            client.send_to(text.as_bytes(), (host, port)).expect("sending");
        }
        let count = incoming.receive(server.as_fd()).expect("receiving");
        assert_eq!(count, 3);
        for index in 0..count {
            let received = incoming.get(index).expect("an internet address");
            assert_eq!(received.peer, client.local_addr().expect("address"));
            outgoing.push(received.bytes, received.peer, received.local);
        }
        assert_eq!(outgoing.send(server.as_fd()), (13, 0));
        assert!(outgoing.is_empty());
        let mut buffer = [0; 64];
        for (host, text) in [("127.0.0.2", "to two"), ("127.0.0.3", ""), ("127.0.0.4", "to four")] {
            let (length, from) = client.recv_from(&mut buffer).expect("an answer");
            assert_eq!((from.ip().to_string().as_str(), &buffer[..length]), (host, text.as_bytes()));
        }
    }

    #[test]
    fn nothing_there_would_block() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("server");
        let error = ReceiveBatch::new(1, 16).receive(server.as_fd()).expect_err("nothing was sent");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
