//! What a plan takes over from the one before it, when a config is read again.
//!
//! Without this every reload would send requests to servers that are known to be down, and would wait for
//! names that have addresses. What is under way stays with the workers that have it: while those of the
//! earlier plan finish, `max_connections` counts for both plans apart.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

use crate::config::Server;
use crate::passive::{DOWN, FAILED, OUT, SLOW};
use crate::plan::Plan;
use crate::words::{PeerBlock, PeerWord, ServerBlock, ServerWord};

/// What is taken over as it is. What is due is due at once in the new plan, and nothing is under way.
const TAKEN: &[PeerWord] = &[
    PeerWord::OutUntil,
    PeerWord::Fails,
    PeerWord::WindowStart,
    PeerWord::LastFailed,
    PeerWord::UpSince,
    PeerWord::CheckStreak,
    PeerWord::Family,
    PeerWord::AddressHigh,
    PeerWord::AddressLow,
    PeerWord::Checks,
    PeerWord::ChecksFailed,
    PeerWord::ChangedAt,
];

impl Plan {
    /// Takes over what is known of the servers that `before` has too: who is down or given up, and the
    /// addresses of names. For the master, before it forks the workers of this plan; those of the other may
    /// be running.
    pub fn inherit(&self, before: &Plan) {
        for (number, server) in self.config().servers.iter().enumerate() {
            let same = before.config().servers.iter().position(|other| other.address == server.address);
            if let Some(same) = same {
                self.inherit_server(number, server, before, same);
            }
        }
    }

    fn inherit_server(&self, number: usize, server: &Server, before: &Plan, same: usize) {
        let blocks = |plan: &Plan, number| -> Vec<PeerBlock> {
            plan.words().layout().peers_of(number).filter_map(|block| plan.words().peer(block)).collect()
        };
        let (to, from) = (blocks(self, number), blocks(before, same));
        let (Some(words), Some(old)) = (self.words().server(number), before.words().server(same)) else {
            return;
        };
        let sequence = sequence_of(&old);
        let kept_trouble = kept_trouble(server, self.config().health_check.is_some());
        for (to, from) in to.iter().zip(&from) {
            take_over(to, from, kept_trouble);
        }
        if !server.has_name() {
            return;
        }
        fence(Acquire);
        let whole = sequence.is_multiple_of(2) && sequence_of(&old) == sequence;
        let addresses = to.iter().filter(|block| block[PeerWord::Family as usize].load(Relaxed) != 0);
        match (whole, addresses.count()) {
            (true, 1..) => {
                words[ServerWord::Resolved as usize].store(1, Relaxed);
                words[ServerWord::Sequence as usize].store(2, Release);
            }
            // They changed meanwhile, or there were none: the workers ask.
            _ => to.iter().for_each(|block| block.iter().for_each(|word| word.store(0, Relaxed))),
        }
    }
}

/// The troubles that the config still knows a way out of.
fn kept_trouble(server: &Server, is_checked: bool) -> u64 {
    let of_checks = if is_checked { DOWN } else { 0 };
    let of_requests = if server.max_fails > 0 { OUT | FAILED } else { 0 };
    let of_start = if server.slow_start.is_zero() { 0 } else { SLOW };
    of_checks | of_requests | of_start
}

fn sequence_of(server: &ServerBlock) -> u64 {
    server[ServerWord::Sequence as usize].load(Acquire)
}

fn take_over(to: &PeerBlock, from: &PeerBlock, kept_trouble: u64) {
    let trouble = from[PeerWord::Trouble as usize].load(Acquire) & kept_trouble;
    for word in TAKEN {
        to[*word as usize].store(from[*word as usize].load(Relaxed), Relaxed);
    }
    to[PeerWord::Trouble as usize].store(trouble, Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{HealthCheck, Upstream};
    use crate::passive::{self, Rules, Standing, WEIGHT_UNIT};
    use crate::words::encode_address;
    use drover_config::{Located, ServerAddress};
    use std::net::SocketAddr;

    fn plan(addresses: &[&str], change: impl FnOnce(&mut Upstream)) -> Plan {
        let server = |text: &&str| Server::new(ServerAddress::parse(text).expect("an address"));
        let mut config = Upstream::new(addresses.iter().map(server).collect());
        change(&mut config);
        Plan::new("app", &config, 1).expect("memory")
    }

    fn standing(plan: &Plan, server: usize) -> Standing {
        let block = plan.words().layout().peers_of(server).start;
        let words = plan.words().peer(block).expect("a block");
        passive::standing(&words, &Rules::of(&plan.config().servers[server]), 1000)
    }

    #[test]
    fn who_is_down_or_given_up_stays_so_wherever_it_stands_in_the_config() {
        let checked =
            |config: &mut Upstream| config.health_check = Some(Located::from(HealthCheck::default()));
        let before = plan(&["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"], checked);
        let trouble = |block| before.words().peer(block).expect("a block");
        trouble(0)[PeerWord::Trouble as usize].store(DOWN, Relaxed);
        assert!(passive::fail(&trouble(1), &Rules::of(&before.config().servers[1]), 1000));
        let after = plan(&["10.0.0.4:80", "10.0.0.2:80", "10.0.0.1:80"], checked);
        after.inherit(&before);
        let all = [0, 1, 2].map(|server| standing(&after, server));
        assert_eq!(all, [Standing::Usable(WEIGHT_UNIT), Standing::Unusable, Standing::Unusable]);
        // Without checks nothing would bring it up again.
        let unchecked = plan(&["10.0.0.1:80"], |_| ());
        unchecked.inherit(&before);
        assert_eq!(standing(&unchecked, 0), Standing::Usable(WEIGHT_UNIT));
    }

    #[test]
    fn names_keep_their_addresses() {
        let before = plan(&["app.example:80"], |_| ());
        let address = SocketAddr::from(([10, 0, 0, 7], 80));
        let (family, high, low) = encode_address(address);
        let block = before.words().peer(5).expect("a block");
        let words = [PeerWord::Family, PeerWord::AddressHigh, PeerWord::AddressLow];
        words
            .iter()
            .zip([family, high, low])
            .for_each(|(word, value)| block[*word as usize].store(value, Relaxed));
        let sequence = |value| {
            before.words().server(0).expect("a block")[ServerWord::Sequence as usize].store(value, Relaxed);
        };
        sequence(4);
        let after = plan(&["10.0.0.1:80", "app.example:80"], |_| ());
        after.inherit(&before);
        assert_eq!(after.words().address(1 + 5), Some(address));
        assert_eq!(after.words().server_word(1, ServerWord::Sequence), 2);
        // Not while they are being changed.
        sequence(5);
        let after = plan(&["app.example:80"], |_| ());
        after.inherit(&before);
        assert_eq!((after.words().address(5), after.words().server_word(0, ServerWord::Resolved)), (None, 0));
    }
}
