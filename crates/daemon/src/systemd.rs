//! Telling systemd what the master does (`sd_notify(3)`): a datagram to the socket in `NOTIFY_SOCKET`.
//!
//! Nothing happens, and nothing fails, where that variable is not set. The variables are read once and
//! workers never use them. Of two masters the one that systemd takes for the main process speaks: by default it
//! hears nobody else, and what the other has to say would be misleading.
//!
//! # The watchdog
//!
//! Where the unit has `WatchdogSec=`, the master sends a keep-alive at half of that time. Each says that the master
//! itself goes round its loop, and that not every worker that serves has been inside one turn for the whole of
//! `WatchdogSec=`. One worker that hangs among others is no reason to restart the service and cut every connection: it
//! is reported, and killed and replaced where `stall_kill` says so. When all hang there is nothing left to lose. A
//! crash loop is no reason either: a restart would begin the same loop anew, without the connections there are.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};
use std::{env, io, process};

use drover_event::Gauge;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use tracing::warn;

use crate::clock::monotonic_ms;
use crate::master::Master;
use crate::text::counted;
use crate::workers::Stage;

/// How often the status line is looked at for a change.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);
/// How long a notification may wait for systemd to read those before it.
const PATIENCE: Duration = Duration::from_millis(100);

/// Where notifications go, if anywhere.
#[derive(Debug)]
pub(crate) struct Notifier {
    address: Option<SocketAddr>,
    /// Whether this is the main process of the service.
    main: bool,
    stopping: bool,
    /// The time without a keep-alive after which systemd restarts the service.
    watchdog: Option<Duration>,
    /// The status line that systemd has.
    status: String,
    status_at: Instant,
    keep_alive_at: Instant,
}

impl Notifier {
    /// Looks into the environment; `main` is false for a master that takes over from another.
    pub(crate) fn from_environment(main: bool) -> Self {
        let address = env::var_os("NOTIFY_SOCKET").and_then(|place| {
            let address = match place.as_bytes().strip_prefix(b"@") {
                Some(name) => SocketAddr::from_abstract_name(name),
                None => SocketAddr::from_pathname(&place),
            };
            address.ok()
        });
        let watchdog = watchdog(
            env::var("WATCHDOG_USEC").ok().as_deref(),
            env::var("WATCHDOG_PID").ok().as_deref(),
            process::id(),
        );
        let now = Instant::now();
        Self {
            address,
            main,
            stopping: false,
            watchdog,
            status: String::new(),
            status_at: now,
            keep_alive_at: now,
        }
    }

    /// When something is to be sent without anything happening.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let keep_alive = self.watchdog.map(|_| self.keep_alive_at);
        self.speaks().then(|| keep_alive.map_or(self.status_at, |at| at.min(self.status_at)))
    }

    /// The main process of the service is another master from now on.
    pub(crate) fn hand_over_to(&mut self, master: Pid) {
        self.send(&format!("MAINPID={master}\n"));
        self.main = false;
    }

    /// This is the main process from now on, and serves.
    pub(crate) fn take_over(&mut self, status: &str) {
        if !std::mem::replace(&mut self.main, true) {
            self.ready(status);
        }
    }

    /// What was begun, the start or a reload, has ended, however it went; `status` is one line for `systemctl status`.
    pub(crate) fn ready(&mut self, status: &str) {
        status.clone_into(&mut self.status);
        self.send(&format!("READY=1\nSTATUS={status}\nMAINPID={}\n", process::id()));
    }

    /// A reload begins; [`Notifier::ready`] ends it.
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC)
            .map_or(0, |now| now.tv_sec() * 1_000_000 + now.tv_nsec() / 1000);
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={now}\n"));
    }

    /// The master stops, and the service with it; said once.
    pub(crate) fn stopping(&mut self) {
        if self.main && !std::mem::replace(&mut self.stopping, true) {
            self.send("STOPPING=1\n");
        }
    }

    fn speaks(&self) -> bool {
        self.address.is_some() && self.main
    }

    fn set_status(&mut self, status: String) {
        if status != self.status {
            self.send(&format!("STATUS={status}\n"));
            self.status = status;
        }
    }

    fn send(&self, message: &str) {
        let Some(address) = self.address.as_ref().filter(|_| self.main) else { return };
        let send = || -> io::Result<()> {
            let socket = UnixDatagram::unbound()?;
            socket.set_write_timeout(Some(PATIENCE))?;
            socket.send_to_addr(message.as_bytes(), address).map(drop)
        };
        if let Err(error) = send() {
            warn!("cannot notify systemd: {error}");
        }
    }
}

/// The time in `WATCHDOG_USEC`, unless `WATCHDOG_PID` says that another process is meant: sd_watchdog_enabled(3).
fn watchdog(micros: Option<&str>, pid: Option<&str>, own: u32) -> Option<Duration> {
    let meant = pid.is_none_or(|pid| pid.parse() == Ok(own));
    let micros = micros.filter(|_| meant)?.parse().ok()?;
    (micros > 0).then(|| Duration::from_micros(micros))
}

