//! The link: the socket pair between two masters during an upgrade, and what they say over it.
//!
//! One message is one JSON object, so that masters of different versions understand what they both know and
//! skip the rest. Descriptors come along with the message that names them.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use drover_sys::descriptors::{self, MOST_IN_A_MESSAGE};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::datagrams::{self, DatagramSeat};
use crate::scoreboard::Totals;

/// Messages are shorter. The kernel would take about 200 KiB at once (`net.core.wmem_default`).
const MOST_BYTES: usize = 128 * 1024;
/// More than this of a reason is cut off, in bytes.
const MOST_OF_A_REASON: usize = 4096;

/// Which addresses a master listens on, and on how many sockets each.
pub(crate) type Holdings = BTreeMap<String, usize>;

/// The sockets of one address as they are handed over, or a part of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Handed {
    /// The address as the config writes it.
    pub(crate) address: String,
    /// For IPv6: whether IPv4 is left to another socket.
    pub(crate) ipv6_only: bool,
    /// How many descriptors of the message are its sockets, in the order in which they began to listen.
    pub(crate) count: usize,
    /// Whether the file of the unix socket is drover's to remove.
    pub(crate) file: bool,
    /// Whether systemd has opened the first one.
    pub(crate) passed: bool,
}

/// What one master tells the other.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// The old one, first of all.
    Hello {
        /// Its process.
        pid: i32,
        /// Its generation; the new master counts on from there.
        generation: u64,
    },
    /// The old one: sockets, with their descriptors.
    Sockets(Vec<Handed>),
    /// Either: the places of its workers that share datagram sockets, each with its descriptors.
    Seats {
        /// What fingerprints of flows are made with.
        seed: u64,
    },
    /// The old one: that was all that it hands over.
    Complete,
    /// The new one: it will end.
    Failed {
        /// Why.
        reason: String,
    },
    /// The new one: its workers serve.
    Ready {
        /// Of the executable.
        version: String,
        /// Its generation in words.
        summary: String,
        /// What it listens on.
        holds: Holdings,
    },
    /// The old one: its files stepped aside, the names are free to be taken.
    YourTurn {
        /// What was counted up to this moment.
        totals: Totals,
        /// What it listens on.
        holds: Holdings,
    },
    /// The new one: its files have the names. The old one: they have them again.
    Named,
    /// Either: what it has counted by now, without what the other has.
    Totals(Totals),
    /// Either: what it listens on, after a change.
    Holds(Holdings),
    /// Either: it stops, and finishes what it has.
    Leaving,
    /// The new one: it has finished, and ends once the old one's files have the names again.
    Parting {
        /// All that it has counted.
        totals: Totals,
    },
}

/// One end of the link.
#[derive(Debug)]
pub(crate) struct Link(OwnedFd);

/// What a receive on the link found.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A message, with its descriptors.
    Message(Message, Vec<OwnedFd>),
    /// Nothing yet.
    Nothing,
    /// The other end is gone.
    Ended,
}

