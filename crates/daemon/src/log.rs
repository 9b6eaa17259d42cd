//! The log of master and workers: one descriptor opened for appending, one `write` a line.
//!
//! Events go through `tracing-subscriber`: its `fmt` layer makes a line of each ([`crate::log_line`] says what
//! it looks like), a filter that can be exchanged decides which are written, and the [`Sink`] writes.
//! No thread and no buffer stand between an event and its line, because the master forks and a worker
//! may die at any time. The descriptor keeps its number for life: [`reopen`] opens the file anew and
//! puts it in the old one's place. A line that cannot be written (a full disk, a pipe nobody reads) is
//! lost and counted, never waited for by a retry.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use drover_config::LogFile;
use drover_event::logging_verbosely;
use nix::fcntl::OFlag;
use nix::unistd::{Gid, Uid, dup3, fchown};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, dynamic_filter_fn};
use tracing_subscriber::fmt::format::{DefaultFields, FormatEvent, Writer};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::{Filter, Layer as _, SubscriberExt as _};
use tracing_subscriber::reload;

use crate::config::{self, Config};
use crate::log_line::{Format, Look};

/// How the log is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Where lines go.
    pub(crate) target: LogFile,
    /// How they look.
    pub(crate) format: Format,
    /// The least severe level that is written.
    pub(crate) level: Level,
    /// Whether some connections are logged at debug level whatever `level` is.
    pub(crate) debug_connections: bool,
}

impl Settings {
    /// As the table `[log]` says, and `debug_connections` in `[events]`.
    pub(crate) fn from_config(config: &Config) -> Self {
        let log = &config.log;
        Self {
            target: (*log.file).clone(),
            format: match log.format {
                config::Format::Text => Format::Text,
                config::Format::Json => Format::Json,
            },
            level: match log.level {
                config::Level::Error => Level::ERROR,
                config::Level::Warn => Level::WARN,
                config::Level::Info => Level::INFO,
                config::Level::Debug => Level::DEBUG,
                config::Level::Trace => Level::TRACE,
            },
            debug_connections: !config.events.debug_connections.is_empty(),
        }
    }
}

/// The user that workers run as, so that they may write to files the master makes.
pub(crate) type Owner = Option<(Uid, Gid)>;

/// Decides which events are written.
type Admission = Box<dyn Filter<Registry> + Send + Sync>;

/// What changes the log that this process has.
struct Log {
    sink: Sink,
    admission: reload::Handle<Admission, Registry>,
}

/// Empty before the first [`apply`].
static LOG: OnceLock<Log> = OnceLock::new();

/// Starts logging, or changes where and how it is done; the number of the descriptor stays.
///
/// # Errors
/// When the file cannot be opened; then nothing changed.
pub(crate) fn apply(settings: Settings, owner: Owner) -> io::Result<()> {
    let opened = open(&settings.target, owner)?;
    let admitted = admission(&settings);
    if let Some(log) = LOG.get() {
        log.sink.change(&opened, settings)?;
        return log.admission.reload(admitted).map_err(io::Error::other);
    }
    let sink = Sink::new(opened, settings, "drover");
    let (admission, handle) = reload::Layer::new(admitted);
    let subscriber = subscriber(sink.clone(), admission);
    if LOG.set(Log { sink, admission: handle }).is_ok() {
        // Fails only where a subscriber is installed already: this one, by the first call.
        let _ = tracing::subscriber::set_global_default(subscriber);
    }
    Ok(())
}

/// Opens the file anew (after it was renamed) and goes on there.
///
/// # Errors
/// When it cannot be opened; then the old one stays.
pub(crate) fn reopen(owner: Owner) -> io::Result<()> {
    let Some(log) = LOG.get() else { return Ok(()) };
    let mut state = log.sink.state();
    let opened = open(&state.target, owner)?;
    state.replace(&opened)
}

/// Names this process in lines from now on.
pub(crate) fn set_process(name: &str) {
    if let Some(log) = LOG.get() {
        log.sink.state().look.process = name.into();
    }
}