impl Master {
    /// Keeps systemd up to date.
    pub(super) fn attend_systemd(&mut self) {
        let now = Instant::now();
        if !self.notifier.speaks() {
            return;
        }
        if let Some(time) = self.notifier.watchdog.filter(|_| self.notifier.keep_alive_at <= now) {
            self.notifier.keep_alive_at = now + time / 2;
            match self.all_workers_hang(time) {
                false => self.notifier.send("WATCHDOG=1\n"),
                true => {
                    warn!("no keep-alive for systemd: every worker has been inside one turn for {time:?}")
                }
            }
        }
        if self.notifier.status_at <= now {
            self.notifier.status_at = now + STATUS_INTERVAL;
            if self.generation.number > 0 && self.stopping.is_none() && self.reload.is_none() {
                let status = self.status_line();
                self.notifier.set_status(status);
            }
        }
    }

    /// The start or a reload has ended.
    pub(super) fn tell_systemd_ready(&mut self) {
        let status = self.status_line();
        self.notifier.ready(&status);
    }

    /// `generation 3, 4 workers, 120 connections: http on http://0.0.0.0:80`
    pub(super) fn status_line(&self) -> String {
        let generation = self.generation.number;
        let serving = self.workers.serving(generation);
        let open = self.workers.iter().map(|process| process.block.stats().gauge(Gauge::OpenConnections));
        let (workers, connections) =
            (counted(serving, "worker"), counted(open.sum::<u64>() as usize, "connection"));
        let note = match (self.parked, self.board.last_reload_refused()) {
            (true, _) => "; the workers were asked to leave",
            (false, true) => "; the last reload was refused",
            (false, false) => "",
        };
        let places = self.generation.places().unwrap_or_else(|| "listening nowhere".to_owned());
        let line = format!("generation {generation}, {workers}, {connections}: {places}{note}");
        // A line feed would begin another variable.
        line.replace('\n', " ")
    }

    fn all_workers_hang(&self, time: Duration) -> bool {
        let now_ms = monotonic_ms();
        let hangs = |stamp: u64| stamp != 0 && u128::from(now_ms.saturating_sub(stamp)) > time.as_millis();
        let mut stamps = self
            .workers
            .of(self.generation.number)
            .filter(|process| process.stage == Stage::Serving)
            .map(|process| process.block.stats().gauge(Gauge::TurnStarted))
            .peekable();
        stamps.peek().is_some() && stamps.all(hangs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_arrives_as_one_datagram() {
        let name = format!("drover-notify-{}", process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("address");
        let socket = UnixDatagram::bind_addr(&address).expect("bound");
        socket.set_nonblocking(true).expect("option");
        let mut notifier =
            Notifier { address: Some(address), main: false, ..Notifier::from_environment(false) };
        let receive = || {
            let mut buffer = [0; 256];
            let length = socket.recv(&mut buffer).ok()?;
            Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
        };
        notifier.ready("not heard");
        notifier.take_over("generation 1");
        let ready = format!("READY=1\nSTATUS=generation 1\nMAINPID={}\n", process::id());
        assert_eq!(receive(), Some(ready));
        notifier.set_status("generation 1".to_owned());
        notifier.set_status("generation 2".to_owned());
        assert_eq!(receive().as_deref(), Some("STATUS=generation 2\n"), "only when it changed");
        notifier.reloading();
        assert!(receive().is_some_and(|text| text.starts_with("RELOADING=1\nMONOTONIC_USEC=")));
        notifier.hand_over_to(Pid::from_raw(77));
        notifier.stopping();
        assert_eq!(receive().as_deref(), Some("MAINPID=77\n"));
        assert_eq!(receive(), None, "then it says no more");
        assert_eq!(notifier.deadline(), None);
    }

    #[test]
    fn systemd_that_does_not_read_holds_nothing_up_for_long() {
        let name = format!("drover-notify-full-{}", process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("address");
        let _socket = UnixDatagram::bind_addr(&address).expect("bound");
        let filler = UnixDatagram::unbound().expect("socket");
        filler.set_nonblocking(true).expect("option");
        while filler.send_to_addr(b"x", &address).is_ok() {}
        let mut notifier =
            Notifier { address: Some(address), main: true, ..Notifier::from_environment(true) };
        let start = Instant::now();
        notifier.stopping();
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    }

    #[test]
    fn the_watchdog_is_for_whom_it_names() {
        let time = Some(Duration::from_secs(3));
        assert_eq!(watchdog(Some("3000000"), Some("7"), 7), time);
        assert_eq!(watchdog(Some("3000000"), None, 7), time);
        assert_eq!(watchdog(Some("3000000"), Some("8"), 7), None);
        assert_eq!(watchdog(Some("0"), None, 7), None);
        assert_eq!(watchdog(Some("soon"), None, 7), None);
        assert_eq!(watchdog(None, None, 7), None);
    }
}