impl Link {
    /// Both ends; neither waits.
    ///
    /// # Errors
    /// What `socketpair(2)` reports.
    pub(crate) fn pair() -> io::Result<(Self, Self)> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let (left, right) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
        Ok((Self(left), Self(right)))
    }

    /// The end that this process was started with.
    pub(crate) fn from_descriptor(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// Says something.
    ///
    /// # Errors
    /// `WouldBlock` where the other one does not listen, `BrokenPipe` when it is gone.
    pub(crate) fn send(&self, message: &Message) -> io::Result<()> {
        self.send_with(message, &[])
    }

    /// Says something and hands descriptors along, at most [`MOST_IN_A_MESSAGE`].
    ///
    /// # Errors
    /// As [`Link::send`].
    pub(crate) fn send_with(&self, message: &Message, with: &[BorrowedFd<'_>]) -> io::Result<()> {
        let text = serde_json::to_vec(message).map_err(io::Error::other)?;
        descriptors::send(self.0.as_fd(), &text, with)
    }

    /// Says that this master will end, and why.
    pub(crate) fn send_failure(&self, reason: &str) {
        let mut length = reason.len().min(MOST_OF_A_REASON);
        while !reason.is_char_boundary(length) {
            length -= 1;
        }
        // Where nobody hears it, the log still has it.
        let _ = self.send(&Message::Failed { reason: reason[..length].to_owned() });
    }

    /// Hands over the sockets of `groups`, in as few messages as there may be.
    ///
    /// # Errors
    /// As [`Link::send`].
    pub(crate) fn send_sockets(&self, groups: &[(Handed, Vec<BorrowedFd<'_>>)]) -> io::Result<()> {
        let mut pending: (Vec<Handed>, Vec<BorrowedFd<'_>>) = Default::default();
        for (handed, sockets) in groups {
            for part in sockets.chunks(MOST_IN_A_MESSAGE) {
                if pending.1.len() + part.len() > MOST_IN_A_MESSAGE {
                    let (named, with) = std::mem::take(&mut pending);
                    self.send_with(&Message::Sockets(named), &with)?;
                }
                pending.0.push(Handed { count: part.len(), ..handed.clone() });
                pending.1.extend(part);
            }
        }
        let (named, with) = pending;
        self.send_with(&Message::Sockets(named), &with)
    }

    /// Tells of places of workers, in as few messages as there may be.
    ///
    /// # Errors
    /// As [`Link::send`].
    pub(crate) fn send_seats<'a>(
        &self,
        seats: impl IntoIterator<Item = &'a Rc<DatagramSeat>>,
    ) -> io::Result<()> {
        let seats: Vec<_> = seats.into_iter().map(|seat| seat.to_hand_over()).collect();
        let mut parts = seats.chunks(MOST_IN_A_MESSAGE / datagrams::DESCRIPTORS);
        parts.try_for_each(|part| {
            self.send_with(&Message::Seats { seed: datagrams::seed() }, part.as_flattened())
        })
    }

    /// The next message, without waiting. One that this version does not know is skipped.
    pub(crate) fn receive(&self) -> Heard {
        let mut buffer = vec![0; MOST_BYTES];
        loop {
            match descriptors::receive(self.0.as_fd(), &mut buffer) {
                Ok((0, _)) => return Heard::Ended,
                Ok((length, with)) => match serde_json::from_slice(&buffer[..length]) {
                    Ok(message) => return Heard::Message(message, with),
                    Err(error) => warn!("a message of the other master is not understood: {error}"),
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Heard::Nothing,
                Err(error) => {
                    if error.kind() != io::ErrorKind::ConnectionReset {
                        warn!("the link to the other master failed: {error}");
                    }
                    return Heard::Ended;
                }
            }
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    fn handed(address: &str, count: usize) -> Handed {
        Handed { address: address.to_owned(), ipv6_only: true, count, file: false, passed: false }
    }

    #[test]
    fn messages_arrive_as_they_were_sent_and_unknown_ones_are_skipped() {
        let (left, right) = Link::pair().expect("link");
        assert!(matches!(right.receive(), Heard::Nothing));
        left.send(&Message::Hello { pid: 7, generation: 3 }).expect("sent");
        descriptors::send(left.as_fd(), br#"{"dance": {"steps": 3}}"#, &[]).expect("sent");
        left.send_failure(&"ä".repeat(MOST_OF_A_REASON));
        drop(left);
        let Heard::Message(Message::Hello { pid: 7, generation: 3 }, _) = right.receive() else {
            panic!("no hello")
        };
        let Heard::Message(Message::Failed { reason }, _) = right.receive() else { panic!("no failure") };
        assert_eq!(reason.len(), MOST_OF_A_REASON);
        assert!(matches!(right.receive(), Heard::Ended));
    }

    #[test]
    fn many_sockets_go_in_few_messages_and_keep_their_order() {
        let (left, right) = Link::pair().expect("link");
        let file = File::open("/dev/null").expect("a descriptor");
        let group = |address, count| (handed(address, count), vec![file.as_fd(); count]);
        let groups = [group("a", 1), group("b", 600), group("c", 2)];
        left.send_sockets(&groups).expect("sent");
        drop(left);
        let (mut parts, mut messages) = (Vec::new(), 0);
        while let Heard::Message(Message::Sockets(handed), with) = right.receive() {
            assert_eq!(handed.iter().map(|handed| handed.count).sum::<usize>(), with.len());
            parts.extend(handed.into_iter().map(|handed| (handed.address, handed.count)));
            messages += 1;
        }
        let most = MOST_IN_A_MESSAGE;
        let expected = [("a", 1), ("b", most), ("b", most), ("b", 600 - 2 * most), ("c", 2)];
        assert_eq!(parts, expected.map(|(address, count)| (address.to_owned(), count)));
        assert_eq!(messages, 4);
    }

    #[test]
    fn an_other_end_that_does_not_listen_holds_nothing_up() {
        let (left, _right) = Link::pair().expect("link");
        let error = (0..100_000).find_map(|_| left.send(&Message::Leaving).err()).expect("full");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }
}
