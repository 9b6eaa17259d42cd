//! The log of master and workers: one descriptor opened for appending, one `write` a line.
//!
//! Events go through `tracing-subscriber`: its `fmt` layer makes a line of each ([`crate::log_line`] says what
//! it looks like), a filter that can be exchanged decides which are written, and the [`Sink`] writes.
//! No thread and no buffer stand between an event and its line, because the master forks and a worker
//! may die at any time. The descriptor keeps its number for life: [`reopen`] opens the file anew and
//! puts it in the old one's place. A line that cannot be written (a full disk, a pipe nobody reads) is
//! lost and counted, never waited for ([`Output`]).

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use drover_config::LogFile;
use drover_event::logging_verbosely;
use drover_service::Output;
use nix::fcntl::OFlag;
use nix::unistd::{Gid, Uid, dup3, fchown};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Registry;
use tracing_subscriber::filter::{FilterExt as _, LevelFilter, dynamic_filter_fn, filter_fn};
use tracing_subscriber::fmt::format::{DefaultFields, FormatEvent, Writer};
use tracing_subscriber::fmt::{FmtContext, MakeWriter};
use tracing_subscriber::layer::{Filter, Layer as _, SubscriberExt as _};
use tracing_subscriber::reload;

use crate::config::{self, Config, Target};
use crate::log_limit::Limit;
use crate::log_line::{Format, Look};
use crate::log_relay::Relay;

/// How the log is to be.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    /// Where lines go.
    pub(crate) target: Target,
    /// How they look.
    pub(crate) format: Format,
    /// The least severe level that is written.
    pub(crate) level: Level,
    /// The same for modules, by the path that their events have.
    pub(crate) levels: Vec<(String, Level)>,
    /// Lines a second of one place in the code; zero for no limit.
    pub(crate) rate: u32,
    /// Whether some connections are logged at debug level whatever `level` is.
    pub(crate) debug_connections: bool,
}

