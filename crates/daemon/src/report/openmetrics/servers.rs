//! What is said of the servers of upstreams: for each address its place in the config, since a config may have an
//! address twice. Counts are those of the generation that serves: a reload begins them anew, as a restart would.

use drover_upstream::Tally;
use drover_upstream::shown::{PeerState, PeerView, ServerView, UpstreamView};

use super::exposition::Exposition;
use crate::scoreboard::Snapshot;

/// What is shown of an address: family, kind, help, value.
type OfPeer = (&'static str, &'static str, &'static str, fn(&PeerView) -> u64);

const OF_PEER: [OfPeer; 8] = [
    ("drover_server_active", "gauge", Tally::Active.describe(), |peer| peer.tally(Tally::Active)),
    ("drover_server_kept", "gauge", Tally::Kept.describe(), |peer| peer.tally(Tally::Kept)),
    ("drover_server_requests", "counter", Tally::Requests.describe(), |peer| peer.tally(Tally::Requests)),
    ("drover_server_failures", "counter", Tally::Failures.describe(), |peer| peer.tally(Tally::Failures)),
    ("drover_server_connects", "counter", Tally::Connects.describe(), |peer| peer.tally(Tally::Connects)),
    ("drover_server_reused", "counter", Tally::Reused.describe(), |peer| peer.tally(Tally::Reused)),
    ("drover_server_checks", "counter", "Checks that were made.", |peer| peer.checks),
    ("drover_server_checks_failed", "counter", "Checks that failed.", |peer| peer.checks_failed),
];

/// Writes the families of servers, where there are any.
pub(super) fn write(text: &mut Exposition, snapshot: &Snapshot) {
    if snapshot.upstreams.is_empty() {
        return;
    }
    text.family("drover_server_state", "stateset", "Whether it is used.");
    for peer in peers(snapshot) {
        for state in PeerState::ALL {
            let labels = [&peer.labels()[..], &[("drover_server_state", state.name())]].concat();
            text.sample("drover_server_state", &labels, u8::from(peer.view.state == state));
        }
    }
    for (name, kind, help, value) in OF_PEER {
        text.family(name, kind, help);
        let sample = if kind == "counter" { format!("{name}_total") } else { name.to_owned() };
        for peer in peers(snapshot) {
            text.sample(&sample, &peer.labels(), value(peer.view));
        }
    }
    text.family("drover_server_addresses", "gauge", "Addresses that it has; 0 of a name that has none.");
    for (upstream, number, server) in servers(snapshot) {
        let (number, addresses) = (number.to_string(), server.peers.len());
        let labels = [
            ("service", &*upstream.service),
            ("upstream", &*upstream.name),
            ("number", &*number),
            ("server", &*server.address),
        ];
        text.sample("drover_server_addresses", &labels, addresses);
    }
}

/// An address and whose it is.
struct Peer<'a> {
    upstream: &'a UpstreamView,
    number: String,
    view: &'a PeerView,
}

impl Peer<'_> {
    fn labels(&self) -> [(&'static str, &str); 4] {
        [
            ("service", &self.upstream.service),
            ("upstream", &self.upstream.name),
            ("number", &self.number),
            ("address", &self.view.address),
        ]
    }
}

fn servers(snapshot: &Snapshot) -> impl Iterator<Item = (&UpstreamView, usize, &ServerView)> {
    snapshot.upstreams.iter().flat_map(|upstream| {
        upstream.servers.iter().enumerate().map(move |(number, server)| (upstream, number, server))
    })
}

fn peers(snapshot: &Snapshot) -> impl Iterator<Item = Peer<'_>> {
    servers(snapshot).flat_map(|(upstream, number, server)| {
        server.peers.iter().map(move |view| Peer { upstream, number: number.to_string(), view })
    })
}
