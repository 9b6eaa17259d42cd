//! Internet addresses between Rust's types and the kernel's.

use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::ptr;

/// Reads an internet address out of what the kernel wrote: its first `length` bytes. `None` for
/// addresses of other families.
pub(crate) fn from_storage(
    storage: &MaybeUninit<libc::sockaddr_storage>,
    length: usize,
) -> Option<SocketAddr> {
    if length < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the family is within the first `length` bytes, which the kernel initialised.
    let family = unsafe { *storage.as_ptr().cast::<libc::sa_family_t>() };
    match i32::from(family) {
        libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: the kernel initialised a whole `sockaddr_in`; `storage` is aligned for it.
            let address = unsafe { *storage.as_ptr().cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr));
            Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(address.sin_port))))
        }
        libc::AF_INET6 if length >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: the kernel initialised a whole `sockaddr_in6`; `storage` is aligned for it.
            let address = unsafe { *storage.as_ptr().cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(address.sin6_addr.s6_addr);
            let port = u16::from_be(address.sin6_port);
            Some(SocketAddr::V6(SocketAddrV6::new(ip, port, address.sin6_flowinfo, address.sin6_scope_id)))
        }
        _ => None,
    }
}

/// Writes `address` as the kernel wants it, and tells how long it is.
pub(crate) fn to_storage(address: SocketAddr, storage: &mut libc::sockaddr_storage) -> usize {
    let place = ptr::from_mut(storage);
    match address {
        SocketAddr::V4(address) => {
            let native = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: address.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*address.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: a `sockaddr_storage` has room and alignment for every address.
            unsafe { place.cast::<libc::sockaddr_in>().write(native) };
            size_of::<libc::sockaddr_in>()
        }
        SocketAddr::V6(address) => {
            let native = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: address.port().to_be(),
                sin6_flowinfo: address.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: address.ip().octets() },
                sin6_scope_id: address.scope_id(),
            };
            // SAFETY: a `sockaddr_storage` has room and alignment for every address.
            unsafe { place.cast::<libc::sockaddr_in6>().write(native) };
            size_of::<libc::sockaddr_in6>()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_as_they_went() {
        for text in ["192.0.2.7:65535", "[2001:db8::1]:53", "[fe80::1%3]:1"] {
            let address: SocketAddr = text.parse().expect("an address");
            // SAFETY: all-zero bytes are a valid `sockaddr_storage`.
            let mut storage = unsafe { std::mem::zeroed() };
            let length = to_storage(address, &mut storage);
            assert_eq!(from_storage(&MaybeUninit::new(storage), length), Some(address));
        }
    }
}
