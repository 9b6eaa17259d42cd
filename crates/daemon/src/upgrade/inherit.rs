//! The start of a master that takes over from another one: everything that comes over the link is there before
//! this process begins, so nothing is waited for.

use std::env;
use std::io;
use std::os::fd::RawFd;
use std::rc::Rc;

use drover_sys::descriptors;
use nix::sys::socket::{SockType, getsockopt, sockopt};
use nix::unistd::Pid;
use thiserror::Error;

use super::datagrams::taken_over;
use super::executable::LINK_VARIABLE;
use super::link::{Heard, Link, Message};
use crate::datagrams::{self, DatagramSeat};
use crate::sockets::{HandOverError, Sockets};

/// Why nothing could be taken over.
#[derive(Debug, Error)]
pub(crate) enum InheritError {
    /// The variable does not name a link.
    #[error("{LINK_VARIABLE}={value} in the environment does not name the link of an upgrade: {reason}")]
    Variable {
        /// What it says.
        value: String,
        /// What is wrong with that.
        reason: String,
    },
    /// The old master ended, or spoke of something else.
    #[error("the old master did not hand over everything: it {0}")]
    Incomplete(&'static str),
    /// Sockets that cannot be used.
    #[error(transparent)]
    Sockets(#[from] HandOverError),
}

/// The master before this one, as it is while this one starts.
#[derive(Debug)]
pub(crate) struct Predecessor {
    /// To it.
    pub(crate) link: Link,
    /// Its process.
    pub(crate) pid: Pid,
    /// Its generation.
    pub(crate) generation: u64,
    /// The places of its workers that share datagram sockets.
    pub(crate) seats: Vec<Rc<DatagramSeat>>,
}

/// What came over the link.
#[derive(Debug)]
struct Received {
    pid: Pid,
    generation: u64,
    sockets: Sockets,
    seats: Vec<Rc<DatagramSeat>>,
}

/// What an old master handed over, where there is one; otherwise nothing. To be asked before this process opens
/// anything.
///
/// # Errors
/// When there is one, and what came of it cannot be used.
pub(crate) fn predecessor() -> Result<Option<(Predecessor, Sockets)>, InheritError> {
    let Some(value) = env::var_os(LINK_VARIABLE) else { return Ok(None) };
    let value = value.to_string_lossy().into_owned();
    let link = match value.parse::<RawFd>().map_err(io::Error::other).and_then(link) {
        Ok(link) => link,
        Err(error) => return Err(InheritError::Variable { value, reason: error.to_string() }),
    };
    receive(&link).inspect_err(|error| link.send_failure(&error.to_string())).map(
        |Received { pid, generation, sockets, seats }| {
            Some((Predecessor { link, pid, generation, seats }, sockets))
        },
    )
}

fn link(number: RawFd) -> io::Result<Link> {
    let descriptor = descriptors::inherited(number)?;
    match getsockopt(&descriptor, sockopt::SockType) {
        Ok(SockType::SeqPacket) => Ok(Link::from_descriptor(descriptor)),
        Ok(_) => Err(io::Error::other("it is another kind of socket")),
        Err(error) => Err(error.into()),
    }
}

fn receive(link: &Link) -> Result<Received, InheritError> {
    let (mut hello, mut sockets, mut seats) = (None, Sockets::default(), Vec::new());
    loop {
        match link.receive() {
            Heard::Message(Message::Hello { pid, generation }, _) => {
                hello = Some((Pid::from_raw(pid), generation));
            }
            Heard::Message(Message::Sockets(handed), with) => {
                let mut with = with.into_iter();
                handed.iter().try_for_each(|handed| sockets.take_over(handed, with.by_ref()))?;
            }
            Heard::Message(Message::Seats { seed }, with) => {
                datagrams::adopt_seed(seed);
                seats.extend(taken_over(with));
            }
            Heard::Message(Message::Complete, _) => {
                let (pid, generation) = hello.ok_or(InheritError::Incomplete("did not say who it is"))?;
                return Ok(Received { pid, generation, sockets, seats });
            }
            Heard::Message(..) => {}
            Heard::Nothing => return Err(InheritError::Incomplete("fell silent")),
            Heard::Ended => return Err(InheritError::Incomplete("has ended")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::net::TcpListener;
    use std::os::fd::{AsFd, OwnedFd};

    use super::super::link::Handed;

    fn listeners(count: usize) -> Vec<OwnedFd> {
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port").into()).collect()
    }

    #[test]
    fn sockets_are_taken_over_by_address_in_their_order() {
        let (old, new) = Link::pair().expect("link");
        old.send(&Message::Hello { pid: 5, generation: 9 }).expect("sent");
        let many = listeners(300);
        let handed = |address: &str, file| Handed {
            address: address.into(),
            ipv6_only: true,
            count: 0,
            file,
            passed: false,
        };
        let groups = [
            (handed("127.0.0.1:80", false), many.iter().map(AsFd::as_fd).collect::<Vec<_>>()),
            (handed("unix:/nonexistent/drover.sock", true), vec![many[0].as_fd()]),
        ];
        old.send_sockets(&groups).expect("sent");
        old.send(&Message::Complete).expect("sent");
        let Received { pid, generation, sockets, seats } = receive(&new).expect("all");
        assert_eq!((pid.as_raw(), generation, seats.len()), (5, 9, 0));
        let counts =
            BTreeMap::from([("127.0.0.1:80".into(), 300), ("unix:/nonexistent/drover.sock".into(), 1)]);
        assert_eq!(sockets.holdings(), counts);
        assert_eq!(sockets.left_files().count(), 1, "the old master sees to the file");
        let port = |socket: &OwnedFd| {
            let listener = TcpListener::from(socket.try_clone().expect("clone"));
            listener.local_addr().expect("address").port()
        };
        let groups = sockets.to_hand_over();
        let taken = groups[0].1.iter().map(|socket| socket.try_clone_to_owned().expect("clone"));
        assert!(taken.map(|socket| port(&socket)).eq(many.iter().map(port)));
    }

    #[test]
    fn a_hand_over_that_breaks_off_is_an_error() {
        let (old, new) = Link::pair().expect("link");
        assert!(matches!(receive(&new), Err(InheritError::Incomplete("fell silent"))));
        old.send(&Message::Complete).expect("sent");
        assert!(matches!(receive(&new), Err(InheritError::Incomplete("did not say who it is"))));
        let handed =
            Handed { address: "127.0.0.1:80".into(), ipv6_only: true, count: 2, file: false, passed: false };
        let socket = listeners(1);
        old.send_with(&Message::Sockets(vec![handed]), &[socket[0].as_fd()]).expect("sent");
        let error = receive(&new).expect_err("one is missing").to_string();
        assert!(error.contains("2 sockets of 127.0.0.1:80 were announced and 1 came"), "{error}");
        let handed = Handed {
            address: "carrier pigeon".into(),
            ipv6_only: true,
            count: 0,
            file: false,
            passed: false,
        };
        old.send(&Message::Sockets(vec![handed])).expect("sent");
        assert!(receive(&new).expect_err("nonsense").to_string().contains("carrier pigeon"));
        drop(old);
        assert!(matches!(receive(&new), Err(InheritError::Incomplete("has ended"))));
    }
}