/// Events of the level and more severe ones; at debug level also those of connections that are to be debugged.
///
/// With the second kind, each call site at debug level asks anew each time; without, it is told once that
/// nobody listens, and costs a branch.
fn admission(settings: &Settings) -> Admission {
    let by_level = LevelFilter::from_level(settings.level);
    if !settings.debug_connections {
        return Box::new(by_level);
    }
    let debugged = dynamic_filter_fn(|metadata, _| *metadata.level() <= Level::DEBUG && logging_verbosely());
    Box::new(by_level.or(debugged.with_max_level_hint(LevelFilter::DEBUG)))
}

fn subscriber(sink: Sink, admission: impl Filter<Registry> + Send + Sync + 'static) -> impl Subscriber {
    // What goes wrong with a line is the sink's to count: the layer would tell stderr.
    let lines = tracing_subscriber::fmt::layer()
        .event_format(sink.clone())
        .with_writer(sink)
        .log_internal_errors(false);
    tracing_subscriber::registry().with(lines.with_filter(admission))
}

/// Where lines go, and what they look like at the moment.
#[derive(Clone)]
struct Sink(Arc<Mutex<State>>);

/// Locked while a line is written, not while its values are formatted; there are no threads to contend with.
struct State {
    descriptor: OwnedFd,
    target: LogFile,
    look: Look,
    lost: u64,
}

