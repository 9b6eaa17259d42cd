//! The config as a whole: `[process]`, `[log]`, `[events]` and the tables of the services.
//!
//! The structs are the schema: see [`drover_config::table!`]. [`Source::load`] reads and checks everything.

mod accept;
mod check;
mod log;
mod source;
mod system;
#[cfg(test)]
mod tests;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use drover_config::{Findings, Kind, Leaf, Located, LogFile, Node, Output, Ranged, Reader, Value};
use drover_event::{BackendKind, DebugConnection};
use drover_http::config::Http;
use drover_service::{Accept, Listener};
use drover_stream::config::Stream;
use ipnet::IpNet;

pub(crate) use log::{Format, Log, Target};
pub(crate) use source::{Source, with_prefix};
pub(crate) use system::System;

/// No time-out is longer than this: ten years, which a timer still can count.
const LONGEST: Duration = Duration::from_secs(3650 * 24 * 3600);
const SHORTEST: Duration = Duration::from_millis(1);

/// Where the config is unless told otherwise.
pub(crate) const DEFAULT_PATH: &str = "/etc/drover/drover.toml";

drover_config::table! {
    /// Everything that is configured.
    pub(crate) struct Config {
        /// The master, its workers, and what they may use.
        pub process: Process = Process::default(),
        /// The log of the daemon itself.
        pub log: Log = Log::default(),
        /// The event loop of each worker.
        pub events: Events = Events::default(),
        /// The HTTP service.
        pub http: Http = Http::default(),
        /// The stream service: TCP and UDP passed on to servers.
        pub stream: Stream = Stream::default(),
    }
}

impl Config {
    /// Checks everything, and fills in the defaults that depend on the system.
    fn checked(
        config: Option<Config>,
        mut findings: Findings,
        system: &System,
    ) -> Result<(Config, Findings), Box<Findings>> {
        if let Some(config) = &config {
            config.check(system, &mut findings);
            config.check_files(&mut findings);
        }
        match config {
            Some(config) if !findings.has_errors() => Ok((config.filled_in(system), findings)),
            _ => Err(Box::new(findings)),
        }
    }

    /// What is wrong with a text that stands in no file.
    pub(crate) fn check_text(name: &str, text: &str, system: &System) -> Findings {
        let (config, mut findings) = drover_config::parse::<Config>(name, text);
        if let Some(config) = &config {
            config.check(system, &mut findings);
        }
        findings
    }

    fn filled_in(mut self, system: &System) -> Config {
        let process = &mut self.process;
        let runtime_dir = process.runtime_dir.get_or_insert_with(|| system.runtime_dir());
        process.pid_file.get_or_insert_with(|| runtime_dir.join("drover.pid"));
        self
    }

    /// The listeners of all services.
    pub(crate) fn listeners(&self) -> Vec<Listener> {
        let http = self.http.listeners().into_iter().map(|listener| listener.socket);
        http.chain(self.stream.listeners()).collect()
    }

    /// Whether words for people may go to standard error: it is not a log of JSON lines alone.
    pub(crate) fn people_read_stderr(&self) -> bool {
        !(self.log.target() == Target::File(LogFile::Stderr) && self.log.format == Format::Json)
    }

    /// How many workers there are.
    pub(crate) fn worker_count(&self, system: &System) -> u32 {
        match *self.process.workers {
            _ if !*self.process.master => 1,
            Workers::Auto => system.parallelism,
            Workers::Count(count) => count,
        }
    }
}

drover_config::table! {
    /// The master, its workers, and what they may use.
    pub(crate) struct Process {
        /// Number of workers; "auto" is one for each CPU that the daemon may use.
        #[range = 1..=1024]
        pub workers: Located<Workers> = Workers::Auto.into(),
        /// User that workers run as, where the daemon is started as root; else they run as the starter.
        #[example = "\"drover\""]
        pub user: Option<Located<String>> = None,
        /// File with the master's pid; else drover.pid in the runtime directory.
        #[example = "\"/run/drover/drover.pid\""]
        pub pid_file: Option<PathBuf> = None,
        /// Directory of the scoreboard; else /run/drover for root, $XDG_RUNTIME_DIR/drover or /tmp/drover-UID for others.
        #[example = "\"/run/drover\""]
        pub runtime_dir: Option<PathBuf> = None,
        /// Time that connections may take to finish when a worker stops gracefully.
        #[range = Duration::ZERO..=LONGEST]
        pub shutdown_timeout: Duration = Duration::from_secs(30),
        /// Time that a new executable may take in an upgrade until its workers serve.
        #[range = Duration::from_millis(100)..=LONGEST]
        pub upgrade_timeout: Duration = Duration::from_secs(60),
        /// What the signal TERM means to the master: "fast" or "graceful".
        pub stop_on_term: StopOnTerm = StopOnTerm::Fast,
        /// Most descriptors of each process; else as inherited.
        #[range = 64..=1_048_576]
        #[example = "65536"]
        pub rlimit_nofile: Option<Located<u32>> = None,
        /// Scheduling priority of workers, from the most favoured to the least.
        #[range = -20..=19]
        pub nice: i32 = 0,
        /// Which CPU each worker stays on: "off", "auto" for one after the other, or a list of CPU numbers.
        pub cpu_affinity: Located<Affinity> = Affinity::Off.into(),
        /// A worker that stays inside one turn for longer is reported, with what it is doing; "0s" for never.
        #[range = Duration::ZERO..=LONGEST]
        pub stall_warn: Duration = Duration::from_millis(100),
        /// A worker that stays inside one turn for longer is killed and replaced; else it may take its time.
        #[range = Duration::from_millis(100)..=LONGEST]
        #[example = "\"30s\""]
        pub stall_kill: Option<Duration> = None,
        /// Whether a master supervises the workers; false runs one process that is both, for debugging.
        pub master: Located<bool> = true.into(),
        /// Whether to leave the terminal and run in the background.
        pub daemon: bool = false,
        /// How processes name themselves in the process list.
        pub title: String = "drover".to_owned(),
    }
}

