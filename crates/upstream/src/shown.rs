//! Upstreams for those who look from outside: words in a place that others can read, with a text beside them
//! that says what they mean.
//!
//! The text has a line for each upstream, and for each of its servers, with tabs between what it says:
//!
//! ```text
//! upstream  service  method  workers  where its words begin  name
//! server    blocks   weight  backup?  down?  address
//! ```
//!
//! From it a reader knows the [`Layout`] without the config, which may be another one by now.

use std::fmt::Write;

use crate::passive::{DOWN, OUT, SLOW};
use crate::plan::Plan;
use crate::words::{Layout, PeerWord, ServerWord, Tally, decode_address};

/// An upstream as a reader sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpstreamView {
    /// Whose it is: `http` or `stream`.
    pub service: String,
    /// Its name, or the address that stands for it.
    pub name: String,
    /// How a server is chosen.
    pub balance: String,
    /// Its servers, in the order of the config.
    pub servers: Vec<ServerView>,
}

/// A server of the config.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerView {
    /// As the config says it.
    pub address: String,
    /// Its share compared with others.
    pub weight: u64,
    /// Whether it is used only when no other can be.
    pub backup: bool,
    /// Whether the config has it out of use.
    pub down: bool,
    /// How often its name was resolved.
    pub resolved: u64,
    /// How often that failed.
    pub resolve_failures: u64,
    /// Its addresses; none for a name that has none.
    pub peers: Vec<PeerView>,
}

/// One address of a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerView {
    /// The address.
    pub address: String,
    /// Whether it is used.
    pub state: PeerState,
    /// How many checks were made.
    pub checks: u64,
    /// How many of them failed.
    pub checks_failed: u64,
    tallies: [u64; Tally::ALL.len()],
}

impl PeerView {
    /// What all workers of the generation count.
    pub fn tally(&self, tally: Tally) -> u64 {
        self.tallies[tally as usize]
    }
}

/// Whether a peer is used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PeerState {
    /// It is.
    Up,
    /// It came back, and its share grows.
    Starting,
    /// It failed too often, and is left alone for a while.
    GivenUp,
    /// Checks found it down.
    Down,
    /// The config has it out of use.
    OutOfUse,
}

impl PeerState {
    /// All of them.
    pub const ALL: [PeerState; 5] =
        [PeerState::Up, PeerState::Starting, PeerState::GivenUp, PeerState::Down, PeerState::OutOfUse];

    /// The word for it in `drover status`.
    pub const fn name(self) -> &'static str {
        match self {
            PeerState::Up => "up",
            PeerState::Starting => "starting",
            PeerState::GivenUp => "given_up",
            PeerState::Down => "down",
            PeerState::OutOfUse => "out_of_use",
        }
    }

    fn of(trouble: u64, out_of_use: bool) -> PeerState {
        match trouble {
            _ if out_of_use => PeerState::OutOfUse,
            trouble if trouble & DOWN != 0 => PeerState::Down,
            trouble if trouble & OUT != 0 => PeerState::GivenUp,
            trouble if trouble & SLOW != 0 => PeerState::Starting,
            _ => PeerState::Up,
        }
    }
}

/// The text about upstreams, each with its service and the number of its first word.
pub fn describe<'a>(upstreams: impl IntoIterator<Item = (&'a str, &'a Plan, usize)>) -> String {
    let mut text = String::new();
    for (service, plan, base) in upstreams {
        let (config, words) = (plan.config(), plan.words());
        let (balance, workers) = (*config.balance, words.layout().workers());
        let name = plain(plan.name());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "upstream\t{service}\t{balance}\t{workers}\t{base}\t{name}");
        for (number, server) in config.servers.iter().enumerate() {
            let blocks = words.layout().peers_of(number).len();
            let (weight, backup, down) = (server.weight, u8::from(server.backup), u8::from(server.down));
            let address = plain(&server.address.to_string());
            let _ = writeln!(text, "server\t{blocks}\t{weight}\t{backup}\t{down}\t{address}");
        }
    }
    text
}

/// A name without what would break the lines.
fn plain(name: &str) -> String {
    name.replace(|character: char| character.is_control(), "?")
}

/// Reads what `text` describes, with `load` for the words. What is broken is left out.
pub fn read(text: &str, load: impl Fn(usize) -> u64) -> Vec<UpstreamView> {
    let mut lines = text.lines().peekable();
    let mut found = Vec::new();
    while let Some(line) = lines.next() {
        let mut servers = Vec::new();
        while let Some(server) = lines.next_if(|line| line.starts_with("server\t")) {
            servers.extend(Described::parse(server));
        }
        found.extend(upstream(line, servers, &load));
    }
    found
}

/// A server as its line says.
struct Described<'a> {
    blocks: usize,
    weight: u64,
    backup: bool,
    down: bool,
    address: &'a str,
}

impl Described<'_> {
    fn parse(line: &str) -> Option<Described<'_>> {
        let fields: Vec<&str> = line.split('\t').collect();
        let &["server", blocks, weight, backup, down, address] = fields.as_slice() else { return None };
        let (blocks, weight) = (blocks.parse().ok()?, weight.parse().ok()?);
        Some(Described { blocks, weight, backup: backup == "1", down: down == "1", address })
    }
}