impl Settings {
    /// As the table `[log]` says, and `debug_connections` in `[events]`.
    pub(crate) fn from_config(config: &Config) -> Self {
        let log = &config.log;
        Self {
            target: log.target(),
            format: match (log.target(), log.format) {
                (Target::Journal(_), _) => Format::Journal,
                (_, config::Format::Json) => Format::Json,
                (Target::Syslog(_), config::Format::Text) => Format::Syslog,
                (Target::File(_), config::Format::Text) => Format::Text,
            },
            level: log.level.into(),
            levels: log.levels_by_path().map(|(path, level)| (path, level.into())).collect(),
            rate: log.rate,
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
    state.relay = relay(&state.target);
    state.replace(&opened)
}

/// Names this process in lines from now on.
pub(crate) fn set_process(name: &str) {
    if let Some(log) = LOG.get() {
        let mut state = log.sink.state();
        state.look.process = name.into();
        state.limit.forget();
        // What it says of its process is this one's from now on.
        state.relay = relay(&state.target);
    }
}

/// Says what was held back by now, as this process ends.
pub(crate) fn finish() {
    if let Some(log) = LOG.get() {
        log.sink.state().tell_held_back(true);
    }
}

/// Events of the level and more severe ones; at debug level also those of connections that are to be debugged.
///
/// With the second kind, each call site at debug level asks anew each time; without, it is told once that
/// nobody listens, and costs a branch.
fn admission(settings: &Settings) -> Admission {
    let (level, levels) = (settings.level, settings.levels.clone());
    let most = levels.iter().map(|(_, level)| *level).chain([level]).max().unwrap_or(level);
    let by_level =
        filter_fn(move |metadata| *metadata.level() <= level_of(metadata.target(), &levels, level))
            .with_max_level_hint(most);
    if !settings.debug_connections {
        return Box::new(by_level);
    }
    let debugged = dynamic_filter_fn(|metadata, _| *metadata.level() <= Level::DEBUG && logging_verbosely());
    Box::new(by_level.or(debugged.with_max_level_hint(LevelFilter::DEBUG)))
}

/// The level of the longest path that `target` is, or is inside of.
fn level_of(target: &str, levels: &[(String, Level)], otherwise: Level) -> Level {
    let inside =
        |path: &str| target.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
    let found = levels.iter().filter(|(path, _)| inside(path)).max_by_key(|(path, _)| path.len());
    found.map_or(otherwise, |(_, level)| *level)
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
    target: Target,
    /// Takes the lines in the place of the descriptor.
    relay: Option<Relay>,
    look: Look,
    limit: Limit,
    lost: u64,
    /// How the descriptor is written to.
    output: Output,
    /// The last line that was written is there in part only.
    torn: bool,
}

impl Sink {
    fn new(descriptor: OwnedFd, settings: Settings, process: &str) -> Self {
        let look = Look { format: settings.format, process: process.into() };
        let (limit, output) = (Limit::new(settings.rate), Output::of(&descriptor));
        let (target, relay) = (settings.target.clone(), relay(&settings.target));
        let state = State { descriptor, target, relay, look, limit, lost: 0, output, torn: false };
        Self(Arc::new(Mutex::new(state)))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, opened: &OwnedFd, settings: Settings) -> io::Result<()> {
        let mut state = self.state();
        state.replace(opened)?;
        if state.target != settings.target {
            state.relay = relay(&settings.target);
        }
        state.target = settings.target;
        state.look.format = settings.format;
        state.limit.set_most(settings.rate);
        Ok(())
    }
}

impl State {
    /// Puts what was opened in the place of the descriptor, whose number stays.
    fn replace(&mut self, opened: &OwnedFd) -> io::Result<()> {
        dup3(opened, &mut self.descriptor, OFlag::O_CLOEXEC)?;
        (self.output, self.torn) = (Output::of(&self.descriptor), false);
        Ok(())
    }

    /// Whether an event may have its line; tells what others were denied before.
    fn admits(&mut self, metadata: &'static Metadata<'static>) -> bool {
        self.tell_held_back(false);
        self.limit.admits(metadata, Instant::now())
    }

    fn tell_held_back(&mut self, in_the_end: bool) {
        for held_back in self.limit.take_held_back(Instant::now(), in_the_end) {
            let line = self.look.plain(held_back.level(), &held_back.to_string());
            self.write(held_back.level(), line.as_bytes());
        }
    }

    /// Writes a line whole, or counts it as lost.
    fn write(&mut self, level: Level, line: &[u8]) {
        match self.write_whole(level, line) {
            true => self.confess(),
            false => self.lost += 1,
        }
    }

    /// Writes a line, behind the end of one that was torn; tells whether it is there whole.
    fn write_whole(&mut self, level: Level, line: &[u8]) -> bool {
        if self.torn && self.try_write(level, b"\n").is_err() {
            return false;
        }
        let written = self.try_write(level, line).unwrap_or(0);
        self.torn = written > 0 && written < line.len();
        written == line.len()
    }

    /// One write a line, so that lines of several processes never mix.
    fn try_write(&mut self, level: Level, line: &[u8]) -> io::Result<usize> {
        match &mut self.relay {
            Some(relay) => relay.send(level, line).map(|()| line.len()),
            None => Ok(self.output.write(&self.descriptor, line)?),
        }
    }

    /// Says how many lines could not be written before this was possible again.
    fn confess(&mut self) {
        if self.lost == 0 {
            return;
        }
        let line = self.look.plain(Level::WARN, &format!("{} lines of the log were lost", self.lost));
        if self.write_whole(Level::WARN, line.as_bytes()) {
            self.lost = 0;
        }
    }
}

/// Takes one line of a level.
struct LineWriter<'a> {
    sink: &'a Sink,
    level: Level,
}

impl<'a> MakeWriter<'a> for Sink {
    type Writer = LineWriter<'a>;

    fn make_writer(&'a self) -> LineWriter<'a> {
        LineWriter { sink: self, level: Level::INFO }
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> LineWriter<'a> {
        LineWriter { sink: self, level: *metadata.level() }
    }
}

impl io::Write for LineWriter<'_> {
    /// Takes a whole line; says that it is written even if not, so that nobody tries again.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.sink.state().write(self.level, line);
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
        let look = {
            let mut state = self.state();
            if !state.admits(event.metadata()) {
                // The layer writes nothing then.
                return Err(fmt::Error);
            }
            state.look.clone()
        };
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

fn relay(target: &Target) -> Option<Relay> {
    match target {
        Target::File(_) => None,
        Target::Syslog(config) => Some(Relay::syslog(config)),
        Target::Journal(socket) => Some(Relay::journal(socket)),
    }
}

fn open(target: &Target, owner: Owner) -> io::Result<OwnedFd> {
    let Target::File(file) = target else { return open(&Target::File(LogFile::Off), owner) };
    match file {
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
mod tests;
