//! Stalls: workers that stay inside one turn.
//!
//! A worker stamps its scoreboard block when it wakes up for a turn and when it goes back to sleep. The
//! master looks at the stamps twice within `stall_warn`; nobody else does anything for it, so it costs a
//! worker nothing, and one that hangs need not answer. Asleep is not hung.
//!
//! A stall is a turn that was met at two looks and lasts too long. Once is not enough: where the machine or
//! the whole process group stood still (^Z in a terminal), every worker looks late once.

use std::time::{Duration, Instant};

use drover_event::Gauge;
use nix::sys::signal::{Signal, kill};
use tracing::{error, info, warn};

use crate::clock::monotonic_ms;
use crate::config::Process as Settings;
use crate::process::state_of;
use crate::workers::{Process, Stage, Workers};

/// The least and the most time between two looks.
const LOOKS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// What the master has seen of one worker's turns.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Heartbeat {
    /// When the turn woke up that was in progress at the last look; zero for none.
    stamp: u64,
    /// How long it had lasted by then.
    lasted: Duration,
    reported: bool,
}

/// What a look at a heartbeat tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    /// Asleep, or in a turn that is new.
    Alive,
    /// In the same turn as at the last look, for this long.
    Inside(Duration),
    /// Out of a turn that was reported, which lasted longer than this.
    Recovered(Duration),
}

impl Heartbeat {
    /// Takes note of the stamp as it is at `now_ms`.
    fn look(&mut self, stamp: u64, now_ms: u64) -> Seen {
        let before = *self;
        let lasted = Duration::from_millis(if stamp == 0 { 0 } else { now_ms.saturating_sub(stamp) });
        *self = Self { stamp, lasted, reported: before.reported && stamp == before.stamp };
        match stamp == before.stamp {
            true if stamp != 0 => Seen::Inside(lasted),
            false if before.reported => Seen::Recovered(before.lasted),
            _ => Seen::Alive,
        }
    }
}

/// How long until the next look, if the settings ask for any.
fn interval(settings: &Settings) -> Option<Duration> {
    let warn = Some(settings.stall_warn).filter(|warn| !warn.is_zero());
    let shortest = warn.into_iter().chain(settings.stall_kill).min()?;
    Some((shortest / 2).clamp(LOOKS.0, LOOKS.1))
}

impl Workers {
    /// When to look at the heartbeats again; `None` for never.
    pub(crate) fn next_look(&self, settings: &Settings) -> Option<Instant> {
        let interval = interval(settings).filter(|_| !self.is_empty())?;
        Some(self.looked_at.map_or_else(Instant::now, |looked_at| looked_at + interval))
    }

    /// Looks at every heartbeat: reports what stalls, once a turn, and kills what stalls for too long.
    pub(crate) fn look_for_stalls(&mut self, settings: &Settings) {
        self.looked_at = Some(Instant::now());
        let now_ms = monotonic_ms();
        for process in self.iter_mut().filter(|process| process.stage != Stage::Stopping) {
            let stamp = process.block.stats().gauge(Gauge::TurnStarted);
            match process.heartbeat.look(stamp, now_ms) {
                Seen::Alive => {}
                Seen::Inside(lasted) => act(process, lasted, settings),
                Seen::Recovered(lasted) => info!("{} is out of its turn after {lasted:.1?}", process.who()),
            }
        }
    }
}

fn act(process: &mut Process, lasted: Duration, settings: &Settings) {
    let warns = !settings.stall_warn.is_zero() && lasted > settings.stall_warn;
    if warns && !std::mem::replace(&mut process.heartbeat.reported, true) {
        let doing = process.block.describe();
        let state = state_of(process.pid).map_or("gone", state_name);
        warn!(
            "{} has been inside one turn for {lasted:.1?}: {doing}; the kernel has it {state}",
            process.who()
        );
    }
    if settings.stall_kill.is_some_and(|limit| lasted > limit) {
        error!("{} has been inside one turn for {lasted:.1?}: killing it", process.who());
        let _ = kill(process.pid, Signal::SIGKILL);
    }
}

/// What a letter of `/proc/PID/stat` means; see proc(5).
fn state_name(letter: char) -> &'static str {
    match letter {
        'R' => "running",
        'S' => "waiting in a system call",
        'D' => "waiting for a disk or the like",
        'T' => "stopped by a signal",
        't' => "stopped by a debugger",
        _ => "ended",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_turn_counts_from_the_second_look_on() {
        let mut heartbeat = Heartbeat::default();
        assert_eq!(heartbeat.look(1000, 5000), Seen::Alive, "it may just not have run");
        assert_eq!(heartbeat.look(1000, 5050), Seen::Inside(4050 * MS));
        assert_eq!(heartbeat.look(5051, 5100), Seen::Alive, "another turn");
        assert_eq!(heartbeat.look(0, 5150), Seen::Alive);
        assert_eq!(heartbeat.look(0, 9000), Seen::Alive, "asleep for long");
    }

    #[test]
    fn a_turn_that_was_reported_is_so_once_and_its_end_is_noticed() {
        let mut heartbeat = Heartbeat::default();
        heartbeat.look(1000, 1010);
        heartbeat.reported = true;
        assert_eq!(heartbeat.look(1000, 1200), Seen::Inside(200 * MS));
        assert!(heartbeat.reported);
        assert_eq!(heartbeat.look(0, 1250), Seen::Recovered(200 * MS));
        assert!(!heartbeat.reported);
        assert_eq!(heartbeat.look(1300, 1300), Seen::Alive);
    }

    #[test]
    fn looks_are_twice_as_frequent_as_the_tightest_limit() {
        let with =
            |warn, kill| interval(&Settings { stall_warn: warn, stall_kill: kill, ..Settings::default() });
        assert_eq!(with(100 * MS, None), Some(50 * MS));
        assert_eq!(with(100 * MS, Some(60 * MS)), Some(30 * MS));
        assert_eq!(with(Duration::ZERO, None), None, "nobody wants to know");
        assert_eq!(with(Duration::ZERO, Some(600_000 * MS)), Some(LOOKS.1));
        assert_eq!(with(MS, None), Some(LOOKS.0));
    }
}
