//! The servers of upstreams: a row of the table for each address, and the same as JSON.

use drover_upstream::Tally;
use drover_upstream::shown::{PeerState, PeerView, ServerView, UpstreamView};
use serde_json::{Value, json};

use super::findings::{About, Finding};
use super::schema::{array, boolean, count, object, string};
use super::table::{figure, shortened};
use crate::scoreboard::Snapshot;

/// The rows of all upstreams.
pub(super) fn table(snapshot: &Snapshot) -> String {
    if snapshot.upstreams.is_empty() {
        return String::new();
    }
    let mut text = format!(
        "\n{:<36} {:<10} {:>6} {:>6} {:>9} {:>8}\n",
        "server", "state", "active", "kept", "requests", "failures"
    );
    for upstream in &snapshot.upstreams {
        text.push_str(&shortened(&format!("{} {}", upstream.service, upstream.name), 79));
        text.push('\n');
        upstream.servers.iter().for_each(|server| push_rows(server, &mut text));
    }
    text
}

fn push_rows(server: &ServerView, text: &mut String) {
    for peer in &server.peers {
        let backup = if server.backup { " (backup)" } else { "" };
        text.push_str(&format!(
            "  {:<34} {:<10} {:>6} {:>6} {:>9} {:>8}\n",
            shortened(&format!("{}{backup}", peer.address), 34),
            peer.state.name().replace('_', " "),
            figure(peer.tally(Tally::Active), 6),
            figure(peer.tally(Tally::Kept), 6),
            figure(peer.tally(Tally::Requests), 9),
            figure(peer.tally(Tally::Failures), 8),
        ));
    }
    if server.peers.is_empty() {
        text.push_str(&format!("  {:<34} {:<10}\n", shortened(&server.address, 34), "no address"));
    }
}

/// All upstreams.
pub(super) fn json(snapshot: &Snapshot) -> Vec<Value> {
    snapshot.upstreams.iter().map(upstream_json).collect()
}

fn upstream_json(upstream: &UpstreamView) -> Value {
    json!({
        "service": upstream.service,
        "name": upstream.name,
        "balance": upstream.balance,
        "servers": upstream.servers.iter().map(server_json).collect::<Vec<_>>(),
    })
}

fn server_json(server: &ServerView) -> Value {
    json!({
        "address": server.address,
        "weight": server.weight,
        "backup": server.backup,
        "down": server.down,
        "resolved": server.resolved,
        "resolve_failures": server.resolve_failures,
        "addresses": server.peers.iter().map(peer_json).collect::<Vec<_>>(),
    })
}

fn peer_json(peer: &PeerView) -> Value {
    let mut value = json!({
        "address": peer.address,
        "state": peer.state.name(),
        "checks": peer.checks,
        "checks_failed": peer.checks_failed,
    });
    shown().for_each(|tally| value[tally.name()] = peer.tally(tally).into());
    value
}

/// The tallies that say something to others than the workers.
fn shown() -> impl Iterator<Item = Tally> {
    Tally::ALL.iter().copied().filter(|tally| *tally != Tally::Life)
}

/// What the JSON of an upstream means.
pub(super) fn schema() -> Value {
    let mut state = string("Whether it is used");
    state["enum"] = PeerState::ALL.iter().map(|state| state.name()).collect();
    let own = [
        ("address", string("The address")),
        ("state", state),
        ("checks", count("How many checks were made")),
        ("checks_failed", count("How many of them failed")),
    ];
    let tallies = shown().map(|tally| (tally.name(), count(tally.describe())));
    let address =
        object("An address of a server; counts are those of the generation", own.into_iter().chain(tallies));
    let server = object(
        "A server",
        [
            ("address", string("As the config says it")),
            ("weight", count("Its share compared with others")),
            ("backup", boolean("Whether it is used only when no other can be")),
            ("down", boolean("Whether the config has it out of use")),
            ("resolved", count("How often its name was resolved")),
            ("resolve_failures", count("How often that failed")),
            ("addresses", array("Its addresses: none for a name that has none", address)),
        ],
    );
    object(
        "An upstream, or the address that stands for one",
        [
            ("service", string("http or stream")),
            ("name", string("Its name, or the address that stands for it")),
            ("balance", string("How a server is chosen")),
            ("servers", array("Its servers, in the order of the config", server)),
        ],
    )
}

/// What an operator should look at: upstreams of which servers are not used.
pub(super) fn findings(snapshot: &Snapshot) -> impl Iterator<Item = Finding> + '_ {
    snapshot.upstreams.iter().filter_map(unused)
}

fn unused(upstream: &UpstreamView) -> Option<Finding> {
    let peers = || upstream.servers.iter().flat_map(|server| &server.peers);
    let named = |state: PeerState| -> Vec<&str> {
        peers().filter(|peer| peer.state == state).map(|peer| peer.address.as_str()).collect()
    };
    let (down, given_up) = (named(PeerState::Down), named(PeerState::GivenUp));
    let without: Vec<&str> = upstream
        .servers
        .iter()
        .filter(|server| server.peers.is_empty() && !server.down)
        .map(|server| server.address.as_str())
        .collect();
    let parts = [
        ("found down by checks", down),
        ("given up for a while after failures", given_up),
        ("without an address", without),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(what, names)| format!("{} {what}", listed(&names)))
        .collect();
    if parts.is_empty() {
        return None;
    }
    let left = peers().filter(|peer| matches!(peer.state, PeerState::Up | PeerState::Starting)).count();
    let rest = if left == 0 {
        "no server is left".to_owned()
    } else {
        format!("{left} of {} serve", peers().count())
    };
    let (service, name) = (&upstream.service, &upstream.name);
    let text = format!("upstream \"{name}\" ({service}): {}; {rest}: the log says why", parts.join(", "));
    Some(Finding::new(About::Servers, text))
}

/// The first few names.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 3;
    let more = names.len().saturating_sub(SHOWN);
    let first = names[..names.len().min(SHOWN)].join(", ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}
