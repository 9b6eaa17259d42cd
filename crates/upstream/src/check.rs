//! Active checks: whether a server answers when it is asked, made by one worker for all.
//!
//! Whoever finds a peer due takes on its check by moving [`PeerWord::CheckDue`] to a time by which the
//! check is over; if it dies, another checks then. `fall` failures in a row take the peer out of use,
//! `rise` successes bring it back, slowly where `slow_start` says so. Before the first check a peer counts
//! as up. A check that this worker could not make for want of a slot says nothing.

use std::fmt::Write;
use std::rc::Rc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::time::Duration;

use drover_event::{ConnectFailure, Core, Stream, StreamError, Target};
use tracing::{debug, info, warn};

use crate::config::HealthCheck;
use crate::passive::{self, DOWN, FAILED, OUT, Rules};
use crate::peer::Peer;
use crate::upstream::Upstream;
use crate::words::{PeerBlock, PeerWord};

/// The most that is received in search of what is expected.
const RECEIVED_MOST: usize = 4096;

/// Why a check failed.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error(transparent)]
    Connect(#[from] drover_event::ConnectError),
    #[error("{0}")]
    Stream(#[from] StreamError),
    #[error("the connection was closed")]
    Closed,
    #[error("status {0}")]
    Status(u16),
    #[error("no HTTP response")]
    NotHttp,
    #[error("what is expected did not come")]
    Unexpected,
}

/// Checks every peer whenever it is due, for as long as the worker serves.
pub(crate) async fn keep_checking(core: Core, upstream: Rc<Upstream>) {
    let Some(check) = upstream.plan().config().health_check.as_deref() else { return };
    let (interval, timeout) = (milliseconds(check.interval), milliseconds(check.time()));
    while !core.is_draining() {
        let now = core.now().as_u64();
        let mut next = now + interval;
        for peer in upstream.peers().iter() {
            let word = &peer.shared[PeerWord::CheckDue as usize];
            let due = word.load(Acquire);
            // A check under way ends within its time-out; so does who died.
            let over = now + timeout.max(interval);
            if due > now || word.compare_exchange(due, over, AcqRel, Relaxed).is_err() {
                next = next.min(due.max(now + 1));
                continue;
            }
            core.spawn(check_peer(core.clone(), Rc::clone(&upstream), Rc::clone(peer), now + interval));
        }
        core.sleep(Duration::from_millis(next - now)).await;
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX >> 1)
}

async fn check_peer(core: Core, upstream: Rc<Upstream>, peer: Rc<Peer>, due: u64) {
    let Some(check) = upstream.plan().config().health_check.as_deref() else { return };
    let outcome = probe(&core, &upstream, &peer, check).await;
    peer.shared[PeerWord::CheckDue as usize].store(due, Relaxed);
    if let Err(Fault::Connect(error)) = &outcome
        && matches!(error.failure, ConnectFailure::Local(_) | ConnectFailure::NoSlot)
    {
        debug!("upstream \"{}\": {} was not checked: {error}", upstream.name(), peer.name());
        return;
    }
    let needed = if outcome.is_ok() { check.rise } else { check.fall };
    let now = core.now().as_u64();
    let changed = record(&peer.shared, &peer.rules, outcome.is_ok(), u64::from(needed), now);
    match (changed, outcome) {
        (true, Ok(())) => info!("upstream \"{}\": {} is up", upstream.name(), peer.name()),
        (true, Err(fault)) => warn!("upstream \"{}\": {} is down: {fault}", upstream.name(), peer.name()),
        (false, outcome) => debug!("upstream \"{}\": {} checked: {outcome:?}", upstream.name(), peer.name()),
    }
}

/// Takes note of a check; true where the peer is up or down because of it. `needed` checks in a row have to
/// contradict what is held of it.
pub(crate) fn record(words: &PeerBlock, rules: &Rules, good: bool, needed: u64, now: u64) -> bool {
    words[PeerWord::Checks as usize].fetch_add(1, Relaxed);
    if !good {
        words[PeerWord::ChecksFailed as usize].fetch_add(1, Relaxed);
    }
    let is_down = passive::trouble(words) & DOWN != 0;
    let streak = &words[PeerWord::CheckStreak as usize];
    if good != is_down {
        streak.store(0, Relaxed);
        return false;
    }
    if streak.fetch_add(1, Relaxed) + 1 < needed {
        return false;
    }
    streak.store(0, Relaxed);
    words[PeerWord::ChangedAt as usize].store(now, Relaxed);
    if good {
        passive::come_up(words, rules, now);
        // Whatever requests had shown before is out of date too.
        words[PeerWord::Trouble as usize].fetch_and(!(DOWN | OUT | FAILED), AcqRel);
    } else {
        words[PeerWord::Trouble as usize].fetch_or(DOWN, AcqRel);
    }
    true
}

async fn probe(core: &Core, upstream: &Upstream, peer: &Peer, check: &HealthCheck) -> Result<(), Fault> {
    let started = core.now();
    let (source, _) = upstream.connecting();
    let target = match (&peer.target, check.port) {
        (Target::Internet(address), Some(port)) => {
            let mut address = *address;
            address.set_port(port);
            Target::Internet(address)
        }
        (target, _) => target.clone(),
    };
    let stream = core.connect(&target, source, check.time()).await?;
    let elapsed = Duration::from_millis(core.now().since(started));
    let left = check.time().saturating_sub(elapsed).max(Duration::from_millis(1));
    stream.set_read_timeout(left);
    stream.set_write_timeout(left);
    if let Some(path) = &check.path {
        let host = check.host.as_deref().map_or_else(|| host_of(&peer.target), String::clone);
        return ask_http(&stream, path, &host, check.status.as_deref().map(Vec::as_slice)).await;
    }
    if let Some(text) = &check.send {
        stream.send_all(text.as_bytes(), false).await?;
    }
    match &check.expect {
        Some(text) => receive(&stream, |bytes| contains(bytes, text.as_bytes()).then_some(())).await?,
        None => Some(()),
    }
    .ok_or(Fault::Unexpected)
}

/// The field Host for a target.
fn host_of(target: &Target) -> String {
    match target {
        Target::Internet(address) => address.to_string(),
        Target::Unix(_) => "localhost".to_owned(),
    }
}

/// Sends a request of HTTP/1.1 and looks at nothing but the status of the response.
async fn ask_http(stream: &Stream, path: &str, host: &str, wanted: Option<&[u16]>) -> Result<(), Fault> {
    let mut request = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        request,
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: drover-check\r\nConnection: close\r\n\r\n"
    );
    stream.send_all(request.as_bytes(), false).await?;
    let status = receive(stream, status_of).await?.ok_or(Fault::NotHttp)?.ok_or(Fault::NotHttp)?;
    let good = wanted.map_or_else(|| (200..400).contains(&status), |wanted| wanted.contains(&status));
    if good { Ok(()) } else { Err(Fault::Status(status)) }
}