fn upstream(line: &str, servers: Vec<Described<'_>>, load: &impl Fn(usize) -> u64) -> Option<UpstreamView> {
    let fields: Vec<&str> = line.split('\t').collect();
    let &["upstream", service, balance, workers, base, name] = fields.as_slice() else { return None };
    let (workers, base): (usize, usize) = (workers.parse().ok()?, base.parse().ok()?);
    let layout = Layout::of_blocks(servers.iter().map(|server| server.blocks), workers);
    let view = |(number, server): (usize, &Described<'_>)| {
        let word = |word| load(base + layout.server_word(number, word));
        let peers = layout.peers_of(number);
        ServerView {
            address: server.address.to_owned(),
            weight: server.weight,
            backup: server.backup,
            down: server.down,
            resolved: word(ServerWord::Resolved),
            resolve_failures: word(ServerWord::ResolveFailures),
            peers: peers.filter_map(|peer| peer_view(&layout, base, peer, server, load)).collect(),
        }
    };
    Some(UpstreamView {
        service: service.to_owned(),
        name: name.to_owned(),
        balance: balance.to_owned(),
        servers: servers.iter().enumerate().map(view).collect(),
    })
}

fn peer_view(
    layout: &Layout,
    base: usize,
    peer: usize,
    server: &Described<'_>,
    load: &impl Fn(usize) -> u64,
) -> Option<PeerView> {
    let word = |word| load(base + layout.peer_word(peer, word));
    let address = match server.blocks {
        1 => server.address.to_owned(),
        _ => decode_address(word(PeerWord::Family), word(PeerWord::AddressHigh), word(PeerWord::AddressLow))?
            .to_string(),
    };
    let mut tallies = [0u64; Tally::ALL.len()];
    for (tally, sum) in Tally::ALL.iter().zip(&mut tallies) {
        let of = |worker| load(base + layout.tally_word(worker, peer, *tally));
        *sum = (0..layout.workers()).map(of).fold(0, u64::wrapping_add);
    }
    Some(PeerView {
        address,
        state: PeerState::of(word(PeerWord::Trouble), server.down),
        checks: word(PeerWord::Checks),
        checks_failed: word(PeerWord::ChecksFailed),
        tallies,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Server, Upstream};
    use crate::words::{Words, encode_address};
    use drover_config::ServerAddress;
    use drover_sys::memory::SharedWords;
    use std::rc::Rc;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn a_reader_sees_what_workers_wrote() {
        let server = |text| Server::new(ServerAddress::parse(text).expect("an address"));
        let mut first = server("10.0.0.1:80");
        first.backup = true;
        let mut down = server("10.0.0.2:80");
        down.down = true;
        let one = Plan::new("one\n\t", &Upstream::new(vec![first, down]), 2).expect("memory");
        let two = Plan::new("two", &Upstream::new(vec![server("app.example:80")]), 2).expect("memory");
        let sizes = [&one, &two].map(|plan| plan.words().layout().words());
        let mapping = Rc::new(SharedWords::anonymous(10 + sizes[0] + sizes[1]).expect("memory"));
        let bases = [10, 10 + sizes[0]];
        for (plan, base) in [(&one, bases[0]), (&two, bases[1])] {
            let words = Words::within(&mapping, base, plan.words().layout().clone()).expect("room");
            plan.place(words);
        }
        let text = describe([("http", &one, bases[0]), ("stream", &two, bases[1])]);
        one.words().peer(0).expect("a block")[PeerWord::Trouble as usize].store(OUT, Relaxed);
        for (worker, requests) in [(0, 5), (1, 7)] {
            one.words().tally(worker, 0).expect("a block")[Tally::Requests as usize].store(requests, Relaxed);
        }
        let block = two.words().peer(3).expect("a block");
        let (family, high, low) = encode_address("[2001:db8::1]:80".parse().expect("an address"));
        let address = [PeerWord::Family, PeerWord::AddressHigh, PeerWord::AddressLow];
        address
            .iter()
            .zip([family, high, low])
            .for_each(|(word, value)| block[*word as usize].store(value, Relaxed));

        let views = read(&text, |word| mapping[word].load(Relaxed));
        let [one, two] = views.as_slice() else { panic!("{views:?}") };
        assert_eq!(
            (one.service.as_str(), one.name.as_str(), one.balance.as_str()),
            ("http", "one??", "round_robin")
        );
        let [first, down] = one.servers.as_slice() else { panic!("{one:?}") };
        assert!(first.backup && !first.down && down.down);
        let states = [&first.peers[0], &down.peers[0]].map(|peer| peer.state);
        assert_eq!(states, [PeerState::GivenUp, PeerState::OutOfUse]);
        assert_eq!((first.peers[0].tally(Tally::Requests), first.peers[0].tally(Tally::Failures)), (12, 0));
        let addresses: Vec<&str> = two.servers[0].peers.iter().map(|peer| peer.address.as_str()).collect();
        assert_eq!(addresses, ["[2001:db8::1]:80"]);
    }

    #[test]
    fn a_broken_text_is_left_out() {
        for text in [
            "",
            "upstream",
            "server\t1\t1\t0\t0\ta",
            "upstream\thttp\tround_robin\tx\t0\ta\n",
            "\u{fffd}\n\n",
        ] {
            assert_eq!(read(text, |_| 0), [], "{text}");
        }
    }
}
