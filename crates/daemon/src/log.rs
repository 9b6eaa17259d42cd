//! The log of master and workers: one descriptor opened for appending, one `write` a line.
//!
//! No thread and no buffer stand between an event and its line, because the master forks and a worker
//! may die at any time. The descriptor keeps its number for life: [`reopen`] opens the file anew and
//! puts it in the old one's place. A line that cannot be written (a full disk, a pipe nobody reads) is
//! lost and counted, never waited for by a retry. Lines are text or JSON objects, see [`crate::log_line`].

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use drover_config::LogFile;
use nix::fcntl::OFlag;
use nix::unistd::{Gid, Uid, dup3, fchown};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::config;
use crate::log_line::{self, Format};

/// How the log is to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Where lines go.
    pub(crate) target: LogFile,
    /// How they look.
    pub(crate) format: Format,
    /// The least severe level that is written.
    pub(crate) level: Level,
}

impl Settings {
    /// As the table `[log]` says.
    pub(crate) fn from_config(log: &config::Log) -> Self {
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
        }
    }
}

/// The user that workers run as, so that they may write to files the master makes.
pub(crate) type Owner = Option<(Uid, Gid)>;

/// What lines need. Locked for the time of one line; there are no threads to contend with.
struct Sink {
    descriptor: OwnedFd,
    settings: Settings,
    /// "master", "worker 0".
    process: String,
    lost: u64,
}

impl Sink {
    /// Says how many lines could not be written before this was possible again.
    fn confess(&mut self) {
        let Self { settings, process, lost, .. } = &*self;
        let line = log_line::plain(
            settings.format,
            process,
            Level::WARN,
            &format!("{lost} lines of the log were lost"),
        );
        if nix::unistd::write(&self.descriptor, line.as_bytes()).is_ok() {
            self.lost = 0;
        }
    }
}

static SINK: Mutex<Option<Sink>> = Mutex::new(None);
/// The level in force, 1 (error) to 5 (trace): looked at for events whose call site is not decided yet.
static LEVEL: AtomicU8 = AtomicU8::new(3);

fn sink() -> MutexGuard<'static, Option<Sink>> {
    SINK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts logging, or changes where and how it is done; the number of the descriptor stays.
///
/// # Errors
/// When the file cannot be opened; then nothing changed.
pub(crate) fn apply(settings: Settings, owner: Owner) -> io::Result<()> {
    let opened = open(&settings.target, owner)?;
    let mut sink = sink();
    let level = settings.level;
    match sink.as_mut() {
        Some(sink) => {
            dup3(&opened, &mut sink.descriptor, OFlag::O_CLOEXEC)?;
            sink.settings = settings;
        }
        None => {
            *sink = Some(Sink { descriptor: opened, settings, process: "drover".to_owned(), lost: 0 });
            // Fails only where a subscriber is installed already, which is this one.
            let _ = tracing::subscriber::set_global_default(Lines);
        }
    }
    drop(sink);
    LEVEL.store(level_number(level), Ordering::Relaxed);
    tracing::callsite::rebuild_interest_cache();
    Ok(())
}

/// Opens the file anew (after it was renamed) and goes on there.
///
/// # Errors
/// When it cannot be opened; then the old one stays.
pub(crate) fn reopen(owner: Owner) -> io::Result<()> {
    let mut sink = sink();
    let Some(sink) = sink.as_mut() else { return Ok(()) };
    let opened = open(&sink.settings.target, owner)?;
    dup3(&opened, &mut sink.descriptor, OFlag::O_CLOEXEC)?;
    Ok(())
}

/// Names this process in lines from now on.
pub(crate) fn set_process(name: &str) {
    if let Some(sink) = sink().as_mut() {
        name.clone_into(&mut sink.process);
    }
}

/// Opens `path` for appending, making it where missing, and gives it to `owner`.
///
/// # Errors
/// What the system reports, with the path.
pub(crate) fn open_for_append(path: &Path, owner: Owner) -> io::Result<File> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
    let file = File::options().append(true).create(true).mode(0o640).open(path).map_err(named)?;
    if let Some((uid, gid)) = owner {
        let metadata = file.metadata().map_err(named)?;
        if metadata.is_file() && metadata.uid() != uid.as_raw() {
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

fn level_number(level: Level) -> u8 {
    match level {
        Level::ERROR => 1,
        Level::WARN => 2,
        Level::INFO => 3,
        Level::DEBUG => 4,
        Level::TRACE => 5,
    }
}

/// Turns events into lines. Spans are not used in drover and cost nothing here.
struct Lines;

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && level_number(*metadata.level()) <= LEVEL.load(Ordering::Relaxed)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(match LEVEL.load(Ordering::Relaxed) {
            1 => LevelFilter::ERROR,
            2 => LevelFilter::WARN,
            3 => LevelFilter::INFO,
            4 => LevelFilter::DEBUG,
            _ => LevelFilter::TRACE,
        })
    }

    fn event(&self, event: &Event<'_>) {
        let mut sink = sink();
        let Some(sink) = sink.as_mut() else { return };
        let line = log_line::render(sink.settings.format, &sink.process, event);
        // One write a line, so that lines of several processes never mix.
        match nix::unistd::write(&sink.descriptor, line.as_bytes()) {
            Err(_) => sink.lost += 1,
            Ok(_) if sink.lost > 0 => sink.confess(),
            Ok(_) => {}
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