/// The status in the first line of a response (RFC 9112 section 4); `None` until that is there, and
/// `Some(None)` where it is no such line.
fn status_of(bytes: &[u8]) -> Option<Option<u16>> {
    let line = &bytes[..bytes.iter().position(|byte| *byte == b'\n')?];
    let status = || {
        let rest = line.strip_prefix(b"HTTP/1.")?;
        let (version, rest) = rest.split_first()?;
        let digits = rest.strip_prefix(b" ")?;
        let (code, rest) = digits.split_first_chunk::<3>()?;
        let plain = version.is_ascii_digit()
            && code.iter().all(u8::is_ascii_digit)
            && matches!(rest.first(), None | Some(b' ' | b'\r'));
        plain.then(|| code.iter().fold(0, |number, digit| number * 10 + u16::from(digit - b'0')))
    };
    Some(status())
}

/// Receives until `found` finds what it looks for in all that came, or [`RECEIVED_MOST`] bytes did.
async fn receive<T>(stream: &Stream, found: impl Fn(&[u8]) -> Option<T>) -> Result<Option<T>, Fault> {
    let mut received = Vec::new();
    loop {
        stream.readable().await?;
        let mut buffer = [0; 512];
        let room = buffer.len().min(RECEIVED_MOST - received.len());
        match stream.receive(&mut buffer[..room]).await? {
            0 => return Err(Fault::Closed),
            count => received.extend_from_slice(&buffer[..count]),
        }
        if let Some(found) = found(&received) {
            return Ok(Some(found));
        }
        if received.len() >= RECEIVED_MOST {
            return Ok(None);
        }
    }
}

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    text.is_empty() || bytes.windows(text.len()).any(|window| window == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Server};
    use crate::passive::{SLOW, trouble};
    use crate::plan::Plan;
    use drover_config::ServerAddress;

    #[test]
    fn checks_in_a_row_change_what_is_held_of_a_peer() {
        let mut server = Server::new(ServerAddress::parse("127.0.0.1:1").expect("an address"));
        server.slow_start = Duration::from_secs(1);
        let rules = Rules::of(&server);
        let plan = Plan::new("test", &config::Upstream::new(vec![server]), 1).expect("memory");
        let words = plan.words().peer(0).expect("a block");
        let mut check = |good| record(&words, &rules, good, if good { 2 } else { 3 }, 77);
        // Two failures, and a success that ends the row.
        assert_eq!([false, false, true, false, false].map(&mut check), [false; 5]);
        assert!(check(false), "three in a row");
        assert_eq!(trouble(&words), DOWN);
        assert_eq!([true, false, true].map(&mut check), [false; 3]);
        assert!(check(true), "two in a row");
        assert_eq!(trouble(&words), SLOW);
        let word = |word: PeerWord| words[word as usize].load(Relaxed);
        assert_eq!((word(PeerWord::Checks), word(PeerWord::ChecksFailed)), (10, 6));
        assert_eq!((word(PeerWord::ChangedAt), word(PeerWord::UpSince)), (77, 77));
    }

    #[test]
    fn a_status_is_read_from_a_whole_line_only() {
        for (bytes, status) in [
            (&b"HTTP/1.1 200 OK\r\n"[..], Some(Some(200))),
            (b"HTTP/1.0 503\r\nX: y\r\n", Some(Some(503))),
            (b"HTTP/1.1 204 \n", Some(Some(204))),
            (b"HTTP/1.1 20", None),
            (b"HTTP/1.1 200 OK", None),
            (b"HTTP/2 200 OK\r\n", Some(None)),
            (b"HTTP/1.1 2000 OK\r\n", Some(None)),
            (b"HTTP/1.1  200 OK\r\n", Some(None)),
            (b"SSH-2.0-x\r\n", Some(None)),
            (b"\n", Some(None)),
        ] {
            assert_eq!(status_of(bytes), status, "{}", bytes.escape_ascii());
        }
    }
}
