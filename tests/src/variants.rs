//! Config files that a long run reloads among. All serve the same things on the same port; everything else
//! about them changes.

use std::path::PathBuf;

use crate::datagrams::UdpBackend;
use crate::http_backend::HttpBackend;
use crate::{Backend, Config, Directory, Drover, Port, Random};

/// Bytes of the file at `/large`.
pub const LARGE: usize = 8 << 20;

/// The most workers that a variant has.
const MOST_WORKERS: usize = 4;

/// Where the variants of a run have their files, and their ports.
#[derive(Debug)]
pub struct Variants {
    /// The run's directory.
    pub directory: Directory,
    /// What all of them listen on.
    pub port: Port,
    /// What some listen on beside that.
    pub extra: Port,
    /// A port that somebody else has.
    pub taken: Port,
    /// What all of them pass on to [`Variants::echo`].
    pub stream: Port,
    /// A server of the run's own that sends everything back.
    pub echo: Backend,
    /// What all of them pass datagrams on from, to [`Variants::echo_datagrams`].
    pub datagrams: Port,
    /// A server of the run's own that sends datagrams back.
    pub echo_datagrams: UdpBackend,
    /// Another, that answers requests with themselves.
    pub echo_http: HttpBackend,
    /// The folder of the log files.
    pub logs: PathBuf,
}

/// Which variants may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// All.
    All,
    /// Those that are in force at once. Others leave sockets, which takes the two seconds that handshakes may
    /// take.
    Quick,
}

/// Accept strategies, as often as they are to come; the last is not a quick one.
const STRATEGIES: [&str; 9] =
    ["exclusive", "exclusive", "shared", "shared", "mutex", "mutex", "balanced", "balanced", "reuseport"];
const BACKENDS: [&str; 6] = ["epoll", "epoll", "epoll", "epoll", "poll", "select"];

impl Variants {
    /// Makes the directory with what is served from it.
    ///
    /// # Panics
    ///
    /// When that fails.
    #[allow(clippy::new_without_default, reason = "a directory on disk is no default value")]
    pub fn new() -> Variants {
        let directory = Directory::new();
        directory.write("www/large", vec![b'x'; LARGE]);
        let logs = directory.join("logs");
        std::fs::create_dir(&logs).expect("the directory is ours");
        let [port, extra, taken, stream, datagrams] = [(); 5].map(|()| Port::new());
        Variants {
            directory,
            port,
            extra,
            taken,
            stream,
            echo: Backend::echo(),
            datagrams,
            echo_datagrams: UdpBackend::echo(),
            echo_http: HttpBackend::echoing(),
            logs,
        }
    }

    /// The unix socket that all of them listen on.
    pub fn unix_path(&self) -> PathBuf {
        self.directory.join("drover.sock")
    }

    /// The one that a run begins and ends with.
    pub fn base(&self) -> Config {
        self.with_listen(&format!("\"{}\"", self.port.address()))
    }

    /// Starts a daemon with that. Sockets for datagrams never become fewer: it has as many as it will ever have.
    ///
    /// # Panics
    ///
    /// When it does not start.
    pub fn start(&self) -> Drover {
        let most = self.base().process(&format!("workers = {MOST_WORKERS}"));
        let drover = Drover::start(&self.directory, &most);
        self.base().write(&self.directory);
        drover.reload();
        drover
    }

    /// One within a range, and what is special about it.
    pub fn any(&self, range: Range, random: &mut Random) -> (String, Config) {
        let quick = range == Range::Quick;
        let address = if random.one_in(8) && !quick { "0.0.0.0" } else { "127.0.0.1" };
        let mut listen = format!("{{ address = \"{address}:{}\"", self.port);
        for (option, times) in [(", deferred = true", 6), (", backlog = 1000", 4)] {
            listen.push_str(if random.one_in(times) { option } else { "" });
        }
        listen.push_str(" }");
        if random.one_in(3) {
            listen.push_str(&format!(", \"{}\"", self.extra.address()));
        }
        let strategies = &STRATEGIES[..STRATEGIES.len() - usize::from(quick)];
        let (strategy, backend) = (*random.pick(strategies), *random.pick(&BACKENDS));
        let workers = 1 + random.below(MOST_WORKERS);
        let mut config = self
            .with_listen(&listen)
            .process(&format!("workers = {workers}"))
            .events(&format!("accept = \"{strategy}\""))
            .events(&format!("use = \"{backend}\""))
            .events(&format!("multi_accept = {}", random.one_in(2)));
        if random.one_in(8) {
            config = config.events("timer_resolution = \"100ms\"");
        }
        (format!("{strategy}, {workers} workers, {backend}, [{listen}]"), config)
    }

    /// One that is refused, and a word that the reason has in it.
    pub fn broken(&self, random: &mut Random) -> (String, Config) {
        let (_, config) = self.any(Range::All, random);
        match random.below(4) {
            0 => ("unknown key".to_owned(), config.events("worker_conections = 5")),
            1 => ("epoll_events".to_owned(), config.events("epoll_events = 0")),
            2 => ("cannot be opened".to_owned(), config.log("file = \"/nonexistent/drover.log\"")),
            _ => ("in use".to_owned(), config.answering(&self.taken)),
        }
    }

    fn with_listen(&self, listen: &str) -> Config {
        let log = |name: &str| self.logs.join(name).display().to_string();
        Config::new(&self.directory, 2)
            .process("shutdown_timeout = \"30s\"")
            .log(&format!("file = \"{}\"", log("drover.log")))
            .http(&format!(
                "access_log = {{ file = \"{}\", format = \"by_worker\", flush = \"50ms\" }}",
                log("access.log")
            ))
            .server_with(&format!("listen = [{listen}, \"unix:{}\"]", self.unix_path().display()))
            .location("/", "return = { status = 200, body = \"ok\\n\" }")
            .location("/slow", "return = { status = 200, body = \"ok\\n\", delay = \"300ms\" }")
            .location("/large", &format!("root = \"{}\"", self.directory.join("www").display()))
            .passing("/proxied", self.echo_http.address(), "")
            .stream("access_log = \"off\"")
            .proxy(&format!(
                "listen = [\"{}\"]\nproxy_pass = \"{}\"",
                self.stream.address(),
                self.echo.address()
            ))
            .proxy(&format!(
                "listen = [{{ address = \"{}\", udp = true }}]\nproxy_pass = \"{}\"\nidle_timeout = \"1s\"",
                self.datagrams.address(),
                self.echo_datagrams.address()
            ))
    }
}