drover_config::table! {
    /// The event loop of each worker.
    pub(crate) struct Events {
        /// The backend.
        #[key = "use"]
        pub backend: Backend = Backend::Epoll,
        /// Slots of each worker; every listener, the channel and every connection takes one.
        #[range = 1..=4_194_304]
        pub worker_connections: Located<u32> = 512.into(),
        /// Who gets a new connection, where a listen address does not say.
        pub accept: Located<Accept> = Accept::Exclusive.into(),
        /// Whether a worker accepts all connections that wait (up to 64) on a wake-up, rather than one.
        pub multi_accept: bool = false,
        /// Time between tries for the accept mutex, and before accepting again after descriptors ran out.
        #[range = SHORTEST..=Duration::from_secs(60)]
        pub accept_mutex_delay: Duration = Duration::from_millis(500),
        /// By how many connections a worker may be above the least loaded one with accept = "balanced".
        #[range = 1..=1_000_000]
        pub balance_slack: u32 = 1,
        /// How late timers may be, to read the clock less often; else as exact as the clock.
        #[range = SHORTEST..=Duration::from_secs(60)]
        #[example = "\"100ms\""]
        pub timer_resolution: Option<Duration> = None,
        /// Peers whose connections are logged at debug level: addresses, networks, or "unix:".
        pub debug_connections: Vec<DebugPeer> = Vec::new(),
        /// Most events taken from the kernel in one turn.
        #[range = 1..=65_536]
        pub epoll_events: u32 = 512,
    }
}

drover_config::choice! {
    /// How the master stops when it is sent TERM.
    pub(crate) enum StopOnTerm {
        /// Connections are closed.
        Fast = "fast",
        /// Connections may finish, as after QUIT: what container runtimes mean by TERM.
        Graceful = "graceful",
    }
}

drover_config::choice! {
    /// Backends by their names in the config.
    pub(crate) enum Backend {
        /// epoll(7).
        Epoll = "epoll",
        /// poll(2).
        Poll = "poll",
        /// select(2).
        Select = "select",
    }
}

impl From<Backend> for BackendKind {
    fn from(backend: Backend) -> BackendKind {
        match backend {
            Backend::Epoll => BackendKind::Epoll,
            Backend::Poll => BackendKind::Poll,
            Backend::Select => BackendKind::Select,
        }
    }
}

/// A peer, or a network of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DebugPeer(pub(crate) DebugConnection);

impl Leaf for DebugPeer {
    const TYPE: &'static str = "network";
    const HELP: &'static str = "an address \"192.0.2.7\", a network \"10.0.0.0/8\", or \"unix:\"";

    fn parse(text: &str) -> Result<DebugPeer, String> {
        if text == "unix:" {
            return Ok(DebugPeer(DebugConnection::Unix));
        }
        let network = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let network = network.map_err(|_| "neither an address nor a network".to_owned())?;
        Ok(DebugPeer(DebugConnection::Network(network)))
    }

    fn text(&self) -> String {
        match self.0 {
            DebugConnection::Network(network) => network.to_string(),
            DebugConnection::Unix => "unix:".to_owned(),
        }
    }
}

/// How many workers there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Workers {
    /// One for each CPU that the daemon may use.
    Auto,
    /// This many.
    Count(u32),
}

impl Value for Workers {
    fn type_name() -> String {
        "\"auto\" or integer".into()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Workers> {
        match &node.kind {
            Kind::String(text) if text == "auto" => Some(Workers::Auto),
            Kind::Integer(_) => u32::read(node, reader).map(Workers::Count),
            _ => reader.expected(node, &Self::type_name()),
        }
    }

    fn write(&self) -> Output {
        match self {
            Workers::Auto => "auto".to_owned().write(),
            Workers::Count(count) => count.write(),
        }
    }
}

impl Ranged for Workers {
    type Bound = u32;

    fn bounded(&self) -> Option<&u32> {
        match self {
            Workers::Auto => None,
            Workers::Count(count) => Some(count),
        }
    }
}

/// Which CPU each worker stays on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Affinity {
    /// Wherever the kernel puts it.
    Off,
    /// Worker k on the k-th CPU that the daemon may use, beginning again after the last.
    Auto,
    /// Worker k on the k-th CPU of the list, beginning again after the last.
    Cpus(Vec<u32>),
}

impl Value for Affinity {
    fn type_name() -> String {
        "\"off\" or \"auto\" or list of integers".into()
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Affinity> {
        match &node.kind {
            Kind::String(text) if text == "off" => Some(Affinity::Off),
            Kind::String(text) if text == "auto" => Some(Affinity::Auto),
            Kind::Array(cpus) if !cpus.is_empty() => Vec::read(node, reader).map(Affinity::Cpus),
            _ => reader.expected(node, &Self::type_name()),
        }
    }

    fn write(&self) -> Output {
        match self {
            Affinity::Off => "off".to_owned().write(),
            Affinity::Auto => "auto".to_owned().write(),
            Affinity::Cpus(cpus) => cpus.write(),
        }
    }
}