impl Sink {
    fn new(descriptor: OwnedFd, settings: Settings, process: &str) -> Self {
        let look = Look { format: settings.format, process: process.into() };
        Self(Arc::new(Mutex::new(State { descriptor, target: settings.target, look, lost: 0 })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, opened: &OwnedFd, settings: Settings) -> io::Result<()> {
        let mut state = self.state();
        state.replace(opened)?;
        state.target = settings.target;
        state.look.format = settings.format;
        Ok(())
    }
}

impl State {
    /// Puts what was opened in the place of the descriptor, whose number stays.
    fn replace(&mut self, opened: &OwnedFd) -> io::Result<()> {
        Ok(dup3(opened, &mut self.descriptor, OFlag::O_CLOEXEC)?)
    }

    /// Writes a line whole, or counts it as lost.
    fn write(&mut self, line: &[u8]) {
        // One write a line, so that lines of several processes never mix.
        match nix::unistd::write(&self.descriptor, line) {
            Ok(written) if written == line.len() => self.confess(),
            _ => self.lost += 1,
        }
    }

    /// Says how many lines could not be written before this was possible again.
    fn confess(&mut self) {
        if self.lost == 0 {
            return;
        }
        let line = self.look.plain(Level::WARN, &format!("{} lines of the log were lost", self.lost));
        if nix::unistd::write(&self.descriptor, line.as_bytes()).is_ok() {
            self.lost = 0;
        }
    }
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = &'a Sink;

    fn make_writer(&'a self) -> &'a Sink {
        self
    }
}

impl io::Write for &Sink {
    /// Takes a whole line; says that it is written even if not, so that nobody tries again.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.state().write(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl FormatEvent<Registry, DefaultFields> for Sink {
    fn format_event(
        &self,
        context: &FmtContext<'_, Registry, DefaultFields>,
        line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        // A value may log while it is formatted: the lock is not held meanwhile.
        let look = self.state().look.clone();
        look.format_event(context, line, event)
    }
}

/// Opens `path` for appending, making it where missing, and gives it to `owner`.
///
/// Only a plain file with one name is given away: whoever may write to the directory could put a link there,
/// and must not get the file that it leads to.
///
/// # Errors
/// What the system reports, with the path.
pub(crate) fn open_for_append(path: &Path, owner: Owner) -> io::Result<File> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let file = LogFile::append(path).map_err(named)?;
    if let Some((uid, gid)) = owner {
        let (opened, named_so) =
            (file.metadata().map_err(named)?, fs::symlink_metadata(path).map_err(named)?);
        let plain = opened.is_file() && opened.nlink() == 1 && opened.ino() == named_so.ino();
        if plain && opened.uid() != uid.as_raw() {
            fchown(&file, Some(uid), Some(gid)).map_err(|error| named(error.into()))?;
        }
    }
    Ok(file)
}

fn open(target: &LogFile, owner: Owner) -> io::Result<OwnedFd> {
    match target {
        LogFile::Off => File::options().write(true).open("/dev/null").map(OwnedFd::from),
        LogFile::Stderr => io::stderr().as_fd().try_clone_to_owned(),
        LogFile::Stdout => io::stdout().as_fd().try_clone_to_owned(),
        LogFile::Path(path) => open_for_append(path, owner).map(OwnedFd::from),
    }
}

/// Logs panics, with their backtrace, as any other event: one line.
pub(crate) fn log_panics() {
    std::panic::set_hook(Box::new(|info| {
        let backtrace = std::backtrace::Backtrace::force_capture();
        tracing::error!(backtrace = %backtrace, "{info}");
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::os::unix::net::UnixDatagram;

    fn settings() -> Settings {
        Settings { target: LogFile::Off, format: Format::Text, level: Level::INFO, debug_connections: false }
    }

    /// Each write is a datagram.
    fn receive(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 4096];
        let length = socket.recv(&mut bytes).expect("a line");
        String::from_utf8(bytes[..length].to_vec()).expect("text")
    }

    #[test]
    fn a_line_is_one_write_and_lost_ones_are_told() {
        let (reader, writer) = UnixDatagram::pair().expect("sockets");
        let full = || OwnedFd::from(File::options().write(true).open("/dev/full").expect("device"));
        let sink = Sink::new(full(), settings(), "worker 1");
        let log = subscriber(sink.clone(), admission(&settings()));
        tracing::subscriber::with_default(log, || {
            tracing::warn!("lost");
            tracing::warn!("lost too");
            sink.change(&writer.into(), settings()).expect("changed");
            tracing::warn!(text = "a\nb", "written");
            sink.change(&full(), settings()).expect("changed");
            tracing::debug!("not wanted");
        });
        assert!(receive(&reader).ends_with(" worker 1: written text=a\\nb\n"));
        assert!(receive(&reader).ends_with(" worker 1: 2 lines of the log were lost\n"));
        assert_eq!(sink.state().lost, 0);
    }

    #[test]
    fn debug_level_is_asked_for_only_where_a_connection_may_want_it() {
        let hint = |level, debug_connections| {
            let settings = Settings { level, debug_connections, ..settings() };
            let (admission, _) = reload::Layer::new(admission(&settings));
            let nowhere = open(&LogFile::Off, None).expect("device");
            subscriber(Sink::new(nowhere, settings, "master"), admission).max_level_hint()
        };
        assert_eq!(hint(Level::WARN, false), Some(LevelFilter::WARN));
        assert_eq!(hint(Level::WARN, true), Some(LevelFilter::DEBUG));
        assert_eq!(hint(Level::TRACE, true), Some(LevelFilter::TRACE));
    }

    /// Where the tests may not give files away there is nothing to see.
    #[test]
    fn a_link_is_written_to_and_its_target_not_given_away() {
        if !Uid::effective().is_root() {
            return;
        }
        let directory = std::env::temp_dir().join(format!("drover-log-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("directory");
        let (target, link, plain) =
            (directory.join("target"), directory.join("link"), directory.join("plain"));
        fs::write(&target, "precious").expect("file");
        std::os::unix::fs::symlink(&target, &link).expect("link");
        let owner = Some((Uid::from_raw(65_534), Gid::from_raw(65_534)));
        open_for_append(&link, owner).expect("opened");
        open_for_append(&plain, owner).expect("opened");
        assert_eq!(fs::metadata(&target).expect("there").uid(), 0);
        assert_eq!(fs::metadata(&plain).expect("there").uid(), 65_534);
        fs::remove_dir_all(directory).expect("removed");
    }
}
